"""Captures an application's OpenTelemetry spans of generative AI.

``_readers/_spans.py`` reads the attributes of all known emitters; this module turns the spans of one process
into runs, each nested in the run of the nearest span around it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from importlib import import_module
from typing import Any, cast

from ._call import Begun, Describe, Ended, ModelCall, Options, Runs, Shown, quietly
from ._readers._answer import characters, present, word
from ._readers._dialects import Findings, PassedOver, Span, number
from ._readers._spans import FAILED, findings_of, identify, in_order
from ._readers._spans import Known as KnownSpan

__all__ = ["SpanExporter", "SpanProcessor"]

# Beyond this number the oldest open spans are dropped, so that spans which never end cannot fill the memory.
_MOST_OPEN = 10_000
# Spans that are nested deeper than this have no parent run.
_DEEPEST = 256
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass
class _Node:
    """An open span. The thread that decides what the span is empties ``claims``."""

    span: Any
    around: _Node | None
    depth: int
    known: KnownSpan | None = None
    call: ModelCall | None = None
    claims: list[None] = field(default_factory=lambda: [None])


class SpanProcessor:
    """A span processor for a tracer provider of ``opentelemetry-sdk``.

    A span of a model or an agent becomes a run, nested in the run of the nearest such span around it. A span
    of a tool becomes an artifact of its run. Only spans that are sampled for tracing are seen. ``log`` is the
    client, a run that the calls belong to, or a function that returns one of them; ``describe`` and ``shown``
    are as in every integration, and ``request`` is the span. It changes no span and does not raise.
    """

    def __init__(self, log: Runs, *, describe: Describe | None = None, shown: Shown | None = None) -> None:
        self._runs = log
        self._options = Options(describe=describe, shown=shown)
        self._open: dict[tuple[str, str], _Node] = {}
        self._warned: set[str] = set()

    def on_start(self, span: Any, parent_context: object = None) -> None:
        quietly(lambda: self._start(span))

    def on_end(self, span: Any) -> None:
        quietly(lambda: self._end(span))

    def _on_ending(self, span: Any) -> None:
        """Does nothing; newer SDKs call it."""

    def shutdown(self) -> None:
        """Does nothing: flush or close the client, which sends what was captured."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def replay(self, spans: Iterable[Any]) -> None:
        """Takes ended spans in any order and handles them in the order of their times."""
        by_id: dict[tuple[str, str], Any] = {}
        read: list[Span] = []
        for span in spans:
            said = quietly(partial(_read, span))
            if said is not None:
                by_id[(said.trace_id, said.span_id)] = span
                read.append(said)
        for said, begins in in_order(read):
            (self.on_start if begins else self.on_end)(by_id[(said.trace_id, said.span_id)])

    def _start(self, span: Any) -> None:
        read = _read(span)
        around = self._open.get((read.trace_id, read.parent_id or ""))
        depth = around.depth + 1 if around is not None else 1
        node = _Node(span, around if depth <= _DEEPEST else None, depth)
        self._open[(read.trace_id, read.span_id)] = node
        while len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open)), None)
        self._identify(node, read, self._around(node), is_whole=False)

    def _end(self, span: Any) -> None:
        read = _read(span)
        node = self._open.pop((read.trace_id, read.span_id), None)
        if node is None:
            node = _Node(span, self._open.get((read.trace_id, read.parent_id or "")), 0)
        node.span = span
        around = self._around(node)
        reason = self._identify(node, read, around, is_whole=True)
        within = node.call or around
        if reason is not None:
            self._pass_over(reason)
        elif node.known is not None and within is None:
            self._pass_over("outside of any run")
        elif node.known is not None and within is not None:
            found = quietly(partial(findings_of, read, node.known.kind)) or Findings(
                failed=read.status == FAILED
            )
            _report(read, node.known, found, within, is_own=node.call is not None)

    def _around(self, node: _Node) -> ModelCall | None:
        """Returns the innermost run around the span. A span that was named only after its start is read
        again."""
        unknown: list[_Node] = []
        around = node.around
        while around is not None and around.call is None:
            if around.known is None:
                unknown.append(around)
            around = around.around
        call = around.call if around is not None else None
        for each in reversed(unknown):
            self._identify(each, _read(each.span), call, is_whole=False)
            call = each.call or call
        return call

    def _identify(self, node: _Node, span: Span, within: ModelCall | None, *, is_whole: bool) -> str | None:
        """Begins the run of a span as soon as its attributes say that it is a call.

        Returns the reason when the span is ignored.
        """
        if node.known is not None:
            return None
        known = identify(span, is_root=within is None, is_whole=is_whole)
        if isinstance(known, PassedOver):
            return known.reason
        if not node.claims:
            return None
        node.claims.clear()
        if known.kind in ("model", "agent"):
            begun = Begun(
                by="opentelemetry",
                provider=known.provider,
                model=known.model,
                request=node.span,
                inputs={"operation": known.operation, "streamed": known.streamed},
                timestamp=_time(span.start),
                marks=present(
                    trace_id=span.trace_id,
                    span_id=span.span_id,
                    conversation_id=known.conversation,
                    agent_name=known.agent_name,
                    agent_model=known.agent_model,
                ),
            )
            runs = within.run if within is not None and within.run is not None else self._runs
            node.call = ModelCall(runs, self._options, begun)
        node.known = known
        return None

    def _pass_over(self, reason: str) -> None:
        """Warns once for each reason, without words of the span."""
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"spans about models are ignored: {reason}", RuntimeWarning, stacklevel=2)


