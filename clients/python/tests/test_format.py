"""The spool format: the examples of the specification, and the results of a reader of changed segments."""

from __future__ import annotations

import random
import re
import unittest
from unittest import mock
from zlib import crc32

from tests import support

from clinical_events import _format
from clinical_events._format import Count, Frame, Lost, Reader

SERIES = bytes.fromhex("0190aabbccdd01020304050607")
SEGMENT = _format.segment_id(SERIES, 5)
START = crc32(SEGMENT)
SPEC = (support.ROOT / "docs" / "internals" / "formats.md").read_text()
EXAMPLES = re.sub(r"\s", "", SPEC[SPEC.index("## Spool") : SPEC.index("### Marks of a spool")])
BODIES = (b"{}", b"", b'{"n":1}', b'{"long":"' + b"x" * 500 + b'"}', b"a" + _format.MARKER + bytes(40))


def reader_of(data: bytes, start: int = START, **options: bool) -> Reader:
    return Reader(lambda size, offset: data[offset : offset + size], start, **options)


def steps(data: bytes, limit: int | None = None, **options: bool) -> list[Frame | Lost]:
    reader = reader_of(data, **options)
    found: list[Frame | Lost] = []
    while (step := reader.step(len(data) if limit is None else limit)) is not None:
        found.append(step)
    return found


class Examples(unittest.TestCase):
    """The examples of the specification, byte for byte."""

    def test_a_header_is_that_of_the_specification(self) -> None:
        header = _format.encode_header(SEGMENT)
        self.assertIn(header.hex(), EXAMPLES)
        self.assertEqual(_format.decode_header(header), ("clear", SEGMENT))

    def test_a_frame_is_that_of_the_specification(self) -> None:
        frame = _format.encode_frame(START, 2, 1_800_000_000_000, 7, b"{}")
        self.assertIn(frame.hex(), EXAMPLES)
        found = steps(_format.encode_header(SEGMENT) + frame)
        self.assertEqual(found, [(64, 34, 2, 1_800_000_000_000, 7, b"{}", False)])

    def test_a_sealed_segment_is_known_and_its_frames_are_counted_without_the_key(self) -> None:
        found = re.findall("434c494e53504f4c0101.{108}|35fc.{96}", EXAMPLES)
        header, frame = map(bytes.fromhex, found)
        self.assertEqual(_format.decode_header(header), ("sealed", SEGMENT))
        self.assertEqual(steps(header + frame, blind=True), [(64, 50, 2, 1_800_000_000_000, 7, b"", True)])
        self.assertEqual(steps(header + frame), [(64, 50, False)])

    def test_marks_are_offsets_in_batches(self) -> None:
        batch = _format.encode_marks(START, [64, 98])
        self.assertEqual(batch[4:], bytes.fromhex("020000004000000062000000"))
        self.assertEqual(_format.decode_marks(START, batch + batch[:-1]), ({64, 98}, 16))


