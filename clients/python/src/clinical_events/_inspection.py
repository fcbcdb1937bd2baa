"""Reads a spool for ``show``. It takes, moves, removes and locks nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple
from zlib import crc32

from ._errors import SpoolRefused
from ._files import Mine, errno_name, open_file, pread, read_all
from ._format import HEADER_BYTES, KINDS, SERIES_NAME, Count, Frame, Lost, Reader
from ._parts import DRAFT, OWNER, Watch, read_owner
from ._quarantine import QuarantinedEvent, iso, quarantine_files, quarantined_lines
from ._segment import EARLIER, SEALED, LeftSegment, Segment, examine, load_marks, survey

_MOST_REASONS = 100
_CODE = re.compile("[a-z][a-z0-9_]{0,63}")
_NOTE = re.compile(rb'"missing_events":(\d{1,15})\}')


class Holder(NamedTuple):
    """The holder of a part. ``here``: a live process on this host; otherwise its lock cannot be probed.

    ``pid`` comes from ``owner``; ``touched_at`` is the last touch of ``owner`` in milliseconds since 1970.
    """

    pid: int | None
    here: bool
    touched_at: int


class InspectedPart(NamedTuple):
    """A part. ``waiting``, ``waiting_bytes`` and ``oldest`` (milliseconds) are None if not all can be
    counted."""

    path: str
    holder: Holder | None
    segments: int
    waiting: int | None
    waiting_bytes: int | None
    oldest: int | None
    problem: str | None


class InspectedQuarantine(NamedTuple):
    """A quarantine. ``reasons``: status, code and number of events; ``unreadable``: invalid lines."""

    path: str
    events: int
    sealed: int
    unreadable: int
    reasons: list[tuple[str, str, int]]


class Kept(NamedTuple):
    """A file in ``damaged``; a note has the number of ``missing`` events."""

    path: str
    bytes: int
    missing: int | None


class Inspection(NamedTuple):
    """The counts that ``show`` prints."""

    parts: list[InspectedPart]
    quarantine: list[InspectedQuarantine]
    damaged: list[Kept]


class Met(NamedTuple):
    """A waiting or quarantined (``refusal``) event and its place; None for an invalid line."""

    path: str
    offset: int
    size: int
    event: QuarantinedEvent | Literal["sealed"] | None


class Reading(NamedTuple):
    """The result of a check of every byte; each finding is a path and its fault."""

    segments: int
    events: int
    done: int
    cut: int
    quarantined: int
    sealed: int
    findings: list[tuple[str, str]]


def looks_like_spool(directory: str) -> bool:
    """Whether the directory is empty or holds an entry of a spool. Raises OSError."""
    names = os.listdir(directory)
    return not names or any(
        name in ("quarantine", "damaged") or SERIES_NAME.fullmatch(name.removeprefix(DRAFT)) for name in names
    )


def inspect(directory: str) -> Inspection:
    """Counts the waiting events of each part. Raises OSError when the directory cannot be read."""
    root = os.path.abspath(directory)
    watch = _watch(root)
    parts: list[InspectedPart] = []
    for name in _part_names(root):
        path = os.path.join(root, name)
        try:
            parts.append(_inspect_part(path, _holder_of(watch, path)))
        except FileNotFoundError:
            # Another process has adopted it and shows it.
            continue
        except OSError as error:
            problem = f"{path} cannot be read ({errno_name(error)})"
            parts.append(InspectedPart(path, None, 0, None, None, None, problem))
    return Inspection(parts, [_inspect_quarantine(path) for path in quarantine_files(root)], kept_in(root))


def _part_names(root: str) -> list[str]:
    return sorted(name for name in os.listdir(root) if SERIES_NAME.fullmatch(name))


def _watch(root: str) -> Watch:
    return Watch(root, Mine(), lambda _: None)


def _holder_of(watch: Watch, path: str) -> Holder | None:
    state = watch.state_of(os.path.basename(path))
    owner = read_owner(path) if state != "abandoned" else None
    if owner is None:
        return None
    touched = os.stat(os.path.join(path, OWNER), follow_symlinks=False).st_mtime_ns // 1_000_000
    return Holder(owner.pid, state == "held", touched)


def _inspect_part(path: str, holder: Holder | None) -> InspectedPart:
    segments = examine(path)
    problems = [f"{segment.path} {segment.why}" for segment in segments if segment.why not in ("", SEALED)]
    uncounted = len(problems)
    if any(segment.why == SEALED for segment in segments):
        problems.append(f"{path} {SEALED}")
    waiting = size = 0
    oldest: int | None = None
    for segment in segments:
        if segment.why not in ("", SEALED):
            continue
        try:
            events, taken, first = _count(path, segment)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{segment.path} cannot be read ({errno_name(error)})")
            uncounted += 1
            continue
        waiting += events
        size += taken
        if events and first is not None:
            oldest = min(oldest or first, first)
    problem = "; ".join(problems) or None
    if uncounted:
        return InspectedPart(path, holder, len(segments), None, None, None, problem)
    return InspectedPart(path, holder, len(segments), waiting, size, oldest, problem)


def _count(part: str, left: LeftSegment) -> tuple[int, int, int | None]:
    """Returns number, bytes and first time of waiting events. Sealed events are counted without the key."""
    segment = Segment(part, left.name, left.header.identity, own=False)
    done, _ = load_marks(segment)
    fd = open_file(segment.path, os.O_RDONLY)
    try:
        end = max(HEADER_BYTES, os.fstat(fd).st_size)
        return survey(_read(fd), end, segment.start, done, blind=left.why == SEALED)
    finally:
        os.close(fd)


def _read(fd: int) -> Callable[[int, int], bytes]:
    return lambda size, offset: pread(fd, size, offset)


def reason_of(refusal: dict[str, Any]) -> tuple[str, str]:
    """Returns only status and code, because a server's words may be about a patient."""
    status, code = refusal.get("status"), refusal.get("code")
    said = str(status) if type(status) is int and 100 <= status <= 999 else "unknown"
    if isinstance(code, str) and _CODE.fullmatch(code):
        return said, code
    return said, "an unknown code" if "code" in refusal else ""


