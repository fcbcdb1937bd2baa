"""Reads answers of the Responses API: of OpenAI and of compatible servers.

docs/reference/model-answers.md, "Responses", lists the members by server.
"""

from __future__ import annotations

from typing import Any

from ._answer import (
    MOST_PARTS,
    Fields,
    Reader,
    Said,
    Words,
    as_text,
    fields,
    find,
    first_of,
    first_text,
    is_list,
    is_object,
    is_said,
    list_of,
    text,
)

_ENDINGS: dict[str, Said] = {
    "completed": "complete",
    "done": "complete",
    # A limit or a filter, which the reason names, cut the answer off.
    "incomplete": "complete",
    "cancelled": "aborted",
    "failed": "failed",
}
# Items without words or tool calls.
_is_silent = find(
    r"compaction|additional_tools|configuration_update|mcp_list_tools|mcp_approval_response|item_reference"
    r"|.*_output"
)
_is_tool = find(r".*_call|.*mcp_approval_request|program|openrouter:.*")
_is_run_by_application = find(r"(function|custom_tool|computer|local_shell|apply_patch)_call")
_is_run_by_provider = find(
    r"program|mcp_approval_request|openrouter:.*|(web_search|file_search|code_interpreter|code_execution"
    r"|image_generation|mcp|x_search|web_fetch|multi_agent)_call"
)
# Searches that xAI runs and reports as custom tool calls.
_is_of_xai = find(r"x_(user_search|keyword_search|semantic_search|thread_fetch)")
_ASKED_IN = (
    "arguments",
    "input",
    "code",
    "revised_prompt",
    "operation",
    "actions",
    "action",
    "queries",
    "query",
)
_MEDIA = ("image", "audio", "video", "file")
# The part type of each event with pieces of words.
_PARTS = {
    "response.output_text": "output_text",
    "response.refusal": "refusal",
    "response.audio.transcript": "output_audio",
    "response.reasoning_text": "reasoning_text",
    "response.reasoning": "reasoning_text",
    "response.reasoning_summary_text": "summary_text",
    "response.reasoning_summary": "summary_text",
}
_THOUGHTS = ("reasoning_text", "summary_text")
_is_part = find(r"response\.(content|reasoning|reasoning_summary)_part")
_is_asked = find(r"response\.\w+_call_(arguments|input|code|command)")