class SpanExporter:
    """A span exporter of ``opentelemetry-sdk``, which receives ended spans in batches.

    A span is nested only in runs of the same batch. Prefer ``SpanProcessor``, which sees spans begin.
    """

    def __init__(self, log: Runs, *, describe: Describe | None = None, shown: Shown | None = None) -> None:
        self._processor = SpanProcessor(log, describe=describe, shown=shown)

    def export(self, spans: Iterable[Any]) -> Any:
        self._processor.replay(spans)
        # The result's type comes from the application's SDK, which is imported already.
        return import_module("opentelemetry.sdk.trace.export").SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Does nothing: flush or close the client, which sends what was captured."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def _report(span: Span, known: KnownSpan, found: Findings, call: ModelCall, *, is_own: bool) -> None:
    when: dict[str, Any] = {
        "latency_ms": round((span.end - span.start) / 1_000_000),
        "timestamp": _time(span.end),
    }
    failure = {"error_name": found.error_name or "unknown"} if found.failed else {}
    if known.kind == "tool":
        named = present(tool_name=word(found.tool_name), call_id=word(found.tool_id))
        call.artifact("tool_call", {**named, "executed": True, **failure}, **when)
    for document in found.documents if known.kind == "retrieval" else []:
        about = present(document_id=word(document["id"]), score=number(document["score"]))
        call.artifact("text_chunk", {**about, "characters": characters(document["text"]), **failure}, **when)
    if known.kind == "evaluation" and not found.evaluations:
        found.evaluations.append({"name": span.name})
    for said in found.evaluations:
        name, score, label = word(said["name"]), number(said.get("score")), word(said.get("label"))
        about = present(evaluation_name=name, score=score, label=label)
        call.artifact("explanation", {**about, **failure}, **when)
    if not is_own:
        return
    shown = span.attributes.get("clinical_events.shown")
    is_lost = not found.answered and span.dropped > 0
    ended = Ended(
        ending=found.ending or ("failed" if found.failed else "not read" if is_lost else "complete"),
        answer=found.answer,
        error_name=failure.get("error_name"),
        # A model's span without words omitted them; an agent's span without words had none.
        worded=found.answer.has_content or shown is True or (known.kind == "model" and not found.answered),
        shown=shown if isinstance(shown, bool) else None,
        also=present(usage_of_all=found.usage_of_all),
        **when,
    )
    call.end(ended)


def _read(span: Any) -> Span:
    """Reads the current data of an SDK span."""
    if isinstance(span, Span):
        return span
    context, parent, status = span.get_span_context(), span.parent, span.status
    return Span(
        name=str(span.name),
        attributes=_plain(span.attributes or {}),
        events=[(event.name, _plain(event.attributes or {})) for event in span.events],
        status=FAILED if status is not None and status.status_code.value == FAILED else 0,
        scope=getattr(span.instrumentation_scope, "name", None) or "",
        dropped=getattr(span, "dropped_attributes", 0),
        trace_id=format(context.trace_id, "032x"),
        span_id=format(context.span_id, "016x"),
        parent_id=format(parent.span_id, "016x") if parent is not None else None,
        start=span.start_time or 0,
        end=span.end_time or 0,
    )


def _plain(value: Any, depth: int = 0) -> Any:
    """Converts the SDK's mappings and sequences to dicts and lists."""
    if isinstance(value, str | bool | int | float) or depth > 100:
        return value
    if isinstance(value, Mapping):
        return {name: _plain(each, depth + 1) for name, each in cast(Any, value).items()}
    return (
        [_plain(each, depth + 1) for each in cast(Any, value)] if isinstance(value, list | tuple) else value
    )


def _time(nanoseconds: int) -> datetime | None:
    return quietly(lambda: _EPOCH + timedelta(microseconds=nanoseconds // 1000))
