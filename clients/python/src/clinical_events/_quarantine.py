"""The quarantine: events that the collector will never accept, with its answers, one JSON object per line."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple

from ._files import Mine, datasync, make_inside, open_file, pread, sync_directory
from ._format import KINDS
from ._segment import SpooledEvent

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CYCLE = 146_097 * 86_400_000
_YEAR_9600 = (datetime(9600, 1, 1, tzinfo=timezone.utc) - _EPOCH) // timedelta(milliseconds=1)


def iso(milliseconds: int) -> str:
    """Formats a time as RFC 3339 in UTC with milliseconds; from the year 10000 on in ECMA-262's extended
    form."""
    # The calendar repeats every 400 years.
    cycles = max(0, milliseconds - _YEAR_9600) // _CYCLE
    at = _EPOCH + timedelta(milliseconds=milliseconds - cycles * _CYCLE)
    text = f"{at.isoformat(timespec='milliseconds')[:-6]}Z"
    year = at.year + 400 * cycles
    return text if year < 10000 else f"+{year:06}{text[4:]}"


class Quarantine:
    """Writes the quarantine of one process."""

    def __init__(self, root: str, series: bytes, mine: Mine, *, durable: bool) -> None:
        self.directory = os.path.join(root, "quarantine")
        self._path = os.path.join(self.directory, series.hex() + ".ndjson")
        self._mine = mine
        self._durable = durable
        self.bytes = 0

    def add(self, event: SpooledEvent, refusal: Mapping[str, Any], *, full: bool) -> None:
        """Appends the line, as durably as the mode says. Raises OSError."""
        line = _line(event, refusal, full=full)
        make_inside(self.directory)
        while not self._append(line):
            pass
        self.bytes += len(line)

    def _append(self, line: bytes) -> bool:
        """Returns False when the file was moved away meanwhile: its new owner may have missed the line."""
        fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, self._mine)
        try:
            at = os.fstat(fd).st_size
            try:
                if self._mine.append(fd, line) < len(line):
                    raise OSError(errno.ENOSPC, "no room for a line")
                if self._durable:
                    datasync(fd)
                    sync_directory(self.directory)
            except OSError:
                self._mine.truncate(fd, at)
                raise
        finally:
            os.close(fd)
        try:
            again = open_file(self._path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return pread(again, len(line), at) == line
        finally:
            os.close(again)

    def weigh(self) -> None:
        """Counts the bytes of the whole spool's quarantine."""
        total = 0
        with contextlib.suppress(OSError):
            for name in os.listdir(self.directory):
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(self.directory, name), follow_symlinks=False).st_size
        self.bytes = total


def _line(event: SpooledEvent, refusal: Mapping[str, Any], *, full: bool) -> bytes:
    at = iso(int(time.time() * 1000))
    said = {**refusal, "at": refusal.get("at", at)}
    # A server's message may be long, and may have no JSON form.
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


_PIECE_BYTES = 1 << 20
_LONGEST_BYTES = 256 << 20
_TAKEN = ".requeue"


class QuarantinedEvent(NamedTuple):
    """A quarantined event. ``captured_at`` is RFC 3339; ``body`` has the exact captured bytes."""

    kind: str
    captured_at: str
    body: bytes
    refusal: dict[str, Any]


class Line(NamedTuple):
    """A line of a quarantine; ``event`` is None when the line is invalid."""

    offset: int
    size: int
    event: QuarantinedEvent | Literal["sealed"] | None


def quarantine_files(root: str) -> list[str]:
    """Returns the paths of the files, including the files of an unfinished requeue. Raises OSError."""
    directory = os.path.join(root, "quarantine")
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    return [os.path.join(directory, name) for name in names if name.endswith((".ndjson", _TAKEN))]


def quarantined_lines(path: str) -> Iterator[Line]:
    """Yields the non-empty lines of a file in bounded memory; none when the file is gone. Raises OSError."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        for offset, size, text in _lines(fd):
            if text is None or text.strip():
                yield Line(offset, size, None if text is None else _event_in(text))
    finally:
        os.close(fd)


def _lines(fd: int) -> Iterator[tuple[int, int, bytes | None]]:
    """Yields offset, size and text of each line; no text when it is longer than a valid line."""
    offset = position = 0
    held: list[bytes] = []
    while piece := os.pread(fd, _PIECE_BYTES, position):
        start = 0
        while (end := piece.find(b"\n", start) + 1) > 0:
            size = position + end - offset
            yield offset, size, b"".join([*held, piece[start:end]]) if size <= _LONGEST_BYTES else None
            held.clear()
            offset, start = position + end, end
        position += len(piece)
        if position - offset <= _LONGEST_BYTES:
            held.append(piece[start:])
        else:
            held.clear()
    if position > offset:
        size = position - offset
        yield offset, size, b"".join(held) if size <= _LONGEST_BYTES else None


def _event_in(text: bytes) -> QuarantinedEvent | Literal["sealed"] | None:
    try:
        said = json.loads(text)
        if isinstance(said.get("sealed"), str):
            return "sealed"
        kind, at, refusal = said["kind"], said["captured_at"], said["refusal"]
        if kind not in KINDS or not isinstance(at, str) or not {"status", "at"} <= refusal.keys():
            return None
        event = said.get("event")
        body = event.encode() if event is not None else base64.b64decode(said["event_base64"])
        return QuarantinedEvent(kind, at, body, refusal)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