class ResponsesReader(Reader):
    """Reads an answer of ``POST …/responses``, or a fetched earlier one."""

    def __init__(self) -> None:
        super().__init__()
        self._stream: _Stream | None = None
        # Words before the answer, and whether each is reasoning.
        self._way: list[tuple[str, bool]] = []

    def whole(self, body: object) -> None:
        response = fields(body)
        self._take_end(response, None)
        # A later fetch repeats the content of an answer in progress.
        if self.answer.ending != "unfinished":
            self._take(list_of(response.get("output")), response)

    def piece(self, event: object) -> None:
        said = fields(event)
        kind = text(said.get("type")) or ""
        if kind in ("error", ""):
            error = said.get("error")
            if kind or is_said(error):
                self.answer.fail(error if error is not None else {**said, "type": None})
            return
        if self._stream is None:
            self._stream = _Stream()
        name, _, how = kind.rpartition(".")
        response = fields(said.get("response"))
        if name in _PARTS and how in ("delta", "done"):
            self._stream.words(_PARTS[name], said, how == "done")
        elif name == "response" and how in _ENDINGS:
            self._stream.response = response
            self._take_end(response, how)
        elif name == "response":
            self._take_identity(response)
        elif name == "response.output_item":
            self._stream.item(said, how == "done")
        elif how in ("delta", "done"):
            self._stream.piece(name, said, how == "done")

    def end(self) -> None:
        if self._stream is not None:
            self._take(self._stream.output, self._stream.response)

    def _take_identity(self, response: Fields) -> None:
        self.answer.id = text(response.get("id")) or self.answer.id
        self.answer.model = text(response.get("model")) or self.answer.model

    def _take_end(self, response: Fields, how: str | None) -> None:
        """Takes the end. ``how``, from the event's name, is used if the status is not final."""
        self._take_identity(response)
        self._take_usage(fields(response.get("usage")))
        status = text(response.get("status"))
        reason = text(fields(response.get("incomplete_details")).get("reason"))
        self.answer.finish_reason = first_of(reason, status)
        is_stale = how is not None and status in ("queued", "in_progress")
        said = how if is_stale or status is None else status
        error = response.get("error")
        if is_said(error) or response.get("object") == "error":
            self.answer.fail(error if is_said(error) else response)
        elif said == "failed":
            self.answer.fail(error)
        elif said is not None:
            self.answer.ending = _ENDINGS.get(said, "unfinished")
        elif is_list(response.get("output")) or text(response.get("output_text")) is not None:
            self.answer.ending = "complete"

    def _take_usage(self, usage: Fields) -> None:
        of_input = fields(first_of(usage.get("input_tokens_details"), usage.get("prompt_tokens_details")))
        of_output = fields(
            first_of(usage.get("output_tokens_details"), usage.get("completion_tokens_details"))
        )
        self.answer.count(
            input=first_of(usage.get("input_tokens"), usage.get("prompt_tokens")),
            output=first_of(usage.get("output_tokens"), usage.get("completion_tokens")),
            cache_read=of_input.get("cached_tokens"),
            cache_creation=of_input.get("cache_write_tokens"),
            reasoning=of_output.get("reasoning_tokens"),
        )

    def _take(self, output: list[Any], response: Fields) -> None:
        items = [fields(item) for item in output]
        ids = (text(item.get(name)) for item in items if _is_output(item) for name in ("call_id", "id"))
        answered = {each for each in ids if each is not None}
        for item in items:
            self._item(item, answered)
        answer = self.answer
        said = answer.words.length > 0
        if not said:
            aside = "".join(words for words, is_thought in self._way if not is_thought)
            answer.words.set(aside or text(response.get("output_text")) or "")
        answer.thoughts.set("".join(words for words, is_thought in self._way if is_thought or said))

    def _item(self, item: Fields, answered: set[str]) -> None:
        role = item.get("role")
        kind: str = first_of(text(item.get("type")), "message" if role == "assistant" else "")
        if kind == "message" and role in (None, "assistant"):
            self._message(item)
        elif kind == "reasoning":
            thought, short = _words_of(item.get("content")), _words_of(item.get("summary"))
            self._way.append((thought if short in thought else thought + short, True))
        elif _is_tool(kind):
            self._tool(kind, item, answered)
        elif not _is_silent(kind):
            self.answer.not_read(item)

    def _tool(self, kind: str, item: Fields, answered: set[str]) -> None:
        call = self.answer.tool_call(object())
        ids = (text(item.get("call_id")), text(item.get("id")))
        call.id = first_of(*ids)
        call.name = first_of(text(item.get("name")), kind)
        call.asked.set(_asked(item))
        call.by_provider = not answered.isdisjoint(ids) or _by_provider(kind, item)
        if kind == "mcp_approval_request" and self.answer.ending == "complete":
            self.answer.ending = "unfinished"
        if kind == "image_generation_call" and is_said(item.get("result")):
            self.answer.medium("image")

    def _message(self, item: Fields) -> None:
        content = item.get("content")
        # Commentary, and messages of subordinate agents.
        agent = text(fields(item.get("agent")).get("agent_name"))
        is_aside = item.get("phase") in ("commentary", "analysis") or agent not in (None, "root", "/root")
        for part in [content] if isinstance(content, str) else list_of(content):
            said = fields(part)
            kind = text(said.get("type")) or ""
            words = _words_of([part])
            medium = next((each for each in _MEDIA if each in kind), None)
            if medium:
                self.answer.medium(medium)
            if kind in _THOUGHTS:
                self._way.append((words, True))
            elif is_aside:
                self._way.append((words, False))
            else:
                self.answer.words.add(words)
            if text(said.get("refusal")) is not None:
                self.answer.refused = True
            elif not medium and not words and kind not in ("output_text", "text") and part != "":
                self.answer.not_read(part)


class _Parts:
    """The parts of one type in an item: the whole ones, and the pieces of the next."""

    def __init__(self) -> None:
        self.whole: list[str] = []
        self.pieces: list[str] = []
        self.before: list[str] = []

    def end(self, words: str) -> None:
        """Takes the end of a part, which comes twice: with its words, and as a part."""
        if not self.pieces and self.whole and self.whole[-1] == words:
            return
        self.whole.append(words or "".join(self.pieces))
        self.before += self.pieces
        self.pieces = []


class _Item:
    """An incomplete item."""

    def __init__(self, item: Fields, at: object) -> None:
        self.item = item
        self.at = at
        self.is_done = False
        self.asked = Words()
        self._parts: dict[str, _Parts] = {}

    @property
    def kind(self) -> str | None:
        return text(self.item.get("type"))

    def parts(self, kind: str) -> _Parts:
        if kind not in self._parts and len(self._parts) >= MOST_PARTS:
            return _Parts()
        return self._parts.setdefault(kind, _Parts())

    @property
    def pieces(self) -> str:
        return "".join(piece for parts in self._parts.values() for piece in parts.before + parts.pieces)

    @property
    def output(self) -> Fields:
        item = self.item
        if self.asked.length and (not self.is_done or _asked(item) == ""):
            return {**item, "arguments": str(self.asked)}
        if _words_of(item.get("content")) or _words_of(item.get("summary")) or not self._parts:
            return item
        made: dict[bool, list[Fields]] = {False: [], True: []}
        for kind, parts in self._parts.items():
            said = {"type": kind, "text": "".join(parts.whole + parts.pieces)}
            made[kind == "summary_text"].append({**said, "refusal": ""} if kind == "refusal" else said)
        return {**item, "content": made[False], "summary": made[True]}


