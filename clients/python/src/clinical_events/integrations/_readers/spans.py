"""What one span of OpenTelemetry says of a model, under whatever names its emitter uses.

A span is read by itself (docs/reference/model-answers.md, "Spans"). Attributes are hostile: nothing is what
it should be, and nothing here raises.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, cast

from ._answer import (
    Answer,
    Choice,
    Fields,
    ToolCall,
    as_text,
    count_of,
    failure_status,
    fields,
    is_said,
    list_of,
    model_name,
    text,
    word,
)

Kind = Literal["model", "agent", "tool", "retrieval", "evaluation"]

FAILED = 2
MOST_CHARACTERS = 16 * 1024 * 1024
DEEPEST = 100
REDACTED = "__REDACTED__"


@dataclass(frozen=True)
class Span:
    """A span as it is now. Times are nanoseconds since 1970; ``status`` 2 says that it has failed."""

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
class Known:
    """What a span is. ``model`` of an agent is its name, or that of the workflow."""

    kind: Kind
    provider: str
    model: str | None
    agent_name: str | None
    agent_model: str | None
    operation: str
    streamed: bool
    conversation: str | None


@dataclass(frozen=True)
class PassedOver:
    """No run; ``reason`` is None when the span has no name of what is about models."""

    reason: str | None


@dataclass
class Findings:
    """What the dialects fill, each what it knows by a name of its own.

    ``answered``: the span carries an answer; most carry words only where the application has said so.
    """

    answer: Answer = field(default_factory=Answer)
    answered: bool = False
    ending: Literal["aborted", "cut off"] | None = None
    failed: bool = False
    error_name: str | None = None
    tool_name: object = None
    tool_id: object = None
    documents: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    evaluations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    usage_of_all: dict[str, int] | None = None

    def count(self, *, apart: bool = False, **counts: object) -> None:
        """Takes counts that are not known yet. ``apart``: the input is what came from no cache."""
        cached = (count_of(counts.get("cache_read")) or 0) + (count_of(counts.get("cache_creation")) or 0)
        given = count_of(counts.get("input"))
        if given is not None and (apart or cached > given):
            counts["input"] = given + cached
        told = Answer()
        told.count(**counts)
        self.answer.usage = {**told.usage, **self.answer.usage}

    def identity(self, *, id: object = None, model: object = None, reason: str | None = None) -> None:
        """Takes what is not known yet."""
        answer = self.answer
        answer.id = answer.id if answer.id is not None else text(id)
        answer.model = answer.model if answer.model is not None else text(model)
        first = answer.choice()
        first.finish_reason = first.finish_reason if first.finish_reason is not None else reason

    def tool(self, name: object, id: object) -> None:
        self.tool_name = name if self.tool_name is None else self.tool_name
        self.tool_id = id if self.tool_id is None else self.tool_id


class Dialect:
    """The names of one family of emitters."""

    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {}

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        """What the span is, why it is nothing, or None when this dialect does not know it."""
        raise NotImplementedError

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        """Takes what is not found yet."""
        raise NotImplementedError


# GenAI: the semantic conventions of OpenTelemetry, 1.26 and later.


class GenAi(Dialect):
    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {
        **dict.fromkeys(("chat", "generate_content", "text_completion"), "model"),
        **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
        **{"execute_tool": "tool", "retrieval": "retrieval", "embeddings": PassedOver("embeddings")},
        **{"agent_step": PassedOver("steps of agents"), "create_agent": PassedOver("agents that are made")},
    }
    # Operations of models that answer no person.
    others = re.compile("embed|image|audio|speech|transcri|moderat|rerank|video|memory|search", re.IGNORECASE)
    # The conventions, the SDKs of Anthropic, Pydantic AI and Sentry, and users of Langfuse.
    cache_read = (
        *("cache_read.input_tokens", "cache_read_input_tokens", "cache_read_tokens"),
        *("input_cached_tokens", "input_tokens.cached"),
    )
    cache_creation = (
        *("cache_creation.input_tokens", "cache_creation_input_tokens", "cache_write.input_tokens"),
        *("cache_write_tokens", "input_cache_creation", "input_tokens.cache_write"),
    )

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        operation = text(span.attributes.get("gen_ai.operation.name"))
        known = self.kinds.get(operation)
        return known or (PassedOver("other operations") if self.others.search(operation or "") else None)

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = span.attributes.get
        reasons = _or(said("gen_ai.response.finish_reasons"), said("gen_ai.response.finish_reason"))
        reason = _or(_reason(reasons), text(said("anthropic.message.stop_reason")))
        found.identity(id=said("gen_ai.response.id"), model=said("gen_ai.response.model"), reason=reason)
        found.tool(said("gen_ai.tool.name"), said("gen_ai.tool.call.id"))
        if kind == "retrieval" and not found.documents:
            found.documents = [_document(d) for d in list_of(parsed(said("gen_ai.retrieval.documents")))]

        def usage(*names: str) -> object:
            return _or(*(said(f"gen_ai.usage.{name}") for name in names))

        given, made = usage("input_tokens"), usage("output_tokens")
        if given is not None or made is not None:
            found.count(
                # Anthropic's own count, as its interface gives it.
                apart=span.scope == "@traceloop/instrumentation-anthropic",
                input=given,
                output=made,
                cache_read=usage(*self.cache_read),
                cache_creation=usage(*self.cache_creation),
                reasoning=usage("reasoning.output_tokens", "reasoning_tokens", "output_tokens.reasoning"),
            )
        for name, of in span.events:
            if name == "gen_ai.evaluation.result":
                names = ("name", "score.value", "score.label")
                told = (of.get(f"gen_ai.evaluation.{each}") for each in names)
                found.evaluations.append(dict(zip(("name", "score", "label"), told, strict=True)))
        if not found.answered:
            self._words(span, kind, found)

    def _words(self, span: Span, kind: Kind, found: Findings) -> None:
        events = dict(reversed(span.events))
        details = events.get("gen_ai.client.inference.operation.details", {})
        messages = _or(*(of.get("gen_ai.output.messages") for of in (span.attributes, details)))
        if messages is not None:
            found.answered = True
            told = list_of(parsed(messages))
            if kind == "agent":  # The steps of one answer: the last with words.
                worded = [each for each in told if any(p.get("type") == "text" for p in _parts(each))]
                told = (worded or told)[-1:]
            for at, message in enumerate(told):
                _take_message(found.answer, at, message, kind)
            return
        for name, of in span.events:
            if name == "gen_ai.choice":
                found.answered = True
                message, reason = parsed(of.get("message", of)), text(of.get("finish_reason"))
                _take_chat(found.answer.choice(_index(of.get("index"))), message, kind, found.answer, reason)
        completion = events.get("gen_ai.content.completion")
        if not found.answered and completion is not None:
            found.answered = True
            for at, message in enumerate(list_of(parsed(completion.get("gen_ai.completion")))):
                _take_chat(found.answer.choice(at), message, kind, found.answer)


class OlderGenAi(Dialect):
    """A model, and no name of the others."""

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        return None if text(span.attributes.get("gen_ai.request.model")) is None else "model"

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = span.attributes.get
        found.count(input=said("gen_ai.usage.prompt_tokens"), output=said("gen_ai.usage.completion_tokens"))


def _reason(reasons: object) -> str | None:
    """The first; some emitters write one text, or JSON, in place of a list."""
    first = text(next(iter(list_of(parsed(reasons))), None))
    whole = text(reasons)
    return first if first is not None or whole is None or whole.startswith("[") else whole


def _parts(message: object) -> list[Fields]:
    return [fields(part) for part in list_of(fields(message).get("parts"))]


def _take_message(answer: Answer, at: int, message: object, kind: Kind) -> None:
    """A message of the conventions: a choice, in parts. An agent's tools are asked for by its models."""
    choice = answer.choice(at)
    choice.finish_reason = _or(choice.finish_reason, text(fields(message).get("finish_reason")) or None)
    for number, raw in enumerate(list_of(fields(message).get("parts"))):
        part = fields(raw)
        sort = text(part.get("type")) or ""
        if sort in ("text", "refusal"):
            choice.words.add(text(part.get("content")))
            answer.refused = answer.refused or sort == "refusal"
        elif sort == "reasoning":
            choice.thoughts.add(text(part.get("content")))
        elif sort in ("tool_call", "server_tool_call"):
            if kind != "agent":
                key = _or(text(part.get("id")), number)
                _ask(choice, key, part, part.get("arguments"), by_provider=sort == "server_tool_call")
        elif sort in ("blob", "uri", "file"):
            medium = part.get("modality")
            answer.medium(medium if medium in ("image", "audio", "video") else "file")
        elif sort not in ("tool_call_response", "server_tool_call_response"):
            answer.not_read(raw)


