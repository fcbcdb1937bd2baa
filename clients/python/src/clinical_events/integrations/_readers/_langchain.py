"""Reads model answers as LangChain passes them to callbacks (docs/reference/model-answers.md, "LangChain").

Messages and generations are dicts of their members, as in JSON.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from ._answer import (
    Answer,
    Choice,
    Fields,
    as_text,
    count_of,
    fields,
    first_of,
    is_list,
    is_object,
    is_said,
    list_of,
    text,
    total,
)
from ._responses import ResponsesReader

MISSED = Literal["cut off", "not read", "failed"]

_THOUGHT = re.compile("thinking|reasoning|redacted")
_HOSTED = re.compile("server_tool_(use|call|call_chunk)|mcp_tool_use|executableCode|executable_code")
# Parts without words of the answer: sources, tool results, and calls that `tool_calls` has.
_SILENT = re.compile(
    "citation|citations_delta|signature_delta|input_json_delta|reference|cache_point|compaction|functionCall"
    "|functionResponse|function_call|tool_use|(invalid_)?tool_call(_chunk)?|container_upload"
    "|.*_?(result|output)|codeExecutionResult"
)
_ASKED = re.compile("tool_use|tool_call|functionCall|function_call")
_MEDIUM = re.compile("(?:output_|input_)?(image|audio|video)(?:_url)?")
_FILE = re.compile("file|document|text-plain|media|inlineData|fileData")
# Providers whose streams end with a reason.
_TELLS_ENDS = re.compile("openai|anthropic|openrouter|deepseek|groq|xai")


def take_result(answer: Answer, result: Fields, *, is_streamed: bool) -> MISSED | None:
    """Takes a model's result and decides its ending if the provider reported none."""
    given = list_of(result.get("generations"))
    answered = given[0] if given else None
    found = [fields(each) for each in list_of(answered)]
    found = [each for each in found if each.get("message") is not None or each.get("text") is not None]
    paused = [_take_generation(answer, answer.choice(at), each) for at, each in enumerate(found)]
    for other in given[1:]:  # LangChain reports each prompt as a separate call.
        answer.not_read(other)
    if not found:  # A stream without chunks, or an answer for which LangChain raises.
        return "not read" if not is_list(answered) else "cut off" if answered else "failed"
    first, output = found[0], fields(first_of(result.get("llm_output"), result.get("llmOutput")))
    _take_identity(answer, first, output)
    _take_usage(answer, first, output)
    metadata = _metadata(first)
    status, error = metadata.get("status"), metadata.get("error")
    if is_said(error) or status == "failed" or answer.finish_reason == "error":
        answer.fail(error)
    elif status == "cancelled":
        answer.ending = "aborted"
    elif any(paused) or answer.finish_reason == "pause_turn" or status in ("queued", "in_progress"):
        answer.ending = "unfinished"
    elif is_streamed and answer.finish_reason is None and _reports_ends(metadata):
        return "cut off"
    else:
        answer.ending = "complete"
    return None


def take_token(answer: Answer, token: object, chunk: Fields, index: int = 0) -> None:
    """Takes a token and, in most libraries, its chunk, for a call that may break off."""
    choice = answer.choice(index)
    if chunk.get("message") is None:
        choice.words.add(text(token))
        return
    message = fields(chunk["message"])
    _take_message(answer, choice, message)
    for part in map(fields, list_of(message.get("tool_call_chunks"))):
        key, id = _key(part.get("index")), text(part.get("id"))
        known = choice.tool_call(key)
        # Some servers give every call the same index.
        call = choice.tool_call(id) if id is not None and known.id not in (None, id) else known
        call.id = first_of(call.id, id)
        call.name = first_of(call.name, text(part.get("name")))
        call.asked.add(text(part.get("args")))
    choice.finish_reason = first_of(_finish(chunk), choice.finish_reason)


def take_outputs(answer: Answer, outputs: object) -> None:
    """Takes the words of a chain's result."""
    said = fields(outputs)
    messages = list_of(said.get("messages"))
    last = first_of(said.get("output"), messages[-1] if messages else None, outputs)
    scratch = Answer()
    _take_message(scratch, scratch.choice(), fields(last))
    answer.choice().words.set(first_of(text(last), scratch.text))


