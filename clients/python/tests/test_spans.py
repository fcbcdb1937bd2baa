"""Spans of generative AI: every recording makes the expected runs, and no span raises."""

from __future__ import annotations

import json
import random
import unittest
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests import support
from tests.recording import Log
from tests.test_answers import choice_of

from clinical_events.integrations._call import Describe, DescribedCall
from clinical_events.integrations._readers import Answer
from clinical_events.integrations._readers._dialects import Kind, PassedOver, Span, indexed
from clinical_events.integrations._readers._spans import findings_of, identify, in_order, spans_of
from clinical_events.integrations.opentelemetry import SpanProcessor, _read

OTLP = support.VECTORS / "otlp"
SEED = 39
MUTATIONS = 2000
WORDS = "the patient has fever"


def recordings() -> list[str]:
    """Others have bodies that only the OTLP receiver reads."""
    return sorted(path.parent.name for path in OTLP.glob("*/expected.json"))


def spans_in(recording: str) -> list[Span]:
    paths = sorted((OTLP / recording).glob("request*.json"))
    return [span for path in paths for span in spans_of(json.loads(path.read_text("utf-8")))]


def captured(spans: list[Span]) -> list[dict[str, Any]]:
    """The events of a processor, in the form of the expectations."""

    def run(describe: Describe) -> Log:
        log = Log()
        SpanProcessor(log, describe=describe).replay(spans)
        return log

    return captured_of(run)


def captured_of(run: Callable[[Describe], Log]) -> list[dict[str, Any]]:
    """The events that are captured by a processor with this ``describe``."""
    answers: dict[str, Answer] = {}
    kinds: dict[str, str] = {}

    def describe(call: DescribedCall) -> dict[str, Any]:
        if call.run_id is not None and call.answer is not None:
            answers[call.run_id] = call.answer
            known = identify(_read(call.request), is_root=True, is_whole=True)
            kinds[call.run_id] = "" if isinstance(known, PassedOver) else known.kind
        return {}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = run(describe)
    written = json.dumps(log.events, ensure_ascii=False)
    for answer in answers.values():
        for words in (answer.text, answer.reasoning):
            if len(words) > 12 and json.dumps(words, ensure_ascii=False)[1:-1] in written:
                raise AssertionError("words of an answer are in the events")
    return [run_of(start, log, answers[start["run_id"]], kinds[start["run_id"]]) for start in log.starts]


def run_of(start: dict[str, Any], log: Log, answer: Answer, kind: str) -> dict[str, Any]:
    own = [event for event in log.events if event["run_id"] == start["run_id"]]
    (end,) = (event for event in own if "ending" in event)
    outer = [each for each in log.starts if each["run_id"] == start["parent"]]
    made = {
        name: [event for event in own if event.get("type") == name] for name in ("tool_call", "explanation")
    }
    executed = [event for event in made["tool_call"] if event.get("executed")]
    if len(made["tool_call"]) - len(executed) != len(answer.tool_calls):
        raise AssertionError("a tool call has no artifact")
    by = end["metadata"]["instrumentation"].get("shown_by")
    said = {
        "run": start["model"].get("model_id"),
        "nested_in": outer[0]["model"]["model_id"] if outer else None,
        "kind": kind,
        "ending": end["ending"],
        "shown": end["kind"] == "human-output",
        "shown_by": None if by == "default" else by,
        "text": answer.text,
        "reasoning": answer.reasoning,
        "tools_asked": [words(call.name, call.id) for call in answer.tool_calls],
        "tools_executed": sorted(
            (words(each.get("tool_name"), each.get("call_id")) for each in executed),
            key=lambda each: each.partition(" ")[2],
        ),
        "documents": len([event for event in own if event.get("type") == "text_chunk"]) or None,
        "evaluations": [
            words(each.get("evaluation_name"), each.get("score")) for each in made["explanation"]
        ],
        "usage": counted(end.get("usage")),
        "usage_of_all": counted(end.get("usage_of_all")),
        **{name: end.get(name) for name in ("response_model", "error_name", "status")},
    }
    return {name: value for name, value in said.items() if value is False or value}


def words(*values: object) -> str:
    return " ".join(str(value) for value in values if value is not None)


def counted(usage: dict[str, int] | None) -> dict[str, int]:
    """Some emitters send 0 where others send nothing."""
    return {name: count for name, count in (usage or {}).items() if count}