def _inspect_quarantine(path: str) -> InspectedQuarantine:
    reasons: dict[tuple[str, str], int] = {}
    events = sealed = unreadable = 0
    try:
        for line in quarantined_lines(path):
            if line.event is None:
                unreadable += 1
                continue
            events += 1
            if line.event == "sealed":
                sealed += 1
                continue
            reason = reason_of(line.event.refusal)
            # The number of different reasons is bounded.
            if reason in reasons or len(reasons) < _MOST_REASONS:
                reasons[reason] = reasons.get(reason, 0) + 1
    except OSError:
        unreadable += 1
    said = [(status, code, number) for (status, code), number in reasons.items()]
    return InspectedQuarantine(path, events, sealed, unreadable, said)


def kept_in(root: str) -> list[Kept]:
    """Lists the files and notes in ``damaged``. Raises OSError."""
    directory = os.path.join(root, "damaged")
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    return [_kept(os.path.join(directory, name)) for name in names]


def _kept(path: str) -> Kept:
    try:
        found = _NOTE.search(read_all(path, 256)) if path.endswith(".missing") else None
        return Kept(path, os.stat(path, follow_symlinks=False).st_size, int(found[1]) if found else None)
    except OSError:
        # A file that cannot be opened must not hide the others.
        return Kept(path, 0, None)


class _Sums:
    def __init__(self) -> None:
        self.segments = self.events = self.done = self.cut = self.quarantined = self.sealed = 0
        self.findings: list[tuple[str, str]] = []


def read(directory: str, visit: Callable[[Met], None] | None = None) -> Reading:
    """Reads every byte of all parts and quarantines, and calls ``visit`` with each waiting event.

    Changes by a live process meanwhile may or may not be seen. Raises OSError, and SpoolRefused for a sealed
    part and for an earlier format.
    """
    root = os.path.abspath(directory)
    sums = _Sums()
    for name in _part_names(root):
        _read_part(root, name, sums, visit)
    for path in quarantine_files(root):
        for line in quarantined_lines(path):
            if line.event is None:
                sums.findings.append(
                    (path, f"{line.size} bytes at {line.offset} are not a line of a quarantine")
                )
            else:
                sums.quarantined += 1
            sums.sealed += line.event == "sealed"
            if visit:
                visit(Met(path, line.offset, line.size, line.event))
    for path, size, missing in kept_in(root):
        sums.findings.append(
            (
                path,
                f"{size} damaged bytes, copied when they were read"
                if missing is None
                else f"events missing when their segment was read: {missing}",
            )
        )
    return Reading(
        sums.segments, sums.events, sums.done, sums.cut, sums.quarantined, sums.sealed, sums.findings
    )


def _read_part(root: str, name: str, sums: _Sums, visit: Callable[[Met], None] | None) -> None:
    path = os.path.join(root, name)
    try:
        segments = examine(path)
    except FileNotFoundError:
        return
    for segment in segments:
        if segment.why == EARLIER:
            raise SpoolRefused(f"{segment.path} {EARLIER}")
        if segment.why == SEALED:
            raise SpoolRefused(f"{path} {SEALED}")
        if segment.why:
            sums.findings.append((segment.path, f"the segment {segment.why}"))
            continue
        if segment.damaged:
            sums.findings.append((segment.path, "its header is damaged"))
        _read_segment(root, name, segment, sums, visit)


def _read_segment(
    root: str, name: str, left: LeftSegment, sums: _Sums, visit: Callable[[Met], None] | None
) -> None:
    segment = Segment(os.path.dirname(left.path), left.name, left.header.identity, own=False)
    try:
        fd = open_file(segment.path, os.O_RDONLY)
    except FileNotFoundError:
        return
    lost: list[Lost] = []
    count = Count()
    found: Frame | Lost | None = None
    try:
        done, _ = load_marks(segment)
        # Bytes that are written meanwhile are not read: they may be half a frame.
        end = max(HEADER_BYTES, os.fstat(fd).st_size)
        reader = Reader(_read(fd), crc32(left.header.identity))
        while (step := reader.step(end)) is not None:
            found = step
            if isinstance(found, Lost):
                lost.append(found)
            elif count.meet(found, done) and visit:
                event = QuarantinedEvent(KINDS[found.kind], iso(found.captured_at), found.body, {})
                visit(Met(segment.path, found.offset, found.size, event))
    finally:
        os.close(fd)
    sums.segments += 1
    sums.events += count.events
    sums.done += count.done
    # The end of a segment that is being written may be half a frame.
    if isinstance(found, Lost) and _watch(root).state_of(name) != "abandoned":
        lost.pop()
    for bytes_ in lost:
        if bytes_.cut and not count.ended:
            sums.cut += 1
        else:
            sums.findings.append((segment.path, f"{bytes_.size} bytes at {bytes_.offset} are not a frame"))
    if missing := count.missing(done):
        sums.findings.append((segment.path, f"{missing} of its events are missing"))
    if reader.unreadable is not None:
        sums.findings.append((segment.path, "part of it cannot be read"))
