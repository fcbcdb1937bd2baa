"""The command line of ``clinical-events``: arguments, usage, and output."""

from __future__ import annotations

import getopt
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ._http import said

USAGE = """Usage: clinical-events COMMAND DIRECTORY [options]

Shows and sends the events in the spool of a clinical-events client, also while applications use it.

Commands:
  show     prints waiting events, their age and holder, and refused events with reasons
  requeue  moves refused events from quarantine back to the waiting ones
  drain    sends the waiting events that no live process holds

Options:
  --events             show: one line for each waiting or refused event
  --check              show: read every byte and report damage
  --contents           show --events: print the events and the collector's messages too (patient data)
  --json               print JSON; with --events one object a line
  --url URL            drain: the collector's address; default COLLECTOR_URL
  --api-key-file FILE  drain: a file with the API key; default COLLECTOR_KEY
  --timeout SECONDS    drain: give up after this time without progress; default 60
  -h, --help           print this help
  --version            print the version

drain stops immediately when waiting does not help: the collector refuses the key, its certificate is not
trusted (SSL_CERT_FILE=FILE names your own authorities), or the server is not a collector. No event is lost.
For a spool that is encrypted with a key use collector-spool, the command of the Node client.

Exit codes:
  0    done
  1    failed for an unexpected reason
  2    invalid command line; nothing was done
  3    damage in the spool (show --check, drain)
  6    no spool in the directory
  7    some events still wait or were refused (drain), or cannot be read (show --events)
  130  ended by a signal; events that were sent stay sent (drain)
"""
OK, FAILURE, WRONG, DAMAGED, NOT_FOUND, PARTLY, INTERRUPTED = 0, 1, 2, 3, 6, 7, 130
COMMANDS = ("show", "requeue", "drain")
# Control, direction and invisible characters: the contents of a spool are not trusted.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_FLAGS = ("json", "events", "check", "contents", "help", "version")
_VALUES = ("url", "api-key-file", "timeout")
_ONLY = {"events": "show", "check": "show", "contents": "show"} | dict.fromkeys(_VALUES, "drain")


class CommandFailure(Exception):
    """The command failed. The message is one line without a key or a value of an event."""

    def __init__(self, message: str, code: int = WRONG) -> None:
        super().__init__(message)
        self.code = code


class Request(NamedTuple):
    """A valid command line."""

    command: str
    directory: str
    json: bool
    events: bool
    check: bool
    contents: bool
    url: str
    api_key: str
    timeout: float | None


class Output:
    """The output of a command. Text of a spool cannot move the cursor, change direction or begin a line."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._progressing = False

    def say(self, line: str) -> None:
        sys.stdout.buffer.write(f"{printable(line)}\n".encode())

    def say_json(self, value: object) -> None:
        for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
            self.say(line)

    def report(self, line: str) -> None:
        """Prints a line on standard error."""
        self._write(f"clinical-events: {printable(line)}\n")

    def progress(self, line: str) -> None:
        """Prints a progress line, which the next output overwrites."""
        try:
            width = os.get_terminal_size(2).columns
        except OSError:
            width = 80
        self._write(printable(line)[: max(0, width - 1)])
        self._progressing = True

    def end_progress(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        cleared, self._progressing = "\r\x1b[K" if self._progressing else "", False
        try:
            sys.stderr.buffer.write((cleared + text).encode())
            sys.stderr.buffer.flush()
        except OSError:
            pass  # the reader has closed the pipe


def printable(line: str) -> str:
    """Escapes invisible characters as JSON does, so that a line of JSON keeps its value."""
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns lines of aligned columns; all rows have the same number of cells."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]


def counted(count: int, noun: str) -> str:
    """``1 event``, ``2,000 events``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """``512 B``, ``1.5 MiB``."""
    if count < 1024:
        return f"{count} B"
    power = min(4, (count.bit_length() - 1) // 10)
    return f"{count / 1024**power:.1f} {' KMGT'[power]}iB"


def read_arguments(arguments: Sequence[str]) -> Request | str:
    """Returns the request, or ``help`` or ``version``. Raises CommandFailure."""
    try:
        found, words = getopt.gnu_getopt(list(arguments), "h", [*_FLAGS, *(f"{name}=" for name in _VALUES)])
    except getopt.GetoptError as error:
        raise CommandFailure(error.msg) from None
    options = {name.lstrip("-"): value for name, value in found}
    if "h" in options or "help" in options:
        return "help"
    if "version" in options:
        return "version"
    if not words:
        raise CommandFailure("a command is missing: one of " + ", ".join(COMMANDS))
    command = words[0]
    if command not in COMMANDS:
        raise CommandFailure(f"there is no command {command}; there are {', '.join(COMMANDS)}")
    if len(words) < 2:
        raise CommandFailure(f"{command} needs a spool directory")
    if len(words) > 2:
        raise CommandFailure(f"{command} takes one directory")
    for name, only in _ONLY.items():
        if name in options and command != only:
            raise CommandFailure(f"--{name} is for {only}")
    if "events" in options and "check" in options:
        raise CommandFailure("show takes --events or --check, not both")
    if "contents" in options and "events" not in options:
        raise CommandFailure("--contents is for show --events")
    file = options.get("api-key-file")
    return Request(
        command,
        words[1],
        "json" in options,
        "events" in options,
        "check" in options,
        "contents" in options,
        options.get("url", os.environ.get("COLLECTOR_URL", "")),
        os.environ.get("COLLECTOR_KEY", "") if file is None else _text_in(file),
        _seconds(options["timeout"]) if "timeout" in options else None,
    )


def _text_in(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            return opened.read(1 << 16).decode(errors="replace").strip()
    except OSError as error:
        raise CommandFailure(f"{file} cannot be read ({said(error)})") from None


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or float(text) == 0:
        raise CommandFailure("--timeout must be a number of seconds above 0")
    return float(text)