def _take_generation(answer: Answer, choice: Choice, generation: Fields) -> bool:
    """Reads a generation. Returns whether the provider waits for an approval."""
    message = fields(generation.get("message"))
    items = _take_message(answer, choice, message)
    _take_tools(choice, message)
    kwargs = fields(message.get("additional_kwargs"))
    if fields(kwargs.get("audio")).get("data") is not None:
        answer.medium("audio")
    choice.finish_reason = _finish(generation)
    # The text of a model without messages may repeat its reasoning or tools.
    content = message.get("content")
    is_bare = not choice.words.length and not choice.thoughts.length and not choice.tool_calls
    if is_bare and (content is None or content in ("", [])):
        choice.words.set(text(generation.get("text")) or "")
    return _take_items(answer, choice, [*items, *list_of(kwargs.get("tool_outputs"))])


def _take_message(answer: Answer, choice: Choice, message: Fields) -> list[Any]:
    """Returns the parts in the form of the Responses API."""
    content, kwargs = message.get("content"), fields(message.get("additional_kwargs"))
    before = choice.thoughts.length
    choice.words.add(text(content))
    parts = list_of(content)
    has_answer = any(_is_text(fields(part)) and not _is_aside(fields(part)) for part in parts)
    items = [part for part in parts if _is_item(text(fields(part).get("type")) or "")]
    for part in parts:
        if not _is_item(text(fields(part).get("type")) or ""):
            _take_part(answer, choice, part, has_answer)
    choice.words.add(text(fields(kwargs.get("audio")).get("transcript")))
    if text(kwargs.get("refusal")):
        _take_refusal(answer, choice, kwargs["refusal"])
    if choice.thoughts.length == before:  # The same words may occur under several names.
        names = ("reasoning_content", "reasoning", "reasoning_details", "thinking")
        choice.thoughts.add(next(filter(None, (_thoughts(kwargs.get(name)) for name in names)), None))
    return items


def _take_part(answer: Answer, choice: Choice, part: object, has_answer: bool, depth: int = 0) -> None:
    block = fields(part)
    kind = text(block.get("type")) or ""
    medium = _medium(block)
    if isinstance(part, str):
        choice.words.add(part)
    elif _THOUGHT.match(kind):
        choice.thoughts.add(_thoughts(block))
    elif block.get("thought") is True or (_is_text(block) and has_answer and _is_aside(block)):
        choice.thoughts.add(text(block.get("text")))
    elif _is_text(block):
        choice.words.add(text(block.get("text")))
    elif kind == "refusal":
        _take_refusal(answer, choice, text(block.get("refusal")) or "")
    elif kind == "citations_content":
        for each in list_of(fields(block.get("citationsContent")).get("content")):
            choice.words.add(text(fields(each).get("text")))
    elif kind == "non_standard" and depth == 0:
        _take_part(answer, choice, block.get("value"), has_answer, depth + 1)
    elif medium is not None:
        answer.medium(medium)
        choice.words.add(text(block.get("transcript")))
    elif _HOSTED.fullmatch(kind):
        code = first_of(block.get("executableCode"), block.get("executable_code"))
        call = choice.tool_call(("part", id(part)))
        call.id = text(block.get("id"))
        call.name = first_of(text(block.get("name")), None if code is None else "executable_code")
        call.asked.set(
            as_text(first_of(block.get("args"), block.get("input"), fields(code).get("code"), code))
        )
        call.by_provider = True
    elif not _SILENT.fullmatch(kind):
        answer.not_read(part)


def _is_text(block: Fields) -> bool:
    kind = block.get("type")
    return (
        isinstance(block.get("text"), str) if kind is None else kind in ("text", "text_delta", "output_text")
    )


def _is_aside(block: Fields) -> bool:
    """Whether the block is reasoning or commentary."""
    return block.get("phase") in ("commentary", "analysis") or block.get("thought") is True


