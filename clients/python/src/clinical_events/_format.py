"""The spool format, version 1: headers, frames and marks as bytes, and the search for frames in a file.

Nothing here opens a file. docs/internals/formats.md ("Spool") defines the layout and what counts as a frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from struct import Struct
from typing import NamedTuple
from zlib import crc32

KINDS = ("inference-start", "internal-artifact", "human-output", "outcome", "user-feedback")
END = 255
"""The kind of the frame that ends a segment; its number is the number of events in the segment."""
HEADER_BYTES = 64
FRAME_BYTES = 32
"""Bytes of a frame without its body."""
SEGMENT_BYTES = 16 << 20
MAX_SEGMENT_BYTES = 256 << 20
LATEST = 8_640_000_000_000_000
"""The latest allowed time, in milliseconds since 1970."""
MARKER = b"\xff\x5a\xce\xfe"
SERIES_NAME = re.compile("[0-9a-f]{26}")
SEGMENT_NAME = re.compile(r"([0-9a-f]{32})\.segment")

_MAGIC = b"CLINSPOL"
_EARLIER_MAGIC = b"CE-SPOOL"
"""The magic before version 1 was frozen."""
_VERSION = 1
_SEALED = 1
_TAG_BYTES = 16
_PIECE_BYTES = 256 << 10
_BLOCK_BYTES = 4096
_U32 = Struct("<I")
_PAIR = Struct("<II")
_HEAD = Struct("<4sIBBHQQ")
_HEADER = Struct("<8sBBHI16s28x")


def segment_id(series: bytes, number: int) -> bytes:
    """Returns the 16 bytes that name a segment: 13 bytes of its series, then its number in it, from 0."""
    return series + number.to_bytes(3, "big")


def encode_header(identity: bytes) -> bytes:
    """Returns the 64 bytes before the frames of a segment that is not sealed."""
    header = _HEADER.pack(_MAGIC, _VERSION, 0, 0, HEADER_BYTES, identity)
    return header + _U32.pack(crc32(header))


class Header(NamedTuple):
    """A header. ``what`` is ``clear``, ``sealed``, ``earlier`` (before version 1), ``later`` (another
    version or cipher), or ``damaged``.

    ``identity`` names the segment and is empty unless the header is ``clear`` or ``sealed``.
    """

    what: str
    identity: bytes = b""


def decode_header(data: bytes) -> Header:
    """Reads the first bytes of a segment. Version and cipher count only when the checksum is right."""
    if len(data) < HEADER_BYTES or crc32(data[:60]) != _U32.unpack_from(data, 60)[0]:
        return Header("damaged")
    magic, version, cipher, _, _, identity = _HEADER.unpack_from(data)
    if magic == _EARLIER_MAGIC:
        return Header("earlier")
    if magic != _MAGIC:
        return Header("damaged")
    if version != _VERSION or cipher > 1:
        return Header("later")
    return Header("sealed" if cipher else "clear", identity)


def encode_frame(start: int, kind: int, captured_at: int, number: int, body: bytes) -> bytes:
    """Returns a frame. ``start`` is the CRC-32 of the segment's id, ``number`` counts the frames before."""
    head = _HEAD.pack(MARKER, FRAME_BYTES + len(body), kind, 0, 0, captured_at, number)
    return _U32.pack(crc32(body, crc32(head, start))) + head + body


def encode_marks(start: int, offsets: Iterable[int]) -> bytes:
    """Returns one batch for the marks file: the offsets of frames that are done."""
    marks = [_U32.pack(offset) for offset in offsets]
    batch = _U32.pack(len(marks)) + b"".join(marks)
    return _U32.pack(crc32(batch, start)) + batch


def decode_marks(start: int, data: bytes) -> tuple[set[int], int]:
    """Returns the marked offsets and the length of the valid bytes, where the next batch is written."""
    done: set[int] = set()
    at = 0
    while at + 8 <= len(data):
        checksum, count = _PAIR.unpack_from(data, at)
        end = at + 8 + 4 * count
        if end > len(data) or not checksum_holds(checksum, data, at + 4, end, start):
            break
        done.update(offset for (offset,) in _U32.iter_unpack(data[at + 8 : end]))
        at = end
    return done, at


def checksum_holds(checksum: int, data: bytes, start: int, end: int, initial: int) -> bool:
    """Whether ``data[start:end]``, after an id with the CRC-32 ``initial``, has this checksum."""
    return crc32(memoryview(data)[start:end], initial) == checksum


class Frame(NamedTuple):
    """A valid frame. ``size`` is the size of the whole frame; ``body`` is empty when the frame is sealed."""

    offset: int
    size: int
    kind: int
    captured_at: int
    number: int
    body: bytes
    sealed: bool


class Lost(NamedTuple):
    """Bytes that are not a frame. ``cut``: they end the file, as a write that was cut off leaves it."""

    offset: int
    size: int
    cut: bool


