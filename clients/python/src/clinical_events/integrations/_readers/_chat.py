"""Reads answers of chat completions: of OpenAI and of compatible servers with their variants.

docs/reference/model-answers.md, "Chat completions", lists the members by server.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ._answer import (
    Answer,
    Choice,
    Fields,
    Reader,
    ToolCall,
    Words,
    as_text,
    count_of,
    fields,
    find,
    first_of,
    first_text,
    is_list,
    is_object,
    is_said,
    list_of,
    text,
    total,
)

# The provider gave no answer, for example to a blocked prompt.
_NO_CHOICES = {"type": "no_choices"}
# Reasons by which a server reports that it gave up.
_GIVEN_UP = {"error", "abort", "insufficient_system_resource"}
# The servers' names for reasoning. Some repeat the same words under several names.
_REASONING_NAMES = (
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
    "reasoning_details",
    "thinking_blocks",
)
_is_reasoning = find(r"text|summary_text|reasoning_text|reasoning\.text|reasoning\.summary|thinking")
# Parts without words: references and encrypted parts.
_is_wordless = find(r"reference|tool_reference|redacted_thinking|reasoning\.encrypted")
_MEDIUM = re.compile(r"(?:input_|output_|tool_)?(image|audio|video|file|document)(?:_url)?")


class ChatReader(Reader):
    """Reads an answer of ``POST …/chat/completions`` or ``…/completions``."""

    def __init__(self) -> None:
        super().__init__()
        self._begun: dict[Choice, _Progress] = {}
        self._ended: set[Choice] = set()

    def whole(self, body: object) -> None:
        answer = self.answer
        completion = self._completion(body)
        choices = completion.get("choices")
        numbered = sorted(self._numbered(choices), key=lambda each: each[0])
        for at, (_, choice) in enumerate(numbered):
            self._choice(at, choice, streamed=False)
        if answer.ending:
            return
        if numbered:
            answer.ending = "complete"
        elif is_list(choices):
            answer.fail(_NO_CHOICES)
        elif choices is not None:
            answer.not_read(choices)
        elif text(completion.get("message")) is not None:
            answer.fail(completion)
        elif text(completion.get("request_id")) is not None:
            # xAI: the answer is fetched later.
            answer.ending = "unfinished"

    def piece(self, event: object) -> None:
        answer = self.answer
        choices = self._completion(event).get("choices")
        if choices is not None and not is_list(choices):
            answer.not_read(choices)
        for index, choice in self._numbered(choices):
            self._choice(index, choice, streamed=True)
        # Compatible servers may leave out the final mark of the stream.
        if answer.ending != "failed" and self._begun:
            answer.ending = "complete" if len(self._begun) == len(self._ended) else None

    def end(self) -> None:
        if self._begun:
            self.answer.renumber(self._begun)
        elif self.answer.ending == "complete":
            self.answer.fail(_NO_CHOICES)

    def _numbered(self, choices: object) -> list[tuple[int, Fields]]:
        """Yields the choices with their numbers: by index, or by position without a useful index."""
        numbered: list[tuple[int, Fields]] = []
        for at, choice in enumerate(list_of(choices)):
            if is_object(choice):
                numbered.append((_number(choice.get("index"), at), choice))
            elif choice is not None:
                self.answer.not_read(choice)
        return numbered

    def _completion(self, body: object) -> Fields:
        # Google wraps errors in a list.
        said = fields(body[0] if is_list(body) and body else body)
        answer = self.answer
        # Azure's first chunk has none.
        answer.id = text(said.get("id")) or answer.id
        answer.model = text(said.get("model")) or answer.model
        of_groq = fields(said.get("x_groq"))
        _take_usage(answer, said.get("usage"))
        _take_usage(answer, of_groq.get("usage"))
        status_code = fields(said.get("base_resp")).get("status_code")
        errors = list_of(said.get("errors"))
        if is_said(said.get("error")):
            answer.fail(said["error"])
        elif said.get("object") == "error":
            answer.fail(said)
        elif is_said(of_groq.get("error")):
            answer.fail(of_groq["error"])
        elif is_said(status_code):
            answer.fail({"code": status_code})
        elif not is_said(said.get("choices")) and (errors or is_said(said.get("detail"))):
            answer.fail(errors[0] if errors and errors[0] is not None else said)
        return said

    def _choice(self, index: int, said: Fields, *, streamed: bool) -> None:
        choice = self.answer.choice(index)
        known = self._begun.setdefault(choice, _Progress())
        _take_usage(self.answer, said.get("usage"))
        delta, message = said.get("delta"), said.get("message")
        # A server that does not really stream may send an empty delta with the whole message.
        is_delta = is_object(delta) and (choice.words.length > 0 or bool(delta))
        in_pieces = streamed and (is_delta or not is_object(message))
        if streamed and not in_pieces:
            choice.words.set("")
            choice.thoughts.set("")
        choice.words.add(text(said.get("text")))
        self._message(choice, known, fields(delta if in_pieces else message), in_pieces)
        if is_said(said.get("error")):
            self.answer.fail(said["error"])
        reason = text(said.get("finish_reason"))
        if not reason or reason == "null":
            return
        choice.finish_reason = reason
        self._ended.add(choice)
        if reason in _GIVEN_UP and self.answer.ending != "failed":
            self.answer.fail({"type": reason})

    def _message(self, choice: Choice, known: _Progress, message: Fields, in_pieces: bool) -> None:
        for part in _packed(message.get("content")):
            self._part(choice, part)
        self._refuse(choice, message.get("refusal"))
        audio = fields(message.get("audio"))
        # If there is text, the transcript repeats it.
        if text(audio.get("transcript")) and (known.spoken or choice.words.length == 0):
            choice.words.add(text(audio.get("transcript")))
            known.spoken = True
        if text(audio.get("data")) and not known.has_sound:
            self.answer.medium("audio")
            known.has_sound = True
        for image in list_of(message.get("images")):
            if is_said(image):
                self.answer.medium("image")
        choice.thoughts.add(self._reasoning_of(message))
        self._tools(choice, known, message, in_pieces)

    def _tools(self, choice: Choice, known: _Progress, message: Fields, in_pieces: bool) -> None:
        called = [call for call in list_of(message.get("tool_calls")) if call is not None]
        older = message.get("function_call")
        # The older member may repeat the newer one.
        if not called and is_object(older):
            called = [{"function": older, "index": 0}]
        for at, call in enumerate(called):
            if not is_object(call):
                self.answer.not_read(call)
                continue
            id_, name, asked = self._asked(call)
            if in_pieces:
                known.calls.take(choice, _number(call.get("index"), None), id_, name, asked)
                continue
            made = choice.tool_call(("whole", at))
            made.id, made.name = id_, name
            made.asked.set(asked)
        # Groq ran these tools itself.
        for at, executed in enumerate(list_of(message.get("executed_tools"))):
            run = fields(executed)
            made = choice.tool_call(("executed", _number(run.get("index"), at)))
            made.by_provider = True
            if made.name is None:
                made.name = text(run.get("name")) or text(run.get("type"))
            asked = as_text(run.get("arguments"))
            if asked:
                made.asked.set(asked)

    def _asked(self, call: Fields) -> tuple[str | None, str | None, str]:
        """Returns the id, name and arguments of a tool call."""
        inside = next((call[name] for name in ("function", "custom") if is_object(call.get(name))), None)
        said = call if inside is None else inside
        name = text(said.get("name"))
        if inside is None and text(call.get("type")) and name is None:
            self.answer.not_read(call)
        asked = as_text(first_of(said.get("arguments"), said.get("input")))
        return text(call.get("id")) or None, name or None, asked

    def _part(self, choice: Choice, part: object) -> None:
        said = fields(part)
        kind = text(said.get("type", "text")) or ""
        words = text(part) if isinstance(part, str) else text(said.get("text"))
        medium = _MEDIUM.fullmatch(kind)
        if words is not None and kind in ("text", "output_text"):
            choice.words.add(words)
        elif kind in ("thinking", "reasoning"):
            inside = first_of(said.get("thinking"), said.get("summary"), words)
            choice.thoughts.add(self._reasoning_in(inside))
        elif kind == "refusal":
            self._refuse(choice, said.get("refusal"))
        elif medium:
            self.answer.medium("file" if medium[1] == "document" else medium[1])
            choice.words.add(text(said.get("transcript")))
        elif not _is_wordless(kind):
            self.answer.not_read(part)

    def _refuse(self, choice: Choice, refusal: object) -> None:
        words = text(refusal)
        if words:
            choice.words.add(words)
            self.answer.refused |= choice is self.answer

    def _reasoning_of(self, message: Fields) -> str:
        for name in _REASONING_NAMES:
            words = self._reasoning_in(message.get(name))
            if words:
                return words
        return ""

    def _reasoning_in(self, said: object) -> str:
        if isinstance(said, str):
            return said
        words = Words()
        for part in _packed(said):
            inside = fields(part)
            kind = text(inside.get("type")) or ""
            if _is_reasoning(kind):
                words.add(first_text(inside, "text", "summary", "thinking"))
            elif not _is_wordless(kind):
                self.answer.not_read(part)
        return str(words)


class _Progress:
    """The state of a choice that comes in pieces."""

    def __init__(self) -> None:
        # Whether its words are a transcript.
        self.spoken = False
        self.has_sound = False
        self.calls = _CallsInPieces()


class _Piecemeal:
    """A tool call that comes in pieces. The start and end of its arguments are tracked without rereading
    them."""

    __slots__ = ("call", "first", "last")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.first = self.last = ""

    @property
    def seems_whole(self) -> bool:
        return self.first == "{" and self.last == "}"

    def asks(self, asked: str) -> bool:
        """Whether the text equals ``asked``. Texts of different length are never joined to compare them."""
        return len(asked) == self.call.asked.length and asked == self.call.input

    def is_of_another(self, index: int | None, id_: str | None, name: str | None, asked: str) -> bool:
        """Whether a piece belongs to a new call, although it has this call's place."""
        call = self.call
        if id_ is not None and call.id is not None and id_ != call.id:
            return name is not None or self.seems_whole
        if name is None or call.name is None:
            return False
        if name != call.name:
            return self.seems_whole or (index is None and id_ is None)
        return id_ is None and self.seems_whole and asked.startswith("{") and not self.asks(asked)

    def put(self, id_: str | None, name: str | None, asked: str) -> None:
        """Takes the piece; repeated text is taken once."""
        call = self.call
        call.id = call.id or id_
        if call.name is None or (name or "").startswith(call.name):
            call.name = name
        elif call.asked.length == 0 and len(call.name) < 200:  # The length of the longest tool name.
            call.name += name or ""
        part = asked.strip()
        if part.startswith("{") and self.asks("{}"):
            call.asked.set(asked)
        elif self.seems_whole and self._is_again(asked):
            return
        else:
            call.asked.add(asked)
        if part:
            self.first = self.first or part[0]
            self.last = part[-1]

    def _is_again(self, asked: str) -> bool:
        """Whether ``asked`` repeats the arguments, as they are or as a JSON string."""
        if len(asked) <= self.call.asked.length:
            return self.asks(asked)
        return asked.startswith('"{') and asked == json.dumps(self.call.input, ensure_ascii=False)