def _take_chat(
    choice: Choice, message: object, kind: Kind, answer: Answer, reason: str | None = None
) -> None:
    """A message as interfaces of chat write it."""
    said = fields(message)
    content, refusal = said.get("content"), text(said.get("refusal"))
    choice.finish_reason = _or(choice.finish_reason, reason)
    choice.words.add(_or(text(message), _words(content)) or refusal)
    answer.refused = answer.refused or bool(refusal and not is_said(content))
    choice.thoughts.add(text(said.get("reasoning_content")))
    for number, call in enumerate([] if kind == "agent" else list_of(parsed(said.get("tool_calls")))):
        outer = fields(call)
        inner = fields(outer.get("function"))
        made = _ask(choice, _or(text(outer.get("id")), number), outer, None)
        made.name = _or(text(inner.get("name")), made.name)
        made.asked.set(_input(_or(inner.get("arguments"), outer.get("arguments"))))


class OpenInference(Dialect):
    """Of Arize."""

    kinds: ClassVar[Mapping[object, Kind | PassedOver]] = {
        **{"LLM": "model", "AGENT": "agent", "TOOL": "tool", "EVALUATOR": "evaluation"},
        **{"RETRIEVER": "retrieval", "RERANKER": "retrieval"},
        **{"EMBEDDING": PassedOver("embeddings"), "PROMPT": PassedOver("prompts")},
    }

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        kind = text(span.attributes.get("openinference.span.kind"))
        if kind == "CHAIN":
            return "agent" if is_root else PassedOver("inner chains")
        return self.kinds.get(kind) or (None if kind is None else PassedOver("kinds that are no calls"))

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = span.attributes.get
        found.identity(model=said("llm.response.model_name"), reason=text(said("llm.finish_reason")))
        # The model that was asked for, until an instrumentation writes the one that answered in its place.
        asked = fields(parsed(said("llm.invocation_parameters"))).get("model")
        if kind == "model" and asked is not None and said("llm.model_name") != asked:
            found.identity(model=said("llm.model_name"))
        found.tool(
            _or(said("tool.name"), said("tool_call.function.name")),
            _or(said("tool_call.id"), said("tool.id")),
        )
        count = "llm.token_count."
        found.count(
            input=said(count + "prompt"),
            output=said(count + "completion"),
            cache_read=said(count + "prompt_details.cache_read"),
            cache_creation=said(count + "prompt_details.cache_write"),
            reasoning=said(count + "completion_details.reasoning"),
        )
        for prefix in ("retrieval.documents", "reranker.output_documents"):
            if kind == "retrieval" and not found.documents:
                names = ("id", "score", "content", "metadata")
                for each in indexed(span.attributes, prefix):
                    found.documents.append(_document({n: each.get(f"document.{n}") for n in names}))
        if kind == "tool":  # LangChain's answer of a tool says which call it is of.
            output = fields(parsed(said("output.value")))
            message = fields(_or(output.get("output"), output))
            calls = (of.get("tool_call_id") for of in (fields(message.get("kwargs")), message))
            found.tool(None, _or(*calls))
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
                told = {name: call.get(f"tool_call.{name}") for name in ("id", "function.name")}
                named = {"id": told["id"], "name": told["function.name"]}
                _ask(choice, (at, number), named, call.get("tool_call.function.arguments"))
        output = text(attributes.get("output.value"))
        if found.answered or output is None or output == REDACTED:
            return
        # What the interface of a model has answered is in a form that is not said: text alone is words.
        if kind == "agent" or (kind == "model" and attributes.get("output.mime_type") == "text/plain"):
            found.answered = True
            # Of the state of a graph its last message.
            last = fields(next(reversed(list_of(fields(parsed(output)).get("messages"))), None))
            words = _or(*(text(of.get("content")) for of in (fields(last.get("kwargs")), last)), output)
            answer.choice().words.set(words)

    def _has_choices(self, attributes: Fields) -> bool:
        """Messages of one answer (of the Responses API, for one) and choices have the same names."""
        asked = fields(parsed(attributes.get("llm.invocation_parameters")))
        output = fields(parsed(attributes.get("output.value")))
        return (number(asked.get("n")) or 0) > 1 or len(list_of(output.get("choices"))) > 1

    def _calls(self, message: Fields) -> Sequence[Fields]:
        name = message.get("message.function_call_name")
        arguments = message.get("message.function_call_arguments_json")
        older = {"tool_call.function.name": name, "tool_call.function.arguments": arguments}
        return indexed(message, "message.tool_calls") or ([] if text(name) is None else [older])


