"""Bodies of answers, as they come over a connection: cut anywhere, in any form, of any length."""

from __future__ import annotations

import unittest
from typing import Any

from tests import support  # noqa: F401 -- Sets the path of the sources.

from clinical_events.integrations import _capture
from clinical_events.integrations._readers import ChatReader

# Line ends of each kind, a comment, fields that are not read, data of several lines, no line end at the end.
TEXT = ": hello\r\n\r\nevent: x\ndata: 1\n\nid: 7\rdata:2\rdata:  3\r\rdata\n\nretry\r\ndata: é\n\n\ndata: 5"
DATA = ["1", "2\n 3", "", "é", "5"]


def events_of(pieces: list[str]) -> list[str]:
    found: list[str] = []
    stream = _capture.EventStream(found.append)
    for piece in pieces:
        stream.push(piece)
    stream.end()
    return found


class EventStreams(unittest.TestCase):
    def test_events_are_the_same_wherever_the_text_is_cut(self) -> None:
        """Server-sent events (HTML Living Standard, section 9.2.6) end with an empty line of any kind."""
        self.assertEqual(events_of([TEXT]), DATA)
        self.assertEqual(events_of(list(TEXT)), DATA)
        for at in range(len(TEXT)):
            for end in range(at, len(TEXT)):
                self.assertEqual(events_of([TEXT[:at], TEXT[at:end], "", TEXT[end:]]), DATA)


def body_of(*chunks: bytes, is_stream: bool = False) -> Any:
    reader = ChatReader()
    body = _capture._Body(reader, is_stream, None)
    for chunk in chunks:
        body.take(chunk)
    body.end(True)
    return reader.answer


class Bodies(unittest.TestCase):
    def test_a_body_is_read_wherever_its_bytes_are_cut(self) -> None:
        """A character may be cut in two, and a byte order mark may precede the first."""
        whole = '\ufeff{"choices": [{"message": {"content": "näher 🙂"}}]}'.encode()
        event = 'data: {"choices": [{"delta": {"content": "näher 🙂"}}]}\n\n'.encode()
        for at in range(len(whole)):
            self.assertEqual(body_of(whole[:at], whole[at:]).text, "näher 🙂")
        for at in range(1, len(event)):
            answer = body_of(event[:at], event[at:], is_stream=True)
            self.assertEqual((answer.text, answer.facts["characters"]), ("näher 🙂", 8))

    def test_a_body_that_is_too_long_is_not_kept(self) -> None:
        body = _capture._Body(ChatReader(), False, None)
        chunk = b" " * (1 << 20)
        for _ in range(40):
            body.take(chunk)
        self.assertTrue(body.is_too_long)
        self.assertLess(len(body._whole), 20)
        body.end(True)


if __name__ == "__main__":
    unittest.main()