class _Stream:
    """The content of a response so far: whole items, whole parts, and pieces."""

    def __init__(self) -> None:
        # The response as in its final event.
        self.response: Fields = {}
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}

    def item(self, event: Fields, is_done: bool) -> None:
        item, at = fields(event.get("item")), _place(event)
        known = self._by_id.get(text(item.get("id")) or "")
        if known is None and is_done:
            kind = text(item.get("type"))
            known = next((e for e in self._latest if not e.is_done and e.at == at and e.kind == kind), None)
        if known is None:
            known = self._add(item, at)
        known.item, known.is_done = item, is_done

    def words(self, kind: str, event: Fields, is_whole: bool) -> None:
        """Takes words of a part of this type: all of them, or a further piece."""
        parts = self._of(event, _item_of(kind)).parts(kind)
        if is_whole:
            parts.end(first_text(event, "text", "refusal", "transcript") or "")
        else:
            parts.pieces.append(text(event.get("delta")) or "")

    def piece(self, name: str, event: Fields, is_whole: bool) -> None:
        if _is_part(name):
            part = fields(event.get("part"))
            kind = text(part.get("type"))
            if kind:
                self._of(event, _item_of(kind)).parts(kind).end(_words_of([part]))
        elif name == "response.audio":
            self._of(event, "message").parts("output_audio")
        elif _is_asked(name):
            call = self._of(event, name[len("response.") : name.rindex("_call_") + len("_call")])
            whole = first_text(event, "arguments", "input", "code", "command")
            if not is_whole:
                call.asked.add(text(event.get("delta")))
            elif whole is not None:
                call.asked.set(whole)

    def _of(self, event: Fields, kind: str) -> _Item:
        """Finds the item of a piece: by id, or the last of its type, since some servers change ids."""

        id_, at = text(event.get("item_id")), _place(event)
        known = self._by_id.get(id_ or "")
        if known is not None and known.kind == kind:
            return known
        last = next((each for each in self._latest if each.kind == kind and at in (None, each.at)), None)
        return self._add({"type": kind, "id": id_}, at) if last is None else last

    @property
    def _latest(self) -> list[_Item]:
        """Returns a bounded number of items, the latest first, so that the search stays short."""
        return self._items[:-17:-1]

    def _add(self, item: Fields, at: object) -> _Item:
        made = _Item(item, at)
        if len(self._items) < MOST_PARTS:
            self._items.append(made)
            id_ = text(item.get("id"))
            if id_:
                self._by_id[id_] = made
        return made

    @property
    def output(self) -> list[Any]:
        """For each type, the items of the final response, or the streamed ones if the response has less."""
        final = [fields(item) for item in list_of(self.response.get("output"))]
        chosen: list[Any] = []
        is_less = False
        for kind in ("reasoning", "message", None):
            last = [item for item in final if _sort_of(item) == kind]
            came = [each for each in self._items if _sort_of(each.item) == kind]
            takes_what_came = bool(came) and _is_less(last, came, kind)
            is_less |= takes_what_came
            chosen += [each.output for each in came] if takes_what_came else last
        if not is_less:
            return final
        return chosen if final else [each.output for each in self._items]


def _is_less(last: list[Fields], came: list[_Item], kind: str | None) -> bool:
    """Whether the final response has no words, or only the last piece."""
    if kind is None or not last:
        return not last
    words = "".join(_words_of(item.get("content")) or _words_of(item.get("summary")) for item in last)
    pieces = "".join(each.pieces for each in came)
    return not words or (len(pieces) > len(words) and pieces.endswith(words))


def _sort_of(item: Fields) -> str | None:
    kind = text(item.get("type"))
    return kind if kind in ("reasoning", "message") else None


def _item_of(kind: str) -> str:
    return "reasoning" if kind in _THOUGHTS else "message"


def _place(event: Fields) -> object:
    at = event.get("output_index")
    return at if isinstance(at, int | float | str) else None


def _is_output(item: Fields) -> bool:
    return (text(item.get("type")) or "").endswith("_output")


def _words_of(parts: object) -> str:
    if isinstance(parts, str):
        return parts
    words = Words()
    for part in list_of(parts):
        words.add(first_of(text(part), first_text(fields(part), "text", "refusal", "transcript")))
    return str(words)


def _asked(item: Fields) -> str:
    asked = next((item[name] for name in _ASKED_IN if item.get(name) not in (None, "")), None)
    if is_object(asked):
        # The results of a search are not arguments.
        return as_text({name: value for name, value in asked.items() if name != "sources"})
    return as_text(asked) if is_list(asked) or isinstance(asked, str) else ""


def _by_provider(kind: str, item: Fields) -> bool:
    if kind == "custom_tool_call":
        return _is_of_xai(text(item.get("name")) or "")
    if _is_run_by_application(kind):
        return False
    if kind == "shell_call":
        return (text(fields(item.get("environment")).get("type")) or "").startswith("container")
    if kind == "tool_search_call" and text(item.get("execution")):
        return text(item.get("execution")) != "client"
    # An application answers a tool call by its call_id.
    return _is_run_by_provider(kind) or text(item.get("call_id")) is None
