"""Events that the collector will never take, each with its answer: one JSON object a line."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ._files import Mine, datasync, make_inside, open_file, pread, sync_directory
from ._format import KINDS
from ._segment import SpooledEvent

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CYCLE = 146_097 * 86_400_000
_YEAR_9600 = (datetime(9600, 1, 1, tzinfo=timezone.utc) - _EPOCH) // timedelta(milliseconds=1)


def iso(milliseconds: int) -> str:
    """The time as RFC 3339 with milliseconds in UTC; from the year 10000 on as ECMA-262 extends it."""
    # Every 400 years the calendar is the same.
    cycles = max(0, milliseconds - _YEAR_9600) // _CYCLE
    at = _EPOCH + timedelta(milliseconds=milliseconds - cycles * _CYCLE)
    text = f"{at.isoformat(timespec='milliseconds')[:-6]}Z"
    year = at.year + 400 * cycles
    return text if year < 10000 else f"+{year:06}{text[4:]}"


class Quarantine:
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
        make_inside(self.directory)
        while not self._append(line):
            pass
        self.bytes += len(line)

    def _append(self, line: bytes) -> bool:
        """Returns false when the file was moved away, so that whoever did that may not have seen the line."""
        fd = open_file(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            at = os.fstat(fd).st_size
            try:
                self._mine.check()
                if os.write(fd, line) < len(line):
                    raise OSError(errno.ENOSPC, "no room for a line")
                if self._durable:
                    datasync(fd)
                    sync_directory(self.directory)
            except OSError:
                self._mine.check()
                os.ftruncate(fd, at)
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
        """Counts what the quarantine of the whole spool takes."""
        total = 0
        with contextlib.suppress(OSError):
            for name in os.listdir(self.directory):
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(self.directory, name), follow_symlinks=False).st_size
        self.bytes = total


def _line(event: SpooledEvent, refusal: Mapping[str, Any], *, full: bool) -> bytes:
    at = iso(int(time.time() * 1000))
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