class Traceloop(Dialect):
    """OpenLLMetry: its SDKs, and its instrumentations before they took the names of GenAI."""

    def kind_of(self, span: Span, is_root: bool) -> Kind | PassedOver | None:
        kind, request = (span.attributes.get(name) for name in ("traceloop.span.kind", "llm.request.type"))
        if kind in ("workflow", "agent"):
            # Every runnable of LangChain.js is a workflow there, without a parent.
            of_langchain = span.scope == "@traceloop/instrumentation-langchain"
            return PassedOver("runnables of LangChain") if of_langchain else "agent"
        if kind in ("tool", "task"):
            return "tool" if kind == "tool" else PassedOver("tasks")
        if request in ("chat", "completion"):
            return "model"
        return None if text(request) is None else PassedOver("other requests to models")

    def find(self, span: Span, kind: Kind, found: Findings) -> None:
        said = span.attributes.get
        if said("traceloop.span.kind") == "tool" or kind == "tool":
            named = re.sub(r"^execute_tool |\.tool$", "", span.name)
            found.tool(_or(said("traceloop.entity.name"), named), None)
        found.identity(model=said("llm.response.model"))
        found.count(input=said("llm.usage.prompt_tokens"), output=said("llm.usage.completion_tokens"))
        output = said("traceloop.entity.output")
        if kind == "agent" and output is not None and not found.answered:
            found.answered = True
            found.answer.choice().words.set(_or(text(parsed(output)), text(output), ""))
        for prefix in ("gen_ai.completion", "llm.completions"):
            for at, message in enumerate([] if found.answered else indexed(span.attributes, prefix)):
                choice = found.answer.choice(at)
                choice.finish_reason = _or(choice.finish_reason, text(message.get("finish_reason")))
                choice.words.add(_words(message.get("content")))
                choice.thoughts.add(text(message.get("reasoning")))
                for number, call in enumerate(indexed(message, "tool_calls")):
                    _ask(choice, number, call, call.get("arguments"))
            found.answered = found.answered or bool(indexed(span.attributes, prefix))


