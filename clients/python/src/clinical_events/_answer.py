"""A strict reader of a collector's answers (RFC 9112; docs/CLIENT_SPEC.md, "Sending to the collector").

An ambiguous answer is refused, because an answer deletes an event.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Generator, Iterator, Mapping
from typing import Any, cast

_MOST_HEAD = 16 << 10
_MOST_BODY = 64 << 10
_MOST_LINE = 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(r"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_MOST_LEVELS = 32
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.:+/=-]{1,128}")
_DATE = re.compile(r"[A-Za-z]{3}, ([0-9]{2}) ([A-Z][a-z]{2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) GMT")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class NoAnswer(Exception):
    """No valid answer came, so it is unknown whether the event is stored. ``reason`` holds no value of an
    event."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Answer:
    """A whole answer. Header names are in lower case."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


class AnswerReader:
    """Reads one answer from pieces of any size, in bounded memory."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ended = False
        self.untouched = True
        self.status = 0
        self.keeps_open = False
        self.answer: Answer | None = None
        self._reading = self._read()
        next(self._reading)

    @property
    def waits(self) -> bool:
        """Whether no byte of a final answer has come; whole 1xx answers may have."""
        return self.status == 0 and not self._bytes

    def feed(self, data: bytes, ended: bool = False) -> None:
        """Takes received bytes; ``ended`` if the connection has ended. Raises NoAnswer for an invalid
        answer."""
        if self.answer is not None:
            # Bytes after an answer belong to no request.
            self.keeps_open = False
            return
        self.untouched = self.untouched and not data
        self._bytes += data
        self._ended = ended
        try:
            next(self._reading)
        except StopIteration:
            self.keeps_open = self.keeps_open and not self._bytes and not ended
        else:
            if ended:
                raise NoAnswer("the connection was closed without a whole answer")

    def _read(self) -> Iterator[None]:
        left = _MOST_HEAD
        status, newer, headers = 0, False, dict[str, str]()
        while status < 200:
            head = yield from self._until(b"\r\n\r\n", left)
            left -= len(head) + 4
            status, newer, headers = _read_head(head)
            if status == 101:
                raise NoAnswer("the answer switches to another protocol")
        length, tokens = _framing(status, newer, headers), headers.get("connection", "").lower()
        self.status = status
        self.keeps_open = newer and length is not None and "close" not in re.split(r"[ \t,]+", tokens)
        if length is None:
            while not self._ended:
                _check_size(len(self._bytes))
                yield
            length = len(self._bytes)
        body = (yield from self._chunks(left)) if length < 0 else (yield from self._take(length))
        self.answer = Answer(status, headers, body)

    def _chunks(self, left: int) -> Generator[None, None, bytes]:
        body = b""
        while True:
            match = _CHUNK.fullmatch((yield from self._until(b"\r\n", _MOST_LINE)))
            if match is None:
                raise NoAnswer("a chunk of the answer has no size")
            size = int(match[1], 16)
            if size == 0:
                break
            _check_size(len(body) + size)
            body += yield from self._take(size)
            if (yield from self._take(2)) != b"\r\n":
                raise NoAnswer("a chunk of the answer is longer than it says")
        while line := (yield from self._until(b"\r\n", min(left, _MOST_LINE))):
            left -= len(line) + 2
            if _FIELD.fullmatch(line) is None:
                raise NoAnswer("the answer has a malformed header")
        return body

    def _until(self, end: bytes, most: int) -> Generator[None, None, bytes]:
        seen = 0
        while (at := self._bytes.find(end, max(0, seen - len(end)))) < 0:
            seen = len(self._bytes)
            if seen >= most:
                raise NoAnswer("the head of the answer is too long")
            yield
        if at + len(end) > most:
            raise NoAnswer("the head of the answer is too long")
        found = bytes(self._bytes[:at])
        del self._bytes[: at + len(end)]
        return found

    def _take(self, size: int) -> Generator[None, None, bytes]:
        _check_size(size)
        while len(self._bytes) < size:
            yield
        found = bytes(self._bytes[:size])
        del self._bytes[:size]
        return found


def _check_size(size: int) -> None:
    if size > _MOST_BODY:
        raise NoAnswer("the answer is too long")


def _read_head(head: bytes) -> tuple[int, bool, dict[str, str]]:
    lines = head.split(b"\r\n")
    first = _STATUS.fullmatch(lines[0])
    if first is None:
        raise NoAnswer("the answer does not begin like HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        field = _FIELD.fullmatch(line)
        if field is None:
            raise NoAnswer("the answer has a malformed header")
        name, value = field[1].decode().lower(), field[2].decode("latin-1").rstrip(" \t")
        if name in headers and name in ("content-length", "transfer-encoding"):
            raise NoAnswer("the answer gives its length twice")
        headers[name] = f"{headers[name]},{value}" if name == "connection" and name in headers else value
    return int(first[2]), first[1] == b"1", headers


def _framing(status: int, newer: bool, headers: dict[str, str]) -> int | None:
    """Returns the length of the body (RFC 9112, 6.3); -1: in chunks; None: until the connection ends."""
    length, encoding = headers.get("content-length"), headers.get("transfer-encoding")
    if length is not None and _LENGTH.fullmatch(length) is None:
        raise NoAnswer("the answer does not say how long it is")
    if encoding is not None and (encoding.lower() != "chunked" or length is not None or not newer):
        raise NoAnswer("the answer has an encoding that was not requested")
    if status in (204, 304):
        return 0
    return -1 if encoding is not None else None if length is None else int(length)


def fields(body: bytes) -> dict[str, Any]:
    """Returns the members of a JSON object; empty for any other text."""
    try:
        value = json.loads(body, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _no_number(_: str) -> None:
    raise ValueError


def _finite(text: str) -> float | None:
    number = float(text)
    return number if number - number == 0 else None


def _nests_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = cast(
        "list[object]", [*cast("dict[str, object]", value).values()] if isinstance(value, dict) else value
    )
    return levels == 0 or any(_nests_deeper(each, levels - 1) for each in inner)


def refusal(answer: Answer, said: dict[str, Any]) -> dict[str, Any]:
    """Returns what quarantine keeps of a refusal; ``said`` is its body."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    kept: dict[str, Any] = {"status": answer.status, "at": now.replace("+00:00", "Z")}
    kept.update({name: said[name] for name in ("code", "message") if isinstance(said.get(name), str)})
    details = said.get("details")
    if isinstance(details, (dict, list)) and not _nests_deeper(cast(object, details), _MOST_LEVELS):
        kept["details"] = details
    request_id = answer.headers.get("x-request-id", "")
    if _REQUEST_ID.fullmatch(request_id):
        kept["request_id"] = request_id
    # UTF-8 cannot encode a lone surrogate, so a line of the quarantine cannot contain one.
    return cast("dict[str, Any]", json.loads(json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")))


def retry_after(value: str) -> float:
    """Reads Retry-After as seconds or a date (RFC 9110, 10.2.3); 0 for any other text."""

    if re.fullmatch("[0-9]{1,9}", value):
        return float(value)
    match = _DATE.fullmatch(value)
    if match is None or match[2] not in _MONTHS:
        return 0.0
    try:
        day, year, hour, minute, second = (int(match[group]) for group in (1, 3, 4, 5, 6))
        utc = datetime.timezone.utc
        at = datetime.datetime(year, _MONTHS.index(match[2]) + 1, day, hour, minute, second, tzinfo=utc)
        return max(0.0, (at - datetime.datetime.now(utc)).total_seconds())
    except ValueError:
        return 0.0