class _CallsInPieces:
    """Joins tool calls from pieces with an index, an id, both or neither."""

    def __init__(self) -> None:
        self._number = 0
        self._last: _Piecemeal | None = None
        self._by_index: dict[int, _Piecemeal] = {}
        self._by_id: dict[str, _Piecemeal] = {}

    def take(self, choice: Choice, index: int | None, id_: str | None, name: str | None, asked: str) -> None:
        """Returns the call of a piece: by index, by id, or the last one."""
        growing = self._last if index is None else self._by_index.get(index)
        by_id = self._by_id.get(id_) if id_ else None
        if by_id and (growing.call.id != id_ if growing else index is None or name is None):
            growing = by_id
        if growing is None or growing.is_of_another(index, id_, name, asked):
            growing = _Piecemeal(choice.tool_call(self._number))
            self._number += 1
        growing.put(id_, name, asked)
        if index is not None:
            self._by_index[index] = growing
        if id_:
            self._by_id[id_] = growing
        self._last = growing


def _number(index: object, otherwise: Any) -> Any:
    """Returns an index, parsed from text if necessary."""
    if isinstance(index, str) and re.fullmatch("[0-9]{1,15}", index):
        return int(index)
    number = count_of(index)
    return otherwise if number is None else number


def _packed(parts: object) -> list[object]:
    if is_list(parts):
        return [part for part in parts if part is not None]
    return [] if parts is None else [parts]