class AiSdk(Dialect):
    """The AI SDK, versions 4 to 6, and the legacy telemetry of 7."""

    agents = frozenset(("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"))
    # The message of the error when the answer breaks in its midst. Read, not recorded.
    broken = "Failed to process successful response"

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
            return _or(*(span.attributes.get(f"ai.{name}") for name in names))

        reason = text(said("response.finishReason", "finishReason"))
        found.identity(id=said("response.id"), model=said("response.model"), reason=reason)
        found.tool(said("toolCall.name"), said("toolCall.id"))
        counts = {
            "input": said("usage.inputTokens", "usage.promptTokens"),
            "output": said("usage.outputTokens", "usage.completionTokens"),
            "cache_read": said("usage.inputTokenDetails.cacheReadTokens", "usage.cachedInputTokens"),
            "cache_creation": said("usage.inputTokenDetails.cacheWriteTokens"),
            "reasoning": said("usage.outputTokenDetails.reasoningTokens", "usage.reasoningTokens"),
        }
        # Version 5 passes on Anthropic's count, which is without what came from the cache.
        metadata = fields(fields(parsed(said("response.providerMetadata"))).get("anthropic"))
        usage = fields(metadata.get("usage"))
        apart = counts["input"] is not None and usage.get("input_tokens") == counts["input"]
        if apart:
            for name in ("cache_read", "cache_creation"):
                counts[name] = _or(counts[name], usage.get(f"{name}_input_tokens"))
            found.answer.usage = {}
        found.count(apart=apart, **counts)
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
            by_provider = call.get("providerExecuted") is True
            made = _ask(
                choice, number, named, _or(call.get("input"), call.get("args")), by_provider=by_provider
            )
            made.invalid = call.get("invalid") is True