class Recordings(unittest.TestCase):
    def test_every_recording(self) -> None:
        """[R-865] The recorded spans of every emitter become the expected runs."""
        assert len(recordings()) > 70
        for name in recordings():
            with self.subTest(name):
                expected = json.loads((OTLP / name / "expected.json").read_text("utf-8"))
                assert captured(spans_in(name)) == expected

    def test_any_order(self) -> None:
        """Spans that come in another order, and twice, make the same runs."""
        name = "02-genai-current-agent-tools-parallel"
        spans = spans_in(name)
        assert captured([*reversed(spans), *spans]) == captured(spans)

    def test_alone(self) -> None:
        """A span without those around it makes a run of its own, with one end."""
        for name in recordings():
            for span in spans_in(name):
                for run in captured([span]):
                    assert "nested_in" not in run


FORMS = support.VECTORS / "spans"


def read(form: dict[str, Any]) -> dict[str, Any]:
    """The result, in the form of ``expected``."""
    said = form["span"]
    events = [(event["name"], event["attributes"]) for event in said.get("events", ())]
    span = Span(
        said.get("name", "call"),
        said["attributes"],
        events,
        status=said.get("status", 0),
        scope=said.get("scope", ""),
    )
    known = identify(span, is_root="inner" not in form, is_whole=True)
    if isinstance(known, PassedOver):
        return filled(reason=known.reason)
    return {
        **filled(kind=known.kind, model=known.model, conversation=known.conversation),
        **filled(provider=None if known.provider == "unknown" else known.provider),
        **filled(agent_name=known.agent_name, agent_model=known.agent_model),
        "found": found_of(span, known.kind),
    }


def found_of(span: Span, kind: Kind) -> dict[str, Any]:
    found = findings_of(span, kind)
    answer = found.answer
    first, *others = answer.choices
    facts = {name: answer.facts.get(name) for name in ("response_model", "refused", "media", "unread_parts")}
    return filled(
        **choice_of(first),
        **facts,
        choices=[choice_of(each) for each in others],
        ending=found.ending,
        error_name=found.error_name,
        status=answer.status,
        usage=answer.usage,
        usage_of_all=found.usage_of_all,
        failed=found.failed or None,
        tool=filled(name=found.tool_name, id=found.tool_id),
        documents=[filled(**each) for each in found.documents],
        evaluations=[filled(**each) for each in found.evaluations],
    )


def filled(**said: Any) -> dict[str, Any]:
    """Without empty members."""
    return {name: value for name, value in said.items() if value not in (None, "", [], {})}


class Forms(unittest.TestCase):
    def test_forms_without_a_recording(self) -> None:
        """[R-865] Names that no recording has are read as the client for Node.js reads them."""
        forms = [
            (path.stem, form) for path in FORMS.glob("*.json") for form in json.loads(path.read_text("utf-8"))
        ]
        assert len(forms) > 100
        for name, form in forms:
            with self.subTest(f"{name}: {form['says']}"):
                self.assertEqual(read(form), form["expected"])

    def test_indices(self) -> None:
        """An index above 4,095 is left out."""
        attributes = {f"llm.output_messages.{at}.message.content": "x" for at in range(10_000)}
        assert len(indexed(attributes, "llm.output_messages")) == 4096

    def test_lost_attributes(self) -> None:
        """A span that has lost its answer with other attributes is `not read`, and no output."""
        log = Log()
        SpanProcessor(log).replay([Span("call", {"gen_ai.operation.name": "chat"}, dropped=3, span_id="1")])
        assert [(end["kind"], end["ending"]) for end in log.ends] == [("internal-artifact", "not read")]

    def test_shown(self) -> None:
        """The attribute of a span on whether a person was shown the answer has precedence over the option."""
        for said, option, kind, by in [
            (False, True, "internal-artifact", None),
            (True, False, "human-output", "application"),
            (None, False, "internal-artifact", None),
            (None, None, "human-output", "default"),
            ("yes", None, "human-output", "default"),
        ]:
            log = Log()
            attributes = {"gen_ai.operation.name": "chat", "clinical_events.shown": said}
            SpanProcessor(log, shown=option).replay([Span("call", attributes)])
            (end,) = log.ends
            assert (end["kind"], end["metadata"]["instrumentation"].get("shown_by")) == (kind, by)

    def test_passed_over(self) -> None:
        """[R-865] Spans about models that become nothing give one warning a reason, without words."""
        log = Log()
        processor = SpanProcessor(log)
        span = Span(WORDS, {"gen_ai.operation.name": "embeddings", "gen_ai.input": WORDS})
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            processor.replay(
                [span, replace(span, span_id="2"), Span("GET", {"http.method": "GET"}, span_id="3")]
            )
        assert [str(each.message) for each in seen] == ["spans about models are ignored: embeddings"]
        assert log.events == []

    def test_open_spans(self) -> None:
        """Spans that never end are forgotten, the oldest first."""
        log = Log()
        processor = SpanProcessor(log)
        for at in range(10_100):
            parent = str(at - 1) if at % 1000 else None
            processor.on_start(Span("step", {}, span_id=str(at), parent_id=parent))
        assert len(processor._open) == 10000
        ended = Span("call", {"gen_ai.operation.name": "chat"}, span_id="c", parent_id="10099")
        processor.on_start(ended)
        processor.on_end(ended)
        self.assertEqual(len(log.ends), 1)

    def test_deep_spans(self) -> None:
        """A span is nested in the run around it, unless it is within more than 256 others."""
        for depth, nested in [(200, 1), (300, 0)]:
            log = Log()
            processor = SpanProcessor(log)
            processor.on_start(Span("agent", {"gen_ai.operation.name": "invoke_agent"}, span_id="0"))
            for at in range(1, depth):
                processor.on_start(Span("step", {}, span_id=str(at), parent_id=str(at - 1)))
            call = Span("call", {"gen_ai.operation.name": "chat"}, span_id="c", parent_id=str(depth - 1))
            processor.on_start(call)
            self.assertEqual(len([start for start in log.starts if start["parent"]]), nested)


