"""The waiting events: segments in reading order, events handed out, and events that are done."""

from __future__ import annotations

import errno
import json
import os
from collections import deque
from collections.abc import Callable

from ._files import Mine, datasync, errno_name, make_inside, open_file, pread, sync_directory, write_all
from ._format import Frame, Lost, Reader, encode_marks
from ._segment import Segment, SpooledEvent, load_marks, survey

_MOST_MARKS = 1 << 17
"""Maximum number of marks kept while the disk accepts none; further events are sent again after a crash."""
_CHUNK_BYTES = 1 << 20


class Backlog:
    """The waiting events. For events that were not handed out yet, it holds only their number.

    All methods but ``begin`` are for the thread that holds the lock of the spool. Any thread may append to
    ``settled`` and ``arrived``.
    """

    def __init__(
        self,
        root: str,
        mine: Mine,
        report: Callable[[str], None],
        on_damage: Callable[[int, int, str | None], None],
        clock: Callable[[], float],
    ) -> None:
        self._root = root
        self._mine = mine
        self._report = report
        self._on_damage = on_damage
        self._clock = clock
        self.segments: list[Segment] = []
        self._to_read: list[Segment] = []
        self.settled: deque[tuple[SpooledEvent, bool]] = deque()
        self.arrived: deque[list[Segment]] = deque()
        """Segments that other processes left."""
        self._back: deque[SpooledEvent] = deque()
        self._back_first = False
        self._marks = 0
        self.written = 0
        self._adopted = 0
        self._removed = 0
        self._cut = 0

    @property
    def stored(self) -> int:
        """Bytes of all segments, finished ones included until they are removed."""
        return self.written + self._adopted - self._removed

    def begin(self, segment: Segment) -> None:
        """Adds a growing segment, to be read last. The appender calls it without the lock."""
        self.written += segment.end
        self.segments.append(segment)
        self._to_read.append(segment)

    def take(self) -> SpooledEvent | None:
        """Returns the next event. Every other call returns one that was given back, so that none starves."""
        self.drain()
        self._back_first = not self._back_first
        if not (self._back_first and self._back):
            event = self._read_on()
            if event is not None or not self._back:
                return event
        event = self._back.popleft()
        event.out = True
        return event

    def drain(self) -> None:
        """Records the events that were settled and the segments that arrived."""
        while self.arrived:
            for left in self.arrived.popleft():
                self._adopted += left.end
                self.segments.append(left)
                self._read_in_order(left)
        while self.settled:
            event, done = self.settled.popleft()
            segment = event.segment
            if not done:
                self._back.append(event)
            elif segment is not None:
                segment.settled += 1
                segment.settled_bytes += event.size
                if self._marks < _MOST_MARKS:
                    self._marks += 1
                    segment.marks.append(event.offset)

    def _read_in_order(self, segment: Segment) -> None:
        """Reads the oldest segment first. The appender may append meanwhile."""
        at = 0
        while at < len(self._to_read) and self._to_read[at].name < segment.name:
            at += 1
        self._to_read.insert(at, segment)

    def _read_on(self) -> SpooledEvent | None:
        at = 0
        while at < len(self._to_read):
            segment = self._to_read[at]
            # Read before the end is queried, so that every earlier append lies before that end.
            complete = segment.complete
            reader = segment.reader or self._open(segment)
            if reader is None:
                if segment in self._to_read:
                    return None
                continue
            found = reader.step(segment.end)
            if isinstance(found, Frame):
                if not segment.count.meet(found, segment.done):
                    continue
                segment.met += 1
                segment.met_bytes += found.size
                kind, captured_at, body = found.kind, found.captured_at, found.body
                return SpooledEvent(kind, captured_at, body, segment, found.offset, found.size)
            if found is not None:
                self._set_aside(segment, found)
            elif complete:
                self._end_reading(segment, reader)
            else:
                # The segment may grow, and later segments may hold events.
                at += 1
        return None

    def _open(self, segment: Segment) -> Reader | None:
        try:
            if not segment.own:
                segment.done, segment.marks_end = load_marks(segment)
            segment.fd = open_file(segment.path, os.O_RDONLY)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                return None
            # A fault of this segment does not stop the next one. A segment that is gone was adopted.
            if error.errno != errno.ENOENT:
                self._report(
                    f"{segment.path} cannot be read ({errno_name(error)}); the next start tries again"
                )
            self._to_read.remove(segment)
            self._drop(segment)
            return None
        segment.reader = Reader(self._read(segment.fd), segment.start)
        return segment.reader

    def _read(self, fd: int) -> Callable[[int, int], bytes]:
        def read(size: int, offset: int) -> bytes:
            self._mine.check()
            return pread(fd, size, offset)

        return read

    def _drop(self, segment: Segment) -> None:
        if segment in self.segments:
            self.segments.remove(segment)
            self._removed += segment.end
            self._cut += segment.cut
            self._marks -= len(segment.marks)
            segment.marks.clear()

    def _set_aside(self, segment: Segment, lost: Lost) -> None:
        # A write that this process acknowledged was not cut off, whatever the bytes look like now.
        if lost.cut and not segment.own and not segment.count.ended:
            segment.cut += 1
            return
        kept: str | None = None
        what = f"{lost.size} bytes at {lost.offset} of segment {segment.name} are not a frame"
        try:
            kept = self._keep(segment, lost)
            self._report(f"{what}; they are {'kept in ' + kept if kept else 'zeros'}")
        except OSError as error:
            segment.keep = True
            self._report(
                f"{what} and cannot be kept ({errno_name(error)}); the segment is left for the next start"
            )
        self._on_damage(lost.size, 0, kept)

    def _keep(self, segment: Segment, lost: Lost) -> str | None:
        """Stores the bytes durably in ``damaged`` and returns the file; None if they are all zeros."""
        directory = os.path.join(self._root, "damaged")
        path = os.path.join(directory, f"{segment.name}-{lost.offset}.bytes")
        copy = -1
        try:
            for done in range(0, lost.size, _CHUNK_BYTES):
                data = pread(segment.fd, min(_CHUNK_BYTES, lost.size - done), lost.offset + done)
                if copy < 0:
                    if not any(data):
                        continue
                    make_inside(directory)
                    copy = open_file(path, os.O_WRONLY | os.O_CREAT, self._mine)
                write_all(self._mine, copy, data, done)
            if copy < 0:
                return None
            datasync(copy)
            sync_directory(directory)
            return path
        finally:
            if copy >= 0:
                os.close(copy)

    def _note_missing(self, segment: Segment, missing: int) -> None:
        """Reports missing events before the segment, their last trace, is removed."""
        directory = os.path.join(self._root, "damaged")
        path: str | None = os.path.join(directory, segment.name + ".missing")
        text = json.dumps({"segment": segment.name, "missing_events": missing}, separators=(",", ":"))
        try:
            make_inside(directory)
            fd = open_file(f"{path}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self._mine)
            try:
                write_all(self._mine, fd, text.encode() + b"\n", 0)
                datasync(fd)
                sync_directory(directory)
            finally:
                os.close(fd)
        except OSError:
            segment.keep = True
            path = None
        self._report(f"segment {segment.name} is damaged: {missing} of its events are missing")
        self._on_damage(0, missing, path)

    def _end_reading(self, segment: Segment, reader: Reader) -> None:
        segment.stop_reading()
        self._to_read.remove(segment)
        missing = segment.count.missing(segment.done)
        if segment.own:
            missing = max(missing, (segment.events or 0) - segment.met)
        if reader.unreadable is not None:
            # The next start may be able to read it.
            segment.keep = True
            self._report(f"a part of {segment.path} cannot be read ({errno_name(reader.unreadable)})")
        elif missing:
            self._note_missing(segment, missing)
        segment.done = set()
        segment.events = segment.met
        segment.bytes = segment.met_bytes
        segment.read = True

    def stop_reading(self) -> None:
        """Closes the segments that are open for reading."""
        for segment in list(self.segments):
            segment.stop_reading()

    def note(self) -> None:
        """Writes marks and removes finished segments; faults are reported to ``on_trouble``."""
        self.drain()
        for segment in list(self.segments):
            try:
                if segment.finished and self._remove(segment):
                    continue
                if segment.marks:
                    self._mark(segment)
            except OSError as error:
                self._report(f"the marks of {segment.path} could not be written ({errno_name(error)})")

    def _mark(self, segment: Segment) -> None:
        batch = encode_marks(segment.start, segment.marks)
        try:
            fd = open_file(segment.marks_path, os.O_RDWR | os.O_CREAT, self._mine)
        except FileNotFoundError:
            # The directory was adopted; its unmarked events are sent again.
            self._marks -= len(segment.marks)
            segment.marks.clear()
            return
        try:
            write_all(self._mine, fd, batch, segment.marks_end)
        finally:
            os.close(fd)
        segment.marks_end += len(batch)
        self._marks -= len(segment.marks)
        segment.marks.clear()

    def _remove(self, segment: Segment) -> bool:
        """Removes a finished segment. Returns whether it was dropped. A resting segment is marked like any
        other."""
        if segment.rests_until:
            if self._clock() < segment.rests_until:
                return False
            if segment.marks:
                self._mark(segment)
            return self._look_again(segment)
        segment.stop_reading()
        if segment in self._to_read:
            self._to_read.remove(segment)
        if segment.keep:
            if segment.marks:
                self._mark(segment)
        else:
            # The segment is removed first: marks without a segment are harmless.
            self._mine.remove(segment.path)
            self._mine.remove(segment.marks_path)
        self._drop(segment)
        return True

    def _look_again(self, segment: Segment) -> bool:
        """Removes the segment unless it grew: a paused writer may not know that it was adopted."""
        size = os.stat(segment.path, follow_symlinks=False).st_size
        segment.rests_until = 0.0
        if size <= segment.end:
            return self._remove(segment)
        again = Segment(os.path.dirname(segment.path), segment.name, segment.id, own=False)
        again.end = size
        self._adopted += size - segment.end
        self.segments.remove(segment)
        self.segments.append(again)
        self._read_in_order(again)
        return True

    def count(self) -> tuple[int, int, int | None]:
        """Returns the number and bytes of waiting events and the time of the first capture."""
        waiting = size = 0
        oldest: int | None = None
        for segment in list(self.segments):
            events, taken = self._waiting(segment)
            waiting += events
            size += taken
            if events and segment.first_at is not None:
                oldest = min(oldest or segment.first_at, segment.first_at)
        return waiting, size, oldest

    def _waiting(self, segment: Segment) -> tuple[int, int]:
        """Returns the number and bytes of events that are not settled."""
        if segment.events is None:
            try:
                self._survey(segment)
            except OSError:
                return 0, 0
        return (segment.events or 0) - segment.settled, max(0, segment.bytes - segment.settled_bytes)

    def _survey(self, segment: Segment) -> None:
        """Counts the waiting events of an adopted segment."""
        done = segment.done if segment.reader else load_marks(segment)[0]
        fd = open_file(segment.path, os.O_RDONLY)
        try:
            counted = survey(self._read(fd), segment.end, segment.start, done)
        finally:
            os.close(fd)
        segment.events, segment.bytes, segment.first_at = counted

    @property
    def cut(self) -> int:
        """Writes of other processes that were cut off."""
        return self._cut + sum(segment.cut for segment in self.segments)
