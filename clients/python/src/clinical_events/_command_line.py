"""The command line of ``clinical-events``: what may stand in it, what it says, and how it is printed."""

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

Looks into the spool of a clinical-events client, also while applications run on it.

Commands:
  show     what waits, since when and for whom, what was refused and why
  requeue  puts the refused events back among those that wait
  drain    sends now what waits and no living process holds

Options:
  --events             show: each event that waits or was refused, one a line
  --check              show: reads every byte, and reports what is damaged
  --contents           show --events: also the events themselves, and the collector's words. Patient data
  --json               for scripts; with --events one object a line
  --url URL            drain: where the collector is; or COLLECTOR_URL
  --api-key-file FILE  drain: the API key; or COLLECTOR_KEY
  --timeout SECONDS    drain: gives up when nothing was sent for so long; 60
  -h, --help           print this help
  --version            print the version

drain stops immediately when waiting does not help: the collector does not take the key, its certificate is
not trusted (SSL_CERT_FILE=FILE names authorities of your own), or the address is not a collector's. Nothing
is lost by it. A spool that is sealed by a key is for collector-spool, the command of the client for Node.

Exit codes:
  0    done
  1    failed for an unexpected reason
  2    the command line is wrong; nothing was done
  3    something in the spool is damaged: show --check; drain, when it met damage, whatever else it did
  6    there is no spool
  7    some of the events still wait, or were refused (drain), or cannot be read (show --events)
  130  a signal ended it; what was sent is done (drain)
"""
OK, FAILURE, WRONG, DAMAGED, NOT_FOUND, PARTLY, INTERRUPTED = 0, 1, 2, 3, 6, 7, 130
COMMANDS = ("show", "requeue", "drain")
# Control characters, those of direction, and those that show nothing: what a spool holds is another's.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_FLAGS = ("json", "events", "check", "contents", "help", "version")
_VALUES = ("url", "api-key-file", "timeout")
_ONLY = {"events": "show", "check": "show", "contents": "show"} | dict.fromkeys(_VALUES, "drain")


class CommandFailure(Exception):
    """The command cannot do what it was asked. One line for people, without a key or a value of an event."""

    def __init__(self, message: str, code: int = WRONG) -> None:
        super().__init__(message)
        self.code = code


class Request(NamedTuple):
    """A command line that makes sense."""

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
    """All that the command prints. Nothing in it can move a cursor, turn words around, or begin a line."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self._progressing = False

    def say(self, line: str) -> None:
        sys.stdout.buffer.write(f"{printable(line)}\n".encode())

    def say_json(self, value: object) -> None:
        for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
            self.say(line)

    def tell(self, line: str) -> None:
        """On standard error: what goes wrong on the way."""
        self._write(f"clinical-events: {printable(line)}\n")

    def progress(self, line: str) -> None:
        """The last line of a terminal, written over by the next one."""
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
            pass  # whoever read it has left


def printable(line: str) -> str:
    """Spells what shows nothing as JSON does, so that a line of JSON stays the same JSON."""
    return _UNPRINTABLE.sub(lambda character: f"\\u{ord(character[0]):04x}", line)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of aligned columns; all rows have as many cells."""
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
    """The request, or ``help`` or ``version``. Raises CommandFailure."""
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
        raise CommandFailure("which command? One of: " + ", ".join(COMMANDS))
    command = words[0]
    if command not in COMMANDS:
        raise CommandFailure(f"there is no command {command}; there are {', '.join(COMMANDS)}")
    if len(words) < 2:
        raise CommandFailure(f"{command} needs the directory of a spool")
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
        raise CommandFailure("--timeout is a number of seconds above 0")
    return float(text)
