"""The snippets of docs/guide/python.md: those without other libraries run, and their events arrive."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
import unittest

from tests.collector import FakeCollector
from tests.support import PACKAGE, ROOT

GUIDE = ROOT / "docs" / "guide" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)

CALL = re.compile(r"\.start_run\(|@log\.runs\(|\.(?:output|artifact|outcome|feedback)\(")


def libraries_of(block: str) -> set[str]:
    """Its imports apart from the standard library and the client."""
    names: list[str] = []
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"clinical_events"}


class Guide(unittest.TestCase):
    def test_every_snippet_compiles(self) -> None:
        for block in BLOCKS:
            compile(block, str(GUIDE), "exec")

    def test_every_snippet_that_needs_no_library_runs_and_its_events_arrive(self) -> None:
        runnable = [block for block in BLOCKS if not libraries_of(block)]
        self.assertGreaterEqual(len(runnable), 6)
        self.assertLess(len(runnable), len(BLOCKS))
        for block in runnable:
            with self.subTest(block[:200]):
                self.assert_arrives(block)

    def assert_arrives(self, block: str) -> None:
        with FakeCollector() as collector, tempfile.TemporaryDirectory() as directory:
            environment = {
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(PACKAGE / "src"),
                "COLLECTOR_URL": collector.url,
                "COLLECTOR_KEY": "cek_test",
                "COLLECTOR_SPOOL": "spool",
            }
            # Beyond the two seconds of an end without close(), which a slow machine may need.
            program = block.replace("http://127.0.0.1:8080", collector.url) + "\nlog.close(120)\n"
            done = subprocess.run(
                [sys.executable, "-B", "-c", program],
                cwd=directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            # One event for each call, without those whose refusal the guide shows.
            calls = len(CALL.findall(block))
            refused = block.count("# no time zone")
            self.assertEqual(len(collector.requests), calls - refused)
