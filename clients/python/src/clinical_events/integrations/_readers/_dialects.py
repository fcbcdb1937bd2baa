"""The attribute names of OpenTelemetry emitters for models, and their meaning.

Attributes are hostile and may have any type; nothing here raises.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

from ._answer import (
    Answer,
    Choice,
    Fields,
    ToolCall,
    as_text,
    count_of,
    fields,
    first_of,
    is_said,
    list_of,
    text,
    total,
)

Kind = Literal["model", "agent", "tool", "retrieval", "evaluation"]

MOST_CHARACTERS = 16 * 1024 * 1024
REDACTED = "__REDACTED__"
_COUNTS = ("input", "output", "cache_read", "cache_creation", "reasoning")


@dataclass(frozen=True)
class Span:
    """The current data of a span. Times are nanoseconds since 1970; ``status`` 2 means failed."""

    name: str
    attributes: Fields
    events: Sequence[tuple[str, Fields]] = ()
    status: int = 0
    scope: str = ""
    dropped: int = 0
    trace_id: str = ""
    span_id: str = ""
    parent_id: str | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True)
class PassedOver:
    """A span that is not a run; ``reason`` is None when no attribute is about a model."""

    reason: str | None


@dataclass
class Findings:
    """The findings of all dialects on a span.

    ``answered``: the span has an answer; most spans have words only if the application enabled that.
    ``is_open``: the emitter usually reports why an answer ended, but not here.
    """

    answer: Answer = field(default_factory=Answer)
    answered: bool = False
    ending: Literal["aborted", "cut off"] | None = None
    is_open: bool = False
    failed: bool = False
    error_name: str | None = None
    tool_name: object = None
    tool_id: object = None
    documents: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evaluations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage_of_all: dict[str, int] | None = None

    def take(self, *, apart: bool = False, **said: Any) -> None:
        """Takes missing findings: ``id``, ``model``, ``reason``, ``tool``, ``call``, token counts.

        ``apart``: the input count excludes cached tokens.
        """
        answer, first, counts = self.answer, self.answer.choice(), Answer()
        answer.id = first_of(answer.id, text(said.get("id")))
        answer.model = first_of(answer.model, text(said.get("model")))
        first.finish_reason = first_of(first.finish_reason, _reason(said.get("reason")))
        self.tool_name = first_of(self.tool_name, said.get("tool"))
        self.tool_id = first_of(self.tool_id, said.get("call"))
        given, cached = count_of(said.get("input")), total(said.get("cache_read"), said.get("cache_creation"))
        if given is not None and (apart or cached > given):
            said["input"] = given + cached
        counts.count(**{name: said.get(name) for name in _COUNTS})
        answer.usage = {**counts.usage, **answer.usage}


class Dialect:
    """The names of one family of emitters. ``names`` maps members of ``Findings.take`` to attributes."""

    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {}
    names: ClassVar[Mapping[str, str]] = {}

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        """Returns the kind of span, a reason to ignore it, or None when this dialect does not know it."""
        raise NotImplementedError

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        """Takes missing findings."""
        found.take(**self.said(span))

    def said(self, span: Span) -> dict[str, Any]:
        return {name: first_of(*map(span.attributes.get, of.split())) for name, of in self.names.items()}


# GenAI: the semantic conventions of OpenTelemetry, 1.26 and later.


class GenAi(Dialect):
    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {
        **dict.fromkeys(("chat", "generate_content", "text_completion"), "model"),
        **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
        **{"execute_tool": "tool", "retrieval": "retrieval", "embeddings": PassedOver("embeddings")},
        **{"vector_db_retrieve": "retrieval"},  # OpenLLMetry for LangChain.
        **{"agent_step": PassedOver("steps of agents"), "create_agent": PassedOver("agents that are made")},
    }
    # Model operations that do not produce an answer for a person.
    others = re.compile(
        "embed|image|audio|speech|transcri|moderat|rerank|video|memory|search|^plan$", re.IGNORECASE
    )
    # The conventions, Anthropic's SDKs, Pydantic AI, OpenLIT, Sentry, and users of Langfuse.
    names: ClassVar[Mapping[str, str]] = {
        "id": "gen_ai.response.id",
        "model": "gen_ai.response.model",
        "reason": "gen_ai.response.finish_reasons gen_ai.response.finish_reason"
        " anthropic.message.stop_reason",
        "tool": "gen_ai.tool.name",
        "call": "gen_ai.tool.call.id",
        "input": "gen_ai.usage.input_tokens",
        "output": "gen_ai.usage.output_tokens",
        "cache_read": "gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_read_input_tokens"
        " gen_ai.usage.cache_read_tokens gen_ai.usage.input_cached_tokens gen_ai.usage.input_tokens.cached"
        " gen_ai.usage.prompt_tokens_details.cache_read",
        "cache_creation": "gen_ai.usage.cache_creation.input_tokens gen_ai.usage.cache_creation_input_tokens"
        " gen_ai.usage.cache_write.input_tokens gen_ai.usage.cache_write_tokens"
        " gen_ai.usage.input_cache_creation gen_ai.usage.input_tokens.cache_write"
        " gen_ai.usage.prompt_tokens_details.cache_write",
        "reasoning": "gen_ai.usage.reasoning.output_tokens gen_ai.usage.reasoning_tokens"
        " gen_ai.usage.output_tokens.reasoning gen_ai.usage.details.reasoning_tokens"
        " gen_ai.usage.completion_tokens_details.reasoning",
    }
    # Pydantic AI's sums over the models of an agent.
    sums: ClassVar[Mapping[str, str]] = {
        name: of.replace("gen_ai.usage.", "gen_ai.aggregated_usage.")
        for name, of in names.items()
        if name in _COUNTS
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        operation = text(span.attributes.get("gen_ai.operation.name"))
        known = self.kinds.get(operation)
        return known or (PassedOver("other operations") if self.others.search(operation or "") else None)

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = self.said(span)
        if kind == "agent" and "gen_ai.aggregated_usage.input_tokens" in span.attributes:
            said |= {name: first_of(*map(span.attributes.get, of.split())) for name, of in self.sums.items()}
        if said["input"] is None and said["output"] is None:
            said = {name: value for name, value in said.items() if name not in _COUNTS}
        # Anthropic's own counts.
        found.take(apart=span.scope == "@traceloop/instrumentation-anthropic", **said)
        if kind == "retrieval" and not found.documents:
            documents = list_of(parsed(span.attributes.get("gen_ai.retrieval.documents")))
            found.documents = [_document(each) for each in documents]
        for name, of in span.events:
            if name == "gen_ai.evaluation.result":
                names = ("name", "score.value", "score.label")
                reported = (of.get(f"gen_ai.evaluation.{each}") for each in names)
                found.evaluations.append(dict(zip(("name", "score", "label"), reported, strict=True)))
        if not found.answered:
            self._words(span, kind, found)
        if kind == "model":
            self._openlit(span.attributes, found)
        reasons = span.attributes.get("gen_ai.response.finish_reasons")
        found.is_open = found.is_open or (isinstance(reasons, list | tuple) and not reasons)

    def _openlit(self, attributes: Fields, found: Findings) -> None:
        """Reads the requested tools: comma-separated names and ids."""
        names, ids = (text(attributes.get(f"gen_ai.tool.{name}")) for name in ("name", "call.id"))
        choice = found.answer.choice()
        if names is None or choice.tool_calls:
            return
        inputs = list_of(attributes.get("gen_ai.tool.call.arguments"))
        for at, name in enumerate(names.split(", ")):
            id = next(iter((ids or "").split(", ")[at : at + 1]), None)
            _ask(choice, at, {"name": name, "id": id}, next(iter(inputs[at : at + 1]), None))

    def _words(self, span: Span, kind: Kind, found: Findings) -> None:
        events = dict(reversed(span.events))
        details = events.get("gen_ai.client.inference.operation.details", {})
        messages = first_of(*(of.get("gen_ai.output.messages") for of in (span.attributes, details)))
        if messages is None and kind == "agent":  # Pydantic AI puts all messages of a run into one attribute.
            every = list_of(parsed(span.attributes.get("pydantic_ai.all_messages")))
            messages = [each for each in every if fields(each).get("role") == "assistant"] or None
        if messages is not None:
            found.answered = True
            reported = list_of(parsed(messages))
            if kind == "agent":  # The messages are steps of one answer; the last one with words counts.
                worded = [each for each in reported if any(p.get("type") == "text" for p in _parts(each))]
                reported = (worded or reported)[-1:]
            for at, message in enumerate(reported):
                said = fields(message)
                found.is_open = found.is_open or (kind == "model" and said.get("finish_reason") == "")
                if said.get("parts") is None:
                    _take_chat(found.answer.choice(at), message, kind, found.answer)
                else:
                    _take_message(found.answer, at, message, kind)
            return
        for name, of in span.events:
            if name == "gen_ai.choice":
                found.answered = True
                message, reason = parsed(of.get("message", of)), text(of.get("finish_reason"))
                _take_chat(
                    found.answer.choice(index_of(of.get("index"))), message, kind, found.answer, reason
                )
        words = text(span.attributes.get("gen_ai.completion")) if kind == "model" else None
        if not found.answered and words is not None and not list_of(parsed(words)):
            found.answered = True
            found.answer.choice().words.set(words)
        completion = events.get("gen_ai.content.completion")
        if not found.answered and completion is not None:
            found.answered = True
            for at, message in enumerate(list_of(parsed(completion.get("gen_ai.completion")))):
                _take_chat(found.answer.choice(at), message, kind, found.answer)


class OlderGenAi(Dialect):
    """Whether only attributes of a model are present."""

    names: ClassVar[Mapping[str, str]] = {
        "input": "gen_ai.usage.prompt_tokens",
        "output": "gen_ai.usage.completion_tokens",
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        return None if text(span.attributes.get("gen_ai.request.model")) is None else "model"


def _reason(said: object) -> str | None:
    """Reads a text, a JSON string, or the first entry of a list or a JSON list."""
    inner = parsed(said)
    first = text(inner) or text(next(iter(list_of(inner)), None))
    whole = text(said)
    return first if first is not None or whole is None or whole.startswith("[") else whole


def _parts(message: object) -> list[Fields]:
    return [fields(part) for part in list_of(fields(message).get("parts"))]


def _take_message(answer: Answer, at: int, message: object, kind: Kind) -> None:
    """Reads a message of the conventions in parts. An agent's tools belong to its models' spans."""
    choice = answer.choice(at)
    choice.finish_reason = first_of(choice.finish_reason, text(fields(message).get("finish_reason")) or None)
    for number, raw in enumerate(list_of(fields(message).get("parts"))):
        part = fields(raw)
        sort = text(part.get("type")) or ""
        if sort in ("text", "refusal"):
            choice.words.add(text(part.get("content")))
            answer.refused = answer.refused or sort == "refusal"
        elif sort == "reasoning":
            # OpenLLMetry writes the reasoning summary of the Responses API as JSON.
            words = text(part.get("content")) or ""
            parts = list_of(parsed(words)) if words.startswith("[{") else []
            choice.thoughts.add(_words(parts) or words)
        elif sort in ("tool_call", "server_tool_call"):
            if kind != "agent":
                key = first_of(text(part.get("id")), number)
                call = _ask(choice, key, part, part.get("arguments"))
                call.by_provider = sort == "server_tool_call"
        elif sort in ("blob", "uri", "file"):
            medium = part.get("modality")
            answer.medium(medium if medium in ("image", "audio", "video") else "file")
        elif sort not in ("tool_call_response", "server_tool_call_response"):
            answer.not_read(raw)


def _take_chat(
    choice: Choice, message: object, kind: Kind, answer: Answer, reason: str | None = None
) -> None:
    """Reads a message in the form of chat completions."""
    said = fields(message)
    content, refusal = said.get("content"), text(said.get("refusal"))
    choice.finish_reason = first_of(choice.finish_reason, reason)
    choice.words.add(first_of(text(message), _words(content)) or refusal)
    answer.refused = answer.refused or bool(refusal and not is_said(content))
    choice.thoughts.add(text(said.get("reasoning_content")))
    for number, call in enumerate([] if kind == "agent" else list_of(parsed(said.get("tool_calls")))):
        outer = fields(call)
        inner = fields(outer.get("function"))
        made = _ask(choice, first_of(text(outer.get("id")), number), outer, None)
        made.name = first_of(text(inner.get("name")), made.name)
        made.asked.set(_input(first_of(inner.get("arguments"), outer.get("arguments"))))


class OpenInference(Dialect):
    """OpenInference, by Arize."""

    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {
        **{"LLM": "model", "AGENT": "agent", "TOOL": "tool", "EVALUATOR": "evaluation"},
        **{"RETRIEVER": "retrieval", "RERANKER": "retrieval"},
        **{"EMBEDDING": PassedOver("embeddings"), "PROMPT": PassedOver("prompts")},
    }

    names: ClassVar[Mapping[str, str]] = {
        "model": "llm.response.model_name",
        "reason": "llm.finish_reason",
        "tool": "tool.name tool_call.function.name",
        "call": "tool_call.id tool.id",
        "input": "llm.token_count.prompt",
        "output": "llm.token_count.completion",
        "cache_read": "llm.token_count.prompt_details.cache_read",
        "cache_creation": "llm.token_count.prompt_details.cache_write",
        "reasoning": "llm.token_count.completion_details.reasoning",
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        kind = text(span.attributes.get("openinference.span.kind"))
        if kind == "CHAIN":
            return "agent" if is_root else PassedOver("inner chains")
        return self.kinds.get(kind) or (None if kind is None else PassedOver("kinds that are no calls"))

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = span.attributes.get
        found.take(**self.said(span))
        # The requested model; some instrumentations replace it with the model that answered.
        asked = fields(parsed(said("llm.invocation_parameters"))).get("model")
        if kind == "model" and asked is not None and said("llm.model_name") != asked:
            found.take(model=said("llm.model_name"))
        for prefix in ("retrieval.documents", "reranker.output_documents"):
            if kind == "retrieval" and not found.documents:
                names = ("id", "score", "content", "metadata")
                for each in indexed(span.attributes, prefix):
                    found.documents.append(_document({n: each.get(f"document.{n}") for n in names}))
        if kind == "tool":  # LangChain's tool message names its call.
            output = fields(parsed(said("output.value")))
            message = fields(first_of(output.get("output"), output))
            inner = fields(first_of(message.get("kwargs"), message.get("data")))
            calls = (of.get("tool_call_id") for of in (inner, message))
            found.take(call=first_of(*calls))
        if not found.answered:
            self._words(span.attributes, kind, found)

    def _words(self, attributes: Fields, kind: Kind, found: Findings) -> None:
        answer = found.answer
        messages = indexed(attributes, "llm.output_messages")
        several = len(messages) > 1 and self._has_choices(attributes)
        for at, message in enumerate(messages):
            choice = answer.choice(at if several else 0)
            contents = indexed(message, "message.contents")
            words = message.get("message.content")
            if words is not None and words != REDACTED:
                found.answered = True
                choice.words.add(None if contents else text(words))
            choice.thoughts.add(text(message.get("message.reasoning_content")))
            for part in contents:
                sort, said = (part.get(f"message_content.{name}") for name in ("type", "text"))
                if said == REDACTED:
                    continue
                found.answered = True
                if sort == "image":
                    answer.medium("image")
                else:
                    (choice.thoughts if sort == "reasoning" else choice.words).add(text(said))
                answer.refused = answer.refused or sort == "refusal"
            for number, call in enumerate([] if kind == "agent" else self._calls(message)):
                found.answered = True
                reported = {name: call.get(f"tool_call.{name}") for name in ("id", "function.name")}
                named = {"id": reported["id"], "name": reported["function.name"]}
                _ask(choice, (at, number), named, call.get("tool_call.function.arguments"))
        output = text(attributes.get("output.value"))
        if found.answered or output is None or output == REDACTED:
            return
        # The form of the raw answer is unknown, so only text counts as words.
        if kind == "agent" or (kind == "model" and attributes.get("output.mime_type") == "text/plain"):
            found.answered = True
            answer.choice().words.set(first_of(_last_message(parsed(output)), output))

    def _has_choices(self, attributes: Fields) -> bool:
        """Whether the messages are choices; one answer (for example of the Responses API) has the same
        names."""
        asked = fields(parsed(attributes.get("llm.invocation_parameters")))
        output = fields(parsed(attributes.get("output.value")))
        return (number(asked.get("n")) or 0) > 1 or len(list_of(output.get("choices"))) > 1

    def _calls(self, message: Fields) -> Sequence[Fields]:
        name = message.get("message.function_call_name")
        arguments = message.get("message.function_call_arguments_json")
        older = {"tool_call.function.name": name, "tool_call.function.arguments": arguments}
        return indexed(message, "message.tool_calls") or ([] if text(name) is None else [older])


class Traceloop(Dialect):
    """OpenLLMetry: its SDKs, and its instrumentations before they adopted the GenAI names."""

    names: ClassVar[Mapping[str, str]] = {
        "model": "llm.response.model",
        "input": "llm.usage.prompt_tokens",
        "output": "llm.usage.completion_tokens",
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        kind, request = (span.attributes.get(name) for name in ("traceloop.span.kind", "llm.request.type"))
        if kind == "tool":
            return "tool"
        if kind in ("workflow", "agent", "task"):
            # It reports every runnable of LangChain.js as a workflow without a parent.
            if span.scope == "@traceloop/instrumentation-langchain":
                return PassedOver("runnables of LangChain")
            return PassedOver("tasks") if kind == "task" else "agent"
        if request in ("chat", "completion"):
            return "model"
        if request == "embedding":
            return PassedOver("embeddings")
        return None if text(request) is None else PassedOver("other requests to models")

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = span.attributes.get
        if said("traceloop.span.kind") == "tool" or kind == "tool":
            # LangChain's tool message names its tool and its call.
            whole = fields(parsed(said("traceloop.entity.output")))
            message = fields(fields(first_of(whole.get("output"), whole)).get("kwargs"))
            named = re.sub(r"^execute_tool |\.tool$", "", span.name)
            reported = first_of(text(message.get("name")), said("traceloop.entity.name"), named)
            found.take(tool=reported, call=message.get("tool_call_id"))
        found.take(**self.said(span))
        output = said("traceloop.entity.output")
        outputs = fields(parsed(output)).get("outputs")
        if kind == "retrieval" and not found.documents:
            documents = list_of(fields(parsed(output)).get("documents"))
            found.documents = [_document(each) for each in documents]
        if kind == "agent" and output is not None and not found.answered:
            found.answered = True
            said_last = first_of(text(outputs), _last_message(outputs), text(parsed(output)))
            found.answer.choice().words.set(first_of(said_last, text(output), ""))
        for prefix in ("gen_ai.completion", "llm.completions"):
            for at, message in enumerate([] if found.answered else indexed(span.attributes, prefix)):
                choice = found.answer.choice(at)
                choice.finish_reason = first_of(choice.finish_reason, text(message.get("finish_reason")))
                choice.words.add(_words(message.get("content")))
                choice.thoughts.add(text(message.get("reasoning")))
                for number, call in enumerate(indexed(message, "tool_calls")):
                    _ask(choice, number, call, call.get("arguments"))
            found.answered = found.answered or bool(indexed(span.attributes, prefix))


class AiSdk(Dialect):
    """The AI SDK, versions 4 to 6, and the legacy telemetry of 7."""

    agents = frozenset(("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"))
    # The error message of an answer that broke off. It is compared, not recorded.
    broken = "Failed to process successful response"

    names: ClassVar[Mapping[str, str]] = {
        "id": "ai.response.id",
        "model": "ai.response.model",
        "reason": "ai.response.finishReason ai.finishReason",
        "tool": "ai.toolCall.name",
        "call": "ai.toolCall.id",
        "input": "ai.usage.inputTokens ai.usage.promptTokens",
        "output": "ai.usage.outputTokens ai.usage.completionTokens",
        "cache_read": "ai.usage.inputTokenDetails.cacheReadTokens ai.usage.cachedInputTokens",
        "cache_creation": "ai.usage.inputTokenDetails.cacheWriteTokens",
        "reasoning": "ai.usage.outputTokenDetails.reasoningTokens ai.usage.reasoningTokens",
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        operation = text(span.attributes.get("ai.operationId"))
        if operation is None and text(span.attributes.get("operation.name")) is not None:
            operation = span.name if re.match(r"ai\.\w", span.name) else None
        if operation is None:
            return None
        if re.fullmatch(r"ai\.\w+\.(doGenerate|doStream)", operation):
            return "model"
        if operation == "ai.toolCall":
            return "tool"
        if operation in self.agents:
            return "agent"
        return PassedOver("embeddings" if "mbed" in operation else "other operations of the AI SDK")

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        def said(*names: str) -> Any:
            return first_of(*(span.attributes.get(f"ai.{name}") for name in names))

        reported = self.said(span)
        # Version 5 passes on Anthropic's count, which excludes cached tokens.
        metadata = fields(fields(parsed(said("response.providerMetadata"))).get("anthropic"))
        usage = fields(metadata.get("usage"))
        apart = reported["input"] is not None and usage.get("input_tokens") == reported["input"]
        if apart:
            for name in ("cache_read", "cache_creation"):
                reported[name] = first_of(reported[name], usage.get(f"{name}_input_tokens"))
            found.answer.usage = {}
        found.take(apart=apart, **reported)
        if any(of.get("exception.message") == self.broken for _, of in span.events):
            found.ending = "cut off"
        words = text(said("response.text", "response.object", "result.text"))
        calls = said("response.toolCalls", "result.toolCalls")
        if found.answered or (words is None and calls is None):
            return
        found.answered = True
        choice = found.answer.choice()
        choice.words.set(words or "")
        choice.thoughts.set(text(said("response.reasoning")) or "")
        for number, each in enumerate([] if kind == "agent" else list_of(parsed(calls))):
            call = fields(each)
            named = {"id": call.get("toolCallId"), "name": call.get("toolName")}
            made = _ask(choice, number, named, first_of(call.get("input"), call.get("args")))
            made.by_provider = call.get("providerExecuted") is True
            made.invalid = call.get("invalid") is True


class Langfuse(Dialect):
    """Langfuse: observations of its SDKs. Its plain spans may be about anything."""

    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {
        **{"generation": "model", "agent": "agent", "tool": "tool", "retriever": "retrieval"},
        **{"evaluator": "evaluation", "embedding": PassedOver("embeddings")},
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        sort = text(span.attributes.get("langfuse.observation.type"))
        if sort == "chain":
            return "agent" if is_root else PassedOver("inner chains")
        return self.kinds.get(sort)

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        def said(name: str) -> object:
            return span.attributes.get(f"langfuse.observation.{name}")

        if text(said("type")) is None:
            return
        if said("level") == "ERROR":
            found.failed = True
            # SDKs begin their messages with the HTTP status; only the number is read.
            status = re.match(r"(?:\w*Error: )?([45][0-9]{2}) ", text(said("status_message")) or "")
            found.answer.status = int(status[1]) if status else None
        if kind == "tool":
            found.take(tool=span.name)
        found.take(reason=text(said("metadata.finish_reason")))
        self._count(fields(parsed(said("usage_details"))), found)
        output = text(said("output"))
        if output is None:
            return
        reported = first_of(parsed(output), output)
        if kind == "retrieval" and not found.documents:
            documents = list_of(first_of(fields(reported).get("documents"), reported))
            found.documents = [_document(each) for each in documents]
        if kind == "evaluation":
            found.evaluations.append({"name": span.name, "score": fields(reported).get("score")})
        if not found.answered and kind in ("model", "agent"):
            found.answered = True
            chat = isinstance(reported, str) or any(
                fields(reported).get(n) is not None for n in ("content", "tool_calls")
            )
            _take_chat(found.answer.choice(), reported if chat else output, kind, found.answer)

    def _count(self, usage: Fields, found: Findings) -> None:
        """Reads usage under the names of Langfuse, of chat completions, or of the Responses API."""

        def said(*names: str) -> Any:
            return first_of(*(usage.get(name) for name in names))

        asked = fields(said("prompt_tokens_details", "input_tokens_details"))
        made = fields(said("completion_tokens_details", "output_tokens_details"))
        given = said("input", "prompt_tokens", "input_tokens")
        output = said("output", "completion_tokens", "output_tokens")
        reasoning = first_of(said("output_reasoning_tokens"), made.get("reasoning_tokens"))
        # The total shows whether the details are included in the first two.
        parts, whole = (number(given), number(output)), number(said("total", "total_tokens"))
        apart = whole is not None and None not in parts and whole > sum(cast(tuple[float, ...], parts))
        found.take(
            apart=apart,
            input=given,
            output=(parts[1] or 0) + (number(reasoning) or 0) if apart else output,
            cache_read=first_of(
                said("input_cached_tokens", "cache_read_input_tokens"), asked.get("cached_tokens")
            ),
            cache_creation=said("cache_creation_input_tokens", "input_cache_creation"),
            reasoning=reasoning,
        )


# The first dialect that knows a span decides its kind, and its values take precedence.
DIALECTS: tuple[Dialect, ...] = (*(GenAi(), OpenInference(), Traceloop(), AiSdk(), Langfuse(), OlderGenAi()),)


# Readers of attribute values.


def parsed(value: object) -> Any:
    """Parses a value that looks like JSON; returns others unchanged, and None for invalid JSON."""
    if not isinstance(value, str):
        return value
    if len(value) > MOST_CHARACTERS:
        return None
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(value, parse_constant=_no_constant)
    return None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def indexed(attributes: Fields, prefix: str) -> list[dict[str, Any]]:
    """Collects the members of ``PREFIX.NUMBER.REST`` by number, up to 4,095."""
    by_index: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        rest = (
            re.match(r"\.([0-9]{1,4})\.(.+)", name[len(prefix) :], re.DOTALL)
            if name.startswith(prefix)
            else None
        )
        if rest and int(rest[1]) < 4096:
            by_index.setdefault(int(rest[1]), {})[rest[2]] = value
    return [by_index[at] for at in sorted(by_index)]


def number(value: object) -> float | None:
    """Returns a finite number that is exact in every language."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        return None
    return value