VALUES: list[Any] = [
    *[None, True, -1, 0.5, float("nan"), float("inf"), 2**60, "", " ", WORDS, "{", "[" * 50_000],
    *['[null, 1, "x", {}]', '"\\ud800"', "9" * 5000, [], [None], [[]], {}, {"parts": 1}],
    [{"parts": [None, 1, {"type": "text", "content": {}}]}],
    *[
        '{"__proto__": {"x": 1}}',
        '{"messages": [null]}',
        '[{"parts": [{"type": "tool_call", "arguments": 1}]}]',
    ],
]
NAMES = [
    "llm.output_messages.__proto__.message.content",
    "llm.output_messages.4095.message.content",
    "llm.output_messages.99999999999.message.contents.0.message_content.text",
    "gen_ai.completion.0.tool_calls.99999.name",
    *[
        "retrieval.documents.0.document.content",
        "__class__",
        "gen_ai.output.messages",
        "gen_ai.operation.name",
    ],
    *["openinference.span.kind", "langfuse.observation.type", "ai.operationId", "error.type"],
    *["http.response.status_code", "clinical_events.shown", "gen_ai.conversation.id", "traceloop.span.kind"],
]
NAMED = ("model", "agent.name", "workflow", "entity.name", "functionId", "provider", "system", "vendor")


class Mutations(unittest.TestCase):
    def test_mutated(self) -> None:
        """[R-865] For any content of a span, nothing raises, and each run has one end and no words."""
        spans = [span for name in recordings() for span in spans_in(name)]
        chance = random.Random(SEED)
        for number in range(MUTATIONS):
            span = chance.choice(spans)
            attributes = dict(span.attributes)
            for _ in range(chance.randint(1, 6)):
                name = chance.choice([*attributes, *NAMES])
                value = (
                    chance.choice(VALUES)
                    if chance.random() < 0.5
                    else chance.choice([*attributes.values(), 0])
                )
                # The names of models and agents are unchanged.
                if chance.random() < 0.25 or (value == WORDS and any(part in name for part in NAMED)):
                    attributes.pop(name, None)
                else:
                    attributes[name] = value
            events = [(name, attributes if chance.random() < 0.3 else of) for name, of in span.events]
            mutated = replace(span, attributes=attributes, events=events)
            with self.subTest(number):
                for is_root in (True, False):
                    known = identify(mutated, is_root=is_root, is_whole=True)
                    if not isinstance(known, PassedOver):
                        assert type(findings_of(mutated, known.kind).answer.text) is str
                log = Log()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    SpanProcessor(log).replay([mutated])
                assert len(log.ends) == len(log.starts)
                assert WORDS not in json.dumps(log.events)

    def test_mutated_otlp(self) -> None:
        """No body of OTLP raises, with any value in place of its members."""
        chance = random.Random(SEED)
        bodies = [json.loads(path.read_text("utf-8")) for path in sorted(OTLP.glob("0*/request*.json"))]

        def mutate(value: Any) -> Any:
            if chance.random() < 0.02:
                return chance.choice(VALUES)
            if isinstance(value, list):
                return [mutate(each) for each in value]
            if isinstance(value, dict):
                return {name: mutate(each) for name, each in value.items() if chance.random() > 0.02}
            return value

        for _ in range(MUTATIONS // 10):
            spans = list(spans_of(mutate(chance.choice(bodies))))
            assert len(in_order(spans)) % 2 == 0
            for span in spans:
                known = identify(span, is_root=True, is_whole=True)
                if not isinstance(known, PassedOver):
                    findings_of(span, known.kind)


if __name__ == "__main__":
    unittest.main()
