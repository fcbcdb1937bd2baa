"""What a model has answered, gathered while it passes by. What comes is hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeGuard

# An answer with more choices, tool calls or unread parts than this is hostile: the others are passed over.
MOST_PARTS = 4096
# Counts beyond it are not exact in every language that reads the record (RFC 8259, section 6).
MOST_COUNTED = 2**53 - 1

Said = Literal["complete", "failed", "unfinished", "aborted"]
Fields = Mapping[str, Any]


class Words:
    """A text that grows by pieces, each of which costs its own length."""

    __slots__ = ("_pieces", "length")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0

    def add(self, piece: str | None) -> None:
        if piece:
            self._pieces.append(piece)
            self.length += len(piece)

    def set(self, words: str) -> None:
        self._pieces = [words]
        self.length = len(words)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""


class ToolCall:
    """A tool that the model asks for. ``by_provider``: the application has nothing to do for it."""

    __slots__ = ("asked", "by_provider", "id", "invalid", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.asked = Words()
        self.by_provider = False
        self.invalid = False

    @property
    def input(self) -> str:
        """What the tool is asked: JSON in most libraries."""
        return str(self.asked)


class Choice:
    """One of several answers to one question; most answers have one choice."""

    def __init__(self) -> None:
        self.words = Words()
        self.thoughts = Words()
        self.finish_reason: str | None = None
        self._tool_calls: dict[object, ToolCall] = {}

    @property
    def text(self) -> str:
        return str(self.words)

    @property
    def reasoning(self) -> str:
        return str(self.thoughts)

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        return tuple(self._tool_calls.values())

    def tool_call(self, key: object) -> ToolCall:
        """The call that goes by this key within the choice; made when there is none."""
        call = self._tool_calls.get(key)
        if call is None:
            call = ToolCall()
            if len(self._tool_calls) < MOST_PARTS:
                self._tool_calls[key] = call
        return call

    @property
    def asks_for_tools(self) -> bool:
        """The application has to run a tool first. Some libraries tell only the reason."""
        reason = self.finish_reason or ""
        return reason.startswith(("tool", "function")) or any(not c.by_provider for c in self.tool_calls)

    @property
    def facts(self) -> dict[str, Any]:
        """What events say of a choice, without words."""
        return present(
            finish_reason=word(self.finish_reason),
            characters=characters(self.text),
            tool_calls=len(self._tool_calls),
        )


class Answer(Choice):
    """An answer that grows. Itself it is the first of its choices."""

    def __init__(self) -> None:
        super().__init__()
        self.id: str | None = None
        self.model: str | None = None
        self.usage: dict[str, int] = {}
        # What the provider has said of its end; None while it has said nothing.
        self.ending: Said | None = None
        self.refused = False
        self.error_name: str | None = None
        self.status: int | None = None
        self.unread: list[object] = []
        self.media: dict[str, int] = {}
        self._unread_parts = 0
        self._choices: dict[int, Choice] = {0: self}

    def choice(self, index: int = 0) -> Choice:
        """The choice of this number; made when there is none."""
        choice = self._choices.get(index)
        if choice is None:
            choice = Choice()
            if len(self._choices) < MOST_PARTS:
                self._choices[index] = choice
        return choice

    @property
    def choices(self) -> Sequence[Choice]:
        """All of them, in the order of their numbers; at least one."""
        return [self._choices[at] for at in sorted(self._choices)]

    def renumber(self, came: Collection[Choice]) -> None:
        """On return these choices and no others are numbered from 0 on."""
        kept = [choice for choice in self.choices if choice in came]
        if kept and kept[0] is not self:
            first, kept[0] = kept[0], self
            self.words, self.thoughts, self.finish_reason = first.words, first.thoughts, first.finish_reason
            self._tool_calls = first._tool_calls
        self._choices = dict(enumerate(kept))

    @property
    def has_content(self) -> bool:
        """Whether a person can be shown something."""
        return self.words.length > 0 or bool(self.media)

    @property
    def output_type(self) -> str:
        """``text``, or what there is in place of words: ``image``, for one."""
        return "text" if self.words.length or not self.media else next(iter(self.media))

    @property
    def facts(self) -> dict[str, Any]:
        """What events say of every answer, without words."""
        return present(
            response_id=word(self.id),
            response_model=model_name(self.model),
            usage=dict(self.usage),
            **super().facts,
            choices=len(self._choices) if len(self._choices) > 1 else None,
            refused=self.refused or None,
            media=dict(self.media) or None,
            unread_parts=self._unread_parts or None,
        )

    def count(self, **counts: object) -> None:
        """Takes each that is a count, by the names of ``_USAGE``.

        The first two include the other three (OpenTelemetry's conventions for GenAI).
        """
        for name, said in counts.items():
            number = count_of(said)
            if number is not None:
                self.usage[_USAGE[name]] = number

    def medium(self, kind: str) -> None:
        """A picture, sound or file is a part of the answer."""
        self.media[kind] = self.media.get(kind, 0) + 1

    def not_read(self, part: object) -> None:
        """Keeps a part whose form is not known here."""
        self._unread_parts += 1
        if len(self.unread) < MOST_PARTS:
            self.unread.append(part)

    def fail(self, error: object) -> None:
        """The provider reports an error in its answer: ``error`` is that object, whatever it is."""
        said = fields(error)
        self.ending = "failed"
        names = (word(said.get(name)) for name in ("type", "code", "name"))
        self.error_name = first_of(*names, self.error_name)
        self.status = first_of(*(failure_status(said.get(name)) for name in ("code", "status")), self.status)


_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_creation": "cache_creation_input_tokens",
    "reasoning": "reasoning_output_tokens",
}


class Reader:
    """Reads one answer, in one piece or in a stream. Pure: it depends on nothing but what it is given."""

    def __init__(self) -> None:
        self.answer = Answer()

    def whole(self, body: object) -> None:
        """Takes an answer in one piece: the value of its JSON."""
        raise NotImplementedError

    def piece(self, event: object) -> None:
        """Takes an event of an answer in a stream: the value of its JSON."""
        raise NotImplementedError

    def end(self) -> None:
        """The stream is over, whether or not the answer is: what was only gathered is put into the answer."""


def present(**named: Any) -> dict[str, Any]:
    """Those that are there."""
    return {name: value for name, value in named.items() if value is not None}


def failure_status(said: object) -> int | None:
    """The status of HTTP that says failure, also as text; None for all else."""
    if isinstance(said, str):
        return int(said) if re.fullmatch(r"\s*[45][0-9]{2}\s*", said) else None
    number = count_of(said)
    return number if number is not None and 400 <= number <= 599 else None


def word(value: object) -> str | None:
    """A name or an id, if that is what it is. What has blanks may be words of a patient, and is left out.

    Types of Go begin with ``*``.
    """
    known = isinstance(value, str) and re.fullmatch(r"\*?[\w.:/@+~-]{1,200}", value, re.ASCII)
    return value if known and isinstance(value, str) else None


def model_name(value: object) -> str | None:
    """The name of a model, which may have blanks and brackets, but no control characters."""
    if not isinstance(value, str) or not re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]{1,200}", value):
        return None
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def characters(words: str) -> int:
    """In units of UTF-16, as clients in other languages count them."""
    return len(words) if words.isascii() else len(words.encode("utf-16-le", "surrogatepass")) // 2


def is_object(value: object) -> TypeGuard[Fields]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def fields(value: object) -> Fields:
    """An object, whatever it was."""
    return value if is_object(value) else {}


def list_of(value: object) -> list[Any]:
    return value if is_list(value) else []


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def first_text(said: Fields, *names: str) -> str | None:
    """Of the members of these names the first that is a text."""
    found: str | None = first_of(*(text(said.get(name)) for name in names))
    return found


def first_of(*values: Any) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)


def is_said(value: object) -> bool:
    """Neither null, false, zero nor an empty text."""
    return isinstance(value, dict | list) or bool(value)


def count_of(value: object) -> int | None:
    """The count, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_COUNTED:
        return None
    return int(value) if value == int(value) else None


def total(*counts: object) -> int:
    """Of those that are counts; others add nothing."""
    return sum(count_of(each) or 0 for each in counts)


def as_text(value: object) -> str:
    """Text as it is, all else as JSON; empty for null and what JSON cannot say. Does not raise."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""


def find(pattern: str) -> Callable[[str], bool]:
    """Whether a text as a whole is of this form."""
    compiled = re.compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None
