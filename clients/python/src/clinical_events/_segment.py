"""A segment of the spool while its events wait, and its description for ``show``."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from ._files import errno_name, open_file, pread, read_all
from ._format import (
    END,
    FRAME_BYTES,
    HEADER_BYTES,
    MAX_SEGMENT_BYTES,
    SEGMENT_NAME,
    Count,
    Frame,
    Header,
    Lost,
    Reader,
    captured_at,
    decode_header,
    decode_marks,
)

_MOST_MARKS_BYTES = 12 * (MAX_SEGMENT_BYTES // FRAME_BYTES)


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
        """The end of the bytes that may be read."""
        self.events: int | None = 0 if own else None
        """Number of events that waited when it was opened, plus later ones; None until counted."""
        self.bytes = 0
        self.first_at: int | None = None
        self.met = 0
        self.met_bytes = 0
        self.settled = 0
        self.settled_bytes = 0
        self.read = False
        self.reader: Reader | None = None
        self.fd = -1
        """The descriptor that ``reader`` reads from."""
        self.count = Count()
        self.cut = 0
        self.done: set[int] = set()
        self.marks: list[int] = []
        self.marks_end = 0
        self.rests_until = 0.0
        self.keep = False
        """True to keep the file: a part of it could not be read or copied."""

    @property
    def finished(self) -> bool:
        """Whether no event in it is needed any more. An adopted segment is read to its end first, to find
        damage."""
        if self.own and self.complete and self.settled == self.events:
            return True
        return self.read and self.settled == self.met

    def stop_reading(self) -> None:
        """Closes the descriptor that it was read from."""
        self.reader = None
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class SpooledEvent:
    """An event that was given out and is not settled. ``body`` has the exact captured bytes."""

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


def load_marks(segment: Segment) -> tuple[set[int], int]:
    """Returns the marked offsets and the position of the next marks. Raises OSError."""
    return decode_marks(segment.start, read_all(segment.marks_path, _MOST_MARKS_BYTES))


def survey(
    read: Callable[[int, int], bytes], end: int, start: int, done: set[int], *, blind: bool = False
) -> tuple[int, int, int | None]:
    """Returns the number and bytes of waiting events in a segment, and the time of its first event.

    Uses the end frame when no event is done, and otherwise reads the whole segment.
    """
    first_at = captured_at(read(FRAME_BYTES, HEADER_BYTES))
    for size in (FRAME_BYTES, FRAME_BYTES + 16) if blind else (FRAME_BYTES,):
        at = end - size
        last = Reader(read, start, at=at, blind=blind).step(end) if at >= HEADER_BYTES and not done else None
        # Each event takes a frame, so an impossible number is ignored.
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


class LeftSegment(NamedTuple):
    """A segment in a part; ``why`` says why it cannot be read here, and is empty otherwise.

    ``damaged``: its header is damaged, so its name and its frames were used instead.
    """

    name: str
    path: str
    header: Header
    why: str = ""
    damaged: bool = False


EARLIER = "has an earlier format that this version cannot read: move its directory out of the spool"
LATER = "was written by a later version of the client"
SEALED = "is encrypted; give its key"


def examine(directory: str) -> list[LeftSegment]:
    """Lists the segments of a part by name. Changes nothing. Raises OSError for the part as a whole."""
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
                "is not a regular file"
                if error.errno == errno.EINVAL
                else f"cannot be read ({errno_name(error)})"
            )
            left.append(LeftSegment(named[1], path, Header("damaged"), why))
    return left


def _examined(name: str, path: str) -> LeftSegment:
    fd = open_file(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        header = decode_header(pread(fd, HEADER_BYTES, 0))
        damaged = header.what == "damaged"
        if damaged:
            identity = bytes.fromhex(name)
            reader = Reader(lambda size, offset: pread(fd, size, offset), crc32(identity), blind=True)
            found = reader.step(size)
            while isinstance(found, Lost):
                found = reader.step(size)
            # Each frame says whether it is sealed; a damaged header is ignored.
            header = Header("sealed" if found is not None and found.sealed else "clear", identity)
    finally:
        os.close(fd)
    why = {"earlier": EARLIER, "later": LATER, "sealed": SEALED}.get(header.what, "")
    if size > MAX_SEGMENT_BYTES:
        why = f"is larger than a segment ({MAX_SEGMENT_BYTES} bytes)"
    return LeftSegment(name, path, header, why, damaged and size >= HEADER_BYTES)
