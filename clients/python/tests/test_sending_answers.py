from __future__ import annotations

import random
import unittest

from tests import support  # noqa: F401
from tests.collector import STORED, STORED_BODY

from clinical_events._answer import AnswerReader, NoAnswer, fields, refusal, retry_after

CREATED = b"HTTP/1.1 201 Created\r\n"
CHUNKED = CREATED + b"Transfer-Encoding: chunked\r\n\r\n15;a=b\r\n" + STORED_BODY + b"\r\n0\r\nX: y\r\n\r\n"
# Each with the reason.
MALFORMED = {
    "line feeds alone": b"HTTP/1.1 201 Created\nContent-Length: 21\n\n" + STORED_BODY,
    "a line feed alone in a header": CREATED + b"X: a\nContent-Length: 21\r\n\r\n" + STORED_BODY,
    "two lengths": CREATED + b"Content-Length: 21\r\nContent-Length: 21\r\n\r\n" + STORED_BODY,
    "a list of lengths": CREATED + b"Content-Length: 21, 21\r\n\r\n" + STORED_BODY,
    "a length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 21\r\n\r\n", 1),
    "chunks in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0", 1),
    "another encoding": CHUNKED.replace(b"chunked", b"gzip, chunked"),
    "a folded header": CREATED + b"X: a\r\n b\r\nContent-Length: 21\r\n\r\n" + STORED_BODY,
    "a space before the colon": CREATED + b"Content-Length : 21\r\n\r\n" + STORED_BODY,
    "a header without a name": CREATED + b": 21\r\nContent-Length: 21\r\n\r\n" + STORED_BODY,
    "a negative length": CREATED + b"Content-Length: -1\r\n\r\n",
    "a length with a sign": CREATED + b"Content-Length: +21\r\n\r\n" + STORED_BODY,
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + STORED,
    "HTTP/2": b"HTTP/2 201\r\nContent-Length: 21\r\n\r\n" + STORED_BODY,
    "a status of two digits": b"HTTP/1.1 21 Created\r\nContent-Length: 21\r\n\r\n" + STORED_BODY,
    "a page": b"<html>\r\n\r\n</html>",
    "a chunk that is longer": CHUNKED.replace(b"15;", b"14;"),
    "a chunk without a size": CHUNKED.replace(b"15;a=b", b";a=b"),
    "a chunk that ends in a line feed": CHUNKED.replace(b"15;a=b\r\n", b"15\n"),
    "a malformed field behind the chunks": CHUNKED.replace(b"X: y", b"X y"),
    "a long head": CREATED + b"X: " + b"a" * (16 << 10) + b"\r\nContent-Length: 0\r\n\r\n",
    "long heads of status 1xx": 20 * (b"HTTP/1.1 103 Early\r\nX: " + b"a" * 1000 + b"\r\n\r\n") + STORED,
    "a long body": CREATED + b"Content-Length: 65537\r\n\r\n",
    "a long body in chunks": CHUNKED.replace(b"15;a=b", b"10001"),
    "a long body without a length": CREATED + b"\r\n" + b"a" * 65537,
    "nothing": b"",
    "half a head": STORED[:20],
    "half a body": STORED[:-1],
    "half of the chunks": CHUNKED[:-2],
}


def read(data: bytes, sizes: list[int] | None = None) -> tuple[object, ...] | None:
    """The result of the reader for an answer in pieces of these sizes, and then the end."""
    reader = AnswerReader()
    at = 0
    try:
        for size in [*(sizes or []), len(data)]:
            if data[at : at + size]:
                reader.feed(data[at : at + size])
            at += size
        if reader.answer is None:
            reader.feed(b"", True)
    except NoAnswer:
        return None
    assert reader.answer is not None
    return (reader.answer.status, dict(reader.answer.headers), reader.answer.body, reader.keeps_open)