class Langfuse(Dialect):
    """Observations of its SDKs. A plain span of Langfuse is of anything."""

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
            # SDKs begin their messages with the status: that number, and no word of it.
            status = re.match(r"(?:\w*Error: )?([45][0-9]{2}) ", text(said("status_message")) or "")
            found.answer.status = int(status[1]) if status else None
        if kind == "tool":
            found.tool(span.name, None)
        reason = text(said("metadata.finish_reason"))
        found.identity(reason=_or(text(parsed(reason)), reason))
        self._count(fields(parsed(said("usage_details"))), found)
        output = text(said("output"))
        if output is None:
            return
        told = _or(parsed(output), output)
        if kind == "retrieval" and not found.documents:
            documents = list_of(_or(fields(told).get("documents"), told))
            found.documents = [_document(each) for each in documents]
        if kind == "evaluation":
            found.evaluations.append({"name": span.name, "score": fields(told).get("score")})
        if not found.answered and kind in ("model", "agent"):
            found.answered = True
            chat = isinstance(told, str) or any(
                fields(told).get(n) is not None for n in ("content", "tool_calls")
            )
            _take_chat(found.answer.choice(), told if chat else output, kind, found.answer)

    def _count(self, usage: Fields, found: Findings) -> None:
        """Langfuse's own names, those of chat completions, or those of responses."""

        def said(*names: str) -> Any:
            return _or(*(usage.get(name) for name in names))

        asked = fields(said("prompt_tokens_details", "input_tokens_details"))
        made = fields(said("completion_tokens_details", "output_tokens_details"))
        given = said("input", "prompt_tokens", "input_tokens")
        output = said("output", "completion_tokens", "output_tokens")
        reasoning = _or(said("output_reasoning_tokens"), made.get("reasoning_tokens"))
        # The total says whether what is in the details is in the first two as well.
        parts, whole = (number(given), number(output)), number(said("total", "total_tokens"))
        apart = whole is not None and None not in parts and whole > sum(cast(tuple[float, ...], parts))
        found.count(
            apart=apart,
            input=given,
            output=(parts[1] or 0) + (number(reasoning) or 0) if apart else output,
            cache_read=_or(
                said("input_cached_tokens", "cache_read_input_tokens"), asked.get("cached_tokens")
            ),
            cache_creation=said("cache_creation_input_tokens", "input_cache_creation"),
            reasoning=reasoning,
        )


# The first that knows a span decides what it is; what is said by its names goes before the others.
_DIALECTS: tuple[Dialect, ...] = (
    *(GenAi(), OpenInference(), Traceloop(), AiSdk(), Langfuse(), OlderGenAi()),
)


def identify(span: Span, *, is_root: bool, is_whole: bool) -> Known | PassedOver:
    """Says what a span is, by the attributes that it has by now.

    ``is_root``: nothing around it is a run, so an outermost chain is an agent. ``is_whole``: it has ended;
    before that, what is not known may become so.
    """
    for dialect in _DIALECTS if is_whole else _DIALECTS[:-1]:
        kind = dialect.kind_of(span, is_root)
        if isinstance(kind, PassedOver):
            return _passed_over(span, kind.reason)
        if kind is not None:
            return _known(span, kind)
    return _passed_over(span, "unknown names")


