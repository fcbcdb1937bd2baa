"""The spool of one process: appends events, adopts abandoned parts, hands out events, and marks them done.

``append`` takes no lock, so that a capture in a signal handler or a destructor never waits for a lock of its
own thread: only the appender changes the appender's counts; the reader's counts change under a lock.
docs/CLIENT_SPEC.md describes what a crash at any moment leaves on the disk.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from . import _parts, _system
from ._appender import Appender, HomeGone
from ._backlog import Backlog
from ._errors import ClientClosed, Refused, SpoolFull, SpoolRefused, SpoolUnwritable
from ._files import FULL, Forked, Mine, errno_name, sync_directory
from ._format import FRAME_BYTES, HEADER_BYTES, MAX_SEGMENT_BYTES, SEGMENT_BYTES
from ._parts import PATIENCE, Part, Watch
from ._quarantine import Quarantine
from ._segment import EARLIER, SEALED, LeftSegment, Segment, SpooledEvent, examine

__all__ = ["MAX_BYTES", "Forked", "MemorySpool", "Spool", "SpoolState", "SpooledEvent"]

MAX_BYTES = 8 << 30
MEMORY_BYTES = 64 << 20
BEAT = 10.0
"""Seconds between two touches of ``owner``, and between two searches for abandoned parts."""
_AGAIN = 3600.0
_T = TypeVar("_T")


class SpoolState(NamedTuple):
    """Counts of a spool. Sizes are in bytes, frames included; times are in milliseconds since 1970."""

    waiting: int
    waiting_bytes: int
    quarantined: int
    """Events that this process put into quarantine."""
    cut: int
    """Writes of other processes that were cut off before they were acknowledged."""
    watched: int
    """Parts whose lock cannot be probed. They are adopted when ``owner`` is unchanged for three minutes."""
    oldest: int | None
    """A lower bound of the capture time of all waiting events."""


class _Teller:
    """Reports each sentence once an hour, so that a fault that recurs every second does not hide others."""

    def __init__(self, mine: Mine, on_trouble: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._mine = mine
        self._on_trouble = on_trouble
        self._clock = clock
        self._next: dict[str, float] = {}

    def __call__(self, sentence: str) -> None:
        # A forked child has closed descriptors; their faults are not reported.
        self._mine.check()
        now = self._clock()
        if now < self._next.get(sentence, now):
            return
        if len(self._next) >= 1000:
            self._next.clear()
        self._next[sentence] = now + _AGAIN
        self._on_trouble(sentence)


def _ignore(_bytes: int, _missing: int, _kept: str | None) -> None:
    return


class Spool:
    """The spool of one process in a spool directory.

    Only one thread at a time may call ``append`` or ``close``; any thread may call the others. In a forked
    child every method but ``forget`` raises Forked.
    """

    def __init__(
        self,
        directory: str,
        *,
        durability: str = "os",
        max_bytes: int = MAX_BYTES,
        on_trouble: Callable[[str], None],
        on_damage: Callable[[int, int, str | None], None] | None = None,
        patience: float = PATIENCE,
        clock: Callable[[], float] = _system.monotonic,
    ) -> None:
        """Opens the spool and adopts abandoned parts. ``patience`` is in seconds.

        ``on_damage`` receives the number of damaged bytes, the number of missing events, and the file that
        keeps or notes them.

        Raises SpoolRefused, before it changes anything, and SpoolUnwritable. A full disk does not raise:
        ``append`` refuses events until a part can be made.
        """
        if not directory:
            raise SpoolRefused("the spool directory has no name")
        self._root = os.path.abspath(directory)
        self._mine = mine = Mine()
        self._report = report = _Teller(mine, on_trouble, clock)
        self._clock = clock
        self._patience = patience
        self._max_bytes = max_bytes
        self._watch = Watch(self._root, mine, report, patience=patience, clock=clock)
        self._backlog = Backlog(self._root, mine, report, on_damage or _ignore, clock)
        durable = durability == "fsync"
        size = min(SEGMENT_BYTES, max_bytes // 4)
        self._appender = Appender(mine, durable=durable, segment_bytes=size, backlog=self._backlog)
        self._lock = _system.RLock()
        self._inside = False
        self._renewing = _system.RLock()
        self._quarantining = _system.RLock()
        self._in_quarantine = False
        self._tending = _system.RLock()
        self._tending_by = 0
        self._closed = False
        self._quarantined = 0
        self._next_beat = clock() + BEAT
        left = self._open()
        series = self._appender.part.series if self._appender.part else _parts.new_series()
        self._quarantine = Quarantine(self._root, series, mine, durable=durable)
        self._quarantine.weigh()
        self._adopt(left)

    def _open(self) -> list[str]:
        try:
            _parts.prepare(self._root)
            left = self._watch.abandoned()
            for path in left:
                # Checked before anything is made or moved. Adoption reports all other faults.
                with contextlib.suppress(OSError):
                    for segment in examine(path):
                        if segment.why == EARLIER:
                            raise SpoolRefused(f"{segment.path} {EARLIER}")
            self._appender.part = Part(self._root, self._mine)
        except OSError as error:
            if error.errno not in FULL:
                raise SpoolUnwritable(
                    f"{self._root} cannot be used as a spool ({errno_name(error)})"
                ) from error
            self._report(f"the disk has no room for a part in {self._root}: events are refused")
            return []
        return left

    def append(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        """Appends a group of (kind, milliseconds, body). On return it is as durable as the mode says.

        A group is appended whole or not at all. If it raises SpoolFull, SpoolUnwritable or ClientClosed, the
        group is not in the spool, unless ``uncertain`` is set.
        """
        self._mine.check()
        if self._closed:
            raise ClientClosed
        size = FRAME_BYTES * len(events)
        for _, _, body in events:
            size += len(body)
        if size + HEADER_BYTES > MAX_SEGMENT_BYTES:
            raise SpoolUnwritable(f"the events take more than the {MAX_SEGMENT_BYTES} bytes of a segment")
        if self._backlog.stored + self._quarantine.bytes + size + HEADER_BYTES > self._max_bytes:
            raise SpoolFull(
                f"the spool holds its limit of {self._max_bytes} bytes, "
                f"{self._quarantine.bytes} of them in quarantine"
            )
        try:
            self._appender.write(events, size)
        except HomeGone:
            self._renew(self._appender.part)
            try:
                self._appender.write(events, size)
            except HomeGone:
                raise SpoolUnwritable(f"files that are made in {self._root} disappear") from None

    def _renew(self, lost: Part | None) -> None:
        """Makes a part in place of ``lost``. Raises SpoolFull, SpoolUnwritable, SpoolRefused."""
        with self._renewing:
            try:
                self._mine.check()
                _parts.prepare(self._root)
                part = Part(self._root, self._mine)
            except OSError as error:
                if error.errno in FULL:
                    raise SpoolFull(f"the disk has no room for a part in {self._root}") from error
                raise SpoolUnwritable(f"no part can be made in {self._root} ({errno_name(error)})") from error
            if self._appender.part is not lost or self._closed:
                # Another thread, or a capture in a signal handler, was faster.
                with contextlib.suppress(OSError):
                    part.end()
                return
            self._appender.part = part
        if lost is not None:
            self._report(f"{lost.path} was adopted or removed; new events go to {part.path}")
            with contextlib.suppress(OSError):
                lost.end()

    def take(self) -> SpooledEvent | None:
        """Returns the next waiting event, the oldest segment first; None when no event waits."""
        self._mine.check()
        return None if self._closed else self._alone(self._backlog.take)

    def settle(self, event: SpooledEvent, done: bool) -> None:
        """Takes an event back. If ``done``, it is marked within a second; otherwise it is handed out
        again."""
        self._mine.check()
        if event.out:
            event.out = False
            self._backlog.settled.append((event, done))

    def quarantine(self, event: SpooledEvent, refusal: Mapping[str, Any]) -> None:
        """Moves the event with its answer into quarantine, as durably as the mode says, and marks it done.

        If it raises SpoolFull or SpoolUnwritable, nothing has changed.
        """
        self._mine.check()
        if not event.out:
            return
        with self._quarantining:
            if self._in_quarantine:
                raise SpoolUnwritable("a signal interrupted a write to quarantine")
            try:
                self._in_quarantine = True
                full = self._backlog.stored + self._quarantine.bytes >= self._max_bytes
                self._quarantine.add(event, refusal, full=full)
                self._quarantined += 1
            except OSError as error:
                message = f"an event could not be put into quarantine ({errno_name(error)})"
                raise (SpoolFull if error.errno in FULL else SpoolUnwritable)(message) from error
            finally:
                self._in_quarantine = False
        self.settle(event, True)
        # Marked immediately: otherwise it could be in quarantine twice after a crash.
        self._alone(self._backlog.note)

    def tend(self) -> None:
        """Writes marks and removes finished segments. Faults are reported to ``on_trouble``.

        One thread calls it about once a second. Every ten seconds it touches ``owner`` and adopts parts.
        """
        self._mine.check()
        self._tend_alone(self._tend)

    def adopt(self) -> None:
        """Adopts the parts that are abandoned now."""
        self._mine.check()
        self._await_tending()
        self._tend_alone(self._look_around)

    def state(self) -> SpoolState:
        """Returns the current counts. The first call reads the adopted segments to count them."""
        self._mine.check()
        self._alone(self._backlog.drain)
        # Counting changes nothing, so a signal handler may count in the middle of another call.
        waiting, size, oldest = self._alone(self._backlog.count) or self._backlog.count()
        return SpoolState(waiting, size, self._quarantined, self._backlog.cut, self._watch.watched, oldest)

    @property
    def groups(self) -> int:
        """The number of appended groups, which shows whether an interrupted append succeeded."""
        return self._appender.groups

    @property
    def watched(self) -> int:
        """``SpoolState.waiting``, without the other counts."""
        return self._watch.watched

    def forget(self) -> None:
        """Closes inherited descriptors in a forked child. Takes no lock and changes nothing on the disk."""
        self._mine.gone = True
        self._appender.forget()
        self._backlog.stop_reading()
        if self._appender.part is not None:
            self._appender.part.forget()

    def close(self) -> None:
        """Writes the marks and releases the part, so that the next process on the directory adopts it."""
        self._mine.check()
        if self._closed:
            return
        self._closed = True
        self._await_tending()
        self._appender.finish()
        self._alone(self._backlog.note)
        self._alone(self._backlog.stop_reading)
        part = self._appender.part
        try:
            if part is not None:
                part.end()
        except OSError as error:
            self._report(f"the part of this process could not be released ({errno_name(error)})")

    # An interrupt may come between ``acquire`` and the next statement, but not inside ``with``.

    def _alone(self, work: Callable[[], _T]) -> _T | None:
        """Runs ``work`` under the lock. In a signal handler that interrupted such work, returns None
        instead."""
        with self._lock:
            if self._inside:
                return None
            try:
                self._inside = True
                return work()
            finally:
                self._inside = False

    def _tend_alone(self, work: Callable[[], None]) -> None:
        """Runs ``work`` unless a thread is tending already."""
        if self._tending_by:
            return
        with self._tending:
            if self._tending_by:
                return
            try:
                self._tending_by = _system.thread_ident()
                work()
            finally:
                self._tending_by = 0

    def _await_tending(self) -> None:
        """Waits at most five seconds for another thread that tends, never for this thread."""
        for _ in range(500):
            if self._tending_by in (0, _system.thread_ident()):
                return
            _system.sleep(0.01)

    def _tend(self) -> None:
        self._alone(self._backlog.note)
        if self._clock() >= self._next_beat and not self._closed:
            self._next_beat = self._clock() + BEAT
            self._beat()

    def _beat(self) -> None:
        part = self._appender.part
        gone = part is None
        try:
            if part is not None:
                part.touch()
        except FileNotFoundError:
            gone = True
        except OSError as error:
            self._report(f"the owner file could not be touched ({errno_name(error)})")
        try:
            if gone:
                self._renew(part)
        except Refused as error:
            self._report(f"this process has no part, so new events are refused: {error}")
        self._quarantine.weigh()
        self._look_around()

    def _look_around(self) -> None:
        part = self._appender.part
        if part is None or self._closed:
            return
        try:
            self._adopt(self._watch.abandoned(part.path))
        except OSError as error:
            self._report(f"the search for abandoned parts failed ({errno_name(error)})")

    def _adopt(self, left: list[str]) -> None:
        part = self._appender.part
        if part is None:
            return
        segments: list[Segment] = []
        for path in left:
            rests = self._clock() + self._patience / 6 if self._watch.may_come_back(path) else 0.0
            try:
                taken = self._adopt_part(path, part)
            except FileNotFoundError:
                # Another process was faster.
                continue
            except OSError as error:
                self._report(f"{path} is left unchanged ({errno_name(error)})")
                continue
            for segment in taken:
                segment.rests_until = rests
            segments += taken
        if segments:
            self._backlog.arrived.append(segments)

    def _adopt_part(self, directory: str, part: Part) -> list[Segment]:
        found = examine(directory)
        unfit = [segment for segment in found if segment.why]
        for segment in unfit:
            self._report(f"{segment.path} {segment.why}; it is left unchanged")
        if any(segment.why in (EARLIER, SEALED) for segment in unfit):
            return []
        taken: list[Segment] = []
        alone = not unfit
        for left in found:
            if left.why:
                continue
            try:
                taken.append(self._move(left, directory, part))
            except FileNotFoundError:
                alone = False
            except OSError as error:
                alone = False
                self._report(f"{left.path} could not be adopted ({errno_name(error)})")
        try:
            if taken:
                sync_directory(part.path)
            if alone:
                self._remove_part(directory)
        except OSError as error:
            self._report(f"{directory} could not be removed ({errno_name(error)})")
        return taken

    def _move(self, left: LeftSegment, directory: str, part: Part) -> Segment:
        segment = Segment(part.path, left.name, left.header.identity, own=False)
        self._mine.rename(left.path, segment.path)
        # The marks are read only now: they belong to the process that won the segment.
        with contextlib.suppress(OSError):
            self._mine.rename(os.path.join(directory, left.name + ".done"), segment.marks_path)
        segment.end = max(HEADER_BYTES, os.stat(segment.path).st_size)
        if left.damaged:
            self._report(f"the header of segment {left.name} is damaged; its name is used instead")
        return segment

    def _remove_part(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            for file in os.listdir(directory):
                # The segment of these marks is gone.
                if file.endswith(".done"):
                    self._mine.remove(os.path.join(directory, file))
            _parts.remove_emptied(directory, self._mine)


class MemorySpool:
    """A spool in memory: nothing is written, and waiting events are lost when the process ends."""

    watched = 0

    def __init__(self, *, max_bytes: int = MEMORY_BYTES) -> None:
        self._mine = Mine()
        self._max_bytes = max_bytes
        self._stored = 0
        self._events: dict[SpooledEvent, None] = {}
        """Events that are not done, in order. Each step on it is atomic, so no lock is needed."""
        self._waiting: deque[SpooledEvent] = deque()
        self._gone: deque[int] = deque()
        self._quarantined = 0
        self._closed = False
        self.groups = 0

    def append(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        """Appends the group. Raises SpoolFull, ClientClosed."""
        self._mine.check()
        if self._closed:
            raise ClientClosed
        while self._gone:
            self._stored -= self._gone.popleft()
        size = sum(FRAME_BYTES + len(body) for _, _, body in events)
        if self._stored + size > self._max_bytes:
            raise SpoolFull(f"the spool in memory holds its limit of {self._max_bytes} bytes")
        self._stored += size
        for kind, at, body in events:
            event = SpooledEvent(kind, at, body, None, 0, FRAME_BYTES + len(body))
            self._events[event] = None
            self._waiting.append(event)
        self.groups += 1

    def take(self) -> SpooledEvent | None:
        """Returns the next waiting event; None when no event waits."""
        self._mine.check()
        try:
            event = self._waiting.popleft()
        except IndexError:
            return None
        event.out = True
        return event

    def settle(self, event: SpooledEvent, done: bool) -> None:
        """Takes an event back. If ``done``, it is dropped; otherwise ``take`` returns it again."""
        self._mine.check()
        if not event.out:
            return
        event.out = False
        if not done:
            self._waiting.append(event)
        elif event in self._events:
            del self._events[event]
            self._gone.append(event.size)

    def quarantine(self, event: SpooledEvent, refusal: Mapping[str, Any]) -> None:
        """Drops the event: there is no quarantine in memory."""
        self._quarantined += event.out
        self.settle(event, True)

    def state(self) -> SpoolState:
        """Returns the current counts."""
        self._mine.check()
        events = list(self._events)
        oldest = min((event.captured_at for event in events), default=None)
        size = sum(event.size for event in events)
        return SpoolState(len(events), size, self._quarantined, 0, 0, oldest)

    def tend(self) -> None:
        """Does nothing: an event that is done is dropped immediately."""

    def adopt(self) -> None:
        """Does nothing: no other process leaves parts here."""

    def forget(self) -> None:
        """Drops the events in a forked child: they belong to the parent."""
        self._mine.gone = True

    def close(self) -> None:
        """Refuses further events."""

        self._closed = True