def index_of(value: object) -> int:
    """Returns a non-negative integer, parsed from text if necessary; 0 otherwise."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value):
        return int(value)
    return value if type(value) is int and 0 <= value < 2**64 else 0


def _ask(choice: Choice, key: object, call: Fields, asked: object) -> ToolCall:
    made = choice.tool_call(key)
    made.id, made.name = text(call.get("id")), text(call.get("name"))
    made.asked.set(_input(asked))
    return made


def _input(value: object) -> str:
    """Returns a tool's arguments as JSON, even if they are JSON inside a JSON string."""
    if not isinstance(value, str):
        return as_text(value)
    inner = parsed(value) if value.startswith('"') else None
    return inner if isinstance(inner, str) else value


def _words(content: object) -> str:
    """Returns the words of a message: text, or the text parts."""
    parts = [content] if isinstance(content, str) else list_of(content)
    return "".join(first_of(text(part), text(fields(part).get("text")), "") for part in parts)


def _last_message(state: object) -> str | None:
    """Returns the words of the last message in a LangGraph state."""
    last = fields(next(reversed(list_of(fields(state).get("messages"))), None))
    inner = fields(first_of(last.get("kwargs"), last.get("data")))
    return text(first_of(text(inner.get("content")), last.get("content")))


def _document(value: object) -> dict[str, Any]:
    """Reads a retrieved document under the emitters' names."""
    said = fields(value)
    texts = (
        text(value),
        *(text(said.get(name)) for name in ("content", "text", "pageContent", "page_content")),
    )
    about = fields(parsed(said.get("metadata")))
    id = first_of(said.get("id"), about.get("source"), about.get("id"))
    return {"id": id, "score": first_of(said.get("score"), about.get("score")), "text": first_of(*texts, "")}
