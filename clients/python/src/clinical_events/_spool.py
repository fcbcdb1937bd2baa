"""What one process has of a spool directory: it appends, adopts what is abandoned, gives out what waits, marks what is done.

``append`` takes no lock, so that a capture in a signal handler or a destructor never waits for one that its own thread
holds: what the appender counts only the appender changes, and what the reader counts is changed under one lock. What
a crash at any moment leaves is docs/CLIENT_SPEC.md.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from zlib import crc32

from . import _parts, _system
from ._errors import ClientClosed, Refused, SpoolFull, SpoolRefused, SpoolUnwritable
from ._format import (
    END,
    FRAME_BYTES,
    HEADER_BYTES,
    KINDS,
    MAX_SEGMENT_BYTES,
    SEGMENT_BYTES,
    SEGMENT_NAME,
    Count,
    Frame,
    Header,
    Lost,
    Reader,
    decode_header,
    decode_marks,
    encode_frame,
    encode_header,
    encode_marks,
    segment_id,
)
from ._parts import PATIENCE, Forked, Mine, Part, Watch, errno_name, open_file, sync_directory

__all__ = ["MAX_BYTES", "Forked", "MemorySpool", "Spool", "SpoolState", "SpooledEvent"]

MAX_BYTES = 8 << 30
MEMORY_BYTES = 64 << 20
BEAT = 10.0
"""Seconds between two signs of life, and between two looks at what others have left."""
_MOST_MARKS = 1 << 17
_MOST_MARKS_BYTES = 12 * (MAX_SEGMENT_BYTES // FRAME_BYTES)
_CHUNK_BYTES = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# macOS has no fdatasync.
_datasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True)
class SpoolState:
    """What a spool holds; sizes in bytes with their frames, times in milliseconds since 1970."""

    waiting: int
    waiting_bytes: int
    quarantined: int
    """Events that this process has put into quarantine."""
    cut: int
    """Writes of others that were cut off before they were acknowledged."""
    watched: int
    """Parts whose holder cannot be asked, and that are adopted if they show no sign of life for three minutes."""
    oldest: int | None
    """No event that waits was captured before."""


class Segment:
    """A segment whose events are not all done."""

    def __init__(self, directory: str, name: str, identity: bytes, *, own: bool) -> None:
        self.name = name
        self.id = identity
        self.start = crc32(identity)
        self.path = os.path.join(directory, name + ".segment")
        self.marks_path = os.path.join(directory, name + ".done")
        self.own = own
        self.complete = not own
        self.end = HEADER_BYTES
        """Behind the last byte that may be read."""
        self.events: int | None = 0 if own else None
        """How many events wait or waited here since it was opened; None until they are counted."""
        self.bytes = 0
        self.first_at: int | None = None
        self.met = 0
        self.settled = 0
        self.settled_bytes = 0
        self.read = False
        self.resume = HEADER_BYTES
        """Behind the last frame that was read."""
        self.count = Count()
        self.cut = 0
        self.done: set[int] = set()
        self.marks: list[int] = []
        self.marks_end = 0
        self.rests_until = 0.0
        self.keep = False
        """Not to be removed: something in it could not be read, or put aside."""

    @property
    def finished(self) -> bool:
        """Whether nothing in it is needed any more. Damage shows only when all of another's segment was read."""
        if self.own and self.complete and self.settled == self.events:
            return True
        return self.read and self.settled == self.met


class SpooledEvent:
    """An event that was taken and is not settled. ``body`` are the exact bytes that were captured."""

    __slots__ = ("body", "captured_at", "kind", "offset", "out", "segment", "size")

    def __init__(
        self, kind: int, captured_at: int, body: bytes, segment: Segment | None, offset: int, size: int
    ) -> None:
        self.kind = kind
        self.captured_at = captured_at
        self.body = body
        self.segment = segment
        self.offset = offset
        self.size = size
        self.out = True


def _write_all(fd: int, data: bytes, offset: int) -> None:
    written = os.pwrite(fd, data, offset)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], offset + written)