def decode_frame(data: bytes, at: int, offset: int, room: int, start: int, blind: bool) -> Frame | int:
    """Returns the frame at ``data[at]``, which is byte ``offset`` of a segment with ``room`` bytes left.

    Returns 0 when there is no frame, and the number of needed bytes when ``data`` ends too early.
    """
    size: int
    marker, size, kind, flags, _, captured_at, number = _HEAD.unpack_from(data, at + 4)
    if marker != MARKER or size < FRAME_BYTES or size > room:
        return 0
    if at + size > len(data):
        return size
    if not checksum_holds(_U32.unpack_from(data, at)[0], data, at + 4, at + size, start):
        return 0
    if (kind >= len(KINDS) and kind != END) or captured_at > LATEST:
        return 0
    if flags == 0:
        return Frame(offset, size, kind, captured_at, number, data[at + FRAME_BYTES : at + size], False)
    if flags != _SEALED or not blind or size < FRAME_BYTES + _TAG_BYTES:
        return 0
    return Frame(offset, size, kind, captured_at, number, b"", True)


def captured_at(head: bytes) -> int | None:
    """Returns the time in the first 32 bytes of a frame, without verifying its checksum."""
    if len(head) < FRAME_BYTES or head[4:8] != MARKER:
        return None
    _, size, _, _, _, at, _ = _HEAD.unpack_from(head, 4)
    return at if size >= FRAME_BYTES and at <= LATEST else None


def looks_cut(head: bytes, room: int) -> bool:
    """Whether the last ``room`` bytes of a segment begin a frame that ends beyond the file.

    ``head`` is the first 12 of them, or fewer. The event of such a frame was never acknowledged.
    """
    if head[4:8] != MARKER[: max(0, min(4, room - 4))]:
        return False
    if room < 12:
        return True
    size: int = _U32.unpack_from(head, 8)[0]
    return size >= FRAME_BYTES and size > room


class Reader:
    """Reads the frames of one segment in order, and the ranges between them that are not frames.

    ``read(size, offset)`` returns bytes of the file, fewer at its end, or raises OSError. Memory is 256 KiB,
    or one frame if that is larger. A ``blind`` reader returns sealed frames too, without their bodies.
    """

    __slots__ = ("_base", "_blind", "_cut", "_data", "_end", "_lost", "_read", "_start", "at", "unreadable")

    def __init__(
        self, read: Callable[[int, int], bytes], start: int, *, at: int = HEADER_BYTES, blind: bool = False
    ) -> None:
        self._read = read
        self._start = start
        self._blind = blind
        self._data = b""
        self._base = at
        self._lost = -1
        self._cut = False
        self._end = MAX_SEGMENT_BYTES
        self.at = at
        self.unreadable: OSError | None = None
        """The error of bytes that could not be read; they count as zeros."""

    def step(self, limit: int) -> Frame | Lost | None:
        """Returns the next frame or lost range before byte ``limit``; None at the end."""
        while self.at < (limit := min(limit, self._end)):
            at = self.at - self._base
            room = limit - self.at
            if len(self._data) - at < min(FRAME_BYTES, room):
                self._fill(FRAME_BYTES, limit)
                continue
            found: Frame | int = 0
            if room >= FRAME_BYTES:
                found = decode_frame(self._data, at, self.at, room, self._start, self._blind)
            if isinstance(found, Frame):
                if self._lost >= 0:
                    return self._lose(False)
                self.at += found.size
                return found
            if found:
                self._fill(found, limit)
                continue
            if self._lost < 0:
                self._lost = self.at
                self._cut = looks_cut(self._data[at : at + 12], room)
            self.at = min(limit, self._base + self._next(at))
        return self._lose(self._cut) if self._lost >= 0 else None

    def _lose(self, cut: bool) -> Lost:
        lost = Lost(self._lost, self.at - self._lost, cut)
        self._lost = -1
        return lost

    def _next(self, at: int) -> int:
        """Returns where the next frame may begin after ``at``, even if the data cuts its marker in two."""
        marker = self._data.find(MARKER, at + 5)
        return marker - 4 if marker >= 0 else max(at + 1, len(self._data) - 7)

    def _fill(self, needed: int, limit: int) -> None:
        rest = self._data[self.at - self._base :]
        offset = self.at + len(rest)
        size = min(max(needed, _PIECE_BYTES) - len(rest), limit - offset)
        try:
            more = self._read(size, offset)
        except OSError:
            more = self._read_block(min(size, _BLOCK_BYTES - offset % _BLOCK_BYTES), offset)
        if not more:
            self._end = offset
        self._data = rest + more
        self._base = self.at

    def _read_block(self, size: int, offset: int) -> bytes:
        """Reads a block, so that an unreadable sector loses only its own block."""
        try:
            return self._read(size, offset)
        except OSError as error:
            self.unreadable = error
            return bytes(size)


class Count:
    """Counts missing events from the frames of a segment in order."""

    __slots__ = ("_written", "done", "ended", "events")

    def __init__(self) -> None:
        self.events = 0
        self.done = 0
        self.ended = False
        self._written = 0

    def meet(self, frame: Frame, done: set[int]) -> bool:
        """Counts a frame; returns whether its event waits."""
        if frame.kind == END:
            self.ended = True
            self._written = max(self._written, frame.number)
            return False
        self._written = max(self._written, frame.number + 1)
        self.events += 1
        self.done += (marked := frame.offset in done)
        return not marked

    def missing(self, done: set[int]) -> int:
        """Returns the number of events that are neither present nor marked. Events lost after the last frame
        are not counted."""

        return max(0, self._written - self.events - (len(done) - self.done))