class Changed(unittest.TestCase):
    """[R-853] After any change of a segment, all whole frames are returned, and nothing else."""

    def setUp(self) -> None:
        self.random = random.Random(1740)
        self.frames = [
            _format.encode_frame(START, number % 5, 1_800_000_000_000 + number, number, BODIES[number % 5])
            for number in range(12)
        ]
        self.frames.append(_format.encode_frame(START, _format.END, 1_800_000_000_000, 12, b""))
        self.data = _format.encode_header(SEGMENT) + b"".join(self.frames)

    def mutated(self) -> bytes:
        """The segment after one to three changes as disks, kernels and people make them."""
        data = bytearray(self.data)
        for _ in range(self.random.randint(1, 3)):
            at = self.random.randrange(len(data) + 1)
            end = min(len(data), at + self.random.choice((1, 4, 33, 700)))
            kind = self.random.randrange(7)
            if kind == 0 and end > at:
                data[at] ^= 1 << self.random.randrange(8)
            elif kind == 1:
                data[at:end] = bytes(end - at)
            elif kind == 2:
                del data[at:end]
            elif kind == 3:
                data[at:at] = self.random.randbytes(self.random.randint(1, 60))
            elif kind == 4:
                data[at:at] = self.random.choice(self.frames)
            elif kind == 5:
                data[at:at] = _format.MARKER * self.random.randint(1, 3)
            else:
                del data[at:]
        return bytes(data)

    def test_only_whole_frames_are_found_and_all_of_them(self) -> None:
        for piece in (1, 47, 4096, 1 << 18):
            with mock.patch.object(_format, "_PIECE_BYTES", piece):
                for _ in range(1500):
                    data = self.mutated()
                    self.check(data)

    def check(self, data: bytes) -> None:
        found = steps(data)
        whole = sorted(
            (match.start(), frame)
            for frame in set(self.frames)
            for match in re.finditer(re.escape(frame), data)
            if match.start() >= _format.HEADER_BYTES
        )
        given = [step for step in found if isinstance(step, Frame)]
        self.assertEqual([(frame.offset, data[frame.offset :][: frame.size]) for frame in given], whole)
        for frame in given:
            self.assertEqual(frame.body, data[frame.offset + 32 : frame.offset + frame.size])
        at = _format.HEADER_BYTES
        for step in found:
            self.assertEqual(step.offset, at)
            at += step.size
        self.assertEqual(at, max(at, len(data)))

    def test_a_segment_that_grows_gives_each_frame_once(self) -> None:
        reader = reader_of(self.data)
        given: list[int] = []
        limit = _format.HEADER_BYTES
        for frame in self.frames:
            limit += len(frame)
            found = reader.step(limit)
            self.assertIsInstance(found, Frame)
            self.assertIsNone(reader.step(limit))
            given.append(found.number if isinstance(found, Frame) else -1)
        self.assertEqual(given, [*range(12), 12])

    def test_frames_of_another_segment_are_lost_bytes(self) -> None:
        reader = reader_of(self.data, crc32(_format.segment_id(SERIES, 6)))
        found = reader.step(len(self.data))
        self.assertEqual(found, (64, len(self.data) - 64, False))
        self.assertIsNone(reader.step(len(self.data)))

    def test_changed_marks_mark_no_other_event(self) -> None:
        marks = b"".join(_format.encode_marks(START, [64 + at, 200 + at]) for at in range(5))
        offsets, end = _format.decode_marks(START, marks)
        self.assertEqual((len(offsets), end), (10, len(marks)))
        for _ in range(5000):
            data = bytearray(marks)
            at = self.random.randrange(len(data))
            if self.random.random() < 0.3:
                del data[at:]
            else:
                data[at] ^= 1 << self.random.randrange(8)
            done, end = _format.decode_marks(START, bytes(data))
            self.assertLessEqual(done, offsets)
            self.assertEqual(len(done), end // 16 * 2)
            self.assertEqual(end, at // 16 * 16)

    def test_a_header_with_a_wrong_checksum_is_refused(self) -> None:
        header = _format.encode_header(SEGMENT)
        for bit in range(8 * len(header)):
            data = bytearray(header)
            data[bit // 8] ^= 1 << bit % 8
            self.assertEqual(_format.decode_header(bytes(data)).what, "damaged")
        for length in range(len(header)):
            self.assertEqual(_format.decode_header(header[:length]).what, "damaged")

    def test_a_read_error_loses_only_its_block(self) -> None:
        bad = range(4096, 8192)

        def read(size: int, offset: int) -> bytes:
            if offset < bad.stop and offset + size > bad.start:
                raise OSError(5, "bad sector")
            return data[offset : offset + size]

        frames = [_format.encode_frame(START, 0, at, at, b"x" * 100) for at in range(200)]
        data = _format.encode_header(SEGMENT) + b"".join(frames)
        reader = Reader(read, START)
        given: set[int] = set()
        while (found := reader.step(len(data))) is not None:
            if isinstance(found, Frame):
                given.add(found.number)
        touched = {at for at in range(200) if 64 + at * 132 < bad.stop and 64 + (at + 1) * 132 > bad.start}
        self.assertEqual(given, set(range(200)) - touched)
        self.assertIsNotNone(reader.unreadable)

    def test_missing_events_are_neither_present_nor_marked(self) -> None:
        count = Count()
        for frame in steps(_format.encode_header(SEGMENT) + self.frames[0] + self.frames[9]):
            assert isinstance(frame, Frame)
            count.meet(frame, {64, 5000})
        self.assertEqual(count.missing({64, 5000}), 7)


if __name__ == "__main__":
    unittest.main()