def _passed_over(span: Span, reason: str | None) -> PassedOver:
    is_about = any(name.startswith(("gen_ai.", "llm.")) for name in span.attributes)
    return PassedOver(reason if is_about else None)


def _known(span: Span, kind: Kind) -> Known:
    def said(*names: str) -> str | None:
        return next(
            (text(span.attributes.get(name)) for name in names if text(span.attributes.get(name))), None
        )

    parameters = fields(parsed(said("llm.invocation_parameters")))
    model = _or(
        said("gen_ai.request.model", "llm.request.model_name", "llm.request.model"),
        text(parameters.get("model")),
        said("llm.model_name", "ai.model.id", "langfuse.observation.model.name"),
    )
    agent = said(
        *("gen_ai.agent.name", "gen_ai.workflow.name", "agent.name", "traceloop.entity.name"),
        *("traceloop.workflow.name", "ai.telemetry.functionId"),
    )
    operations = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind")
    more = ("ai.operationId", "langfuse.observation.type", "llm.request.type")
    providers = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "llm.vendor")
    streamed = span.attributes.get("gen_ai.request.stream") is True
    return Known(
        kind=kind,
        provider=said(*providers, "ai.model.provider") or "unknown",
        model=_or(agent, span.name) if kind == "agent" else model,
        agent_name=model_name(said("gen_ai.agent.name", "agent.name")) if kind == "model" else None,
        agent_model=model_name(model) if kind == "agent" else None,
        operation=word(said(*operations, *more)) or kind,
        streamed=streamed or span.name.endswith((".doStream", ".streamText")),
        conversation=word(said("gen_ai.conversation.id", "session.id")),
    )


def findings_of(span: Span, kind: Kind) -> Findings:
    """Says what a span of this kind tells, once it has ended."""
    found = Findings()
    decides = next((each for each in _DIALECTS if each.kind_of(span, True) is not None), None)
    for dialect in sorted(_DIALECTS, key=lambda each: each is not decides):
        dialect.find(span, kind, found)
    _take_ending(span, found)
    if kind == "agent":
        found.usage_of_all = found.answer.usage or None
        found.answer.usage = {}
    return found


def _take_ending(span: Span, found: Findings) -> None:
    said = span.attributes.get
    sort = text(said("error.type"))
    reason = found.answer.finish_reason
    found.failed = found.failed or span.status == FAILED or sort is not None or reason == "error"
    if not found.failed:
        return
    exceptions = [of.get("exception.type") for name, of in span.events if name == "exception"]
    is_status = re.fullmatch("[1-5][0-9]{2}", sort or "") is not None
    # An exception of Python has its module before its name.
    exception = word(exceptions[-1]) if exceptions else None
    name = word(None if is_status else sort) or exception or word(sort)
    timed_out = re.search(r"time_?d?[-_ ]?out|deadline_?exceeded", name or "", re.IGNORECASE)
    found.error_name = "TimeoutError" if timed_out else name
    answered = _or(said("http.response.status_code"), said("http.status_code"))
    status = answered if answered is not None else sort if is_status else None
    found.answer.status = _or(failure_status(status), found.answer.status)
    if re.search("abort|cancell?ed", name or "", re.IGNORECASE):
        found.ending = "aborted"
    # The server has answered that all is well, and then the answer broke.
    elif not timed_out and 200 <= (count_of(answered) or 0) < 300:
        found.ending = "cut off"


# Spans of OTLP/JSON.


def spans_of(body: object) -> Iterator[Span]:
    """The spans of an ``ExportTraceServiceRequest`` (opentelemetry-proto, in JSON), as they come."""
    for resource in list_of(fields(body).get("resourceSpans")):
        for scoped in list_of(fields(resource).get("scopeSpans")):
            scope = text(fields(fields(scoped).get("scope")).get("name")) or ""
            for span in list_of(fields(scoped).get("spans")):
                yield _span(fields(span), scope)


