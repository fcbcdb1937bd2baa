"""Parts: their owners, and when they are abandoned."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tests import support

from clinical_events import _parts
from clinical_events._errors import SpoolRefused
from clinical_events._files import Forked, Mine
from clinical_events._parts import Part, Watch

# Holds a part until its standard input ends, which it does when the test process does.
HOLDER = """
import sys
sys.path.insert(0, sys.argv[2])
from clinical_events._files import Mine
from clinical_events._parts import Part
part = Part(sys.argv[1], Mine())
print(part.path, flush=True)
sys.stdin.read()
"""


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Parts(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name) / "spool"
        self.root.mkdir(mode=0o700)
        self.clock = Clock()
        self.told: list[str] = []
        self.mine = Mine()

    def part(self, root: pathlib.Path | None = None) -> Part:
        part = Part(str(root or self.root), self.mine)
        self.addCleanup(part.forget)
        return part

    def watch(self) -> Watch:
        return Watch(str(self.root), self.mine, self.told.append, clock=self.clock)

    def left_by(self, host: str) -> pathlib.Path:
        """The part of a killed process of that host."""
        with mock.patch.object(_parts, "HOST", host):
            part = self.part()
        part.forget()
        return pathlib.Path(part.path)

    def touch(self, path: pathlib.Path, seconds: int) -> None:
        os.utime(path / "owner", (seconds, seconds))


class Making(Parts):
    def test_a_part_has_a_lock_and_an_owner_and_no_draft_is_left(self) -> None:
        part = self.part()
        self.assertEqual(os.listdir(self.root), [part.series.hex()])
        self.assertEqual(sorted(os.listdir(part.path)), ["lock", "owner"])
        owner = pathlib.Path(part.path, "owner")
        self.assertEqual(owner.read_text(), f"{_parts.HOST}\n{os.getpid()}\n")
        self.assertEqual((os.stat(part.path).st_mode & 0o777, owner.stat().st_mode & 0o777), (0o700, 0o600))
        self.assertEqual(_parts.read_owner(part.path), (_parts.HOST, os.getpid()))

    def test_the_name_of_a_part_is_durable(self) -> None:
        flushed: list[str] = []
        with mock.patch.object(_parts, "sync_directory", flushed.append):
            self.part()
        self.assertEqual(flushed, [str(self.root)])

    def test_later_parts_sort_after_earlier_ones(self) -> None:
        first = self.part()
        with mock.patch.object(_parts.time, "time", lambda: 5_000_000_000.0):
            self.assertGreater(self.part().series, first.series)

    def test_a_part_that_cannot_be_made_leaves_nothing(self) -> None:
        for name in ("mkdir", "rename", "open"):
            failing = mock.patch.object(os, name, side_effect=OSError(28, "full"))
            with failing, self.assertRaises(OSError):
                self.part()
            self.assertEqual(os.listdir(self.root), [], name)

    def test_the_path_of_a_spool_may_be_longer_than_that_of_a_socket(self) -> None:
        long = self.root / ("long" * 30) / ("er" * 60)
        _parts.make_directory(str(long))
        part = self.part(long)
        self.assertEqual(_parts.lock_state(part.path), "held")
        watch = Watch(str(long), self.mine, self.told.append)
        self.assertEqual(watch.abandoned(), [])
        part.forget()
        self.assertEqual(_parts.lock_state(part.path), "free")
        self.assertEqual(watch.abandoned(), [part.path])

    def test_an_empty_part_is_gone_after_its_end(self) -> None:
        part = self.part()
        part.end()
        self.assertEqual(os.listdir(self.root), [])

    def test_a_part_with_files_can_be_adopted_after_its_end(self) -> None:
        part = self.part()
        pathlib.Path(part.path, "file").touch()
        part.end()
        self.assertEqual(sorted(os.listdir(part.path)), ["file", "lock"])
        self.assertEqual(self.watch().abandoned(), [part.path])

    def test_a_child_closes_what_it_inherited_and_its_parent_still_holds_the_part(self) -> None:
        part = self.part()
        pid = os.fork()
        if pid == 0:
            part.forget()
            self.mine.gone = True
            try:
                part.end()
            except Forked:
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(_parts.lock_state(part.path), "held")
        self.assertEqual(sorted(os.listdir(part.path)), ["lock", "owner"])

    def test_a_directory_of_another_user_or_that_others_can_write_to_is_refused(self) -> None:
        with (
            mock.patch.object(os, "geteuid", lambda: os.stat(self.root).st_uid + 1),
            self.assertRaisesRegex(SpoolRefused, "a spool is for one user"),
        ):
            _parts.prepare(str(self.root))
        for mode in (0o770, 0o702):
            self.root.chmod(mode)
            with self.assertRaisesRegex(SpoolRefused, f"other users can write to .*{mode:o}"):
                _parts.prepare(str(self.root))

    def test_directories_on_the_way_to_a_spool_are_made_for_one_user(self) -> None:
        deep = self.root / "a" / "b"
        _parts.prepare(str(deep))
        self.assertEqual([path.stat().st_mode & 0o777 for path in (deep, deep.parent)], [0o700, 0o700])


class Abandonment(Parts):
    """[R-854] A part is abandoned by three rules and no others, which use no clock that can be set."""

    def test_a_part_is_held_as_long_as_its_process_lives(self) -> None:
        part = self.part()
        watch = self.watch()
        for _ in range(3):
            self.assertEqual(watch.abandoned(), [])
            self.touch(pathlib.Path(part.path), 0)
            self.clock.now += 10_000
        self.assertEqual(watch.watched, 0)

    def test_a_part_is_abandoned_when_its_process_was_killed(self) -> None:
        source = str(support.PACKAGE / "src")
        arguments = [sys.executable, "-c", HOLDER, str(self.root), source]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            path = holder.stdout.readline().strip()
            self.assertEqual(self.watch().abandoned(), [])
            holder.send_signal(signal.SIGKILL)
        self.assertEqual(self.watch().abandoned(), [path])
        self.assertFalse(self.watch().may_come_back(path))

    def test_a_part_without_an_owner_is_abandoned_even_with_a_lock(self) -> None:
        part = self.part()
        os.unlink(os.path.join(part.path, "owner"))
        self.assertEqual(self.watch().abandoned(), [part.path])

    def test_the_process_of_a_part_that_ended_while_watched_cannot_come_back(self) -> None:
        path = self.left_by("the boot before")
        watch = self.watch()
        watch.abandoned()
        (path / "owner").unlink()
        self.assertEqual(watch.abandoned(), [str(path)])
        self.assertFalse(watch.may_come_back(str(path)))

    def test_a_full_queue_of_connections_means_held_without_a_wait(self) -> None:
        part = pathlib.Path(self.part().path)
        (part / "lock").unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
            lock.bind(str(part / "lock"))
            lock.listen(0)
            waiting: list[socket.socket] = []
            while True:
                waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                self.addCleanup(waiting[-1].close)
                waiting[-1].setblocking(False)
                try:
                    waiting[-1].connect(str(part / "lock"))
                except BlockingIOError:
                    break
            self.assertEqual(_parts.lock_state(str(part)), "held")
            self.assertEqual(self.watch().abandoned(), [])

    def test_a_lock_that_is_missing_is_watched_for_three_minutes(self) -> None:
        path = pathlib.Path(self.part().path)
        (path / "lock").unlink()
        watch = self.watch()
        self.assertEqual((watch.abandoned(), watch.watched), ([], 1))
        self.clock.now += 179.9
        self.assertEqual((watch.abandoned(), watch.watched), ([], 1))
        self.clock.now += 0.2
        self.assertEqual((watch.abandoned(), watch.watched), ([str(path)], 0))
        self.assertTrue(watch.may_come_back(str(path)))

    def test_a_touch_of_the_owner_by_any_clock_restarts_the_three_minutes(self) -> None:
        path = self.left_by("the boot before")
        watch = self.watch()
        for seconds in (0, 4_000_000_000, 1_000_000_000):
            self.touch(path, seconds)
            self.assertEqual(watch.abandoned(), [])
            self.clock.now += 179
            self.assertEqual(watch.abandoned(), [])
        self.clock.now += 2
        self.assertEqual(watch.abandoned(), [str(path)])

    def test_a_part_from_before_a_restart_of_the_host_is_watched(self) -> None:
        path = self.left_by("the boot before")
        watch = self.watch()
        self.assertEqual((watch.abandoned(), watch.watched), ([], 1))
        self.clock.now += 180
        self.assertEqual(watch.abandoned(), [str(path)])
        self.assertEqual(self.told, [])

    def test_a_volume_that_has_moved_is_watched(self) -> None:
        part = pathlib.Path(self.part().path)
        moved = self.root.parent / "moved"
        shutil.copytree(self.root, moved, ignore=shutil.ignore_patterns("lock"))
        self.root = moved
        watch = self.watch()
        self.assertEqual((watch.abandoned(), watch.watched), ([], 1))
        self.clock.now += 180
        self.assertEqual(watch.abandoned(), [str(moved / part.name)])

    def test_a_part_of_another_live_host_gives_a_warning_and_is_not_adopted(self) -> None:
        with mock.patch.object(_parts, "HOST", "another host"):
            part = self.part()
        watch = self.watch()
        for beat in range(40):
            self.touch(pathlib.Path(part.path), 1_800_000_000 + beat)
            self.assertEqual(watch.abandoned(), [])
            self.clock.now += 10
        self.assertTrue(all("is in use by another host" in told for told in self.told))
        self.assertGreater(len(self.told), 0)
        self.assertEqual(watch.watched, 0)

    def test_the_own_part_is_skipped(self) -> None:
        path = self.left_by(_parts.HOST)
        self.assertEqual(self.watch().abandoned(str(path)), [])
        self.assertEqual(self.watch().abandoned(), [str(path)])

    def test_an_empty_draft_is_removed_after_three_minutes(self) -> None:
        empty, full = (self.root / f"new-{digit * 26}" for digit in "ab")
        empty.mkdir()
        (empty / "owner").touch()
        full.mkdir()
        (full / "file").touch()
        watch = self.watch()
        watch.abandoned()
        self.assertTrue(empty.exists())
        self.clock.now += 180
        watch.abandoned()
        self.assertEqual(os.listdir(self.root), [full.name])
        self.assertEqual(watch.watched, 0)

    def test_an_owner_that_is_a_link_is_reported_and_its_part_not_adopted(self) -> None:
        path = self.left_by(_parts.HOST)
        (path / "owner").unlink()
        (path / "owner").symlink_to("/etc/hostname")
        self.assertEqual(self.watch().abandoned(), [])
        self.assertRegex(self.told[0], r"cannot be read \(EINVAL\)")

    def test_a_removed_part_is_no_longer_watched(self) -> None:
        path = self.left_by("the boot before")
        watch = self.watch()
        watch.abandoned()
        shutil.rmtree(path)
        self.assertEqual((watch.abandoned(), watch.watched), ([], 0))

    def test_directories_with_other_names_are_skipped(self) -> None:
        for name in ("quarantine", "damaged", "series", "A" * 26, "0" * 27):
            (self.root / name).mkdir()
        self.assertEqual(self.watch().abandoned(), [])


if __name__ == "__main__":
    unittest.main()
