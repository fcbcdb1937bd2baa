"""The SDK of OpenTelemetry: recorded spans that it makes itself become the runs of their recordings."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode
from tests.recording import Log
from tests.test_spans import OTLP, captured_of, spans_in

from clinical_events.integrations._readers._dialects import Span
from clinical_events.integrations._readers._spans import FAILED, in_order
from clinical_events.integrations.opentelemetry import SpanExporter, SpanProcessor

SOME = [
    "02-genai-current-agent-tools-parallel",
    "06-genai-1.27-span-events-tools",
    "21-ai6-stream-both-tools",
    "33-ai7-error500",
    "56-oi-langchain-agent-both-tools",
    "65-tl-anthropic-thinking-tool",
    "85-langfuse5-observations",
    "95-traceloop-sdk-workflow",
    "110-py-otel-openai-v2",
    "112-py-openinference-openai-anthropic",
    "113-py-langfuse5-observations-openai",
]


def play(spans: list[Span], provider: TracerProvider) -> None:
    """Like libraries: a span begins, and gets its attributes later."""
    made: dict[str, Any] = {}
    for span, begins in in_order(spans):
        if begins:
            parent = made.get(span.parent_id or "")
            context = trace.set_span_in_context(parent) if parent is not None else None
            tracer = provider.get_tracer(span.scope)
            made[span.span_id] = tracer.start_span(span.name, context=context, start_time=span.start)
            made[span.span_id].set_attributes(span.attributes)
            continue
        for name, attributes in span.events:
            made[span.span_id].add_event(name, attributes)
        if span.status == FAILED:
            made[span.span_id].set_status(Status(StatusCode.ERROR))
        made[span.span_id].end(span.end)


def limitless() -> TracerProvider:
    return TracerProvider(span_limits=SpanLimits(max_attributes=SpanLimits.UNSET))


@pytest.mark.parametrize("name", SOME)
def test_processor(name: str) -> None:
    """[R-865] Spans that the SDK makes become the expected runs."""

    def run(describe: Any) -> Log:
        log, provider = Log(), limitless()
        provider.add_span_processor(SpanProcessor(log, describe=describe))
        play(spans_in(name), provider)
        provider.shutdown()
        return log

    expected = json.loads((OTLP / name / "expected.json").read_text("utf-8"))
    assert captured_of(run) == expected


@pytest.mark.parametrize("processor", [BatchSpanProcessor, SimpleSpanProcessor])
def test_exporter(processor: Callable[[Any], Any]) -> None:
    """[R-865] Spans that are exported once they have ended become runs, nested within a batch."""
    log, provider = Log(), limitless()
    provider.add_span_processor(processor(SpanExporter(log)))
    play(spans_in("02-genai-current-agent-tools-parallel"), provider)
    provider.force_flush()
    provider.shutdown()
    nested = [start for start in log.starts if start["parent"]]
    assert (len(log.starts), len(log.ends)) == (3, 3)
    assert len(nested) == (2 if processor is BatchSpanProcessor else 0)


def test_facts() -> None:
    """A run has the times, ids and conversation of its span, and reports lost attributes."""
    log = Log()
    provider = TracerProvider(span_limits=SpanLimits(max_attributes=2))
    provider.add_span_processor(SpanProcessor(log))
    span = provider.get_tracer("t").start_span("chat", start_time=1_500_000_000_000_000_000)
    attributes = {"a": 1, "gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    span.set_attributes(attributes)
    span.end(1_500_000_002_000_000_000)
    (start,), (end,) = log.starts, log.ends
    context = span.get_span_context()
    said = start["metadata"]["instrumentation"]
    assert said["trace_id"] == trace.format_trace_id(context.trace_id)
    assert said["span_id"] == trace.format_span_id(context.span_id)
    assert start["timestamp"] == "2017-07-14 02:40:00+00:00"
    assert (end["latency_ms"], end["ending"]) == (2000, "not read")


def test_threads() -> None:
    """Spans of many threads at a time are runs, each with one end."""
    log, provider = Log(), TracerProvider()
    provider.add_span_processor(SpanProcessor(log))
    tracer = provider.get_tracer("t")

    def work() -> None:
        for _ in range(50):
            with tracer.start_as_current_span("agent") as agent:
                agent.set_attribute("gen_ai.operation.name", "invoke_agent")
                with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
                    pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (len(log.starts), len(log.ends)) == (800, 800)
    assert len([start for start in log.starts if start["parent"]]) == 400


def test_library_is_left_alone() -> None:
    """A log that fails raises nothing into the application."""
    provider = TracerProvider()
    provider.add_span_processor(SpanProcessor(lambda: os.devnull))
    with provider.get_tracer("t").start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
    assert provider.force_flush()