def _span(said: Fields, scope: str) -> Span:
    events = [fields(event) for event in list_of(said.get("events"))]
    return Span(
        name=text(said.get("name")) or "",
        attributes=_object(said.get("attributes")),
        events=[(text(of.get("name")) or "", _object(of.get("attributes"))) for of in events],
        status=_index(fields(said.get("status")).get("code")),
        scope=scope,
        dropped=_index(said.get("droppedAttributesCount")),
        trace_id=text(said.get("traceId")) or "",
        span_id=text(said.get("spanId")) or "",
        parent_id=text(said.get("parentSpanId")) or None,
        start=_index(said.get("startTimeUnixNano")),
        end=_index(said.get("endTimeUnixNano")),
    )


def _object(attributes: object, depth: int = 0) -> dict[str, Any]:
    pairs = (fields(each) for each in list_of(attributes))
    return {name: _value(fields(of.get("value")), depth) for of in pairs if (name := text(of.get("key")))}


def _value(said: Fields, depth: int) -> Any:
    if depth > DEEPEST:
        return None
    if "arrayValue" in said:
        return [_value(fields(each), depth + 1) for each in list_of(fields(said["arrayValue"]).get("values"))]
    if "kvlistValue" in said:
        return _object(fields(said["kvlistValue"]).get("values"), depth + 1)
    number = said.get("intValue")  # A number in what SDKs send, text in the mapping of protobuf.
    count = int(number) if isinstance(number, str) and re.fullmatch("-?[0-9]{1,19}", number) else number
    return _or(said.get("stringValue"), count, said.get("doubleValue"), said.get("boolValue"))


def in_order(spans: Iterable[Span]) -> list[tuple[Span, bool]]:
    """Finished spans as a process has seen them: each begins (True) and ends (False), in the order of time.

    A span that was sent twice is there once. Parents begin first and end last, whatever clocks say.
    """
    known = {(span.trace_id, span.span_id): span for span in spans}
    moments: list[tuple[int, int, Span, bool]] = []
    for span in known.values():
        depth, around = 0, span
        while depth < DEEPEST and (outer := known.get((span.trace_id, around.parent_id or ""))):
            depth, around = depth + 1, outer
        # Clocks of SDKs begin a span at a whole millisecond, and end it by another clock.
        end = max(span.start, -(-span.end // 1_000_000) * 1_000_000)
        moments += [(span.start, depth, span, True), (end, 2 * DEEPEST - depth, span, False)]
    return [(span, begins) for _, _, span, begins in sorted(moments, key=lambda moment: moment[:2])]


# Values of attributes.


def parsed(value: object) -> Any:
    """JSON as what it says, anything else as it is; None for JSON that is none."""
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
    """The members of ``PREFIX.NUMBER.REST``, by number; an index above 4,095 is left out."""
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


def _or(*values: Any) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)


def number(value: object) -> float | None:
    """A finite number that every language reads alike."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
        return None
    return value


def _index(value: object) -> int:
    """A whole number from 0 on, also as text; 0 for all else."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value):
        return int(value)
    return value if isinstance(value, int) and 0 <= value < 2**64 else 0


def _ask(choice: Choice, key: object, call: Fields, asked: object, *, by_provider: bool = False) -> ToolCall:
    made = choice.tool_call(key)
    made.id, made.name = text(call.get("id")), text(call.get("name"))
    made.asked.set(_input(asked))
    made.by_provider = by_provider
    return made


def _input(value: object) -> str:
    """What a tool is asked, as JSON, also where the emitter has made JSON of JSON."""
    if not isinstance(value, str):
        return as_text(value)
    inner = parsed(value) if value.startswith('"') else None
    return inner if isinstance(inner, str) else value


def _words(content: object) -> str:
    """The words of a message: text, or parts that have some."""
    parts = [content] if isinstance(content, str) else list_of(content)
    return "".join(_or(text(part), text(fields(part).get("text")), "") for part in parts)


def _document(value: object) -> dict[str, Any]:
    """A document of a retrieval, under the names that emitters use."""
    said = fields(value)
    texts = (
        text(value),
        *(text(said.get(name)) for name in ("content", "text", "pageContent", "page_content")),
    )
    id = _or(said.get("id"), fields(parsed(said.get("metadata"))).get("source"))
    return {"id": id, "score": said.get("score"), "text": _or(*texts, "")}
