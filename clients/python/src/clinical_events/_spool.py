"""What one process has of a spool directory: it appends, adopts, gives out what waits, marks what is done.

``append`` takes no lock, so that a capture in a signal handler or a destructor never waits for one that its
own thread holds: the appender alone changes what it counts, and what the reader counts changes under a lock.
What a crash at any moment leaves is docs/CLIENT_SPEC.md.
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
"""Seconds between two signs of life, and between two looks at what others have left."""
_AGAIN = 3600.0
_T = TypeVar("_T")


class SpoolState(NamedTuple):
    """What a spool holds; sizes in bytes with their frames, times in milliseconds since 1970."""

    waiting: int
    waiting_bytes: int
    quarantined: int
    """Events that this process has put into quarantine."""
    cut: int
    """Writes of others that were cut off before they were acknowledged."""
    watched: int
    """Parts whose holder cannot be asked, adopted if they show no sign of life for three minutes."""
    oldest: int | None
    """No event that waits was captured before."""


class _Teller:
    """Tells each sentence once an hour: what fails each second would hide all else."""

    def __init__(self, mine: Mine, on_trouble: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._mine = mine
        self._on_trouble = on_trouble
        self._clock = clock
        self._next: dict[str, float] = {}

    def __call__(self, sentence: str) -> None:
        # What fails in a child because its descriptors are closed is nothing to tell.
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
    """All that one process has of a spool directory.

    ``append`` and ``close`` have one caller at a time; any thread may call the others. In a forked child
    every method but ``forget`` raises Forked.
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
        """On return what others have left waits here too. ``patience`` is in seconds.

        ``on_damage`` is given the number of bytes that are no frame, that of events that are missing, and the
        file that keeps or notes them.

        Raises SpoolRefused, and then nothing was touched; SpoolUnwritable. A full disk raises nothing:
        ``append`` refuses until a part can be made.
        """
        if not directory:
            raise SpoolRefused("the directory of the spool has no name")
        self._root = os.path.abspath(directory)
        self._mine = mine = Mine()
        self._tell = tell = _Teller(mine, on_trouble, clock)
        self._clock = clock
        self._patience = patience
        self._max_bytes = max_bytes
        self._watch = Watch(self._root, mine, tell, patience=patience, clock=clock)
        self._backlog = Backlog(self._root, mine, tell, on_damage or _ignore, clock)
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
                # Before anything is made or moved. Adoption reports what else is wrong.
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
            self._tell(f"the disk has no room for a part in {self._root}: events are refused until it has")
            return []
        return left

    def append(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        """On return the group of (kind, milliseconds, body) is as durable as the mode says, and waits.

        Events of one group share their fate. Raises SpoolFull, SpoolUnwritable, ClientClosed; then none of it
        is in the spool, unless ``uncertain`` says so.
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
                f"the spool holds {self._max_bytes} bytes, {self._quarantine.bytes} of them in quarantine, "
                "and takes no more"
            )
        try:
            self._appender.write(events, size)
        except HomeGone:
            self._renew(self._appender.part)
            try:
                self._appender.write(events, size)
            except HomeGone:
                raise SpoolUnwritable(f"what is made in {self._root} is taken away") from None

    def _renew(self, lost: Part | None) -> None:
        """On return there is another part than ``lost``. Raises SpoolFull, SpoolUnwritable, SpoolRefused."""
        with self._renewing:
            try:
                self._mine.check()
                _parts.prepare(self._root)
                part = Part(self._root, self._mine)
            except OSError as error:
                if error.errno in FULL:
                    raise SpoolFull(f"the disk has no room for a part in {self._root}") from error
                raise SpoolUnwritable(f"nothing can be made in {self._root} ({errno_name(error)})") from error
            if self._appender.part is not lost or self._closed:
                # Another thread, or a capture in a signal handler, was faster.
                with contextlib.suppress(OSError):
                    part.end()
                return
            self._appender.part = part
        if lost is not None:
            self._tell(f"{lost.path} was taken away; new events go to {part.path}")
            with contextlib.suppress(OSError):
                lost.end()

    def take(self) -> SpooledEvent | None:
        """The next event that waits, the oldest segment first; None when there is nothing now."""
        self._mine.check()
        return None if self._closed else self._alone(self._backlog.take)

    def settle(self, event: SpooledEvent, done: bool) -> None:
        """``done``: it is marked within a second, and never given out. Otherwise ``take`` gives it again."""
        self._mine.check()
        if event.out:
            event.out = False
            self._backlog.settled.append((event, done))

    def quarantine(self, event: SpooledEvent, refusal: Mapping[str, Any]) -> None:
        """On return the event stands in quarantine with its answer, as durable as the mode says, and is done.

        Raises SpoolFull, SpoolUnwritable; then it is as if nothing had been called.
        """
        self._mine.check()
        if not event.out:
            return
        with self._quarantining:
            if self._in_quarantine:
                raise SpoolUnwritable("a signal came while another event was put into quarantine")
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
        # At once: after a crash it would stand there twice.
        self._alone(self._backlog.note)

    def tend(self) -> None:
        """On return what is done is marked, and what is finished removed; ``on_trouble`` hears of faults.

        One thread calls it about each second. Every ten seconds it shows that this process lives, and adopts.
        """
        self._mine.check()
        self._tend_alone(self._tend)

    def adopt(self) -> None:
        """On return what is abandoned now waits here."""
        self._mine.check()
        self._await_tending()
        self._tend_alone(self._look_around)

    def state(self) -> SpoolState:
        """What waits now. Reads what others have left to count it, once."""
        self._mine.check()
        self._alone(self._backlog.drain)
        # Counting changes nothing, so that a signal handler may do it in the middle of another call.
        waiting, size, oldest = self._alone(self._backlog.count) or self._backlog.count()
        return SpoolState(waiting, size, self._quarantined, self._backlog.cut, self._watch.watched, oldest)

    @property
    def groups(self) -> int:
        """How many groups were appended: tells what became of one whose append was interrupted."""
        return self._appender.groups

    @property
    def watched(self) -> int:
        """As ``SpoolState`` has it."""
        return self._watch.watched

    def forget(self) -> None:
        """In a forked child: closes what was inherited. Takes no lock and changes nothing on the disk."""
        self._mine.gone = True
        self._appender.forget()
        self._backlog.stop_reading()
        if self._appender.part is not None:
            self._appender.part.forget()

    def close(self) -> None:
        """On return what is done is marked, and what waits is anyone's who opens the directory."""
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
            self._tell(f"the part of this process could not be released ({errno_name(error)})")

    # An interrupt comes between a call of ``acquire`` and the next statement, and never into a ``with``.

    def _alone(self, work: Callable[[], _T]) -> _T | None:
        """Works while no other thread does; not at all when a signal has interrupted this thread in it."""
        with self._lock:
            if self._inside:
                return None
            try:
                self._inside = True
                return work()
            finally:
                self._inside = False

    def _tend_alone(self, work: Callable[[], None]) -> None:
        """The same for tending, and not at all when another thread tends."""
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
        """Waits five seconds at most for a thread that tends, never for this one."""
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
            self._tell(f"this process could not show that it lives ({errno_name(error)})")
        try:
            if gone:
                self._renew(part)
        except Refused as error:
            self._tell(f"there is no part for this process, and new events are refused: {error}")
        self._quarantine.weigh()
        self._look_around()

    def _look_around(self) -> None:
        part = self._appender.part
        if part is None or self._closed:
            return
        try:
            self._adopt(self._watch.abandoned(part.path))
        except OSError as error:
            self._tell(f"what other processes may have left could not be looked at ({errno_name(error)})")

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
                self._tell(f"{path} is left as it is ({errno_name(error)})")
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
            self._tell(f"{segment.path} {segment.why}; it is left as it is")
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
                self._tell(f"{left.path} could not be taken over ({errno_name(error)})")
        try:
            if taken:
                sync_directory(part.path)
            if alone:
                self._remove_part(directory)
        except OSError as error:
            self._tell(f"{directory} could not be removed ({errno_name(error)})")
        return taken

    def _move(self, left: LeftSegment, directory: str, part: Part) -> Segment:
        segment = Segment(part.path, left.name, left.header.identity, own=False)
        self._mine.rename(left.path, segment.path)
        # Only now: the marks are for whoever has won the segment.
        with contextlib.suppress(OSError):
            self._mine.rename(os.path.join(directory, left.name + ".done"), segment.marks_path)
        segment.end = max(HEADER_BYTES, os.stat(segment.path).st_size)
        if left.damaged:
            self._tell(f"the header of segment {left.name} is damaged; it is read by its name")
        return segment

    def _remove_part(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            for file in os.listdir(directory):
                # Its segment is gone.
                if file.endswith(".done"):
                    self._mine.remove(os.path.join(directory, file))
            _parts.remove_emptied(directory, self._mine)


class MemorySpool:
    """The same in memory: nothing is written anywhere, and what waits is lost when the process ends."""

    watched = 0

    def __init__(self, *, max_bytes: int = MEMORY_BYTES) -> None:
        self._mine = Mine()
        self._max_bytes = max_bytes
        self._stored = 0
        self._events: dict[SpooledEvent, None] = {}
        """Those that are not done, in order: its single steps are atomic, so that no lock is needed."""
        self._waiting: deque[SpooledEvent] = deque()
        self._gone: deque[int] = deque()
        self._quarantined = 0
        self._closed = False
        self.groups = 0

    def append(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        """On return the group waits. Raises SpoolFull, ClientClosed."""
        self._mine.check()
        if self._closed:
            raise ClientClosed
        while self._gone:
            self._stored -= self._gone.popleft()
        size = sum(FRAME_BYTES + len(body) for _, _, body in events)
        if self._stored + size > self._max_bytes:
            raise SpoolFull(f"the spool in memory holds {self._max_bytes} bytes, and takes no more")
        self._stored += size
        for kind, at, body in events:
            event = SpooledEvent(kind, at, body, None, 0, FRAME_BYTES + len(body))
            self._events[event] = None
            self._waiting.append(event)
        self.groups += 1

    def take(self) -> SpooledEvent | None:
        """The next event that waits; None when there is nothing now."""
        self._mine.check()
        try:
            event = self._waiting.popleft()
        except IndexError:
            return None
        event.out = True
        return event

    def settle(self, event: SpooledEvent, done: bool) -> None:
        """``done``: it is forgotten. Otherwise ``take`` gives it out again."""
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
        """On return the event is forgotten: there is no place for it."""
        self._quarantined += event.out
        self.settle(event, True)

    def state(self) -> SpoolState:
        """What waits now."""
        self._mine.check()
        events = list(self._events)
        oldest = min((event.captured_at for event in events), default=None)
        size = sum(event.size for event in events)
        return SpoolState(len(events), size, self._quarantined, 0, 0, oldest)

    def tend(self) -> None:
        """Nothing: what is done is forgotten at once."""

    def adopt(self) -> None:
        """Nothing: no other process leaves anything here."""

    def forget(self) -> None:
        """In a forked child: what waits is the parent's."""
        self._mine.gone = True

    def close(self) -> None:
        """On return nothing more is taken."""
        self._closed = True