def _read_all(path: str, most: int) -> bytes:
    """At most so many bytes of a file, none when it is not there. Raises OSError."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return _pread(fd, min(most, os.fstat(fd).st_size), 0)
    finally:
        os.close(fd)


def _pread(fd: int, size: int, offset: int) -> bytes:
    data = os.pread(fd, size, offset)
    while 0 < len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
        data += more
    return data


def iso(milliseconds: int) -> str:
    """The time as RFC 3339 with milliseconds in UTC; beyond the year 9999 its last moment."""
    try:
        at = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        at = datetime.max.replace(tzinfo=timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _HomeGone(Exception):
    """The segment, or the directory in which it would be, has no name any more."""


class _Appender:
    """Writes groups to the segments of one process. One caller at a time."""

    def __init__(self, mine: Mine, *, durable: bool, segment_bytes: int, backlog: _Backlog) -> None:
        self._mine = mine
        self._durable = durable
        self._segment_bytes = segment_bytes
        self._backlog = backlog
        self.part: Part | None = None
        self.groups = 0
        self._next = 0
        self._fd = -1
        self._segment: Segment | None = None
        self._home: Part | None = None

    def write(self, events: Sequence[tuple[int, int, bytes]], size: int) -> None:
        """On return the group is as durable as the mode says. ``size`` is that of its frames.

        Raises _HomeGone, SpoolFull, SpoolUnwritable; then nothing of the group is in the spool.
        """
        segment = self._segment
        if (
            segment is None
            or self._home is not self.part
            or (segment.events and segment.end + size > self._segment_bytes)
        ):
            segment = self._begin()
        number = segment.events or 0
        start = segment.start
        frames = b"".join(
            [encode_frame(start, kind, at, number + i, body) for i, (kind, at, body) in enumerate(events)]
        )
        try:
            self._mine.check()
            written = os.pwrite(self._fd, frames, segment.end)
            if written < len(frames):
                self._write_rest(frames, written, segment.end)
            if self._durable:
                _datasync(self._fd)
            # Whoever took this process for dead may have sent all that it found, and removed the file.
            linked = os.fstat(self._fd).st_nlink > 0
        except BaseException as error:
            self._mine.check()
            undone = self._undo(segment)
            if isinstance(error, OSError):
                raise _refusal(error, undone) from error
            raise
        if not linked:
            self.leave()
            raise _HomeGone
        if segment.first_at is None:
            segment.first_at = events[0][1]
        self._backlog.written += len(frames)
        segment.bytes += len(frames)
        segment.events = number + len(events)
        # Last: from here on the reader gives them out. No interrupt comes between the two.
        segment.end += len(frames)
        self.groups += 1

    def _write_rest(self, frames: bytes, written: int, end: int) -> None:
        while written < len(frames):
            self._mine.check()
            written += os.pwrite(self._fd, memoryview(frames)[written:], end + written)

    def _begin(self) -> Segment:
        self.finish()
        part = self.part
        if part is None:
            raise _HomeGone
        identity = segment_id(part.series, self._next if self._home is part else 0)
        self._next = int.from_bytes(identity[13:], "big") + 1
        self._home = part
        segment = Segment(part.path, identity.hex(), identity, own=True)
        self._mine.check()
        try:
            self._fd = open_file(segment.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileNotFoundError as error:
            raise _HomeGone from error
        except OSError as error:
            raise _refusal(error, True) from error
        try:
            _write_all(self._fd, encode_header(identity), 0)
            if self._durable:
                sync_directory(part.path)
        except BaseException as error:
            self._mine.check()
            self._close()
            with contextlib.suppress(OSError):
                self._mine.remove(segment.path)
            if isinstance(error, OSError):
                raise _refusal(error, True) from error
            raise
        self._segment = segment
        self._backlog.begin(segment)
        return segment

    def finish(self) -> None:
        """Ends the segment that is open with the frame that saves its next reader from counting. Raises nothing."""
        segment = self._segment
        if segment is None:
            return
        at = segment.first_at or 0
        # Its events are there without it.
        with contextlib.suppress(OSError):
            self._mine.check()
            _write_all(self._fd, encode_frame(segment.start, END, at, segment.events or 0, b""), segment.end)
        self.leave()

    def leave(self) -> None:
        """Nothing more is appended to the segment that is open; what was acknowledged in it stays."""
        segment, self._segment = self._segment, None
        self._close()
        if segment is not None:
            segment.complete = True

    def _undo(self, segment: Segment) -> bool:
        """Leaves the segment; returns whether nothing of the group that failed is there.

        Its numbers are used up, and after a flush that failed the kernel may call clean what it could not write.
        """
        undone = True
        try:
            os.ftruncate(self._fd, segment.end)
            if self._durable:
                _datasync(self._fd)
        except OSError:
            undone = False
        self.leave()
        return undone

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)

    def forget(self) -> None:
        """In a child: closes the descriptor."""
        self._close()


def _refusal(error: OSError, undone: bool) -> Refused:
    if not undone:
        return SpoolUnwritable("the event could be neither written nor taken back", uncertain=True)
    if error.errno in _FULL:
        return SpoolFull("there is no room on the disk")
    return SpoolUnwritable(f"the event could not be written ({errno_name(error)})")


class _Backlog:
    """All that waits. Of events that nothing has taken it holds only their number.

    Every method but ``begin`` is called by one thread at a time, which holds the lock of the spool.
    """

    def __init__(
        self, root: str, mine: Mine, tell: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._root = root
        self._mine = mine
        self._tell = tell
        self._clock = clock
        self.segments: list[Segment] = []
        self._to_read: list[Segment] = []
        self._reading: tuple[Segment, Reader] | None = None
        self._fd = -1
        self.settled: deque[tuple[SpooledEvent, bool]] = deque()
        self._back: deque[SpooledEvent] = deque()
        self._back_first = False
        self._marks = 0
        self.written = 0
        self._adopted = 0
        self._removed = 0
        self._cut = 0

    @property
    def stored(self) -> int:
        """Bytes of all segments, those done among them that are still there."""
        return self.written + self._adopted - self._removed

    def begin(self, segment: Segment) -> None:
        """A segment that is read behind all others, and may still grow. Called by the appender, without the lock."""
        self.written += segment.end
        self.segments.append(segment)
        self._to_read.append(segment)

    def adopt(self, segments: list[Segment]) -> None:
        """What others have left is read before what this process has begun and not come to yet."""
        self._adopted += sum(segment.end for segment in segments)
        at = 1 if self._reading else 0
        self.segments[0:0] = segments
        self._to_read[at:at] = segments

    def take(self) -> SpooledEvent | None:
        """Those given back come first every other time, so that neither they nor the new ones wait forever."""
        self._drain()
        self._back_first = not self._back_first
        if not (self._back_first and self._back):
            event = self._read_on()
            if event is not None or not self._back:
                return event
        event = self._back.popleft()
        event.out = True
        return event

    def _drain(self) -> None:
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

    def _read_on(self) -> SpooledEvent | None:
        while self._to_read:
            segment = self._to_read[0]
            # Before its end is asked for: what was appended before it was complete is in front of that.
            complete = segment.complete
            reader = self._reading[1] if self._reading else self._open(segment)
            if reader is None:
                continue
            found = reader.step(segment.end)
            if isinstance(found, Frame):
                segment.resume = found.offset + found.size
                if not segment.count.meet(found, segment.done):
                    continue
                segment.met += 1
                kind, at, body = found.kind, found.captured_at, found.body
                return SpooledEvent(kind, at, body, segment, found.offset, found.size)
            if found is not None:
                self._set_aside(segment, found)
            elif complete:
                self._end_reading(segment, reader)
            else:
                return None
        return None

    def _open(self, segment: Segment) -> Reader | None:
        try:
            if not segment.own:
                self._load_marks(segment)
            self._fd = fd = open_file(segment.path, os.O_RDONLY)
        except OSError as error:
            # Whatever is wrong with this one, the next one is read. One that is gone was adopted by another process.
            if error.errno != errno.ENOENT:
                self._tell(
                    f"{segment.path} cannot be read ({errno_name(error)}); its events wait for the next start"
                )
            self._to_read.remove(segment)
            self._drop(segment)
            return None
        reader = Reader(lambda size, offset: _pread(fd, size, offset), segment.start, at=segment.resume)
        self._reading = (segment, reader)
        return reader

    def _load_marks(self, segment: Segment) -> None:
        data = _read_all(segment.marks_path, _MOST_MARKS_BYTES)
        segment.done, segment.marks_end = decode_marks(segment.start, data)

    def _drop(self, segment: Segment) -> None:
        if segment in self.segments:
            self.segments.remove(segment)
            self._removed += segment.end
            self._cut += segment.cut
            self._marks -= len(segment.marks)
            segment.marks.clear()

    def _set_aside(self, segment: Segment, lost: Lost) -> None:
        # What this process has acknowledged is no write that was cut off, whatever it looks like now.
        if lost.cut and not segment.own and not segment.count.ended:
            segment.cut += 1
            return
        what = f"{lost.size} bytes at {lost.offset} of segment {segment.name} are no whole frame"
        try:
            kept = self._keep(segment, lost)
            self._tell(f"{what}; they are {'kept in ' + kept if kept else 'zeros'}")
        except OSError as error:
            segment.keep = True
            self._tell(
                f"{what}, and cannot be kept ({errno_name(error)}); the segment is left for the next start"
            )

    def _keep(self, segment: Segment, lost: Lost) -> str | None:
        """On return the bytes are durable in a file in ``damaged``, unless they are all zeros. Returns its path."""
        directory = os.path.join(self._root, "damaged")
        path = os.path.join(directory, f"{segment.name}-{lost.offset}.bytes")
        copy = -1
        try:
            for done in range(0, lost.size, _CHUNK_BYTES):
                data = _pread(self._fd, min(_CHUNK_BYTES, lost.size - done), lost.offset + done)
                if copy < 0:
                    if not any(data):
                        continue
                    _parts.make_inside(directory)
                    copy = open_file(path, os.O_WRONLY | os.O_CREAT)
                self._mine.check()
                _write_all(copy, data, done)
            if copy < 0:
                return None
            _datasync(copy)
            sync_directory(directory)
            return path
        finally:
            if copy >= 0:
                os.close(copy)

    def _note_missing(self, segment: Segment, missing: int) -> None:
        """Before the segment goes, and with it the last trace of them."""
        directory = os.path.join(self._root, "damaged")
        text = json.dumps({"segment": segment.name, "missing_events": missing}, separators=(",", ":"))
        try:
            _parts.make_inside(directory)
            fd = open_file(
                os.path.join(directory, segment.name + ".missing"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            )
            try:
                _write_all(fd, text.encode() + b"\n", 0)
                _datasync(fd)
                sync_directory(directory)
            finally:
                os.close(fd)
        except OSError:
            segment.keep = True
        self._tell(f"segment {segment.name} is damaged: {missing} of its events are missing")

    def _end_reading(self, segment: Segment, reader: Reader) -> None:
        self.stop_reading()
        if segment in self._to_read:
            self._to_read.remove(segment)
        missing = segment.count.missing(segment.done)
        if segment.own:
            missing = max(missing, (segment.events or 0) - segment.met)
        if reader.unreadable is not None:
            # Whatever the disk could not read now, it may at the next start.
            segment.keep = True
            self._tell(f"some of {segment.path} cannot be read ({errno_name(reader.unreadable)})")
        elif missing:
            self._note_missing(segment, missing)
        segment.events = segment.met
        segment.bytes = max(segment.bytes, segment.settled_bytes)
        segment.read = True

    def stop_reading(self) -> None:
        """Closes the segment that is being read."""
        self._reading = None
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def note(self) -> None:
        """Writes down what is done, and removes what is finished; what goes wrong is told."""
        self._drain()
        for segment in list(self.segments):
            try:
                if segment.finished and self._remove(segment):
                    continue
                if segment.marks:
                    self._mark(segment)
            except OSError as error:
                self._tell(f"what is done in {segment.path} could not be noted ({errno_name(error)})")

    def _mark(self, segment: Segment) -> None:
        batch = encode_marks(segment.start, segment.marks)
        try:
            fd = open_file(segment.marks_path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            # The directory was adopted: what is done in it is sent again.
            self._marks -= len(segment.marks)
            segment.marks.clear()
            return
        try:
            self._mine.check()
            _write_all(fd, batch, segment.marks_end)
        finally:
            os.close(fd)
        segment.marks_end += len(batch)
        self._marks -= len(segment.marks)
        segment.marks.clear()

    def _remove(self, segment: Segment) -> bool:
        """Returns whether the segment is forgotten. One that rests is marked as any other."""
        if segment.rests_until:
            if self._clock() < segment.rests_until:
                return False
            if segment.marks:
                self._mark(segment)
            return self._look_again(segment)
        if self._reading and self._reading[0] is segment:
            self.stop_reading()
        if segment in self._to_read:
            self._to_read.remove(segment)
        if not segment.keep:
            # In this order: marks without a segment mean nothing.
            self._mine.remove(segment.path)
            self._mine.remove(segment.marks_path)
        self._drop(segment)
        return True

    def _look_again(self, segment: Segment) -> bool:
        """Whoever wrote it may have been stopped, and may not know yet that it was adopted."""
        segment.rests_until = 0.0
        size = os.stat(segment.path, follow_symlinks=False).st_size
        if size <= segment.end:
            return self._remove(segment)
        self._adopted += size - segment.end
        segment.end = size
        segment.read = False
        segment.cut = 0
        self._to_read.insert(1 if self._reading else 0, segment)
        return True

    def waiting(self, segment: Segment) -> tuple[int, int]:
        """How many events of it are not settled, and how many bytes they take."""
        if segment.events is None:
            try:
                self._survey(segment)
            except OSError:
                return 0, 0
        return (segment.events or 0) - segment.settled, max(0, segment.bytes - segment.settled_bytes)

    def _survey(self, segment: Segment) -> None:
        """Counts what waits by the frame that ends the segment where nothing is done, or else by reading all of it."""
        self._load_marks(segment)
        fd = open_file(segment.path, os.O_RDONLY)
        try:
            read: Callable[[int, int], bytes] = lambda size, offset: _pread(fd, size, offset)  # noqa: E731
            segment.events, segment.bytes, segment.first_at = survey(
                read, segment.end, segment.start, segment.done
            )
        finally:
            os.close(fd)

    @property
    def cut(self) -> int:
        """Writes of others that were cut off."""
        return self._cut + sum(segment.cut for segment in self.segments)

    def forget(self) -> None:
        """In a child: closes the descriptor."""
        self.stop_reading()


def survey(
    read: Callable[[int, int], bytes], end: int, start: int, done: set[int], *, blind: bool = False
) -> tuple[int, int, int | None]:
    """How many events wait in a segment, how many bytes they take, and when its first event was captured."""
    first = Reader(read, start, blind=blind).step(end)
    first_at = first.captured_at if isinstance(first, Frame) and first.kind != END else None
    for size in (FRAME_BYTES, FRAME_BYTES + 16) if blind else (FRAME_BYTES,):
        at = end - size
        last = Reader(read, start, at=at, blind=blind).step(end) if at >= HEADER_BYTES and not done else None
        # Each event takes a frame: a number that cannot be is not believed.
        if not isinstance(last, Frame) or last.size != size or last.kind != END:
            continue
        if last.number <= (at - HEADER_BYTES) // size:
            return last.number, at - HEADER_BYTES, first_at
    reader = Reader(read, start, blind=blind)
    events = total = 0
    while (found := reader.step(end)) is not None:
        if isinstance(found, Frame) and found.kind != END and found.offset not in done:
            events += 1
            total += found.size
    return events, total, first_at


@dataclass(frozen=True)
class LeftSegment:
    """A segment in an abandoned part; ``why`` is empty when it can be read here, or says what it is."""

    name: str
    path: str
    header: Header
    why: str = ""


EARLIER = "has an earlier format, which this version does not read: move its directory out of the spool"
LATER = "was written by a later version of the client, which can read it"
SEALED = "is sealed, and Python has no key for it"


def examine(directory: str) -> list[LeftSegment]:
    """The segments of a part in the order of their names; changes nothing. Raises OSError for the part as a whole."""
    left: list[LeftSegment] = []
    for file in sorted(os.listdir(directory)):
        named = SEGMENT_NAME.fullmatch(file)
        if not named:
            continue
        path = os.path.join(directory, file)
        try:
            left.append(_examined(named[1], path))
        except FileNotFoundError:
            continue
        except OSError as error:
            why = (
                "is no regular file"
                if error.errno == errno.EINVAL
                else f"cannot be read ({errno_name(error)})"
            )
            left.append(LeftSegment(named[1], path, Header("damaged"), why))
    return left


def _examined(name: str, path: str) -> LeftSegment:
    fd = open_file(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        header = decode_header(_pread(fd, HEADER_BYTES, 0))
        if header.what == "damaged":
            identity = bytes.fromhex(name)
            reader = Reader(lambda size, offset: _pread(fd, size, offset), crc32(identity), blind=True)
            found = reader.step(size)
            while isinstance(found, Lost):
                found = reader.step(size)
            # Each frame says whether it is sealed; what a header says that does not hold does not count.
            header = Header("sealed" if found is not None and found.sealed else "clear", identity)
    finally:
        os.close(fd)
    why = {"earlier": EARLIER, "later": LATER, "sealed": SEALED}.get(header.what, "")
    if size > MAX_SEGMENT_BYTES:
        why = f"has more than the {MAX_SEGMENT_BYTES} bytes of a segment"
    return LeftSegment(name, path, header, why)


class _Quarantine:
    """Events that the collector will never take, with its answers: one JSON object a line."""

    def __init__(self, root: str, series: bytes, mine: Mine, *, durable: bool) -> None:
        self.directory = os.path.join(root, "quarantine")
        self._path = os.path.join(self.directory, series.hex() + ".ndjson")
        self._mine = mine
        self._durable = durable
        self.bytes = 0

    def add(self, event: SpooledEvent, refusal: Mapping[str, Any], *, full: bool) -> None:
        """On return the line is in the file, as durable as the mode says. Raises OSError."""
        line = _line(event, refusal, full=full)
        _parts.make_inside(self.directory)
        while not self._append(line):
            pass
        self.bytes += len(line)

    def _append(self, line: bytes) -> bool:
        """Returns false when the file was moved away, so that whoever did that may not have seen the line."""
        fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            self._mine.check()
            written = os.write(fd, line)
            at = os.lseek(fd, 0, os.SEEK_CUR) - written
            if written < len(line):
                os.ftruncate(fd, at)
                raise OSError(errno.ENOSPC, "no room for a line")
            if self._durable:
                _datasync(fd)
                if at == 0:
                    sync_directory(self.directory)
        finally:
            os.close(fd)
        try:
            again = open_file(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return _pread(again, len(line), at) == line
        finally:
            os.close(again)

    def weigh(self) -> None:
        """Counts what the quarantine of the whole spool takes."""
        total = 0
        with contextlib.suppress(OSError):
            for name in os.listdir(self.directory):
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(self.directory, name), follow_symlinks=False).st_size
        self.bytes = total


def _line(event: SpooledEvent, refusal: Mapping[str, Any], *, full: bool) -> bytes:
    at = iso(_milliseconds())
    said = {**refusal, "at": refusal.get("at", at)}
    # A server's words may be long, and may be what JSON has no form for.
    short = {key: said[key] for key in ("status", "code", "at") if key in said}
    record: dict[str, Any] = {
        "at": at,
        "kind": KINDS[event.kind],
        "captured_at": iso(event.captured_at),
        "refusal": short if full else said,
    }
    try:
        record["event"] = event.body.decode()
    except UnicodeDecodeError:
        record["event_base64"] = base64.b64encode(event.body).decode()
    try:
        return _json(record)
    except (ValueError, TypeError, RecursionError):
        return _json({**record, "refusal": short})


def _json(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _milliseconds() -> int:
    return int(datetime.now(timezone.utc).timestamp() * 1000)


class Spool:
    """All that one process has of a spool directory.

    ``append`` and ``close`` have one caller at a time; all else may be called by any thread. In a forked child every
    method but ``forget`` raises Forked.
    """

    def __init__(
        self,
        directory: str,
        *,
        durability: str = "os",
        max_bytes: int = MAX_BYTES,
        on_trouble: Callable[[str], None],
        patience: float = PATIENCE,
        clock: Callable[[], float] = _system.monotonic,
    ) -> None:
        """On return what others have left waits here too. ``patience`` is in seconds.

        Raises SpoolRefused, and then nothing was touched; SpoolUnwritable. A full disk raises nothing: ``append``
        refuses until a part can be made.
        """
        if not directory:
            raise SpoolRefused("the directory of the spool has no name")
        self._root = os.path.abspath(directory)
        self._tell = on_trouble
        self._told: set[str] = set()
        self._clock = clock
        self._patience = patience
        self._max_bytes = max_bytes
        self._mine = mine = Mine()
        self._watch = Watch(self._root, mine, on_trouble, patience=patience, clock=clock)
        self._backlog = _Backlog(self._root, mine, on_trouble, clock)
        durable = durability == "fsync"
        size = min(SEGMENT_BYTES, max_bytes // 4)
        self._appender = _Appender(mine, durable=durable, segment_bytes=size, backlog=self._backlog)
        self._lock = _system.RLock()
        self._inside = False
        self._renewing = _system.RLock()
        self._quarantining = _system.RLock()
        self._tending = _system.allocate_lock()
        self._closed = False
        self._quarantined = 0
        self._next_beat = clock() + BEAT
        left = self._open()
        series = self._appender.part.series if self._appender.part else _parts.new_series()
        self._quarantine = _Quarantine(self._root, series, mine, durable=durable)
        self._quarantine.weigh()
        self._adopt(left)

    def _open(self) -> list[str]:
        try:
            _parts.prepare(self._root)
            left = self._watch.abandoned()
            for path in left:
                # Before anything is made or moved.
                with contextlib.suppress(FileNotFoundError):
                    for segment in examine(path):
                        if segment.why == EARLIER:
                            raise SpoolRefused(f"{segment.path} {EARLIER}")
            self._appender.part = Part(self._root, self._mine)
        except OSError as error:
            if error.errno not in _FULL:
                raise SpoolUnwritable(
                    f"{self._root} cannot be used as a spool ({errno_name(error)})"
                ) from error
            self._tell(f"the disk has no room for a part in {self._root}: events are refused until it has")
            return []
        return left

    def append(self, events: Sequence[tuple[int, int, bytes]]) -> None:
        """On return the group of (kind, time in milliseconds, body) is as durable as the mode says, and waits.

        Raises SpoolFull, SpoolUnwritable, ClientClosed; then no event of it is in the spool, unless ``uncertain`` says
        so. Events of one group share their fate.
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
        except _HomeGone:
            self._renew(self._appender.part)
            try:
                self._appender.write(events, size)
            except _HomeGone:
                raise SpoolUnwritable(f"what is made in {self._root} is taken away") from None

    def _renew(self, lost: Part | None) -> None:
        """On return there is another part than ``lost``. Raises SpoolFull, SpoolUnwritable, SpoolRefused."""
        with self._renewing:
            if self._appender.part is not lost:
                return
            try:
                self._mine.check()
                _parts.prepare(self._root)
                part = Part(self._root, self._mine)
            except OSError as error:
                if error.errno in _FULL:
                    raise SpoolFull(f"the disk has no room for a part in {self._root}") from error
                raise SpoolUnwritable(f"nothing can be made in {self._root} ({errno_name(error)})") from error
            if self._appender.part is not lost or self._closed:
                # A capture in a signal handler was faster.
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
        if self._closed or not self._enter():
            return None
        try:
            return self._backlog.take()
        finally:
            self._exit()

    def settle(self, event: SpooledEvent, done: bool) -> None:
        """``done``: it is marked within a second, and never given out again. Otherwise ``take`` gives it out again."""
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
        try:
            with self._quarantining:
                full = self._backlog.stored + self._quarantine.bytes >= self._max_bytes
                self._quarantine.add(event, refusal, full=full)
                self._quarantined += 1
        except OSError as error:
            message = f"an event could not be put into quarantine ({errno_name(error)})"
            raise SpoolFull(message) if error.errno in _FULL else SpoolUnwritable(message) from error
        self.settle(event, True)
        # At once: after a crash it would stand there twice.
        self._note()

    def tend(self) -> None:
        """Called about each second by one thread: writes marks, removes what is finished, and every ten seconds shows
        that this process lives and adopts. What goes wrong is told.
        """
        self._mine.check()
        if not self._tending.acquire(False):
            return
        try:
            self._note()
            if self._clock() >= self._next_beat and not self._closed:
                self._next_beat = self._clock() + BEAT
                self._beat()
        finally:
            self._tending.release()

    def adopt(self) -> None:
        """On return what is abandoned now waits here."""
        self._mine.check()
        # A thread that is just adopting does the same; a signal handler must not wait for its own thread.
        if not self._tending.acquire(True, 5):
            return
        try:
            if not self._closed:
                self._look_around()
        finally:
            self._tending.release()

    def state(self) -> SpoolState:
        """What waits now. Reads what others have left to count it, once."""
        self._mine.check()
        waiting = size = 0
        oldest: int | None = None
        if self._enter():
            try:
                for segment in list(self._backlog.segments):
                    events, taken = self._backlog.waiting(segment)
                    waiting += events
                    size += taken
                    if events and segment.first_at is not None:
                        oldest = min(oldest or segment.first_at, segment.first_at)
            finally:
                self._exit()
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
        self._backlog.forget()
        if self._appender.part is not None:
            self._appender.part.forget()

    def close(self) -> None:
        """On return what is done is marked, and what waits is anyone's who opens the directory. Raises nothing."""
        self._mine.check()
        if self._closed:
            return
        self._closed = True
        self._appender.finish()
        self._note()
        if self._enter():
            try:
                self._backlog.stop_reading()
            finally:
                self._exit()
        part, self._appender.part = self._appender.part, None
        try:
            if part is not None:
                part.end()
        except OSError as error:
            self._tell(f"the part of this process could not be released ({errno_name(error)})")

    def _enter(self) -> bool:
        """Takes the lock of the backlog; false when this very thread is in it, interrupted by a signal."""
        self._lock.acquire()
        if self._inside:
            self._lock.release()
            return False
        self._inside = True
        return True

    def _exit(self) -> None:
        self._inside = False
        self._lock.release()

    def _note(self) -> None:
        if self._enter():
            try:
                self._backlog.note()
            finally:
                self._exit()

    def _beat(self) -> None:
        part = self._appender.part
        try:
            if part is None:
                self._renew(None)
            else:
                part.touch()
        except FileNotFoundError:
            self._renew_or_tell(part)
        except OSError as error:
            self._tell(f"this process could not show that it lives ({errno_name(error)})")
        except Refused as error:
            self._tell(f"there is no part for this process: {error}")
        self._quarantine.weigh()
        self._look_around()

    def _renew_or_tell(self, part: Part | None) -> None:
        try:
            self._renew(part)
        except Refused as error:
            self._tell(f"the part of this process was taken away, and there can be no other: {error}")

    def _look_around(self) -> None:
        part = self._appender.part
        if part is None:
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
                self._tell_once(path, f"{path} is left as it is ({errno_name(error)})")
                continue
            for segment in taken:
                segment.rests_until = rests
            segments += taken
        if segments and self._enter():
            try:
                self._backlog.adopt(sorted(segments, key=lambda segment: segment.name))
            finally:
                self._exit()

    def _adopt_part(self, directory: str, part: Part) -> list[Segment]:
        found = examine(directory)
        unfit = [segment for segment in found if segment.why]
        for segment in unfit:
            self._tell_once(segment.path, f"{segment.path} {segment.why}; it is left as it is")
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
        if taken:
            sync_directory(part.path)
        if alone:
            self._remove_part(directory)
        return taken

    def _move(self, left: LeftSegment, directory: str, part: Part) -> Segment:
        segment = Segment(part.path, left.name, left.header.identity, own=False)
        self._mine.rename(left.path, segment.path)
        # Only now: the marks are for whoever has won the segment.
        with contextlib.suppress(OSError):
            self._mine.rename(os.path.join(directory, left.name + ".done"), segment.marks_path)
        segment.end = max(HEADER_BYTES, os.stat(segment.path).st_size)
        return segment

    def _remove_part(self, directory: str) -> None:
        try:
            for file in os.listdir(directory):
                # Its segment is gone.
                if file.endswith(".done"):
                    self._mine.remove(os.path.join(directory, file))
            _parts.remove_emptied(directory, self._mine)
        except FileNotFoundError:
            return
        except OSError as error:
            self._tell_once(directory, f"{directory} could not be removed ({errno_name(error)})")

    def _tell_once(self, path: str, message: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self._tell(message)


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
