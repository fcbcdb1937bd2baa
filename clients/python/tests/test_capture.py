"""From a call to the spool: the writing thread, a slow or full disk, and the end of a client."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Sequence
from typing import Any
from unittest import mock

from tests import support
from tests.collector import until
from tests.programs import Left
from tests.recorded import Recorded

import clinical_events._client
import clinical_events._core
from clinical_events import (
    Client,
    ClientClosed,
    ContentNotStored,
    EventInvalid,
    Refused,
    SpoolFull,
    SpoolRefused,
    SpoolUnwritable,
)
from clinical_events._spool import MemorySpool


class Disk(MemorySpool):
    """Records the writing threads, and can be slow, stuck or broken."""

    def __init__(self) -> None:
        super().__init__()
        self.groups_written: list[list[bytes]] = []
        self.writers: list[int] = []
        self.delay = 0.0
        self.stuck = threading.Event()
        self.stuck.set()
        self.error: Exception | None = None
        self.closed = 0

    def append(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        self.writers.append(threading.get_ident())
        time.sleep(self.delay)
        if not self.stuck.wait(120):
            raise AssertionError("stuck for good")
        if isinstance(self.error, Refused):
            raise self.error
        # An unforeseen error comes out of the client's own code.
        super().append(events if self.error is None else [("secret words",)])  # type: ignore[list-item]
        self.groups_written.append([body for _, _, body in events])

    def close(self) -> None:
        self.closed += 1
        super().close()

    @property
    def written(self) -> int:
        return sum(map(len, self.groups_written))


class Writing(unittest.TestCase):
    def client(self, disk: Disk, **options: Any) -> Client:
        self.refusals: list[Any] = []
        log = Client(
            spool="unused", on_refused=lambda *told: self.refusals.append(told), on_warning=str, **options
        )
        patch = mock.patch.object(log, "_open_spool", return_value=disk)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(log.close, 0)
        return log

    def test_the_caller_writes_before_the_call_returns(self) -> None:
        """[R-851] In mode `os` the caller itself writes: nothing waits in a queue when the process ends."""
        disk = Disk()
        with mock.patch.object(clinical_events._core, "_SLOW_DISK", 1e9):
            run = self.client(disk).start_run()
            for number in range(50):
                captured = run.output()
                self.assertTrue(captured.done)
                self.assertEqual(disk.written, number + 2)
        self.assertEqual(set(disk.writers), {threading.get_ident()})

    def test_a_slow_disk_is_left_to_a_thread_until_it_is_quick_again(self) -> None:
        disk = Disk()
        log = self.client(disk)
        run = log.start_run()
        disk.stuck.clear()
        with mock.patch.object(clinical_events._core, "_SLOW_DISK", -1.0):
            # The write of this thread is under way elsewhere, or it was slow.
            threading.Timer(0.05, disk.stuck.set).start()
            run.output()
            later = [run.output() for _ in range(20)]
            for captured in later:
                self.assertTrue(captured.wait(120))
        self.assertNotIn(threading.get_ident(), disk.writers[-1:])
        with mock.patch.object(clinical_events._core, "_SLOW_DISK", 1e9):
            # The thread finds it quick, and the caller writes again.
            def writes_itself() -> bool:
                run.output().wait(120)
                return disk.writers[-1] == threading.get_ident()

            until(writes_itself)

    def test_threads_write_together_and_each_waits_for_no_other(self) -> None:
        disk = Disk()
        log = self.client(disk)
        run = log.start_run()
        run.start.wait(120)
        disk.stuck.clear()
        first = threading.Thread(target=run.output)
        first.start()
        until(lambda: len(disk.writers) > len(disk.groups_written))
        captured = [run.output() for _ in range(100)]
        self.assertFalse(any(one.done for one in captured))
        self.assertFalse(captured[0].wait(0))
        disk.stuck.set()
        self.assertTrue(all(one.wait(120) for one in captured))
        first.join()
        self.assertIn(100, [len(group) for group in disk.groups_written])

    def test_many_threads_lose_nothing_and_repeat_nothing(self) -> None:
        disk = Disk()
        log = self.client(disk)
        run = log.start_run()
        ids: list[str] = []

        def capture() -> None:
            mine = [run.output(summary="x") for _ in range(500)]
            self.assertTrue(all(one.wait(120) for one in mine))
            ids.extend(one.event_id for one in mine)

        threads = [threading.Thread(target=capture) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = [json.loads(body)["event_id"] for group in disk.groups_written for body in group]
        self.assertEqual(sorted(written), sorted([run.start.event_id, *ids]))

    def test_mode_fsync_writes_in_groups_and_a_group_shares_its_fate(self) -> None:
        disk = Disk()
        log = self.client(disk, mode="fsync")
        run = log.start_run()
        run.start.wait(120)
        disk.stuck.clear()
        first = run.output()
        until(lambda: len(disk.writers) > len(disk.groups_written))
        captured = [run.output() for _ in range(50)]
        self.assertFalse(first.done)
        disk.stuck.set()
        self.assertTrue(all(one.wait(120) for one in captured))
        self.assertIn(50, [len(group) for group in disk.groups_written])
        disk.stuck.clear()
        run.output()
        until(lambda: len(disk.writers) > len(disk.groups_written))
        doomed = [run.output() for _ in range(5)]
        disk.error = SpoolFull("there is no room on the disk")
        disk.stuck.set()
        for one in doomed:
            with self.assertRaises(SpoolFull):
                one.wait(120)
        disk.error = None
        self.assertTrue(run.output().wait(120))

    def test_a_full_or_broken_disk_refuses_and_captures_when_there_is_room(self) -> None:
        """[R-852] A write error loses only its own event, with one warning."""
        disk = Disk()
        log = self.client(disk)
        run = log.start_run()
        run.start.wait(120)
        for error, kind in ((SpoolFull("full"), SpoolFull), (RuntimeError("secret words"), SpoolUnwritable)):
            disk.error = error
            with self.assertRaises(kind) as raised:
                run.output().wait(120)
            self.assertNotIn("secret", str(raised.exception))
        disk.error = None
        self.assertTrue(run.output().wait(120))
        self.assertEqual((len(self.refusals), log.state.refused, disk.written), (2, 2, 2))

    def test_the_queue_for_a_stuck_disk_is_bounded(self) -> None:
        disk = Disk()
        log = self.client(disk)
        run = log.start_run()
        run.start.wait(120)
        disk.stuck.clear()
        self.addCleanup(disk.stuck.set)
        first = threading.Thread(target=run.output)
        first.start()
        until(lambda: len(disk.writers) > len(disk.groups_written))
        text = "x" * (4 << 20)
        captured = [run.output(summary=text) for _ in range(12)]
        full = [one for one in captured if one.done]
        self.assertEqual({type(one.error) for one in full}, {SpoolFull})
        self.assertEqual(len(full), 5)
        disk.stuck.set()
        first.join()
        self.assertTrue(all(one.wait(120) for one in captured if one not in full))
        self.assertEqual(log._core().waiting, (0, 0))

    def test_a_wait_in_the_middle_of_a_write_ends(self) -> None:
        disk = Disk()
        log = self.client(disk)
        run = log.start_run()
        found: list[bool] = []

        def append(events: Any) -> None:
            if not found:
                found.append(run.output().wait())

        with mock.patch.object(disk, "append", append):
            self.assertTrue(run.output().wait(120))
            self.assertEqual(found, [False])

    def test_an_exception_of_a_signal_handler_costs_no_event_and_reaches_the_application(self) -> None:
        """[R-851] A soft time limit, as Celery raises it, may come wherever a function begins."""

        class TimeIsUp(Exception):
            pass

        disk = Disk()
        log = self.client(disk)
        log.start_run().output(summary="before")
        call, reached, raised = 0, True, 0
        while reached:
            call, reached, left = call + 1, False, call + 1

            def trace(frame: Any, event: str, _: Any) -> None:
                # Signals are handled where functions begin.
                nonlocal left, reached
                if event == "call" and "clinical_events" in frame.f_code.co_filename:
                    left -= 1
                    if left == 0:
                        reached = True
                        raise TimeIsUp

            sys.settrace(trace)
            try:
                log.run("0190aabb-ccdd-7102-8304-050607000000").output(summary=f"at {call}")
            except TimeIsUp:
                raised += 1
            finally:
                sys.settrace(None)
        self.assertTrue(log.run("0190aabb-ccdd-7102-8304-050607000000").output(summary="last").wait(120))
        self.assertGreater(raised, 5)
        bodies = [json.loads(body) for group in disk.groups_written for body in group]
        written = [body["event_id"] for body in bodies]
        self.assertEqual(len(written), len(set(written)))
        for _, event_id, error in self.refusals:
            self.assertNotIn(event_id, written)
            # The event was not in the queue yet, and the refusal says so.
            self.assertIsInstance(error, EventInvalid)

    def test_a_callback_that_captures_and_raises_does_no_harm(self) -> None:
        told: list[str] = []

        def on_refused(kind: str, event_id: str, error: Exception) -> None:
            told.append(event_id)
            run.output(fields={"nan": float("nan")})
            run.output(summary="from the callback")
            raise RuntimeError

        log = Client(mode="memory", on_refused=on_refused)
        run = log.start_run()
        refused = run.output(fields={"nan": float("nan")})
        self.assertEqual(told, [refused.event_id])
        self.assertEqual(log.state.waiting, 2)
        log.close(0)

    def test_an_await_ends_when_the_disk_has_written_and_a_cancelled_one_does_no_harm(self) -> None:
        disk = Disk()
        log = self.client(disk, mode="fsync")

        async def main() -> None:
            run = log.start_run()
            await run.start
            disk.stuck.clear()
            captured = run.output()
            waiting = asyncio.ensure_future(_awaited(captured))
            given_up = asyncio.ensure_future(_awaited(captured))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.sleep(0)
            disk.stuck.set()
            self.assertTrue(await waiting)
            self.assertTrue(given_up.cancelled())

        asyncio.run(main())


async def _awaited(captured: Any) -> bool:
    return bool(await captured)


class Lifetime(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)
        self.warnings: list[str] = []

    def client(self, **options: Any) -> Client:
        log = Client(spool=self.directory / "spool", on_warning=self.warnings.append, **options)
        self.addCleanup(log.close, 0)
        return log

    def test_nothing_is_opened_before_the_first_capture(self) -> None:
        threads = threading.active_count()
        log = self.client()
        log.run("x")
        self.assertFalse((self.directory / "spool").exists())
        self.assertEqual((threading.active_count(), log.state.waiting), (threads, 0))
        log.start_run()
        self.assertTrue((self.directory / "spool").is_dir())

    def test_a_closed_client_refuses_and_leaves_its_events_to_others(self) -> None:
        log = self.client()
        run = log.start_run()
        self.assertFalse(log.close(0))
        with self.assertRaises(ClientClosed):
            run.output().wait()
        self.assertEqual(Left(self.directory).ids, [run.start.event_id])
        self.assertTrue(log.close(0))

    def test_with_closes_a_client_and_relative_paths_and_the_environment_count_when_it_is_made(self) -> None:
        environment = {
            "COLLECTOR_SPOOL": "spool",
            "COLLECTOR_URL": "http://127.0.0.1:9",
            "COLLECTOR_KEY": "k",
        }
        before = os.getcwd()
        with mock.patch.dict(os.environ, environment):
            os.chdir(self.directory)
            try:
                log = Client(on_warning=str)
            finally:
                os.chdir(before)
        with log:
            run = log.start_run()
        self.assertEqual(Left(self.directory).ids, [run.start.event_id])

    def test_a_client_without_a_directory_refuses_with_one_warning_a_kind(self) -> None:
        with mock.patch.dict(os.environ, {"COLLECTOR_SPOOL": ""}):
            log = Client(on_warning=self.warnings.append)
        run = log.start_run()
        for _ in range(3):
            with self.assertRaises(SpoolRefused):
                run.output().wait()
        self.assertEqual(len(self.warnings), 2)
        self.assertIn("COLLECTOR_SPOOL", self.warnings[0])

    def test_the_state_and_a_flush_without_a_collector(self) -> None:
        log = self.client()
        log.start_run().output(fields={"x": {1, 2}})
        self.assertFalse(log.flush(0.1))
        state = log.state
        self.assertEqual((state.waiting, state.refused, state.quarantined), (1, 1, 0))
        self.assertLess(abs(time.time() * 1000 - (state.oldest or 0)), 120_000)
        self.assertFalse(asyncio.run(log.aflush(0.1)))

    def test_content_is_stored_before_its_event_and_named_by_its_hash(self) -> None:
        log = self.client(content=self.directory / "content")
        digits = hashlib.sha256("é".encode()).hexdigest()
        run = log.start_run(content="é", inputs={"pages": 2})
        for content in ("é", "é".encode(), bytearray("é".encode()), memoryview("é".encode())):
            run.artifact("text_chunk", content=content)
        run.output(content=b"x", summary="s")
        run.outcome(content=b"y")
        log.close(0)
        start, *artifacts, output, outcome = Left(self.directory).events
        self.assertEqual(start["inputs"], {"pages": 2, "input_uri": f"sha256:{digits}"})
        self.assertEqual({one["artifact"]["artifact_uri"] for one in artifacts}, {f"sha256:{digits}"})
        self.assertTrue(output["output"]["output_uri"].startswith("sha256:"))
        self.assertTrue(outcome["outcome"]["evidence_uri"].startswith("sha256:"))
        file = self.directory / "content" / digits[:2] / digits
        self.assertEqual(file.read_text("utf-8"), "é")
        self.assertEqual((file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777), (0o600, 0o700))
        self.assertEqual(sorted(path.suffix for path in file.parent.iterdir()), [""])

    def test_content_of_an_event_that_is_refused_is_not_stored(self) -> None:
        log = self.client(content=self.directory / "content")
        self.assertIsNotNone(log.start_run().artifact("no type", content="text").error)
        self.assertFalse((self.directory / "content").exists())

    def test_damaged_content_is_replaced_and_content_that_cannot_be_stored_refuses_its_event(self) -> None:
        log = self.client(content=self.directory / "content")
        run = log.start_run(content="text")
        digits = hashlib.sha256(b"text").hexdigest()
        file = self.directory / "content" / digits[:2] / digits
        file.write_text("else")
        run.output(content="text")
        self.assertEqual(file.read_text(), "text")
        for wrong in (5, ["x"], object(), "\ud800"):
            captured = run.output(content=wrong)  # type: ignore[arg-type]
            self.assertIsInstance(captured.error, ContentNotStored)
        (self.directory / "file").write_text("in the way")
        other = self.client(content=self.directory / "file")
        self.assertIsInstance(other.start_run(content="x").start.error, ContentNotStored)

    def test_an_event_beyond_its_size_is_refused(self) -> None:
        self.errors: list[Any] = []
        log = self.client(max_event_bytes=1000, on_refused=lambda *told: self.errors.append(told[2]))
        run = log.start_run()
        self.assertIsInstance(run.output(summary="x" * 1000).error, EventInvalid)
        self.assertEqual([error.code for error in self.errors], ["body_too_large"])

    def test_warnings_repeat_once_a_minute_at_most_and_go_to_standard_error(self) -> None:
        read, write = os.pipe()
        log = Recorded()
        log._reported_warning = None
        with mock.patch.object(os, "write", lambda fd, text: os_write(write if fd == 2 else fd, text)):
            for _ in range(3):
                log._warn("once")
            log._warn("another")
        os.close(write)
        with open(read, encoding="utf-8") as file:
            self.assertEqual(file.read(), "clinical-events: once\nclinical-events: another\n")

    def test_a_hook_of_uwsgi_is_kept_and_ours_runs_too(self) -> None:
        called: list[str] = []
        uwsgi = mock.Mock(spec_set=["post_fork_hook", "_clinical_events"])
        uwsgi.post_fork_hook, uwsgi._clinical_events = lambda: called.append("theirs"), False
        with mock.patch.dict(sys.modules, {"uwsgi": uwsgi}):
            Client(mode="memory")
            Client(mode="memory")
            with mock.patch.object(clinical_events._client, "_after_fork", lambda: called.append("ours")):
                uwsgi.post_fork_hook()
        self.assertEqual(called, ["ours", "theirs"])


os_write = os.write


class Imports(unittest.TestCase):
    def test_a_capture_imports_nothing_and_neither_does_a_fork(self) -> None:
        """[R-851] All modules are loaded when the client is made: an import in a forked child can hang."""
        program = f"""
import sys
sys.path.insert(0, {str(support.PACKAGE / "src")!r})
import asyncio, datetime, decimal, enum, os, tempfile, time, uuid
from clinical_events import Client
log = Client("http://127.0.0.1:9", "key", tempfile.mkdtemp(), on_warning=str)
before = set(sys.modules)
model = {{"at": datetime.datetime.now(datetime.timezone.utc), "d": decimal.Decimal("0.5")}}
with log.start_run(model=model) as run:
    run.artifact("other", fields={{"id": uuid.uuid4(), "x": [1.5, None]}})
    run.output(fields={{"x": float("nan")}})
log.flush(0.5)
if os.fork() == 0:
    log.start_run()
    log.close(0.2)
    os._exit(len(set(sys.modules) - before))
_, status = os.wait()
print(sorted(set(sys.modules) - before), os.waitstatus_to_exitcode(status))
"""
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True
        )
        self.assertEqual(done.stdout.strip(), "[] 0", done.stderr)


if __name__ == "__main__":
    unittest.main()
