"""Runs: an event has the fields of its call, and every way to leave a run has its ending."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import unittest
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone
from typing import Any

from tests.recorded import Recorded

from clinical_events import Client, EventInvalid, Run, current_run

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
RUN = "2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12"
MODEL = {"model_id": "sepsis", "model_version": "3.1"}


class Events(unittest.TestCase):
    def setUp(self) -> None:
        self.log = Recorded(app_name="ward", hostname="host")
        self.addCleanup(self.log.close, 0)

    def test_events_have_the_fields_of_their_calls(self) -> None:
        """[R-861] The events are those that the client for Node makes of the same calls."""
        run = self.log.start_run(
            model=MODEL,
            target={"target_id": "p"},
            user={"caller_id": "u"},
            inputs={"prompt": "?"},
            fields={"ward": 7},
            metadata={"zone": "b"},
        )
        run.artifact("tool_call", description="d", mime_type="text/plain", fields={"tool_name": "t"})
        run.output(summary="High", output_type="text", output_uri="urn:x:1", fields={"risk": 0.93})
        log = self.log.run(run.id)
        log.outcome(outcome_type="validated", occurred_at=datetime(2026, 11, 28, tzinfo=timezone.utc))
        log.feedback(feedback_type="thumbs", direction="up", parent_event_id=run.start.event_id)
        log.artifact("other", artifact_uri="urn:x:2", timestamp="2026-11-28T00:00:00Z", latency_ms=12.5)
        events = self.log.events()
        kinds = ["inference-start", "internal-artifact", "human-output", "outcome", "user-feedback"]
        self.assertEqual([kind for kind, _ in events], [*kinds, "internal-artifact"])
        start, artifact, output, outcome, feedback, late = (event for _, event in events)
        for event in (start, artifact, output, outcome, feedback, late):
            self.assertEqual(event.pop("run_id"), start["event_id"])
            self.assertEqual(event.pop("protocol_version"), "0.0.1")
            self.assertRegex(event["event_id"], UUID7)
            self.assertRegex(event["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$")
            metadata = event["system_metadata"]
            self.assertEqual((metadata["hostname"], metadata["app_name"]), ("host", "ward"))
        self.assertEqual(start["model_instance"], MODEL)
        self.assertEqual(start["target_identity"], {"target_id": "p"})
        self.assertEqual(start["user_identity"], {"caller_id": "u"})
        self.assertEqual((start["inputs"], start["ward"]), ({"prompt": "?"}, 7))
        self.assertEqual(start["system_metadata"]["zone"], "b")
        said = {"artifact_type": "tool_call", "artifact_uri": f"urn:uuid:{run.id}?=artifact=1"}
        said |= {"description": "d", "mime_type": "text/plain", "tool_name": "t"}
        self.assertEqual(artifact["artifact"], said)
        said = {"summary": "High", "output_type": "text", "output_uri": "urn:x:1"}
        self.assertEqual(output["output"], {**said, "risk": 0.93})
        self.assertGreaterEqual(output["system_metadata"]["latency_ms"], 0)
        self.assertNotIn("latency_ms", artifact["system_metadata"])
        said = {"outcome_type": "validated", "occurred_at": "2026-11-28T00:00:00+00:00"}
        self.assertEqual(outcome["outcome"], said)
        self.assertEqual(feedback["feedback"], {"feedback_type": "thumbs", "direction": "up"})
        self.assertEqual(feedback["parent_event_id"], start["event_id"])
        self.assertEqual(late["timestamp"], "2026-11-28T00:00:00Z")
        self.assertEqual(late["system_metadata"]["latency_ms"], 12)

    def test_none_is_left_out_as_a_parameter_and_null_within_a_value(self) -> None:
        self.log.start_run(inputs={"lactate": None}, user=None)
        ((_, event),) = self.log.events()
        self.assertEqual(event["inputs"], {"lactate": None})
        self.assertNotIn("user_identity", event)

    def test_ids_rise_also_within_a_millisecond(self) -> None:
        run = self.log.start_run()
        ids = [run.output().event_id for _ in range(20_000)]
        self.assertEqual(ids, sorted(set(ids)))

    def test_a_run_has_a_given_id_and_an_invalid_id_is_refused(self) -> None:
        run = self.log.start_run(run_id=RUN)
        self.assertEqual(run.id, RUN)
        for wrong in (None, "", 5, "patient 7", ["x"]):
            self.log.run(wrong).outcome()  # type: ignore[arg-type]
        self.assertEqual([event["run_id"] for _, event in self.log.events()], [RUN])
        self.assertEqual([error.code for _, _, error in self.log.refusals], ["validation_failed"] * 5)
        self.assertTrue(all("patient" not in str(error) for _, _, error in self.log.refusals))

    def test_a_nested_run_has_the_start_of_the_outer_one_as_its_parent(self) -> None:
        other = Recorded()
        with self.log.start_run() as outer:
            inner = outer.start_run(model=MODEL)
            found = self.log.start_run()
            other.start_run()
            given = self.log.start_run(parent_event_id=RUN)
        alone = self.log.start_run()
        parents = {event["event_id"]: event.get("parent_event_id") for _, event in self.log.events()}
        self.assertEqual(parents[inner.start.event_id], outer.start.event_id)
        self.assertEqual(parents[found.start.event_id], outer.start.event_id)
        self.assertEqual(parents[given.start.event_id], RUN)
        self.assertIsNone(parents[alone.start.event_id])
        self.assertNotIn("parent_event_id", other.events()[0][1])

    def test_no_call_raises_and_each_refusal_is_reported_once_with_its_place(self) -> None:
        """[R-861] A call raises nothing but a TypeError for a name that it does not have."""
        run = self.log.start_run()
        wrong: list[tuple[Any, str]] = [
            (run.output(fields={"summary": "twice"}, summary="once"), "/output/summary"),
            (run.output(fields=["no mapping"]), "/output"),  # type: ignore[arg-type]
            (run.output(fields={"a": {"b": float("nan")}}), "/output/a/b"),
            (run.artifact("no type"), "/artifact/artifact_type"),
            (run.outcome(metadata=[1]), "/system_metadata"),  # type: ignore[arg-type]
            (run.feedback(timestamp="yesterday"), "/timestamp"),
            (run.feedback(latency_ms="long"), "/system_metadata/latency_ms"),  # type: ignore[arg-type]
            (self.log.start_run(fields={"event_id": "x"}).start, "/event_id"),
            (self.log.start_run(model="sepsis").start, "/model_instance"),  # type: ignore[arg-type]
            (run.output(content="no directory"), ""),
        ]
        for captured, pointer in wrong:
            self.assertTrue(captured.done)
            self.assertEqual(captured.error.pointer, pointer)
            with self.assertRaises(type(captured.error)):
                captured.wait()
        self.assertEqual([event_id for _, event_id, _ in self.log.refusals], [c.event_id for c, _ in wrong])
        self.assertEqual(self.log.state.refused, len(wrong))
        self.assertEqual(len(self.log.events()), 1)
        with self.assertRaises(TypeError):
            run.output(sumary="x")  # type: ignore[call-arg]

    def test_an_invalid_latency_is_left_out(self) -> None:
        run = self.log.start_run()
        for latency in (float("nan"), -1.0, 1e300, 7):
            run.artifact("other", latency_ms=latency)
        metadata = [event["system_metadata"] for kind, event in self.log.events()][1:]
        self.assertEqual([one.get("latency_ms") for one in metadata], [None, None, 2**31 - 1, 7])

    def test_the_profile_full_requires_more(self) -> None:
        log = Recorded(profile="full")
        self.assertFalse(log.start_run().start.error is None)
        said: dict[str, Any] = {"user": {"caller_type": "clinician"}, "target": {}, "inputs": {}}
        self.assertIsNone(log.start_run(model=MODEL, **said).start.error)
        self.assertEqual(len(log.refusals), 1)

    def test_wrong_options_of_the_code_raise_and_wrong_settings_of_a_deployment_do_not(self) -> None:
        choices: list[dict[str, Any]] = [
            *({"mode": "fast"}, {"profile": "all"}, {"connections": 0}, {"max_bytes": 0}),
            *({"max_event_bytes": 0}, {"max_event_bytes": 2**40}),
        ]
        for wrong in choices:
            with self.assertRaises(ValueError):
                Client(**wrong)
        for right in ({"url": "no address"}, {"api_key": ""}, {"spool": ""}, {"ca_file": "/nowhere"}):
            Client(**right)  # type: ignore[arg-type]

    def test_a_client_that_is_switched_off_captures_nothing(self) -> None:
        log = Recorded(enabled=False)
        with log.start_run() as run:
            self.assertTrue(run.output(summary="x").wait())
        self.assertTrue(log.flush())
        self.assertEqual((log.state.waiting, log.refusals), (0, []))


class Endings(unittest.TestCase):
    def setUp(self) -> None:
        self.log = Recorded()
        self.addCleanup(self.log.close, 0)

    def test_an_exception_ends_a_run_as_failed_and_a_cancellation_or_exit_as_aborted(self) -> None:
        """[R-1798] A run that an exception leaves ends with the name of its class and without its message."""

        class Unavailable(Exception):
            status_code = 503

        for error in (
            *(KeyError("secret words"), Unavailable(), asyncio.CancelledError()),
            *(GeneratorExit(), KeyboardInterrupt(), SystemExit(1)),
        ):
            with contextlib.suppress(BaseException), self.log.start_run() as run:
                self.assertIs(current_run(), run)
                raise error
            self.assertIsNone(current_run())
        endings = [event for kind, event in self.log.events() if kind == "internal-artifact"]
        self.assertEqual(
            [f"{one['artifact']['ending']} {one['artifact']['error_name']}" for one in endings],
            [
                *("failed KeyError", "failed Unavailable", "aborted CancelledError"),
                *("aborted GeneratorExit", "aborted KeyboardInterrupt", "aborted SystemExit"),
            ],
        )
        self.assertEqual([one["artifact"].get("status") for one in endings], [None, 503, *[None] * 4])
        for one in endings:
            self.assertEqual(one["artifact"]["artifact_type"], "other")
            self.assertEqual(one["system_metadata"]["instrumentation"], {"by": "python"})
            self.assertIn("latency_ms", one["system_metadata"])
            self.assertNotIn("secret", str(one))

    def test_a_run_ends_once_and_without_an_event_if_it_succeeds(self) -> None:
        with self.log.start_run() as run:
            run.output()
        run.unfinished()
        run.abort()
        run.fail(ValueError())
        self.assertEqual(self.log.endings(), ["unfinished"])
        self.log.start_run().fail()
        self.assertEqual(self.log.endings(), ["failed unknown"])

    def test_the_decorator_of_a_function_and_of_a_coroutine(self) -> None:
        @self.log.runs(model=MODEL)
        def score(value: int) -> Run | None:
            if value == 0:
                raise ValueError("secret words")
            return current_run()

        @self.log.runs(model=MODEL)
        async def ask() -> Run | None:
            await asyncio.sleep(0)
            return current_run()

        first, second = score(1), asyncio.run(ask())
        self.assertIsNotNone(first)
        self.assertIsNotNone(second)
        self.assertIsNot(first, second)
        self.assertEqual(score.__name__, "score")
        with self.assertRaises(ValueError):
            score(0)
        starts = [event for kind, event in self.log.events() if kind == "inference-start"]
        self.assertEqual([event["model_instance"] for event in starts], [MODEL] * 3)

    def test_a_generator_has_its_run_during_its_steps_alone(self) -> None:
        """[R-1798] The run of a decorated generator is not the current one between two steps."""

        @self.log.runs()
        def words() -> Iterator[Any]:
            got = None
            for _ in range(3):
                self.assertIsNotNone(current_run())
                try:
                    got = yield got
                except LookupError as error:
                    got = type(error).__name__
            return "end"

        steps: Any = words()
        next(steps)
        self.assertIsNone(current_run())
        self.assertEqual(steps.send("sent"), "sent")
        self.assertEqual(steps.throw(LookupError("x")), "LookupError")
        with self.assertRaises(StopIteration) as stopped:
            next(steps)
        self.assertEqual(stopped.exception.value, "end")
        self.assertEqual(self.log.endings(), [])

        def outer() -> Iterator[Any]:
            ended.append((yield from words()))

        ended: list[Any] = []
        list(outer())
        self.assertEqual(ended, ["end"])

    def test_a_generator_that_is_abandoned_is_aborted_and_one_that_throws_has_failed(self) -> None:
        closed: list[str] = []

        @self.log.runs()
        def words() -> Iterator[int]:
            try:
                yield 1
                yield 2
            finally:
                closed.append("closed")

        for word in words():
            if word:
                break
        gc.collect()
        steps = words()
        next(steps)
        with self.assertRaises(KeyError):
            steps.throw(KeyError("secret words"))  # type: ignore[attr-defined]
        self.assertEqual(closed, ["closed"] * 2)
        self.assertEqual(self.log.endings(), ["aborted GeneratorExit", "failed KeyError"])

    def test_an_async_generator_that_is_abandoned_or_cancelled_is_aborted(self) -> None:
        @self.log.runs()
        async def words() -> AsyncIterator[int]:
            for number in range(10):
                self.assertIsNotNone(current_run())
                await asyncio.sleep(0)
                yield number

        async def main() -> None:
            async for number in words():
                self.assertIsNone(current_run())
                if number == 3:
                    break
            gc.collect()
            for _ in range(5):
                await asyncio.sleep(0)
            self.assertEqual(self.log.endings(), ["aborted GeneratorExit"])
            self.assertEqual([number async for number in words()], list(range(10)))
            self.assertEqual(self.log.endings(), [])

        asyncio.run(main())

    def test_tasks_have_runs_of_their_own_and_a_cancelled_one_is_aborted(self) -> None:
        async def one(number: int) -> str:
            async with self.log.start_run(model={"model_id": str(number)}) as run:
                await asyncio.sleep(0)
                self.assertIs(current_run(), run)
                await (asyncio.sleep(0) if number % 2 else asyncio.Event().wait())
                self.assertIs(current_run(), run)
                await run.output(summary=str(number))
                return run.id

        async def main() -> list[Any]:
            tasks = [asyncio.create_task(one(number)) for number in range(20)]
            await asyncio.wait(tasks[1::2])
            for task in tasks:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

        done = asyncio.run(main())
        self.assertEqual(sum(isinstance(one, str) for one in done), 10)
        self.assertEqual(self.log.endings(), ["aborted CancelledError"] * 10)
        self.assertIsNone(current_run())

    def test_a_with_across_a_yield_does_no_harm_when_it_is_closed_elsewhere(self) -> None:
        async def words() -> AsyncIterator[int]:
            with self.log.start_run():
                yield 1
                yield 2

        async def main() -> None:
            steps = words()
            await steps.__anext__()
            await asyncio.create_task(steps.aclose())  # type: ignore[attr-defined]

        asyncio.run(main())
        self.assertEqual(self.log.endings(), ["aborted GeneratorExit"])

    def test_an_awaited_refusal_raises_and_a_cancelled_await_does_no_harm(self) -> None:
        async def main() -> None:
            run = self.log.start_run()
            self.assertTrue(await run.start)
            with self.assertRaises(EventInvalid):
                await run.artifact("no type")

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
