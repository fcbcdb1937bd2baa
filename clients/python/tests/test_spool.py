"""The spool of one process: the events that it keeps through every fault, and those that it returns."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tracemalloc
import unittest
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock
from zlib import crc32

from tests import support

from clinical_events import _appender, _backlog, _files, _format, _inspection, _parts, _quarantine, _spool
from clinical_events._errors import ClientClosed, SpoolFull, SpoolRefused, SpoolUnwritable
from clinical_events._spool import Forked, MemorySpool, Spool

AT = 1_800_000_000_000
REFUSAL = {"status": 400, "code": "validation_failed", "message": "x" * 100}

# Appends numbers and prints the acknowledged ones, until it is killed or its parent ends.
APPENDER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from clinical_events._spool import Spool
spool = Spool(sys.argv[1], on_trouble=lambda _: None, durability=sys.argv[4])
number = int(sys.argv[3])
while True:
    spool.append([(2, 1800000000000, b'{"n":%d}' % number)])
    os.write(1, b"%d\\n" % number)
    number += 1
"""


def body(number: int) -> bytes:
    return b'{"n":%d}' % number


def number_of(event: _spool.SpooledEvent) -> int:
    return int(json.loads(event.body)["n"])


def fail(code: int) -> Callable[..., Any]:
    def failing(*_: object, **__: object) -> Any:
        raise OSError(code, os.strerror(code))

    return failing


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class SpoolTest(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name) / "spool"
        self.told: list[str] = []
        self.clock = Clock()
        self.spools: list[Spool] = []
        self.addCleanup(self.end_of_process)
        # Series that rise also within a millisecond.
        rising = (bytes(6) + number.to_bytes(7, "big") for number in itertools.count())
        series = mock.patch.object(_parts, "new_series", lambda: next(rising))
        series.start()
        self.addCleanup(series.stop)

    def spool(self, **options: Any) -> Spool:
        spool = Spool(str(self.root), on_trouble=self.told.append, clock=self.clock, **options)
        self.spools.append(spool)
        return spool

    def end_of_process(self) -> None:
        """Closes the files of the spools of this test, as the kernel does."""
        for spool in self.spools:
            spool.forget()

    def append(self, spool: Spool, *numbers: int) -> None:
        for number in numbers:
            spool.append([(2, AT + number, body(number))])

    def take(self, spool: Spool) -> list[_spool.SpooledEvent]:
        events: list[_spool.SpooledEvent] = []
        while (event := spool.take()) is not None:
            events.append(event)
        return events

    def numbers(self, spool: Spool) -> list[int]:
        return [number_of(event) for event in self.take(spool)]

    def files(self, pattern: str) -> list[pathlib.Path]:
        return sorted(self.root.glob(pattern))

    def beat(self, spool: Spool, seconds: float = 10.0) -> None:
        self.clock.now += seconds
        spool.tend()

    def left(self, *numbers: int, done: tuple[int, ...] = (), host: str = _parts.HOST) -> pathlib.Path:
        """The part of a killed process."""
        with mock.patch.object(_parts, "HOST", host):
            spool = self.spool()
        self.append(spool, *numbers)
        for event in self.take(spool):
            if number_of(event) in done:
                spool.settle(event, True)
        spool.tend()
        spool.forget()
        return self.files("?" * 26)[-1]


