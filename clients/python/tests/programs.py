"""Runs programs that capture and end in some way, and reads the events in their spool."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Any

from tests import support

from clinical_events._spool import Spool

PATIENCE = 240
_PRELUDE = """
import os, signal, sys, threading, time
sys.path.insert(0, {sources!r})
from clinical_events import Client, Refused, current_run
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in its background
HERE = os.path.dirname(os.path.abspath(__file__))
SPOOL, ACKNOWLEDGED = os.path.join(HERE, "spool"), os.path.join(HERE, "acknowledged")

def acknowledged(*captured, wait=120):
    "Notes the ids of events that are captured, in one write that outlives this process."
    lines = "".join(c.event_id + "\\n" for c in captured if c.wait(wait))
    fd = os.open(ACKNOWLEDGED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, lines.encode())
    os.close(fd)

def capture(log, count=20, wait=120):
    run = log.start_run(model={{"model_id": "m"}})
    acknowledged(run.start, wait=wait)
    for number in range(count):
        acknowledged(run.output(summary="s" * number), wait=wait)

def ended(pid):
    "Waits for a child, for two minutes at most; says how it ended."
    for _ in range(12000):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"
"""


def end_with_parent() -> None:
    """A program ends with the tests, however they end."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Left:
    """The remains of a program: the ids that it noted, and those in its spool."""

    def __init__(self, directory: pathlib.Path) -> None:
        noted = directory / "acknowledged"
        self.acknowledged = noted.read_text().split() if noted.exists() else []
        self.troubles: list[str] = []
        self.events: list[dict[str, Any]] = []
        spool = Spool(str(directory / "spool"), on_trouble=self.troubles.append)
        while (event := spool.take()) is not None:
            self.events.append(json.loads(event.body))
        spool.close()
        self.ids = [event["event_id"] for event in self.events]


class ProgramTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)

    def begin(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        file = self.directory / "program.py"
        file.write_text(_PRELUDE.format(sources=str(support.PACKAGE / "src")) + program)
        process = subprocess.Popen(
            [sys.executable, str(file), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore", "COLLECTOR_URL": "", "COLLECTOR_KEY": ""},
            preexec_fn=end_with_parent,
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_program(self, program: str, *arguments: str, ends: int = 0) -> tuple[str, str]:
        """Waits until the program has ended as expected, and returns its output."""
        process = self.begin(program, *arguments)
        output, errors = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, ends, errors)
        return output, errors

    def assert_kept(self, at_least: int = 1) -> Left:
        """Each acknowledged event is in the spool, once, and nothing in it is damaged."""
        left = Left(self.directory)
        self.assertGreaterEqual(len(left.acknowledged), at_least)
        self.assertEqual(sorted(set(left.acknowledged) - set(left.ids)), [], "acknowledged and lost")
        self.assertEqual(len(left.ids), len(set(left.ids)), "twice in the spool")
        self.assertEqual([text for text in left.troubles if "lost" in text or "damage" in text], [])
        return left
