"""Reads one OpenTelemetry span of a model, for all known emitters.

Each span is read on its own (docs/reference/model-answers.md, "Spans"). Attributes are hostile and may have
any type; nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._answer import Fields, count_of, failure_status, fields, first_of, list_of, model_name, text, word
from ._dialects import DIALECTS, Findings, Kind, PassedOver, Span, index_of, parsed

FAILED = 2
CONVERSATION = (
    *("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id"),
    *("ai.telemetry.metadata.sessionId", "metadata.sessionId", "langfuse.session.id"),
)
# The conventions; OpenLLMetry; OpenLIT and OpenTelemetry for Go.
STREAMED = ("gen_ai.request.stream", "gen_ai.is_streaming", "gen_ai.request.is_stream")
DEEPEST = 100


@dataclass(frozen=True)
class Known:
    """The kind of a span. ``model`` of an agent is its name or the workflow's name."""

    kind: Kind
    provider: str
    model: str | None
    agent_name: str | None
    agent_model: str | None
    operation: str
    streamed: bool
    conversation: str | None


def identify(span: Span, *, is_root: bool, is_whole: bool) -> Known | PassedOver:
    """Decides what a span is from its current attributes.

    ``is_root``: no span around it is a run, so an outermost chain is an agent. ``is_whole``: it has ended;
    before that, attributes may still be added.
    """
    for dialect in DIALECTS if is_whole else DIALECTS[:-1]:
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
    model = first_of(
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
    return Known(
        kind=kind,
        provider=said(*providers, "ai.model.provider") or "unknown",
        model=first_of(agent, span.name) if kind == "agent" else model,
        agent_name=model_name(said("gen_ai.agent.name", "agent.name")) if kind == "model" else None,
        agent_model=model_name(model) if kind == "agent" else None,
        operation=word(said(*operations, *more)) or kind,
        streamed=_is_streamed(span) or span.name.endswith((".doStream", ".streamText")),
        conversation=_conversation(span.attributes),
    )


def _conversation(attributes: Fields) -> str | None:
    """Returns the first valid id, without blanks; numbers are ids too."""
    said = (attributes.get(name) for name in CONVERSATION)
    ids = (
        str(each) if isinstance(each, int | float) and not isinstance(each, bool) else each for each in said
    )
    return word(next(filter(None, map(model_name, ids)), None))


def findings_of(span: Span, kind: Kind) -> Findings:
    """Reads an ended span of this kind."""
    found = Findings()
    decides = next((each for each in DIALECTS if each.kind_of(span, True) is not None), None)
    for dialect in sorted(DIALECTS, key=lambda each: each is not decides):
        dialect.find(span, kind, found)
    _take_ending(span, found)
    if kind == "agent":
        found.usage_of_all = found.answer.usage or None
        found.answer.usage = {}
    return found


def _is_streamed(span: Span) -> bool:
    return any(span.attributes.get(name) is True for name in STREAMED)


def _take_ending(span: Span, found: Findings) -> None:
    said = span.attributes.get
    sort = text(said("error.type"))
    reason = found.answer.finish_reason
    found.failed = found.failed or span.status == FAILED or sort is not None or reason == "error"
    # An answer that a filter stopped before its first word has no words to capture.
    found.answered = found.answered or re.fullmatch("content[-_]filter", reason or "") is not None
    if not found.failed:
        # The stream broke, and the emitter recorded no error.
        if found.is_open and reason is None and _is_streamed(span):
            found.ending = "cut off"
        return
    exceptions = [of.get("exception.type") for name, of in span.events if name == "exception"]
    is_status = re.fullmatch("[1-5][0-9]{2}", sort or "") is not None
    # A Python exception has its module before its name.
    exception = word(exceptions[-1]) if exceptions else None
    name = word(None if is_status else sort) or exception or word(sort)
    timed_out = re.search(r"time_?d?[-_ ]?out|deadline_?exceeded", name or "", re.IGNORECASE)
    found.error_name = "TimeoutError" if timed_out else name
    answered = first_of(said("http.response.status_code"), said("http.status_code"))
    status = answered if answered is not None else sort if is_status else None
    found.answer.status = first_of(failure_status(status), found.answer.status)
    if re.search("abort|cancell?ed", name or "", re.IGNORECASE):
        found.ending = "aborted"
    # The answer began, with a status of success or with words, and then broke off.
    elif not timed_out and (200 <= (count_of(answered) or 0) < 300 or _broke(found)):
        found.ending = "cut off"


def _broke(found: Findings) -> bool:
    answer = found.answer
    has_begun = answer.has_content or first_of(answer.id, answer.model) is not None
    return has_begun and re.search("connection", found.error_name or "", re.IGNORECASE) is not None


# Spans in OTLP/JSON.


def spans_of(body: object) -> Iterator[Span]:
    """Yields the spans of an ``ExportTraceServiceRequest`` (opentelemetry-proto, JSON) in order."""
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
        status=index_of(fields(said.get("status")).get("code")),
        scope=scope,
        dropped=index_of(said.get("droppedAttributesCount")),
        trace_id=text(said.get("traceId")) or "",
        span_id=text(said.get("spanId")) or "",
        parent_id=text(said.get("parentSpanId")) or None,
        start=index_of(said.get("startTimeUnixNano")),
        end=index_of(said.get("endTimeUnixNano")),
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
    number = said.get("intValue")  # A number from SDKs, text in protobuf's JSON mapping.
    count = int(number) if isinstance(number, str) and re.fullmatch("-?[0-9]{1,19}", number) else number
    return first_of(said.get("stringValue"), count, said.get("doubleValue"), said.get("boolValue"))


def in_order(spans: Iterable[Span]) -> list[tuple[Span, bool]]:
    """Lists the starts (True) and ends (False) of finished spans in chronological order.

    A repeated span is listed once. Parents begin first and end last, whatever their clocks say.
    """
    known = {(span.trace_id, span.span_id): span for span in spans}
    moments: list[tuple[int, int, Span, bool]] = []
    for span in known.values():
        depth, around = 0, span
        while depth < DEEPEST and (outer := known.get((span.trace_id, around.parent_id or ""))):
            depth, around = depth + 1, outer
        # SDKs round a span's start to milliseconds and take its end from another clock.

        end = max(span.start, -(-span.end // 1_000_000) * 1_000_000)
        moments += [(span.start, depth, span, True), (end, 2 * DEEPEST - depth, span, False)]
    return [(span, begins) for _, _, span, begins in sorted(moments, key=lambda moment: moment[:2])]