class Giving(SpoolTest):
    def test_events_are_returned_in_order_with_their_fields(self) -> None:
        spool = self.spool()
        spool.append([(0, AT, b"{}"), (4, AT + 1, b"\xff"), (1, AT + 2, b"")])
        given = [(event.kind, event.captured_at, event.body) for event in self.take(spool)]
        self.assertEqual(given, [(0, AT, b"{}"), (4, AT + 1, b"\xff"), (1, AT + 2, b"")])
        self.assertEqual(spool.state(), (3, 3 * 32 + 3, 0, 0, 0, AT))

    def test_an_event_that_is_not_done_is_returned_again_and_does_not_delay_the_others(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1, 2, 3)
        first = spool.take()
        assert first is not None
        spool.settle(first, False)
        spool.settle(first, False)
        given: list[int] = []
        for _ in range(4):
            event = spool.take()
            assert event is not None
            given.append(number_of(event))
        self.assertEqual(sorted(given), [0, 1, 2, 3])
        self.assertLessEqual(given.index(0), 1)
        self.assertIsNone(spool.take())

    def test_a_segment_is_removed_before_its_marks_when_all_of_it_is_done(self) -> None:
        spool = self.spool(max_bytes=4096)
        self.append(spool, *range(40))
        self.assertGreater(len(self.files("*/*.segment")), 1)
        removed: list[str] = []
        events = self.take(spool)
        for event in events[:-1]:
            spool.settle(event, True)
        with mock.patch.object(os, "unlink", side_effect=lambda path: removed.append(path)):
            spool.tend()
        kinds = [path.rpartition(".")[2] for path in removed]
        self.assertEqual(kinds, ["segment", "done"] * (len(kinds) // 2))
        self.assertEqual([path[:-8] for path in removed[::2]], [path[:-5] for path in removed[1::2]])
        self.assertNotIn(events[-1].segment.path if events[-1].segment else "", removed)

    def test_the_bytes_of_done_events_are_free_again(self) -> None:
        spool = self.spool(max_bytes=4096)
        for number in range(2000):
            self.append(spool, number)
            for event in self.take(spool):
                spool.settle(event, True)
            spool.tend()
        self.assertLessEqual(len(self.files("*/*")), 4)
        self.assertEqual(spool.state().waiting, 0)

    def test_the_oldest_segment_is_returned_first_from_any_process(self) -> None:
        self.left(0, 1)
        spool = self.spool()
        self.append(spool, 2)
        self.left(3)
        spool.adopt()
        self.assertEqual(self.numbers(spool), [0, 1, 2, 3])
        self.left(4)
        spool.adopt()
        self.append(spool, 5)
        self.assertEqual(sorted(self.numbers(spool)), [4, 5])

    def test_waiting_events_are_counted_also_while_they_are_read_and_done(self) -> None:
        self.left(*range(10), done=(0, 1))
        spool = self.spool()
        first = spool.take()
        assert first is not None
        spool.settle(first, True)
        spool.tend()
        self.assertEqual(spool.state().waiting, 7)
        second = spool.take()
        assert second is not None
        spool.settle(second, True)
        self.assertEqual(spool.state().waiting, 6)
        for event in self.take(spool):
            spool.settle(event, True)
        self.assertEqual((spool.state().waiting, spool.state().waiting_bytes), (0, 0))

    def test_reading_takes_little_memory_with_many_waiting_events(self) -> None:
        spool = self.spool()
        for _ in range(200):
            spool.append([(2, AT, b"x" * 1000)] * 100)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        given = 0
        while (event := spool.take()) is not None:
            spool.settle(event, True)
            given += 1
            if given % 1000 == 0:
                spool.tend()
        self.assertEqual(given, 20_000)
        self.assertLess(tracemalloc.get_traced_memory()[1], 3 << 20)

    def test_concurrent_threads_get_each_event_once(self) -> None:
        spool = self.spool()
        given: list[int] = []
        appended = threading.Event()

        def take() -> None:
            while not (appended.is_set() and spool.state().waiting == 0):
                event = spool.take()
                if event is not None:
                    given.append(number_of(event))
                    spool.settle(event, True)

        threads = [threading.Thread(target=take, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        self.append(spool, *range(2000))
        appended.set()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(given), list(range(2000)))


class Marks(SpoolTest):
    """[R-851] A marked event is not returned again, and every other event is."""

    def test_after_a_crash_only_unmarked_events_are_returned(self) -> None:
        self.left(*range(6), done=(1, 4))
        spool = self.spool()
        self.assertEqual(spool.state().waiting, 4)
        self.assertEqual(self.numbers(spool), [0, 2, 3, 5])

    def test_marks_of_several_processes_add_up(self) -> None:
        self.left(*range(6), done=(1,))
        for done in (4, 0):
            spool = self.spool()
            for event in self.take(spool):
                spool.settle(event, number_of(event) == done)
            spool.tend()
            spool.forget()
        self.assertEqual(self.numbers(self.spool()), [2, 3, 5])

    def test_marks_of_one_process_add_up(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1, 2)
        for event in self.take(spool)[:2]:
            spool.settle(event, True)
            spool.tend()
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [2])

    def test_marks_that_cannot_be_written_are_written_later(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        events = self.take(spool)
        spool.settle(events[0], True)
        with mock.patch.object(os, "pwrite", fail(errno.ENOSPC)):
            spool.tend()
            spool.tend()
        self.assertEqual(len(self.told), 1)
        spool.tend()
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [1])

    def test_the_marks_in_memory_are_bounded(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1, 2, 3)
        with mock.patch.object(_backlog, "_MOST_MARKS", 2):
            for event in self.take(spool)[:3]:
                spool.settle(event, True)
            spool.tend()
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [2, 3])

    def test_a_mark_is_written_once(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        event = self.take(spool)[0]
        for _ in range(3):
            spool.settle(event, True)
            spool.tend()
        self.assertEqual(self.files("*/*.done")[0].stat().st_size, 12)


class Refusing(SpoolTest):
    """[R-852] An event that was refused is not in the spool, and one that was acknowledged is."""

    def half_written(self, code: int) -> Callable[[int, bytes, int], int]:
        real = os.pwrite
        failed: list[int] = []

        def pwrite(fd: int, data: bytes, offset: int) -> int:
            if failed:
                raise OSError(code, os.strerror(code))
            failed.append(1)
            return real(fd, bytes(data)[: len(data) // 2], offset)

        return pwrite

    def test_a_write_that_fails_is_cut_back_and_its_segment_left(self) -> None:
        for code, refused in (
            (errno.ENOSPC, SpoolFull),
            (errno.EDQUOT, SpoolFull),
            (errno.EIO, SpoolUnwritable),
        ):
            spool = self.spool()
            self.append(spool, 0)
            size = self.files("*/*.segment")[0].stat().st_size
            with (
                mock.patch.object(os, "pwrite", self.half_written(code)),
                self.assertRaises(refused) as caught,
            ):
                self.append(spool, 1)
            self.assertFalse(getattr(caught.exception, "uncertain", False))
            self.assertEqual(self.files("*/*.segment")[0].stat().st_size, size)
            self.append(spool, 2)
            self.assertEqual(len(self.files("*/*.segment")), 2)
            spool.forget()
            after = self.spool()
            self.assertEqual(self.numbers(after), [0, 2])
            self.assertEqual(after.state().cut, 0)
            shutil.rmtree(self.root)

    def test_a_write_that_can_be_neither_completed_nor_undone_is_uncertain(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        with (
            mock.patch.object(os, "pwrite", self.half_written(errno.EIO)),
            mock.patch.object(os, "ftruncate", fail(errno.EIO)),
            self.assertRaises(SpoolUnwritable) as caught,
        ):
            self.append(spool, 1)
        self.assertTrue(caught.exception.uncertain)
        self.append(spool, 2)
        self.assertEqual(self.numbers(spool), [0, 2])

    def test_a_flush_that_fails_refuses_and_leaves_the_segment(self) -> None:
        spool = self.spool(durability="fsync")
        self.append(spool, 0)
        with mock.patch.object(_appender, "datasync", fail(errno.EIO)), self.assertRaises(SpoolUnwritable):
            self.append(spool, 1)
        self.append(spool, 2)
        self.assertEqual(self.numbers(spool), [0, 2])
        self.assertEqual(len(self.files("*/*.segment")), 2)

    def test_an_interrupt_in_a_write_undoes_the_write(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        real = os.pwrite

        def pwrite(fd: int, data: bytes, offset: int) -> int:
            real(fd, data, offset)
            raise KeyboardInterrupt

        with mock.patch.object(os, "pwrite", pwrite), self.assertRaises(KeyboardInterrupt):
            self.append(spool, 1)
        self.assertEqual(spool.groups, 1)
        self.append(spool, 2)
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [0, 2])

    def test_an_interrupt_while_a_segment_is_made_does_not_hinder_the_next(self) -> None:
        spool = self.spool()
        real = os.open

        def interrupted(*arguments: Any) -> int:
            os.close(real(*arguments))
            raise KeyboardInterrupt

        with mock.patch.object(os, "open", interrupted), self.assertRaises(KeyboardInterrupt):
            self.append(spool, 0)
        self.append(spool, 1)
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [1])

    def test_an_fsync_spool_has_flushed_the_event_and_the_name_of_its_segment(self) -> None:
        spool = self.spool(durability="fsync")
        flushed: list[str] = []
        real = _appender.datasync
        with (
            mock.patch.object(_appender, "datasync", lambda fd: (flushed.append("data"), real(fd))),
            mock.patch.object(_appender, "sync_directory", lambda path: flushed.append(path)),
        ):
            self.append(spool, 0, 1)
        self.assertEqual(flushed, [str(self.files("?" * 26)[0]), "data", "data"])

    def test_events_of_one_group_share_their_fate(self) -> None:
        spool = self.spool()
        with mock.patch.object(os, "pwrite", self.half_written(errno.ENOSPC)), self.assertRaises(SpoolFull):
            spool.append([(2, AT, body(number)) for number in range(50)])
        self.assertIsNone(spool.take())
        spool.append([(2, AT, body(number)) for number in range(50)])
        self.assertEqual(self.numbers(spool), list(range(50)))

    def test_a_spool_refuses_events_beyond_its_limit_and_removes_none(self) -> None:
        spool = self.spool(max_bytes=2000)
        appended = 0
        with self.assertRaisesRegex(SpoolFull, "holds its limit of 2000 bytes, 0 of them in quarantine"):
            while True:
                self.append(spool, appended)
                appended += 1
        self.assertLessEqual(sum(path.stat().st_size for path in self.files("*/*.segment")), 2000 + 64 * 4)
        events = self.take(spool)
        self.assertEqual(len(events), appended)
        for event in events:
            spool.settle(event, True)
        spool.tend()
        self.append(spool, appended)

    def test_no_segment_exceeds_its_size_or_the_limit_of_the_format(self) -> None:
        spool = self.spool(max_bytes=8192)
        self.append(spool, *range(100))
        self.assertLessEqual(max(path.stat().st_size for path in self.files("*/*.segment")), 2048 + 32)
        huge = self.spool()
        with self.assertRaisesRegex(SpoolUnwritable, "more than the 268435456 bytes"):
            huge.append([(2, AT, bytes(1 << 20))] * 256)

    def test_a_closed_spool_refuses(self) -> None:
        spool = self.spool()
        spool.close()
        spool.close()
        with self.assertRaises(ClientClosed):
            self.append(spool, 0)
        self.assertIsNone(spool.take())

    def test_a_directory_that_cannot_be_used_is_refused(self) -> None:
        with self.assertRaisesRegex(SpoolRefused, "has no name"):
            Spool("", on_trouble=self.told.append)
        self.root.write_text("a file")
        with self.assertRaisesRegex(SpoolUnwritable, "cannot be used as a spool"):
            self.spool()

    def test_a_full_disk_has_no_part_refuses_events_and_adopts_nothing_until_there_is_room(self) -> None:
        part = self.left(0)
        with mock.patch.object(os, "mkdir", fail(errno.ENOSPC)):
            spool = self.spool()
            with self.assertRaises(SpoolFull):
                self.append(spool, 1)
            spool.adopt()
            self.beat(spool)
            self.assertIsNone(spool.take())
            self.assertEqual(self.files("?" * 26), [part])
        self.beat(spool)
        self.append(spool, 2)
        self.assertEqual(self.numbers(spool), [0, 2])


class Home(SpoolTest):
    """[R-854] A process whose part was removed begins another and loses no event."""

    def test_a_part_that_was_removed_is_replaced_with_one_warning(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        for path in self.files("?" * 26):
            shutil.rmtree(path)
        self.append(spool, 1, 2)
        self.assertEqual(len(self.told), 1)
        self.assertRegex(self.told[0], "was adopted or removed; new events go to")
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [1, 2])

    def test_a_write_to_a_segment_that_was_adopted_is_written_once_more(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        segment = self.files("*/*.segment")[0]
        adopted = self.root / ("f" * 26)
        adopted.mkdir(mode=0o700)
        real = os.pwrite

        def pwrite(fd: int, data: bytes, offset: int) -> int:
            if segment.exists():
                segment.rename(adopted / segment.name)
            return real(fd, data, offset)

        with mock.patch.object(os, "pwrite", pwrite):
            self.append(spool, 1)
        self.assertEqual(len(self.files("?" * 26)), 2)
        spool.forget()
        numbers = self.numbers(self.spool())
        self.assertEqual(set(numbers), {0, 1})

    def test_a_missing_owner_is_noticed_at_the_next_beat(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        (self.files("?" * 26)[0] / "owner").unlink()
        self.beat(spool)
        self.append(spool, 1)
        self.assertTrue((self.files("*/*.segment")[-1].parent / "owner").exists())
        self.assertEqual(sorted(self.numbers(spool)), [0, 1])

    def test_a_part_that_a_capture_has_replaced_is_not_replaced_again(self) -> None:
        spool = self.spool()
        shutil.rmtree(self.files("?" * 26)[0])
        real = _parts.Part.touch

        def touch(part: _parts.Part) -> None:
            self.append(spool, 0)
            real(part)

        with mock.patch.object(_parts.Part, "touch", touch):
            self.beat(spool)
        self.assertEqual(len(self.files("?" * 26)), 1)
        self.assertEqual(self.numbers(spool), [0])

    def test_a_series_without_a_free_number_is_followed_by_the_next(self) -> None:
        spool = self.spool(max_bytes=256)
        with mock.patch.object(_appender, "_LAST", 1):
            for number in range(6):
                self.append(spool, number)
                for event in self.take(spool):
                    spool.settle(event, True)
                spool.tend()
        self.append(spool, 6)
        self.assertGreater(len(self.told), 0)

    def test_a_segment_of_a_process_that_may_come_back_rests_and_is_read_again(self) -> None:
        self.left(0, 1, host="the boot before")
        spool = self.spool()
        self.beat(spool, 180)
        events = self.take(spool)
        self.assertEqual([number_of(event) for event in events], [0, 1])
        for event in events:
            spool.settle(event, True)
        spool.tend()
        path = self.files("*/*.segment")[0]
        identity = bytes.fromhex(path.stem)
        with path.open("ab") as late:
            late.write(_format.encode_frame(crc32(identity), 2, AT, 2, body(2)))
        self.beat(spool, 29)
        self.assertTrue(path.exists())
        self.beat(spool, 2)
        self.assertEqual(self.numbers(spool), [2])
        self.assertEqual(spool.state().waiting, 1)

    def test_a_segment_that_rests_and_has_not_grown_is_removed_after_thirty_seconds(self) -> None:
        self.left(0, host="the boot before")
        spool = self.spool()
        self.assertEqual(spool.watched, 1)
        self.beat(spool, 180)
        for event in self.take(spool):
            spool.settle(event, True)
        self.beat(spool, 29)
        self.assertEqual(len(self.files("*/*.segment")), 1)
        self.beat(spool, 2)
        self.assertEqual(self.files("*/*.segment"), [])
        self.assertEqual((spool.watched, spool.state().waiting), (0, 0))


class Ends(SpoolTest):
    def test_an_empty_spool_leaves_nothing_at_its_end(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        for event in self.take(spool):
            spool.settle(event, True)
        spool.close()
        self.assertEqual(self.files("*"), [])

    def test_the_events_of_a_closed_spool_can_be_adopted_immediately(self) -> None:
        spool, other = self.spool(), self.spool()
        self.append(spool, 0, 1)
        first = spool.take()
        assert first is not None
        spool.settle(first, True)
        spool.close()
        other.adopt()
        self.assertEqual(self.numbers(other), [1])

    def test_the_end_frame_counts_the_events_of_a_closed_spool(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1, 2)
        spool.close()
        segment = self.files("*/*.segment")[0]
        data = bytearray(segment.read_bytes())
        data[64] ^= 1
        segment.write_bytes(data)
        self.assertEqual(self.spool().state().waiting, 3)

    def test_a_spool_that_is_closed_waits_for_a_thread_that_adopts(self) -> None:
        self.left(0)
        spool = self.spool()
        adopting, closing = threading.Event(), threading.Event()
        left = self.left(1)

        def look(*_: object) -> list[str]:
            adopting.set()
            self.assertTrue(closing.wait(120))
            return [str(left)]

        thread = threading.Thread(target=spool.adopt, daemon=True)
        with (
            mock.patch.object(_parts.Watch, "abandoned", look),
            mock.patch.object(_spool._system, "sleep", lambda _: (closing.set(), thread.join(120))),
        ):
            thread.start()
            self.assertTrue(adopting.wait(120))
            spool.close()
        self.assertTrue(closing.is_set())
        self.assertEqual(self.numbers(self.spool()), [0, 1])

    def test_a_spool_that_was_forgotten_does_nothing_more(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        event = spool.take()
        assert event is not None
        spool.forget()
        before = sorted(self.files("*/*"))
        for call in (
            lambda: self.append(spool, 1),
            spool.take,
            lambda: spool.settle(event, True),
            lambda: spool.quarantine(event, REFUSAL),
            spool.tend,
            spool.adopt,
            spool.state,
            spool.close,
        ):
            self.assertRaises(Forked, call)
        self.assertEqual(sorted(self.files("*/*")), before)


class Quarantine(SpoolTest):
    """[R-862] A refused event is in quarantine with its answer before it is done."""

    def lines(self) -> list[dict[str, Any]]:
        files = self.files("quarantine/*")
        return [json.loads(line) for path in files for line in path.read_bytes().splitlines()]

    def test_a_line_has_the_exact_text_and_the_answer(self) -> None:
        spool = self.spool()
        spool.append([(3, AT, '{"said":"37,5 °C"}'.encode()), (3, AT, b"\xff")])
        for event in self.take(spool):
            spool.quarantine(event, REFUSAL)
        text, binary = self.lines()
        self.assertEqual((text["kind"], text["captured_at"]), ("outcome", "2027-01-15T08:00:00.000Z"))
        self.assertEqual({**text["refusal"], "at": ""}, {**REFUSAL, "at": ""})
        self.assertEqual((text["event"], binary["event_base64"]), ('{"said":"37,5 °C"}', "/w=="))
        self.assertEqual(spool.state()[:3], (0, 0, 2))
        path = self.files("quarantine/*")[0]
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        read = [line.event for line in _quarantine.quarantined_lines(str(path))]
        self.assertEqual(
            [getattr(event, "body", None) for event in read], ['{"said":"37,5 °C"}'.encode(), b"\xff"]
        )

    def test_a_quarantined_event_is_marked_immediately(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        spool.quarantine(self.take(spool)[0], REFUSAL)
        spool.forget()
        self.assertEqual(self.numbers(self.spool()), [1])

    def test_a_line_that_is_not_written_whole_is_undone_and_the_event_waits(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        first, second = self.take(spool)
        spool.quarantine(first, REFUSAL)
        size = self.files("quarantine/*")[0].stat().st_size
        real = os.write
        with (
            mock.patch.object(os, "write", lambda fd, data: real(fd, data[:9])),
            self.assertRaises(SpoolFull),
        ):
            spool.quarantine(second, REFUSAL)
        self.assertEqual(self.files("quarantine/*")[0].stat().st_size, size)
        spool.settle(second, False)
        self.assertEqual(self.numbers(spool), [1])

    def test_a_line_in_a_file_that_requeue_has_moved_away_is_written_again(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        real = os.write
        moved: list[pathlib.Path] = []

        def write(fd: int, data: bytes) -> int:
            written = real(fd, data)
            if not moved:
                path = self.files("quarantine/*.ndjson")[0]
                moved.append(path.rename(path.with_suffix(".requeue")))
                path.touch()
            return written

        with mock.patch.object(os, "write", write):
            spool.quarantine(self.take(spool)[0], REFUSAL)
        self.assertEqual(len(self.files("quarantine/*.ndjson")[0].read_bytes().splitlines()), 1)
        self.assertEqual(len(self.lines()), 2)

    def test_an_answer_that_is_not_json_or_does_not_fit_loses_its_words(self) -> None:
        spool = self.spool(max_bytes=1000)
        with contextlib.suppress(SpoolFull):
            self.append(spool, *range(100))
        events = self.take(spool)
        for details in (float("nan"), "\ud800", [object()]):
            spool.quarantine(events.pop(), {"status": 400, "details": details})
        with mock.patch.object(_backlog.Backlog, "stored", 2000):
            spool.quarantine(events.pop(), REFUSAL)
        said = [{**line["refusal"], "at": ""} for line in self.lines()]
        self.assertEqual(said[:3], [{"status": 400, "at": ""}] * 3)
        self.assertEqual(said[3], {"status": 400, "code": "validation_failed", "at": ""})

    def test_events_in_quarantine_count_towards_the_limit(self) -> None:
        spool = self.spool(max_bytes=4000)
        self.append(spool, *range(10))
        for event in self.take(spool):
            spool.quarantine(event, REFUSAL)
        spool.tend()
        with self.assertRaisesRegex(SpoolFull, r"[1-9]\d* of them in quarantine"):
            self.append(spool, *range(100))
        with self.assertRaisesRegex(SpoolFull, r"[1-9]\d* of them in quarantine"):
            self.append(self.spool(max_bytes=2000), *range(100))

    def test_invalid_lines_are_reported_as_unreadable(self) -> None:
        spool = self.spool()
        self.append(spool, 0)
        spool.quarantine(self.take(spool)[0], REFUSAL)
        path = self.files("quarantine/*")[0]
        whole = path.read_bytes()
        wrong = b'{"kind":"x"}\n[]\n1\nnull\n{"sealed":"AA=="}\n\n  \n\xff\n' + b"[" * 5000 + b"\n"
        path.write_bytes(whole + wrong + whole[:-20])
        found = [line.event for line in _quarantine.quarantined_lines(str(path))]
        self.assertEqual([event if event is None or event == "sealed" else "event" for event in found], [
            "event", None, None, None, None, "sealed", None, None, None,
        ])  # fmt: skip
        inspected = _inspection.inspect(str(self.root)).quarantine[0]
        self.assertEqual(inspected[1:], (2, 1, 7, [("400", "validation_failed", 1)]))


class Damage(SpoolTest):
    def damaged(self) -> pathlib.Path:
        part = self.left(0, 1, 2)
        segment = next(part.glob("*.segment"))
        data = bytearray(segment.read_bytes())
        data[64 + 39 + 35] ^= 1
        segment.write_bytes(data)
        return segment

    def test_damage_is_kept_reported_and_counted(self) -> None:
        name = self.damaged().stem
        damage: list[tuple[int, int, str | None]] = []
        spool = self.spool(on_damage=lambda *said: damage.append(said))
        for event in self.take(spool):
            spool.settle(event, True)
        spool.close()
        kept = [str(self.root / "damaged" / f"{name}{end}") for end in ("-103.bytes", ".missing")]
        self.assertEqual(damage, [(39, 0, kept[0]), (0, 1, kept[1])])
        self.assertEqual(len(self.told), 2)
        self.assertEqual(_inspection.kept_in(str(self.root)), [(kept[0], 39, None), (kept[1], 66, 1)])
        self.assertEqual(self.files("?" * 26), [])

    def test_damage_that_cannot_be_kept_leaves_the_segment_and_its_marks(self) -> None:
        segment = self.damaged()
        spool = self.spool()
        with mock.patch.object(_backlog, "make_inside", fail(errno.ENOSPC)):
            for event in self.take(spool):
                spool.settle(event, True)
            spool.tend()
        spool.close()
        self.assertEqual([path.name for path in self.files("*/*.segment")], [segment.name])
        again = self.spool()
        self.assertEqual(self.numbers(again), [])
        again.close()
        self.assertEqual(self.files("?" * 26), [])
        self.assertEqual(len(self.files("damaged/*.bytes")), 1)

    def test_a_read_error_is_reported_and_its_segment_left_for_the_next_start(self) -> None:
        self.left(*range(10))
        spool = self.spool()
        with mock.patch.object(_backlog, "pread", fail(errno.EIO)):
            self.assertEqual(self.numbers(spool), [])
        self.assertTrue(any("cannot be read (EIO)" in told for told in self.told))
        spool.close()
        self.assertEqual(self.numbers(self.spool()), list(range(10)))

    def test_a_segment_without_a_descriptor_left_waits_and_is_read_later(self) -> None:
        self.left(0)
        spool = self.spool()
        with mock.patch.object(_backlog, "open_file", fail(errno.EMFILE)):
            self.assertIsNone(spool.take())
        self.assertEqual(self.numbers(spool), [0])

    def lay_beside(self, part: pathlib.Path, version: int, cipher: int) -> list[str]:
        """Adds a segment with its marks to the part, and returns the names in it."""
        name = "f" * 32
        header = bytearray(_format.encode_header(bytes.fromhex(name))[:60])
        header[8:10] = version, cipher
        (part / f"{name}.segment").write_bytes(header + crc32(header).to_bytes(4, "little"))
        (part / f"{name}.done").write_bytes(_format.encode_marks(crc32(b"\xff" * 16), [64]))
        return sorted(os.listdir(part))

    def test_a_part_with_a_sealed_segment_is_left_alone_as_a_whole(self) -> None:
        part = self.left(0)
        before = self.lay_beside(part, 1, 1)
        self.assertIsNone(self.spool().take())
        self.assertEqual(sorted(os.listdir(part)), before)

    def test_a_segment_of_a_later_version_keeps_its_marks(self) -> None:
        part = self.left(0)
        self.lay_beside(part, 2, 0)
        spool = self.spool()
        self.assertEqual(self.numbers(spool), [0])
        left = [f"{'f' * 32}.done", f"{'f' * 32}.segment"]
        self.assertEqual([name for name in sorted(os.listdir(part)) if name[0] == "f"], left)

    def test_a_sealed_segment_whose_header_is_damaged_is_left_alone(self) -> None:
        part = self.left(0)
        segment = next(part.glob("*.segment"))
        identity = bytes.fromhex(segment.stem)
        head = _format.MARKER + (48).to_bytes(4, "little") + b"\x02\x01" + bytes(18) + bytes(16)
        frame = crc32(head, crc32(identity)).to_bytes(4, "little") + head
        segment.write_bytes(bytes(64) + frame)
        spool = self.spool()
        self.assertIsNone(spool.take())
        spool.close()
        self.assertTrue(segment.exists())
        self.assertRegex(self.told[0], "is encrypted; give its key")


class Reentrant(SpoolTest):
    """[R-851] A capture in a signal handler, at any place, neither waits nor is lost."""

    def test_a_signal_handler_during_a_take_can_capture_and_count(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        seen: list[Any] = []
        real = _format.Reader.step

        def step(reader: _format.Reader, limit: int) -> Any:
            if not seen:
                seen.append("signal")
                self.append(spool, 2)
                seen.append(spool.take())
                seen.append(spool.state().waiting)
                spool.tend()
            return real(reader, limit)

        with mock.patch.object(_format.Reader, "step", step):
            self.assertEqual(self.numbers(spool), [0, 1, 2])
        self.assertEqual(seen, ["signal", None, 3])

    def test_an_interrupt_while_an_event_is_taken_or_the_spool_is_tended_leaves_no_lock(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        interrupt = mock.Mock(side_effect=KeyboardInterrupt)
        with mock.patch.object(_format.Reader, "step", interrupt), self.assertRaises(KeyboardInterrupt):
            spool.take()
        with mock.patch.object(_parts.Part, "touch", interrupt), self.assertRaises(KeyboardInterrupt):
            self.beat(spool)
        given: list[int] = []

        def other() -> None:
            given.extend(self.numbers(spool))
            self.beat(spool)
            spool.adopt()

        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        thread.join(120)
        self.assertEqual(given, [0, 1])
        self.assertFalse(thread.is_alive())

    def test_a_signal_while_a_line_is_put_into_quarantine_puts_no_other_in_its_place(self) -> None:
        spool = self.spool()
        self.append(spool, 0, 1)
        first, second = self.take(spool)
        real = _quarantine.make_inside

        def make_inside(path: str) -> None:
            with self.assertRaises(SpoolUnwritable):
                spool.quarantine(second, REFUSAL)
            real(path)

        with mock.patch.object(_quarantine, "make_inside", make_inside):
            spool.quarantine(first, REFUSAL)
        self.assertEqual(len(self.files("quarantine/*")[0].read_bytes().splitlines()), 1)
        spool.quarantine(second, REFUSAL)
        self.assertEqual(spool.state().quarantined, 2)

    def test_a_signal_while_a_part_is_made_leaves_one_part(self) -> None:
        spool = self.spool()
        for path in self.files("?" * 26):
            shutil.rmtree(path)
        real = _parts.prepare
        nested: list[int] = []

        def prepare(path: str) -> None:
            real(path)
            if not nested:
                nested.append(1)
                self.append(spool, 1)

        with mock.patch.object(_parts, "prepare", prepare):
            self.beat(spool)
        self.append(spool, 0)
        self.assertEqual(len(self.files("?" * 26)), 1)
        self.assertEqual(self.numbers(spool), [1, 0])


class Crash(BaseException):
    """The process ends here: no later step happens."""


STEPS = (
    "pwrite",
    "write",
    "ftruncate",
    "unlink",
    "rename",
    "mkdir",
    "rmdir",
    "open",
    "fsync",
    "utime",
    "stat",
)


@contextlib.contextmanager
def crashing(step: int) -> Iterator[list[int]]:
    """The step of that number, from 0, and each later one raise Crash instead of doing anything."""
    taken = [0]

    def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            taken[0] += 1
            if taken[0] > step:
                raise Crash
            return real(*arguments, **named)

        return call

    with contextlib.ExitStack() as stack:
        for name in STEPS:
            stack.enter_context(mock.patch.object(os, name, wrapped(getattr(os, name))))
        yield taken


class Crashes(SpoolTest):
    """[R-851] Wherever a process ends, its acknowledged events are returned until done."""

    def scenario(self, acknowledged: set[int], settled: set[int]) -> None:
        """Adopts, appends over several segments, marks, puts into quarantine, removes and closes."""
        spool = self.spool(max_bytes=1600)
        for number in range(10, 30):
            self.append(spool, number)
            acknowledged.add(number)
            event = spool.take()
            assert event is not None
            if number % 7 == 0:
                spool.quarantine(event, {"status": 400})
            else:
                if number % 3 > 0:
                    settled.add(number_of(event))
                spool.settle(event, number % 3 > 0)
            if number % 4 == 0:
                self.beat(spool)
        spool.close()

    def test_no_end_between_two_steps_loses_an_event(self) -> None:
        step = 0
        finished = False
        while not finished:
            self.left(0, 1, 2, done=(1,))
            acknowledged, settled = {0, 2}, set[int]()
            with crashing(step) as taken, contextlib.suppress(Crash):
                self.scenario(acknowledged, settled)
            self.end_of_process()
            finished = taken[0] <= step
            self.check(acknowledged, settled, f"step {step}")
            shutil.rmtree(self.root)
            step += 1
        self.assertGreater(step, 100)

    def check(self, acknowledged: set[int], settled: set[int], where: str) -> None:
        spool = self.spool()
        given = self.numbers(spool)
        lines = [
            json.loads(line.event.body)["n"]
            for path in _quarantine.quarantine_files(str(self.root))
            for line in _quarantine.quarantined_lines(path)
            if isinstance(line.event, _quarantine.QuarantinedEvent)
        ]
        self.assertEqual(len(given), len(set(given)), where)
        self.assertLessEqual(acknowledged - settled, {*given, *lines}, where)
        # An event that was being appended may be stored; marks that were not moved count as not written.
        self.assertLessEqual({*given, *lines}, acknowledged | {1, max(acknowledged | {9}) + 1}, where)
        self.assertEqual([told for told in self.told if "damaged" in told or "not a frame" in told], [])
        spool.close()

    def test_a_process_that_is_killed_again_and_again_loses_nothing(self) -> None:
        source = str(support.PACKAGE / "src")
        acknowledged: list[int] = []
        for durability in ("os", "os", "fsync", "os"):
            start = str(len(acknowledged))
            arguments = [sys.executable, "-c", APPENDER, str(self.root), source, start, durability]
            with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                while len(acknowledged) < int(start) + 200:
                    acknowledged.append(int(process.stdout.readline()))
                process.send_signal(signal.SIGKILL)
                acknowledged += [int(line) for line in process.stdout.read().split()]
        spool = self.spool()
        given = self.numbers(spool)
        self.assertLessEqual(set(acknowledged), set(given))
        self.assertEqual([told for told in self.told if "damaged" in told], [])


class Forks(SpoolTest):
    """[R-851] A child that a signal handler forks in the middle of a call changes no file of its parent."""

    def contents(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}

    def run_with_fork(self, at: int, owner: object, name: str) -> bool:
        """Runs a scenario in which that call of a function ends in a fork; returns whether it was reached."""
        self.left(0, 1)
        spool = self.spool(max_bytes=1200)
        real_pid = os.getpid
        real = getattr(owner, name)
        calls = 0
        forked = False

        def with_fork(*arguments: Any) -> Any:
            nonlocal calls, forked
            answer = real(*arguments)
            calls += 1
            if calls == at:
                forked = True
                before = self.contents()
                child = os.fork()
                if child == 0:
                    # As for a signal after this call: its caller has the answer to the parent.
                    spool.forget()
                    return answer
                self.assertEqual(os.waitpid(child, 0)[1], 0, f"{name} {at}")
                self.assertEqual(self.contents(), before, f"{name} {at}")
            return answer

        try:
            with mock.patch.object(owner, name, with_fork):
                self.scenario(spool)
        except BaseException as error:
            # In the child only its end may run.
            if real_pid() != self.pid:
                os._exit(0 if isinstance(error, Forked) else 1)
            raise
        if real_pid() != self.pid:
            os._exit(2)
        self.assertEqual(self.numbers(self.spool()), [])
        return forked

    def scenario(self, spool: Spool) -> None:
        for number in range(2, 14):
            self.append(spool, number)
        for event in self.take(spool):
            if number_of(event) == 3:
                spool.quarantine(event, REFUSAL)
            else:
                spool.settle(event, True)
        self.beat(spool)
        spool.close()

    def test_a_fork_after_any_check_leaves_the_parents_files_alone(self) -> None:
        self.pid = os.getpid()
        for owner, name in ((os, "getpid"), (_files.Mine, "check")):
            at = 1
            while self.run_with_fork(at, owner, name):
                shutil.rmtree(self.root)
                at += 1
            shutil.rmtree(self.root)
            self.assertGreater(at, 40)


class Memory(unittest.TestCase):
    def test_it_returns_keeps_counts_and_refuses_like_the_other(self) -> None:
        spool = MemorySpool(max_bytes=200)
        spool.append([(2, AT + 1, body(0)), (3, AT, body(1))])
        with self.assertRaises(SpoolFull):
            spool.append([(2, AT, bytes(100))])
        first, second = spool.take(), spool.take()
        assert first is not None
        assert second is not None
        self.assertIsNone(spool.take())
        self.assertEqual(spool.state(), (2, 2 * 39, 0, 0, 0, AT))
        spool.settle(first, False)
        again = spool.take()
        self.assertIs(again, first)
        spool.settle(first, True)
        spool.settle(first, True)
        spool.quarantine(second, REFUSAL)
        self.assertEqual(spool.state(), (0, 0, 1, 0, 0, None))
        spool.append([(2, AT, bytes(100))])
        self.assertEqual(spool.groups, 2)
        spool.close()
        with self.assertRaises(ClientClosed):
            spool.append([(2, AT, b"")])
        spool.forget()
        self.assertRaises(Forked, spool.take)


if __name__ == "__main__":
    unittest.main()
