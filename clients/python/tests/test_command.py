from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from typing import Any
from unittest import mock

from tests import support
from tests.collector import FakeCollector, answer, refusal, until

from clinical_events import _command_drain
from clinical_events._command import main
from clinical_events._command_line import USAGE, aligned, counted, printable, size
from clinical_events._format import KINDS
from clinical_events._spool import Spool

SECRET = "a rash"


class CommandTest(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, scratch, ignore_errors=True)
        self.directory = os.path.join(scratch, "spool")
        # The command sets the handlers of its process.
        for each in (*_command_drain._SIGNALS,):
            self.addCleanup(signal.signal, each, signal.getsignal(each))

    def wrote(self, *bodies: bytes, kind: int = 3) -> None:
        spool = Spool(self.directory, on_trouble=print)
        for body in bodies:
            spool.append([(kind, 1_800_000_000_000, body)])
        spool.close()

    def collector(self, respond: Any = None) -> FakeCollector:
        collector = FakeCollector(respond)
        self.addCleanup(collector.__exit__)
        return collector

    def run_command(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.dict(os.environ, {"COLLECTOR_KEY": "key", **environment}),
        ):
            code = main(arguments)
        return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()  # type: ignore[attr-defined]

    def drain(self, url: str, *more: str) -> tuple[int, dict[str, Any], str]:
        code, out, err = self.run_command("drain", self.directory, "--json", "--url", url, *more)
        return code, json.loads(out), err

    def test_help_fits_on_a_page(self) -> None:
        code, out, err = self.run_command("show", "--help")
        self.assertEqual((code, out, err), (0, USAGE, ""))
        self.assertLess(len(USAGE.splitlines()), 45)
        self.assertLessEqual(max(map(len, USAGE.splitlines())), 110)

    def test_numbers_and_columns_are_for_people(self) -> None:
        self.assertEqual([counted(n, "event") for n in (0, 1, 2000)], ["0 events", "1 event", "2,000 events"])
        sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 50: "1024.0 TiB"}
        self.assertEqual([size(n) for n in sizes], list(sizes.values()))
        self.assertEqual(aligned([["A", "B"], ["1\n", "2"]]), ["A        B", "1\\u000a  2"])

    def test_texts_in_a_spool_cannot_move_the_cursor_or_reverse_words(self) -> None:
        hostile = "\x1b[2J\x9b\u202e\n\u2028\ufeff\udc80x"
        self.assertEqual(printable(hostile), "\\u001b[2J\\u009b\\u202e\\u000a\\u2028\\ufeff\\udc80x")

    def test_show_prints_the_content_of_an_event_only_with_contents(self) -> None:
        self.wrote(SECRET.encode(), b"\xff")
        for options in ([], ["--json"], ["--check"], ["--events"], ["--events", "--json"]):
            code, out, err = self.run_command("show", self.directory, *options)
            self.assertEqual((code, err), (0, ""), options)
            self.assertNotIn(SECRET, out)
        _, out, _ = self.run_command("show", self.directory, "--events", "--contents")
        self.assertIn(f"2027-01-15T08:00:00.000Z  outcome            6 B\n    {SECRET}\n", out)
        self.assertIn("    in base64: /w==\n", out)

    def test_requeue_returns_readable_events_to_the_spool_and_keeps_unreadable_lines(self) -> None:
        """[R-866] Every event in quarantine waits again, and a line that cannot be read is kept."""
        self.wrote(*[b'{"n":%d}' % n for n in range(600)])
        spool = Spool(self.directory, on_trouble=print)
        while (event := spool.take()) is not None:
            spool.quarantine(event, {"status": 400, "at": "2026-01-01T00:00:00Z", "message": SECRET})
        spool.close()
        quarantine = pathlib.Path(self.directory, "quarantine")
        (file,) = quarantine.iterdir()
        with file.open("ab") as opened:
            opened.write(b"no line\n" + b'{"at":"torn')
        code, out, err = self.run_command("requeue", self.directory, "--json")
        found = json.loads(out)
        self.assertEqual((code, found["requeued"], err), (0, 600, ""))
        kept = [pathlib.Path(path).read_bytes() for path in found["unreadable"]]
        self.assertEqual(kept, [b"no line\n", b'{"at":"torn'])
        self.assertEqual(list(quarantine.iterdir()), [])
        collector = self.collector()
        self.assertEqual(self.drain(collector.url)[0], 0)
        self.assertEqual(
            sorted(each.body for each in collector.requests), sorted(b'{"n":%d}' % n for n in range(600))
        )

    def test_requeue_completes_an_interrupted_requeue(self) -> None:
        self.wrote(b"{}")
        spool = Spool(self.directory, on_trouble=print)
        event = spool.take()
        assert event is not None
        spool.quarantine(event, {"status": 400, "at": ""})
        spool.close()
        (file,) = pathlib.Path(self.directory, "quarantine").iterdir()
        file.rename(f"{file}.0.requeue")
        self.assertEqual(self.run_command("requeue", self.directory)[1].splitlines()[0], "1 event put back.")

    def test_a_sealed_quarantine_is_left_alone(self) -> None:
        self.wrote()
        quarantine = pathlib.Path(self.directory, "quarantine")
        quarantine.mkdir()
        sealed = quarantine / "0190aabbccdd01020304050607.ndjson"
        sealed.write_text('{"at":"","sealed":"AAAA"}\n')
        code, out, err = self.run_command("requeue", self.directory)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("the quarantine is encrypted", err)
        self.assertTrue(sealed.exists())

    def test_drain_sends_waiting_events_of_every_kind_and_removes_the_spool(self) -> None:
        for kind in range(5):
            self.wrote(b'{"kind":%d}' % kind, kind=kind)
        collector = self.collector()
        code, found, err = self.drain(collector.url)
        self.assertEqual((code, found["found"], found["sent"], found["waiting"], err), (0, 5, 5, 0, ""))
        self.assertEqual(sorted((each.kind, each.body) for each in collector.requests),
                         sorted((KINDS[kind], b'{"kind":%d}' % kind) for kind in range(5)))  # fmt: skip
        self.assertEqual(os.listdir(self.directory), [])

    def test_drain_gives_up_after_a_time_without_progress_and_says_why(self) -> None:
        self.wrote(b"{}")
        code, found, err = self.drain(self.collector(lambda _: answer(503)).url, "--timeout", "0.3")
        self.assertEqual((code, found["waiting"], found["cause"]), (7, 1, "the collector answered 503"))
        self.assertIn("given up after 0.3 s: the collector answered 503", err)

    def test_drain_counts_events_that_the_collector_has_erased_or_refused(self) -> None:
        self.wrote(b"0", b"1", b"2")
        said = {b"0": refusal(409, "event_erased"), b"1": refusal(400, "validation_failed")}
        url = self.collector(lambda each: said.get(each.body, answer(201, b'{"status":"accepted"}'))).url
        code, found, _ = self.drain(url)
        numbers = [found[name] for name in ("sent", "erased", "refused", "in_quarantine", "waiting", "found")]
        self.assertEqual((code, numbers), (7, [1, 1, 1, 1, 0, 3]))

    def test_drain_reports_damage_and_sends_the_other_events(self) -> None:
        self.wrote(b'{"n":1}', b'{"n":2}')
        (segment,) = pathlib.Path(self.directory).glob("*/*.segment")
        data = bytearray(segment.read_bytes())
        data[data.index(b'"n":2') + 4] ^= 1
        segment.write_bytes(data)
        code, found, _ = self.drain(self.collector().url)
        self.assertEqual((code, found["sent"], found["damaged"]["bytes"] > 0), (3, 1, True))
        kept = sorted(pathlib.Path(file).suffix for file in found["damaged"]["files"])
        self.assertEqual((kept, found["damaged"]["missing_events"]), ([".bytes", ".missing"], 1))

    def test_a_signal_ends_a_drain_and_keeps_unsent_events(self) -> None:
        self.wrote(b"{}")
        collector = self.collector(lambda _: answer(503))
        command = "import sys; from clinical_events._command import main; sys.exit(main())"
        child = subprocess.Popen(
            [sys.executable, "-c", command, "drain", self.directory, "--url", collector.url],
            env={**os.environ, "PYTHONPATH": str(support.PACKAGE / "src"), "COLLECTOR_KEY": "key"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: collector.requests)
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=120)
        self.assertEqual((child.returncode, out), (130, "0 events sent, 1 still waiting, 0 refused.\n"))
        self.assertIn("stopped by a signal", err)
        self.assertEqual(self.drain(self.collector().url)[1]["sent"], 1)

    def test_a_closed_output_ends_the_command_without_a_message(self) -> None:
        self.wrote(*[b'"%d"' % n for n in range(5000)])
        command = "import sys; from clinical_events._command import main; sys.exit(main())"
        child = subprocess.Popen(
            [sys.executable, "-c", command, "show", self.directory, "--events"],
            env={**os.environ, "PYTHONPATH": str(support.PACKAGE / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        self.assertEqual(child.stderr.read(), b"")
        child.stderr.close()
        self.assertEqual(child.wait(120), 0)


if __name__ == "__main__":
    unittest.main()
