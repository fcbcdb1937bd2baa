"""The ``clinical-events`` command, the counterpart of ``collector-spool`` of the Node client.

Scripts rely on its JSON members and exit codes, which are the same as in ``collector-spool``.
"""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from collections.abc import Callable, Sequence

from ._command_drain import drain
from ._command_line import (
    FAILURE,
    NOT_FOUND,
    OK,
    USAGE,
    WRONG,
    CommandFailure,
    Output,
    Request,
    read_arguments,
)
from ._command_requeue import requeue
from ._command_show import show
from ._errors import Refused
from ._http import said
from ._inspection import looks_like_spool
from ._segment import SEALED


def _version() -> str:
    try:
        return importlib.metadata.version("clinical-events")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _check_that_there(directory: str) -> None:
    """Refuses a path without a spool: opening it would make an empty one from a mistyped path."""
    try:
        there = looks_like_spool(directory)
    except (FileNotFoundError, NotADirectoryError):
        raise CommandFailure(f"there is no directory {directory}", NOT_FOUND) from None
    if not there:
        raise CommandFailure(f"{directory} is not a spool", NOT_FOUND)


def run(arguments: Sequence[str], output: Output) -> int:
    request = read_arguments(arguments)
    if isinstance(request, str):
        for line in (USAGE if request == "help" else _version()).rstrip().split("\n"):
            output.say(line)
        return OK
    _check_that_there(request.directory)
    commands: dict[str, Callable[[Request, Output], int]] = {"show": show, "requeue": requeue, "drain": drain}
    return commands[request.command](request, output)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    # The default action: no traceback after Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    output = Output()
    try:
        code = run(sys.argv[1:] if arguments is None else arguments, output)
        sys.stdout.buffer.flush()
        return code
    except BrokenPipeError:
        # The reader has closed the pipe. The buffer must not be written again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return OK
    except CommandFailure as failure:
        code, message = failure.code, str(failure)
    except Refused as refused:
        code, message = FAILURE, str(refused)
        if message.endswith(SEALED):
            code, message = WRONG, f"{message}; collector-spool has --key-file"
    except Exception as error:  # noqa: BLE001 - one line, and no traceback with values in it
        code, message = FAILURE, said(error)
    sys.stdout.buffer.flush()
    output.report(message)
    return code