class AnswerReaderTest(unittest.TestCase):
    def test_reads_an_answer_with_a_length(self) -> None:
        self.assertEqual(read(STORED), (201, {"content-length": "21"}, STORED_BODY, True))

    def test_reads_an_answer_in_chunks(self) -> None:
        self.assertEqual(read(CHUNKED), (201, {"transfer-encoding": "chunked"}, STORED_BODY, True))

    def test_reads_a_body_that_the_end_of_the_connection_ends(self) -> None:
        self.assertEqual(read(CREATED + b"\r\n" + STORED_BODY), (201, {}, STORED_BODY, False))

    def test_skips_answers_of_status_1xx_in_front(self) -> None:
        early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        self.assertEqual(read(early + STORED), read(STORED))

    def test_a_204_has_no_body_even_with_a_length(self) -> None:
        self.assertEqual(
            read(b"HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n"), (204, {"content-length": "9"}, b"", True)
        )

    def test_malformed_answers_are_refused_in_one_piece_and_byte_by_byte(self) -> None:
        for name, data in MALFORMED.items():
            with self.subTest(name):
                self.assertIsNone(read(data))
                self.assertIsNone(read(data, [1] * len(data)))

    def test_a_connection_is_not_kept_after_connection_close_or_extra_bytes(self) -> None:
        close = CREATED + b"Connection: keep-alive, Close\r\nContent-Length: 0\r\n\r\n"
        for data in (close, close.replace(b"1.1", b"1.0"), STORED + b"H"):
            for sizes in ([], [len(STORED)], [1] * len(data)):
                found = read(data, sizes)
                self.assertIsNotNone(found)
                self.assertFalse(found and found[3])

    def test_every_cut_of_an_answer_is_no_answer(self) -> None:
        for data in (STORED, CHUNKED):
            for end in range(len(data)):
                self.assertIsNone(read(data[:end]), end)

    def test_random_bytes_give_the_same_result_in_any_pieces(self) -> None:
        chance = random.Random(39)
        seeds = [
            STORED,
            CHUNKED,
            CREATED + b"\r\n" + STORED_BODY,
            b"HTTP/1.1 100 C\r\n\r\n" + STORED,
            *MALFORMED.values(),
        ]
        words = [
            b"\r\n",
            b"\n",
            b"\r",
            b":",
            b" ",
            b"0",
            b"Content-Length: 5\r\n",
            b"\r\n\r\n",
            b"chunked",
            b"\x00",
            b"\xff",
        ]
        stored = 0
        for _ in range(20_000):
            data = bytearray(chance.choice(seeds)[:300])
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(data) + 1)
                how = chance.randrange(4)
                if how == 0:
                    data[at : at + 1] = bytes([chance.randrange(256)])
                elif how == 1:
                    del data[at : at + chance.randint(1, 12)]
                elif how == 2:
                    data[at:at] = chance.choice(words)
                else:
                    data[at:at] = data[chance.randrange(len(data) + 1) :][: chance.randint(1, 40)]
            whole = read(bytes(data))
            sizes = [chance.randint(1, 9) for _ in range(80)]
            self.assertEqual(read(bytes(data), sizes), whole, bytes(data))
            stored += whole is not None
        self.assertGreater(stored, 500)


class MeaningTest(unittest.TestCase):
    def test_only_an_object_of_json_has_fields(self) -> None:
        for body in (
            b"",
            b"<html>",
            b"[1]",
            b"1",
            b'{"a":NaN}',
            b'{"a":1',
            b"\xff{}",
            b"[" * 60_000,
            b'{"a":' * 10_000,
        ):
            self.assertEqual(fields(body), {}, body[:20])
        self.assertEqual(fields(b'{"a":1e999,"b":1.5}'), {"a": None, "b": 1.5})

    def test_a_refusal_keeps_only_fields_that_can_be_written(self) -> None:
        reader = AnswerReader()
        reader.feed(b"HTTP/1.1 400 Bad\r\nContent-Length: 0\r\nX-Request-Id: a b\r\n\r\n")
        assert reader.answer is not None
        deep: object = []
        for _ in range(32):
            deep = [deep]
        kept = refusal(reader.answer, {"code": 1, "message": "a\ud800", "details": deep})
        self.assertEqual({**kept, "at": ""}, {"status": 400, "at": "", "message": "a?"})
        self.assertRegex(kept["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        kept = refusal(reader.answer, {"code": "validation_failed", "details": [{"pointer": "/x"}]})
        self.assertEqual((kept["code"], kept["details"]), ("validation_failed", [{"pointer": "/x"}]))

    def test_retry_after_is_seconds_or_a_date(self) -> None:
        self.assertEqual(retry_after("120"), 120)
        self.assertGreater(retry_after("Fri, 31 Dec 2199 23:59:59 GMT"), 1e9)
        for text in (
            "",
            "-1",
            "1.5",
            "1" * 10,
            "\u0661",
            "Fri, 31 Dec 1999 23:59:59 GMT",
            "Fri, 99 Dec 2199 23:59:59 GMT",
        ):
            self.assertEqual(retry_after(text), 0, text)


if __name__ == "__main__":
    unittest.main()