def _take_usage(answer: Answer, usage: object) -> None:
    """Normalises token counts: input includes cached tokens, output includes reasoning.

    Some servers count these separately, which shows in the total or in parts that exceed the whole.
    """
    said = fields(usage)
    of_input = (fields(said.get("prompt_tokens_details")), said)
    of_output = (fields(said.get("completion_tokens_details")), said)
    cache_read = _most(of_input, "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
    cache_creation = _most(
        of_input, "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"
    )
    reasoning = _most(of_output, "reasoning_tokens")
    input_ = _most((said,), "prompt_tokens", "input_tokens")
    output = _most((said,), "completion_tokens", "output_tokens")
    if input_ is not None:
        made = output or 0
        rest = total(said.get("total_tokens")) - input_ - made
        cached = total(cache_read, cache_creation)
        if cached > input_ or rest == cached > 0:
            input_ += cached
            rest -= cached
        if (reasoning > made or rest == reasoning) if reasoning else rest > 0:
            output = made + (reasoning or rest)
    answer.count(
        input=input_, output=output, cache_read=cache_read, cache_creation=cache_creation, reasoning=reasoning
    )


def _most(places: tuple[Fields, ...], *names: str) -> int | None:
    """Returns the largest count under these names."""
    counts = (count_of(place.get(name)) for place in places for name in names)
    return max((each for each in counts if each is not None), default=None)
