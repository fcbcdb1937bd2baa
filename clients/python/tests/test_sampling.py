"""Sampling: whole runs are left out, risks and outcomes include them, and the others are counted."""

from __future__ import annotations

import os
import unittest
from typing import Any
from unittest import mock

from tests.recorded import Recorded

from clinical_events import Client, Sampling, SpoolFull, _sampling

MODEL = {"model_id": "sepsis", "model_version": "3"}


def high(kind: str, event: dict[str, Any]) -> bool:
    """A risk in an output."""
    return bool(kind == "human-output" and event["output"].get("risk", 0) > 0.9)


class SamplingTest(unittest.TestCase):
    def client(self, *arguments: Any, **sampling: Any) -> Recorded:
        log = Recorded(sampling=Sampling(*arguments, **sampling))
        self.addCleanup(log.close, 0)
        return log

    def test_a_run_is_captured_or_left_out_as_a_whole_with_those_nested_in_it(self) -> None:
        log = self.client(0.5)
        for selected in (True, False):
            chance = b"\0" * 7 if selected else b"\xff" * 7
            with mock.patch.object(os, "urandom", return_value=chance + b"\0" * 3):
                run = log.start_run(model=MODEL)
                inner = run.start_run()
                done = [run.start, run.output(), inner.start, inner.artifact("other")]
            self.assertEqual({one.wait(120) for one in done}, {selected})
        events = [event for _, event in log.events()]
        self.assertEqual([one["event_id"] for one in events], sorted(one["event_id"] for one in events))
        self.assertEqual(len(events), 4)
        sampling = [event["system_metadata"].get("sampling") for event in events]
        marks = {"rate": 0.5, "selected": True}
        self.assertEqual(sampling, [marks, marks, None, None])

    def test_the_next_captured_event_counts_the_events_that_were_left_out(self) -> None:
        """[R-863] The Python client counts the events that it leaves out, and sends each count once."""
        log = self.client(0.0)
        for _ in range(3):
            log.start_run(model=MODEL).output()
        refused = log.run("no id").outcome()
        self.assertIsNotNone(refused.error)
        log.run("2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12").outcome()
        log.run("2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12").feedback()
        (_, first), (_, second) = log.events()
        told = first["system_metadata"]["not_captured"]
        self.assertRegex(told.pop("since"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        counts = {"runs": 3, "events": 6}
        self.assertEqual(told, {**counts, "models": [{**MODEL, **counts}]})
        self.assertNotIn("not_captured", second["system_metadata"])

    def test_counts_that_no_event_could_carry_are_carried_by_the_next(self) -> None:
        log = self.client(0.0)
        log.start_run()
        handle = log.run("2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12")
        with mock.patch.object(log._core(), "put", side_effect=SpoolFull("full")):
            self.assertIsNotNone(handle.outcome().error)
        handle.outcome()
        ((_, event),) = log.events()
        self.assertEqual(event["system_metadata"]["not_captured"]["events"], 1)

    def test_a_risk_brings_in_the_events_before_it_and_those_that_follow(self) -> None:
        """[R-863] A risk, an outcome or feedback includes the whole held run."""
        log = self.client(0.0, risk=high)
        run = log.start_run(model=MODEL)
        held = [run.start, run.artifact("other"), run.output(fields={"risk": 0.1})]
        self.assertEqual(log.events(), [])
        risky = run.output(fields={"risk": 0.95})
        later = run.artifact("other")
        events = [event for _, event in log.events()]
        wanted = [*held, risky, later]
        self.assertEqual(sorted(one["event_id"] for one in events), [one.event_id for one in wanted])
        marks = {one["event_id"]: one["system_metadata"].get("sampling") for one in events}
        self.assertEqual(marks[run.start.event_id], {"rate": 0.0, "selected": False})
        self.assertEqual(marks[risky.event_id], {"trigger": "risk"})
        self.assertIsNone(marks[later.event_id])

    def test_an_outcome_by_the_id_alone_brings_in_the_run(self) -> None:
        for tell, trigger in (("outcome", "outcome"), ("feedback", "user-feedback")):
            log = self.client(0.0, risk=high)
            run = log.start_run()
            getattr(log.run(run.id.upper()), tell)()
            run.output()
            kinds = sorted(kind for kind, _ in log.events())
            self.assertEqual(kinds, sorted(["inference-start", trigger, "human-output"]))

    def test_a_predicate_that_raises_or_is_a_coroutine_counts_as_a_risk(self) -> None:
        def raises(kind: str, event: dict[str, Any]) -> bool:
            raise ValueError("secret words")

        async def coroutine(kind: str, event: dict[str, Any]) -> bool:
            return False

        for risk in (raises, coroutine):
            log = self.client(0.0, risk=risk)
            self.assertTrue(log.start_run().start.wait(120))
            (warning,) = [text for text in log.warnings if "predicate" in text]
            self.assertNotIn("secret", warning)

    def test_the_window_is_bounded_by_runs_bytes_and_time(self) -> None:
        for bound in ({"window_runs": 2}, {"window_bytes": 4000}, {"window_seconds": 0.0}):
            log = self.client(0.0, risk=high, **bound)
            runs = [log.start_run(model=MODEL, inputs={"prompt": "x" * 600}) for _ in range(8)]
            self.assertIsNone(log._core().sampler._by_id.get(runs[0].id))  # type: ignore[union-attr]
            runs[0].output(fields={"risk": 1.0})
            told = [event["system_metadata"].get("not_captured") for _, event in log.events()]
            self.assertGreaterEqual(told[0]["events"], 1)
            log.close(0)

    def test_a_new_version_of_a_model_has_a_rate_of_its_own_for_a_time(self) -> None:
        clock = [1000.0]
        with mock.patch.object(_sampling._system, "monotonic", side_effect=lambda: clock[0]):
            log = self.client(0.0, after_model_change=60)
            first = log.start_run(model=MODEL).start
            clock[0] += 61
            later = log.start_run(model=MODEL).start
            changed = log.start_run(model={**MODEL, "model_version": "4"}).start
        self.assertEqual([first.wait(1), later.wait(1), changed.wait(1)], [True, False, True])
        marks = log.events()[0][1]["system_metadata"]["sampling"]
        self.assertEqual(marks, {"rate": 1.0, "selected": True, "after_model_change": True})

    def test_the_end_of_a_client_reports_the_remaining_counts(self) -> None:
        log = self.client(0.0, risk=high)
        log.start_run(model=MODEL)
        told: list[Any] = []
        with mock.patch.object(log._core(), "put", side_effect=lambda event, body: told.append(body)):
            log.close(0)
        self.assertIn(b'"not_captured":{', told[0])
        self.assertIn(b'"artifact_uri":"urn:uuid:', told[0])
        self.assertNotIn(b'"run_id"', told[0])

    def test_an_invalid_rate_or_size_raises(self) -> None:
        wrong: list[dict[str, Any]] = [
            *({"rate": 1.1}, {"rate": float("nan")}, {"window_runs": -1}),
            *({"rate_after_model_change": 2}, {"after_model_change": float("nan")}),
        ]
        for one in wrong:
            with self.assertRaises(ValueError):
                Sampling(**one)
        with self.assertRaises(ValueError):
            Client(sampling={"rate": 0.5})  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
