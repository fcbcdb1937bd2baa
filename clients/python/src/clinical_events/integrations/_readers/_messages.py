"""Reads answers of the Messages API: of Anthropic and of compatible servers.

docs/reference/model-answers.md, "Messages", lists the members by server.
"""

from __future__ import annotations

from typing import Any

from ._answer import (
    Fields,
    Reader,
    ToolCall,
    as_text,
    count_of,
    fields,
    is_list,
    is_object,
    list_of,
    text,
    total,
)

# The client sends the conversation again before there is an answer (Anthropic API reference, `stop_reason`).
_PAUSED = ("pause_turn", "compaction")
# Encrypted reasoning, files for a container, a summary of earlier messages, a list of tools.
_WORDLESS = ("redacted_thinking", "container_upload", "compaction", "mcp_tool_listing")
_WORDLESS_DELTAS = ("signature_delta", "citations_delta", "compaction_delta")


class _Block:
    """An open content block."""

    def __init__(self, call: ToolCall | None = None, unread: list[object] | None = None) -> None:
        self.call = call
        # Pieces of a block of unknown type are kept with it.
        self.unread = unread
        self.in_pieces = False


class MessagesReader(Reader):
    """Reads an answer of ``POST …/v1/messages``."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[object, _Block] = {}
        self._calls: dict[str, ToolCall] = {}
        # The last value of each count.
        self._counts: dict[str, int | None] = {}

    def whole(self, body: object) -> None:
        message = fields(body)
        content = message.get("content")
        if _is_error(message):
            self.answer.fail(message.get("error"))
        elif is_list(content) or isinstance(content, str) or message.get("type") == "message":
            self._take_message(message)
            self.answer.words.add(text(content))
            for block in list_of(content):
                begun = self._take_block(block)
                if begun is not None and begun.call and "input" in fields(block):
                    begun.call.asked.set(_input(block))
            self._take_stop(message)
            self.answer.ending = self.answer.ending or "complete"

    def piece(self, event: object) -> None:
        said = fields(event)
        kind, index = said.get("type"), _place(said.get("index"))
        if kind == "content_block_delta":
            self._take_delta(index, fields(said.get("delta")))
        elif kind == "content_block_start":
            self._take_start(index, said.get("content_block"))
        elif kind == "content_block_stop":
            ended = self._blocks.pop(index, None)
            # A tool without argument pieces has empty arguments, unless the answer broke off.
            if ended is not None and ended.call and not ended.call.asked.length:
                ended.call.asked.set("{}")
        elif kind == "message_start":
            self._take_message(fields(said.get("message")))
        elif kind == "message_delta":
            self._take_usage(fields(said.get("usage")))
            self._take_stop(fields(said.get("delta")))
        elif kind == "message_stop":
            self.answer.ending = self.answer.ending or "complete"
        elif kind == "message":
            self.whole(said)
        elif _is_error(said):
            self.answer.fail(said.get("error"))

    def _take_message(self, message: Fields) -> None:
        self.answer.id = text(message.get("id")) or self.answer.id
        self.answer.model = text(message.get("model")) or self.answer.model
        self._take_usage(fields(message.get("usage")))

    def _take_stop(self, said: Fields) -> None:
        reason = text(said.get("stop_reason"))
        if reason is None:
            return
        self.answer.finish_reason = reason
        self.answer.refused |= reason == "refusal"
        self.answer.ending = self.answer.ending or ("unfinished" if reason in _PAUSED else "complete")

    def _take_start(self, index: object, value: object) -> None:
        """Takes a tool's input: empty and followed by pieces, or whole and perhaps repeated by pieces."""
        begun = self._take_block(value) or _Block()
        self._blocks[index] = begun
        asked = _input(value)
        if begun.call and asked not in ("", "{}"):
            begun.call.asked.set(asked)

    def _take_block(self, value: object) -> _Block | None:
        """Returns the state for the block's pieces; None for a block of words."""
        block = fields(value)
        kind = text(block.get("type")) or ""
        words, thinking = text(block.get("text")), text(block.get("thinking"))
        if kind == "text" and words is not None:
            self.answer.words.add(words)
        elif kind == "thinking" and thinking is not None:
            self.answer.thoughts.add(thinking)
        elif kind.endswith("tool_use"):
            return _Block(call=self._take_tool_use(kind, block))
        elif kind.endswith("tool_result"):
            # A tool whose result is present has already run. Its error does not fail the call.
            call = self._calls.get(text(block.get("tool_use_id")) or "")
            if call:
                call.by_provider = True
        elif kind == "fallback":
            # Another model answers after this one declined.
            self.answer.model = text(fields(block.get("to")).get("model")) or self.answer.model
        elif kind in ("image", "document"):
            self.answer.medium("image" if kind == "image" else "file")
        elif kind not in _WORDLESS:
            deltas: list[object] = []
            self.answer.not_read({**block, "deltas": deltas} if is_object(value) else value)
            return _Block(unread=deltas)
        return None

    def _take_tool_use(self, kind: str, block: Fields) -> ToolCall:
        """Reads a tool call: the application runs ``tool_use``, the provider all other types."""
        # A new key for each: gateways may repeat the index or id of another block.
        call = self.answer.tool_call(object())
        call.id = text(block.get("id"))
        call.name = text(block.get("name"))
        call.by_provider = kind != "tool_use"
        if call.id is not None:
            self._calls[call.id] = call
        return call

    def _take_delta(self, index: object, delta: Fields) -> None:
        kind, block = delta.get("type"), self._blocks.get(index)
        words, thinking, asked = (text(delta.get(name)) for name in ("text", "thinking", "partial_json"))
        if block is not None and block.unread is not None:
            block.unread.append(delta)
        elif kind == "text_delta" and words is not None:
            self.answer.words.add(words)
        elif kind == "thinking_delta" and thinking is not None:
            self.answer.thoughts.add(thinking)
        elif kind == "input_json_delta" and asked is not None:
            # Gateways send empty pieces to blocks that are not tools.
            if asked:
                self._take_input(index, block, asked)
        elif kind not in _WORDLESS_DELTAS:
            self.answer.not_read(delta)

    def _take_input(self, index: object, known: _Block | None, piece: str) -> None:
        block = known or _Block(call=self.answer.tool_call(object()))
        self._blocks[index] = block
        if block.call is None:
            self.answer.not_read(piece)
        elif block.in_pieces:
            block.call.asked.add(piece)
        else:
            block.call.asked.set(piece)
        block.in_pieces = True

    def _take_usage(self, usage: Fields) -> None:
        """Takes counts, which are cumulative in a stream; any event may have any of them.

        Input is the sum of all three; ``iterations`` are parts of them or of other work (Anthropic API
        reference, `usage`).
        """
        created = count_of(usage.get("cache_creation_input_tokens"))
        given = {
            "input": count_of(usage.get("input_tokens")),
            "cache_read": count_of(usage.get("cache_read_input_tokens")),
            "cache_creation": _by_time(usage) if created is None else created,
        }
        # A server that reports 0 tokens at the end did not count.
        is_uncounted = "input" in self._counts and not (given["cache_read"] or given["cache_creation"])
        if is_uncounted and given["input"] == 0:
            given["input"] = None
        self._counts.update({name: count for name, count in given.items() if count is not None})
        counts = self._counts
        input_ = total(*counts.values()) if "input" in counts else None
        made = fields(usage.get("output_tokens_details")).get("thinking_tokens")
        self.answer.count(**{**counts, "input": input_}, output=usage.get("output_tokens"), reasoning=made)


def _by_time(usage: Fields) -> int | None:
    """Returns the tokens written to the cache, summed over lifetimes."""
    written = fields(usage.get("cache_creation"))
    times = [written.get("ephemeral_5m_input_tokens"), written.get("ephemeral_1h_input_tokens")]
    return None if all(count_of(each) is None for each in times) else total(*times)


def _is_error(said: Fields) -> bool:
    """Whether this is an error; a gateway's error has no wrapping type."""
    error = said.get("error")
    return said.get("type") == "error" or (error is not None and error is not False)


def _input(block: Any) -> str:
    return as_text(fields(block).get("input"))


def _place(index: object) -> object:
    return index if isinstance(index, int | float | str) else None
