"""``clinical-events requeue``: moves quarantined events back, for example after a key's profile was fixed."""

from __future__ import annotations

import os
import uuid
from datetime import datetime

from ._command_line import OK, WRONG, CommandFailure, Output, Request, counted
from ._files import datasync, make_inside, open_file, pread, sync_directory
from ._format import KINDS
from ._quarantine import QuarantinedEvent, quarantine_files, quarantined_lines
from ._spool import Spool

_TAKEN = ".requeue"
_GROUP_EVENTS = 256
_GROUP_BYTES = 1 << 20


def requeue(request: Request, output: Output) -> int:
    spool = Spool(request.directory, durability="fsync", on_trouble=output.report)
    try:
        events, unreadable = _requeue(request.directory, spool)
    finally:
        spool.close()
    if request.json:
        output.say_json({"requeued": events, "unreadable": unreadable})
        return OK
    output.say(f"{counted(events, 'event')} put back.")
    for file in unreadable:
        output.say(f"An unreadable line is kept in {file}.")
    if events > 0:
        output.say(
            "A client on this spool sends them within seconds; without one, run: clinical-events drain"
        )
    return OK


def _requeue(directory: str, spool: Spool) -> tuple[int, list[str]]:
    """Moves all quarantined events to the waiting ones.

    Each file is moved away first, so that its writer begins another one. If the command is interrupted, each
    event is in the quarantine, in the spool, or in both.
    """
    root = os.path.abspath(directory)
    files = quarantine_files(root)
    if any(line.event == "sealed" for file in files for line in quarantined_lines(file)):
        raise CommandFailure(
            "the quarantine is encrypted: use collector-spool requeue --key-file FILE", WRONG
        )
    count, unreadable = 0, list[str]()
    for file in files:
        taken = file
        if not file.endswith(_TAKEN):
            taken = f"{file}.{uuid.uuid4()}{_TAKEN}"
            try:
                os.rename(file, taken)
            except FileNotFoundError:
                continue  # another process was faster
        group: list[QuarantinedEvent] = []
        size = 0
        for line in quarantined_lines(taken):
            if line.event is None or isinstance(line.event, str):
                # A writer may have begun a line meanwhile: it finds its file moved and writes the line again.
                unreadable += _kept_aside(root, taken, line.offset, line.size)
                continue
            group.append(line.event)
            size += len(line.event.body)
            if len(group) >= _GROUP_EVENTS or size >= _GROUP_BYTES:
                count += _append(spool, group)
                group, size = [], 0
        count += _append(spool, group)
        os.unlink(taken)
    return count, unreadable


def _append(spool: Spool, group: list[QuarantinedEvent]) -> int:
    if group:
        spool.append([(KINDS.index(each.kind), _milliseconds(each.captured_at), each.body) for each in group])
    return len(group)


def _milliseconds(time: str) -> int:
    """Reads the time of a line; 0 when it is invalid, since only people read it."""
    try:
        return max(0, round(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() * 1000))
    except (ValueError, OverflowError):
        return 0


def _kept_aside(root: str, file: str, offset: int, size: int) -> list[str]:
    damaged = os.path.join(root, "damaged")
    make_inside(damaged)
    kept = os.path.join(damaged, f"{os.path.basename(file)}-{offset}.bytes")
    source = open_file(file, os.O_RDONLY)
    try:
        copy = open_file(kept, os.O_WRONLY | os.O_CREAT)
        try:
            for at in range(0, size, 1 << 20):
                os.pwrite(copy, pread(source, min(1 << 20, size - at), offset + at), at)
            datasync(copy)
        finally:
            os.close(copy)
    finally:
        os.close(source)
    sync_directory(damaged)
    return [kept]
