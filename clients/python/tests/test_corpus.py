"""Every spool of test/vectors/spool, which is binding for the clients of all languages."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import shutil
import socket
import tempfile
import unittest
from typing import Any
from unittest import mock

from tests import support

from clinical_events import _backlog, _format, _inspection, _parts, _quarantine, _segment, _spool
from clinical_events._errors import SpoolRefused

CASES = support.VECTORS / "spool"
NAMES = sorted(path.parent.name for path in CASES.glob("*/case.json"))
SEALED_HEADER = b"CLINSPOL\x01\x01"
ONE = "0190aabbccdd01020304050607"
LEFT = f"{ONE}/{ONE}000000.segment"
OWNERS = {"here": f"{_parts.HOST}\n1\n", "elsewhere": "another boot\n1\n", "empty": ""}

# Python has no AES in its standard library: a part with a sealed segment is one of which it has no key.
WITHOUT_KEY: dict[str, dict[str, Any]] = {
    "sealed": {"events": [], "left": [LEFT]},
    "sealed-and-clear": {"left": [LEFT]},
    "sealed-other-key": {"events": ["{}"], "left": [LEFT]},
    "sealed-tampered": {"events": [], "missing": 0, "damaged": [], "left": [LEFT]},
    "torn-sealed": {"events": [], "cut": 0, "left": [LEFT]},
}


def case_of(name: str) -> dict[str, Any]:
    return json.loads((CASES / name / "case.json").read_text())


def lay_out(name: str, case: dict[str, Any], root: pathlib.Path, stack: contextlib.ExitStack) -> None:
    """The spool of the case, with the files that no repository can hold."""
    shutil.copytree(CASES / name / "spool", root)
    root.chmod(0o700)
    for part, said in case["parts"].items():
        owner = root / part / "owner"
        if said["owner"] != "none":
            owner.write_text(OWNERS[said["owner"]])
            if "touched" in case:
                os.utime(owner, (1577836800, 1577836800))
        if said["lock"] != "none":
            lock = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            lock.bind(str(root / part / "lock"))
            if said["lock"] == "held":
                lock.listen(1)
    for file, kind in case.get("make", {}).items():
        path = root / file
        if kind == "link":
            path.symlink_to("/etc/hostname")
        elif kind == "directory":
            path.mkdir()
        else:
            os.mkfifo(path)


def files_in(root: pathlib.Path) -> list[str]:
    """The files, except those that clients keep and those of the owner of a part."""
    found: list[str] = []
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if (path.is_dir() and not name.endswith(".segment")) or name.startswith("damaged/"):
            continue
        if path.name != "lock" and not (path.name == "owner" and len(name) == 32):
            found.append(name)
    return sorted(found)


def shown(event: _spool.SpooledEvent) -> dict[str, str]:
    said = {"kind": _format.KINDS[event.kind], "captured_at": _quarantine.iso(event.captured_at)}
    try:
        return {**said, "event": event.body.decode()}
    except UnicodeDecodeError:
        return {**said, "event_base64": base64.b64encode(event.body).decode()}


def looks_of(root: pathlib.Path) -> dict[str, tuple[int, int, int]]:
    stats = {str(path): path.lstat() for path in root.rglob("*")}
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def shown_met(met: _inspection.Met) -> dict[str, str]:
    assert isinstance(met.event, _quarantine.QuarantinedEvent)
    kind, captured_at, body, _ = met.event
    try:
        return {"kind": kind, "captured_at": captured_at, "event": body.decode()}
    except UnicodeDecodeError:
        said = base64.b64encode(body).decode()
        return {"kind": kind, "captured_at": captured_at, "event_base64": said}


def found_in(root: pathlib.Path, patience: float) -> dict[str, Any]:
    """The result and the remaining files of a client that sends all waiting events."""
    spool = _spool.Spool(str(root), on_trouble=lambda _: None, patience=patience)
    counted = spool.state()
    events: list[_spool.SpooledEvent] = []
    while (event := spool.take()) is not None:
        events.append(event)
    for event in events:
        spool.settle(event, True)
    spool.tend()
    state = spool.state()
    spool.close()
    damaged = sorted((root / "damaged").glob("*.bytes")) if (root / "damaged").is_dir() else []
    notes = (root / "damaged").glob("*.missing")
    return {
        "events": [shown(event) for event in events],
        "cut": state.cut,
        "missing": sum(json.loads(note.read_text())["missing_events"] for note in notes),
        "damaged": [{"file": path.name, "bytes": path.stat().st_size} for path in damaged],
        "left": files_in(root),
        "waits after": state.waiting,
        "counted": counted.waiting,
    }


def expected_of(name: str, case: dict[str, Any]) -> dict[str, Any]:
    expect = {**case["expect"]}
    if name in WITHOUT_KEY:
        expect.update(WITHOUT_KEY[name])
        expect.pop("refused", None)
    if name == "sealed-and-clear":
        expect["events"] = [event for event in expect["events"] if event["event"] == '{"n":2}']
    return expect


class Corpus(unittest.TestCase):
    """One test for each case, under its name."""

    maxDiff = None

    def check(self, name: str) -> None:
        case = case_of(name)
        cut = case.get("truncate", {"file": None, "from": 0, "to": 0})
        for length in range(cut["from"], cut["to"] + 1):
            with self.subTest(length=length) if cut["file"] else contextlib.nullcontext():
                self.check_once(name, case, cut["file"], length)

    def check_once(self, name: str, case: dict[str, Any], file: str | None, length: int) -> None:
        expect = expected_of(name, case)
        with contextlib.ExitStack() as stack:
            root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "spool"
            lay_out(name, case, root, stack)
            if file is not None:
                os.truncate(root / file, length)
            if "refused" in expect:
                with self.assertRaisesRegex(SpoolRefused, "has an earlier format"):
                    found_in(root, _parts.PATIENCE)
                self.assertEqual(files_in(root), expect["left"])
                self.assertEqual(sorted(os.listdir(root)), sorted(case["parts"]))
                return
            if expect.get("watched"):
                before = found_in(root, _parts.PATIENCE)
                self.assertEqual(before["events"], [])
            self.check_reading(root, case, expect)
            found = found_in(root, 0 if expect.get("watched") else _parts.PATIENCE)
            events = [
                event if isinstance(event, dict) else {**found["events"][at], "event": event}
                for at, event in enumerate(expect["events"])
            ]
            for key, value in {**expect, "events": events, "waits after": 0}.items():
                if key != "watched":
                    self.assertEqual(found[key], value, f"{name}: {key}")
            # Where nothing is damaged or missing, the count before reading is exact too.
            if name.startswith(("whole", "marks", "torn")):
                self.assertEqual(found["counted"], len(events), f"{name}: counted")

    def check_reading(self, root: pathlib.Path, case: dict[str, Any], expect: dict[str, Any]) -> None:
        """An inspection finds the same and changes nothing."""
        before = looks_of(root)
        segments = [path for path in root.glob("*/*.segment") if path.is_file()]
        if any(path.read_bytes().startswith(SEALED_HEADER) for path in segments):
            with self.assertRaisesRegex(SpoolRefused, "is encrypted; give its key"):
                _inspection.read(str(root))
            return
        met: list[dict[str, str]] = []
        reading = _inspection.read(str(root), lambda event: met.append(shown_met(event)))
        parts = _inspection.inspect(str(root)).parts
        self.assertEqual(reading.cut, expect["cut"])
        if case["parts"][ONE] != {"owner": "here", "lock": "held"}:
            self.assertEqual(met, expect["events"])
            self.assertEqual(reading.events - reading.done, len(met))
            self.assertEqual([part.holder is not None for part in parts].count(True), "watched" in expect)
        self.assertEqual(looks_of(root), before)


def _add(name: str) -> None:
    def test(self: Corpus) -> None:
        self.check(name)

    test.__doc__ = f"[R-1720] A spool is read as the corpus says: {name}."
    setattr(Corpus, f"test_{name.replace('-', '_')}", test)


for _name in NAMES:
    _add(_name)


class TrustingReader(_format.Reader):
    """Expects nothing after the frame that ends a segment."""

    __slots__ = ("ended",)

    def step(self, limit: int) -> Any:
        if getattr(self, "ended", False):
            return None
        found = super().step(limit)
        self.ended = isinstance(found, _format.Frame) and found.kind == _format.END
        return found


class Mutants(unittest.TestCase):
    """[R-1720] A reader that is wrong in one place does not pass the corpus."""

    def failing(self) -> list[str]:
        names: list[str] = []
        for name in NAMES:
            try:
                Corpus().check(name)
            except Exception:  # noqa: BLE001 - a wrong reader may fail in any way
                names.append(name)
        return names

    def test_a_reader_that_is_right_passes_all_cases(self) -> None:
        self.assertGreaterEqual(len(NAMES), 40)
        self.assertEqual(self.failing(), [])

    def test_a_reader_that_skips_the_checksum_fails(self) -> None:
        with mock.patch.object(_format, "checksum_holds", lambda *_: True):
            self.assertIn("damaged-middle", self.failing())

    def test_a_reader_that_trusts_the_frame_that_ends_a_segment_fails(self) -> None:
        with mock.patch.object(_backlog, "Reader", TrustingReader):
            self.assertIn("end-in-the-middle", self.failing())

    def test_a_reader_that_ignores_marks_fails(self) -> None:
        with mock.patch.object(_segment, "decode_marks", lambda *_: (set(), 0)):
            self.assertIn("marks-some", self.failing())


if __name__ == "__main__":
    unittest.main()
