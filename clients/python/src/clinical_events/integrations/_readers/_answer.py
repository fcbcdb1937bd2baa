"""The answer of a model, collected while it streams. All input is hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeGuard

# Maximum number of choices, tool calls or unread parts of an answer; further ones are ignored as hostile.
MOST_PARTS = 4096
# A larger count is not exact in every reader of JSON (RFC 8259, section 6).
MOST_COUNTED = 2**53 - 1

Said = Literal["complete", "failed", "unfinished", "aborted"]
Fields = Mapping[str, Any]


class Words:
    """A text that grows by pieces, in linear time."""

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
    """A tool call that the model requests. ``by_provider``: the provider runs it, not the application."""

    __slots__ = ("asked", "by_provider", "id", "invalid", "name")

    def __init__(self) -> None:
        self.id: str | None = None
        self.name: str | None = None
        self.asked = Words()
        self.by_provider = False
        self.invalid = False

    @property
    def input(self) -> str:
        """The arguments of the tool: JSON in most libraries."""
        return str(self.asked)


class Choice:
    """One choice of an answer; most answers have one."""

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
        """Returns the tool call with this key in the choice; creates it if necessary."""
        call = self._tool_calls.get(key)
        if call is None:
            call = ToolCall()
            if len(self._tool_calls) < MOST_PARTS:
                self._tool_calls[key] = call
        return call

    @property
    def asks_for_tools(self) -> bool:
        """Whether the application must run a tool first. Some libraries give only the reason."""
        reason = self.finish_reason or ""
        return reason.startswith(("tool", "function")) or any(not c.by_provider for c in self.tool_calls)

    @property
    def facts(self) -> dict[str, Any]:
        """Returns the members of an event for a choice, without words."""
        return present(
            finish_reason=word(self.finish_reason),
            characters=characters(self.text),
            tool_calls=len(self._tool_calls),
        )


class Answer(Choice):
    """A growing answer, which is also its own first choice."""

    def __init__(self) -> None:
        super().__init__()
        self.id: str | None = None
        self.model: str | None = None
        self.usage: dict[str, int] = {}
        # The ending that the provider reported; None until then.
        self.ending: Said | None = None
        self.refused = False
        self.error_name: str | None = None
        self.status: int | None = None
        self.unread: list[object] = []
        self.media: dict[str, int] = {}
        self._unread_parts = 0
        self._choices: dict[int, Choice] = {0: self}

    def choice(self, index: int = 0) -> Choice:
        """Returns the choice with this number; creates it if necessary."""
        choice = self._choices.get(index)
        if choice is None:
            choice = Choice()
            if len(self._choices) < MOST_PARTS:
                self._choices[index] = choice
        return choice

    @property
    def choices(self) -> Sequence[Choice]:
        """Returns all choices by number; at least one."""
        return [self._choices[at] for at in sorted(self._choices)]

    def renumber(self, came: Collection[Choice]) -> None:
        """Keeps only these choices, numbered from 0."""
        kept = [choice for choice in self.choices if choice in came]
        if kept and kept[0] is not self:
            first, kept[0] = kept[0], self
            self.words, self.thoughts, self.finish_reason = first.words, first.thoughts, first.finish_reason
            self._tool_calls = first._tool_calls
        self._choices = dict(enumerate(kept))

    @property
    def has_content(self) -> bool:
        """Whether the answer has something to show to a person."""
        return self.words.length > 0 or bool(self.media)

    @property
    def output_type(self) -> str:
        """Returns ``text``, or the kind of other content, for example ``image``."""
        return "text" if self.words.length or not self.media else next(iter(self.media))

    @property
    def facts(self) -> dict[str, Any]:
        """Returns the members of an event for any answer, without words."""
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
        """Takes the valid counts, by the names of ``_USAGE``.

        The first two include the other three (OpenTelemetry's conventions for GenAI).
        """
        for name, said in counts.items():
            number = count_of(said)
            if number is not None:
                self.usage[_USAGE[name]] = number

    def medium(self, kind: str) -> None:
        """Notes an image, sound or file in the answer."""
        self.media[kind] = self.media.get(kind, 0) + 1

    def not_read(self, part: object) -> None:
        """Keeps a part of unknown form."""
        self._unread_parts += 1
        if len(self.unread) < MOST_PARTS:
            self.unread.append(part)

    def fail(self, error: object) -> None:
        """Takes an error that the provider reports within its answer."""
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
    """Reads one answer, in one piece or in a stream. It depends on its input alone."""

    def __init__(self) -> None:
        self.answer = Answer()

    def whole(self, body: object) -> None:
        """Takes an answer in one piece, as parsed JSON."""
        raise NotImplementedError

    def piece(self, event: object) -> None:
        """Takes an event of a streamed answer, as parsed JSON."""
        raise NotImplementedError

    def end(self) -> None:
        """Takes the end of the stream, even a premature one, and completes the answer from its pieces."""


def present(**named: Any) -> dict[str, Any]:
    """Drops members that are None."""
    return {name: value for name, value in named.items() if value is not None}


def failure_status(said: object) -> int | None:
    """Returns an HTTP status of a failure, parsed from text if necessary; None otherwise."""
    if isinstance(said, str):
        return int(said) if re.fullmatch(r"\s*[45][0-9]{2}\s*", said) else None
    number = count_of(said)
    return number if number is not None and 400 <= number <= 599 else None


def word(value: object) -> str | None:
    """Returns a valid name or id; None for text with blanks, which may be a patient's words.

    Type names of Go begin with ``*``.
    """
    known = isinstance(value, str) and re.fullmatch(r"\*?[\w.:/@+~-]{1,200}", value, re.ASCII)
    return value if known and isinstance(value, str) else None


def model_name(value: object) -> str | None:
    """Returns a model name, which may have blanks and brackets but no control characters."""
    if not isinstance(value, str) or not re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]{1,200}", value):
        return None
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def characters(words: str) -> int:
    """Returns the length in UTF-16 units, as the Node client counts."""
    return len(words) if words.isascii() else len(words.encode("utf-16-le", "surrogatepass")) // 2


def is_object(value: object) -> TypeGuard[Fields]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def fields(value: object) -> Fields:
    """Returns an object; an empty one for other values."""
    return value if is_object(value) else {}


def list_of(value: object) -> list[Any]:
    return value if is_list(value) else []


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def first_text(said: Fields, *names: str) -> str | None:
    """Returns the first member of these names that is a text."""
    found: str | None = first_of(*(text(said.get(name)) for name in names))
    return found


def first_of(*values: Any) -> Any:
    """Returns the first value that is not None."""
    return next((value for value in values if value is not None), None)


def is_said(value: object) -> bool:
    """Whether the value is not null, false, zero or empty text."""
    return isinstance(value, dict | list) or bool(value)


def count_of(value: object) -> int | None:
    """Returns a valid count; None otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_COUNTED:
        return None
    return int(value) if value == int(value) else None


def total(*counts: object) -> int:
    """Returns the sum of the valid counts; 0 without any."""
    return sum(count_of(each) or 0 for each in counts)


def as_text(value: object) -> str:
    """Returns text unchanged and other values as JSON; empty for null and unserialisable values. Does not
    raise."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return ""


def find(pattern: str) -> Callable[[str], bool]:
    """Returns a function that tests whether the whole text matches the pattern."""
    compiled = re.compile(pattern)
    return lambda value: compiled.fullmatch(value) is not None