def _take_refusal(answer: Answer, choice: Choice, words: str) -> None:
    if not choice.text.endswith(words):
        choice.words.add(words)
    if choice is answer.choice():
        answer.refused = True


def _thoughts(value: object, depth: int = 0) -> str:
    """Returns the words of a string, a list, or a member under the providers' names."""
    if depth <= 4 and is_list(value):
        return "".join(_thoughts(each, depth + 1) for each in value)
    if depth <= 4 and is_object(value):
        names = ("thinking", "reasoning", "reasoningText", "reasoning_text", "text", "content", "summary")
        return next(filter(None, (_thoughts(value.get(name), depth + 1) for name in names)), "")
    return text(value) or ""


def _medium(block: Fields) -> str | None:
    kind = text(block.get("type")) or ""
    known = _MEDIUM.fullmatch(kind)
    if block.get("thought") is True or not (known or _FILE.fullmatch(kind)):
        return None
    data = fields(first_of(block.get("inlineData"), block.get("fileData")))
    mime = text(first_of(block.get("mimeType"), block.get("mime_type"), data.get("mimeType"))) or ""
    said = known[1] if known else mime.partition("/")[0]
    return said if said in ("image", "audio", "video") else "file"


def _take_tools(choice: Choice, message: Fields) -> None:
    """Reads the tools that the application runs."""
    kwargs = fields(message.get("additional_kwargs"))
    valid, invalid = list_of(message.get("tool_calls")), list_of(message.get("invalid_tool_calls"))
    blocks = [b for b in list_of(message.get("content")) if _is(_ASKED, fields(b).get("type"))]
    oldest = [kwargs["function_call"]] if is_said(kwargs.get("function_call")) else blocks
    called = valid if valid or invalid else list_of(kwargs.get("tool_calls")) or oldest
    for at, each in enumerate([*called, *invalid]):
        said = fields(each)
        inner = fields(first_of(said.get("function"), said.get("functionCall")))
        call = choice.tool_call(("asked", at))
        call.id = first_of(text(said.get("call_id")), text(said.get("id")))
        call.name = first_of(text(said.get("name")), text(inner.get("name")))
        asked = (*(said.get(name) for name in ("args", "input", "arguments")), inner.get("arguments"))
        call.asked.set(as_text(first_of(*asked, inner.get("args"))))
        call.invalid = at >= len(called)


def _is_item(kind: str) -> bool:
    is_call = re.search("(_call|^mcp_approval_request)$", kind) is not None
    return is_call and not re.fullmatch("((server_|invalid_)?tool|function)_call", kind)


def _take_items(answer: Answer, choice: Choice, output: list[Any]) -> bool:
    """Reads tools that OpenAI runs (Responses API). Returns whether it waits for an approval."""
    if not output:
        return False
    hosted = ResponsesReader()
    hosted.whole({"output": output, "status": "completed"})
    known = {call.id for call in choice.tool_calls}
    for at, made in enumerate(hosted.answer.tool_calls):
        if made.id is None or made.id not in known:
            call = choice.tool_call(("hosted", at))
            call.id, call.name, call.by_provider = made.id, made.name, made.by_provider
            call.asked.set(made.input)
    for part in hosted.answer.unread:
        answer.not_read(part)
    return hosted.answer.ending == "unfinished"


# Metadata in addition to the words: model name, finish reason, tokens.


def _metadata(generation: Fields) -> Fields:
    return fields(fields(generation.get("message")).get("response_metadata"))


def _sources(generation: Fields) -> list[Fields]:
    """Lists the places where provider packages put the metadata."""
    info = fields(first_of(generation.get("generation_info"), generation.get("generationInfo")))
    return [_metadata(generation), info, fields(fields(generation.get("message")).get("additional_kwargs"))]


def _take_identity(answer: Answer, generation: Fields, output: Fields) -> None:
    said = [*_sources(generation), output]
    own = text(fields(generation.get("message")).get("id"))
    answer.id = first_of(_find(said, "id"), None if own is None or re.match("(lc_)?run-", own) else own)
    answer.model = _find(said, "model_name", "model", "model_id", "modelId", "modelVersion")
    # Merged chunks contain the requested name followed by the name that answered.
    alias, both = answer.model or "", _find(said, "model") or ""
    if alias and both.startswith(alias + alias):
        answer.model = both[len(alias) :]


