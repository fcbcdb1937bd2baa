"""From capture to the collector: with threads, without, at the end of a process and after a killed one."""

from __future__ import annotations

import json
import pathlib
import signal
import tempfile
import unittest
from typing import Any
from unittest import mock

from tests.collector import STORED, FakeCollector, Request, refusal, until
from tests.programs import Left, ProgramTest

import clinical_events._core
from clinical_events import Client


def ids(collector: FakeCollector) -> list[str]:
    return [json.loads(request.body)["event_id"] for request in collector.requests]


class Delivery(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)
        self.warnings: list[str] = []

    def client(self, url: str, **options: Any) -> Client:
        options = {"spool": self.directory / "spool", **options}
        log = Client(url, "key", on_warning=self.warnings.append, **options)
        self.addCleanup(log.close, 0)
        return log

    def test_captured_events_arrive_once_in_every_mode(self) -> None:
        """[R-862] In every mode captured events arrive, and a flush reports it."""
        for mode in ("os", "fsync", "memory", "direct"):
            with self.subTest(mode), FakeCollector() as collector:
                log = self.client(collector.url, mode=mode)
                run = log.start_run()
                captured = [run.start, *[run.output(summary=str(number)) for number in range(100)]]
                self.assertTrue(all(one.wait(120) for one in captured))
                if mode == "direct":
                    self.assertEqual(len(collector.requests), 101)
                self.assertTrue(log.flush(120))
                self.assertEqual(log.state.waiting, 0)
                self.assertEqual(sorted(ids(collector)), sorted(one.event_id for one in captured))
                self.assertTrue(log.close(120))
        self.assertEqual(list((self.directory / "spool").glob("*/*.segment")), [])
        self.assertEqual(self.warnings, [])

    def test_direct_keeps_an_event_that_cannot_be_sent_and_sends_it_with_the_next(self) -> None:
        down = [True]

        def respond(_: Request) -> bytes:
            return refusal(503, "busy") if down else STORED

        with FakeCollector(respond) as collector:
            log = self.client(collector.url, mode="direct", spool=None)
            with mock.patch.object(clinical_events._core._system, "start_thread") as started:
                run = log.start_run()
            started.assert_not_called()
            self.assertEqual(log.state.waiting, 1)
            down.clear()

            def nothing_waits() -> bool:
                run.output()
                return log.state.waiting == 0

            until(nothing_waits)

    def test_a_closed_client_ends_its_part_and_does_not_wait_for_a_collector_that_fails(self) -> None:
        with FakeCollector(lambda _: refusal(503, "busy")) as collector:
            log = self.client(collector.url)
            run = log.start_run()
            # It ends with the first failure, long before its time.
            self.assertFalse(log.close(600))
        self.assertEqual(Left(self.directory).ids, [run.start.event_id])

    def test_erased_and_refused_events_are_counted_and_reported(self) -> None:
        told: list[Any] = []

        def respond(request: Request) -> bytes:
            return {
                "inference-start": refusal(409, "event_erased"),
                "human-output": refusal(400, "validation_failed"),
            }.get(request.kind, STORED)

        with FakeCollector(respond) as collector:
            log = self.client(collector.url, on_quarantine=lambda *said: told.append(said))
            output = log.start_run().output()
            self.assertTrue(log.flush(120))
            state = log.state
        self.assertEqual((state.erased, state.quarantined, state.waiting), (1, 1, 0))
        ((kind, event_id, answer),) = told
        self.assertEqual((kind, event_id, answer["status"]), ("human-output", output.event_id, 400))

    def test_where_no_thread_can_start_the_caller_writes_and_the_end_sends(self) -> None:
        """Since Python 3.12 no thread starts once the interpreter ends."""
        with (
            FakeCollector() as collector,
            mock.patch.object(clinical_events._core._system, "start_thread", side_effect=RuntimeError),
        ):
            log = self.client(collector.url)
            run = log.start_run()
            self.assertTrue(run.output().done)
            self.assertTrue(log.close(120))
            self.assertEqual(len(collector.requests), 2)


class Processes(ProgramTest):
    def test_the_end_of_a_process_sends_and_so_does_that_of_its_children(self) -> None:
        program = """
import multiprocessing
log = Client(sys.argv[1], "key", SPOOL, exit_timeout=120)
def work():
    capture(log, 5)
if __name__ == "__main__":
    capture(log, 5)
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0
    pid = os.fork()
    if pid == 0:
        capture(log, 5)
        sys.exit(0)
    assert ended(pid) == 0
"""
        with FakeCollector() as collector:
            self.run_program(program, collector.url)
            self.assertEqual(sorted(ids(collector)), sorted(Left(self.directory).acknowledged))
            self.assertEqual(len(collector.requests), 18)
        self.assertEqual(Left(self.directory).ids, [])

    def test_a_short_program_sends_the_events_of_a_killed_one(self) -> None:
        """[R-854] The events of a killed process are sent by the next one, however short.

        Also by one that captures nothing.
        """
        killed = "log = Client(spool=SPOOL)\ncapture(log, 9)\nos.kill(os.getpid(), signal.SIGKILL)"
        short = "log = Client(sys.argv[1], 'key', SPOOL)\nassert log.flush(120)"
        self.run_program(killed, ends=-signal.SIGKILL)
        with FakeCollector() as collector:
            self.run_program(short, collector.url)
            self.assertEqual(sorted(ids(collector)), sorted(Left(self.directory).acknowledged))
            self.assertEqual(len(collector.requests), 10)

    def test_an_end_without_a_collector_is_not_delayed(self) -> None:
        program = """
log = Client("http://127.0.0.1:9", "key", SPOOL, exit_timeout=600)
capture(log, 5)
"""
        self.run_program(program)
        self.assertEqual(len(self.assert_kept(6).ids), 6)


if __name__ == "__main__":
    unittest.main()