def _finish(generation: Fields) -> str | None:
    said = _sources(generation)
    metadata = said[0]
    reason: str | None = first_of(
        _find(said, "finish_reason", "stop_reason", "done_reason", "finishReason", "stopReason"),
        _find([fields(metadata.get("messageStop"))], "stopReason"),
        _find([fields(metadata.get("incomplete_details"))], "reason"),
        _find([metadata], "status"),
    )
    return reason


def _reports_ends(metadata: Fields) -> bool:
    return _is(_TELLS_ENDS, _once(text(metadata.get("model_provider")) or ""))


def _find(said: list[Fields], *names: str) -> str | None:
    words = (text(each.get(name)) for name in names for each in said)
    return next((_once(word) for word in words if word), None)


def _once(word: str) -> str:
    """Undoes the repetition of a name in merged chunks, such as ``stopstop``."""
    for times in range(min(64, len(word) // 3), 1, -1):
        part = word[: len(word) // times]
        if part * times == word:
            return part
    return word


def _take_usage(answer: Answer, generation: Fields, output: Fields) -> None:
    """Reads usage; LangChain's own, which comes last, takes precedence."""
    metadata = _metadata(generation)
    usage = fields(first_of(metadata.get("usage"), output.get("usage")))
    reported = fields(fields(generation.get("message")).get("usage_metadata"))
    names = ("token_usage", "tokenUsage")
    counted = first_of(*(of.get(name) for of in _sources(generation)[:2] for name in names))
    all_of_them = (metadata, fields(first_of(*map(output.get, names))), fields(counted), usage, reported)
    for each in all_of_them:
        answer.count(**_counts(each))
    # Older versions pass on Anthropic's count, which excludes cached tokens.
    if _is_apart(usage) and usage.get("input_tokens") == reported.get("input_tokens"):
        answer.count(**_counts(usage))


def _is_apart(usage: Fields) -> bool:
    """Whether the provider, Anthropic or Amazon Bedrock, counts cached tokens separately."""
    given = first_of(usage.get("input_tokens"), usage.get("inputTokens"))
    return usage.get("prompt_tokens") is None and given is not None


def _counts(usage: Fields) -> dict[str, object]:
    def first(*names: str) -> int | None:
        return next(
            (count for count in (count_of(usage.get(name)) for name in names) if count is not None), None
        )

    def details(kind: str, older: str) -> Fields:
        names = (f"{kind}_token_details", f"{kind}_tokens_details", f"{older}_tokens_details")
        return fields(first_of(*(usage.get(name) for name in names)))

    asked, made = details("input", "prompt"), details("output", "completion")
    given = first("input_tokens", "prompt_tokens", "promptTokens", "inputTokens", "prompt_eval_count")
    answered = first("output_tokens", "completion_tokens", "completionTokens", "outputTokens", "eval_count")
    read_apart = first("cache_read_input_tokens", "cacheReadInputTokens")
    created_apart = first("cache_creation_input_tokens", "cacheWriteInputTokens")
    cache_read = first_of(asked.get("cache_read"), asked.get("cached_tokens"), read_apart)
    cache_creation = first_of(asked.get("cache_creation"), created_apart)
    reasoning = first_of(made.get("reasoning"), made.get("reasoning_tokens"))
    cached = total(cache_read, cache_creation)
    beside = _is_apart(usage) and total(read_apart, created_apart) > 0
    # xAI excludes reasoning from the answer's tokens but includes it in the total.
    thought = count_of(reasoning) or 0
    is_less = thought > 0 and usage.get("total_tokens") == total(given, answered) + thought
    return {
        "input": given + cached if given is not None and (beside or cached > given) else given,
        "output": total(answered, thought) if is_less else answered,
        "cache_read": cache_read,
        "cache_creation": cache_creation,
        "reasoning": reasoning,
    }


def _key(value: object) -> object:
    return value if isinstance(value, str | int | None) else None


def _is(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
