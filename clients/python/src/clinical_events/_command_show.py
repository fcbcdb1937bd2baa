"""``clinical-events show``: prints the counts, the events or a check of a spool."""

from __future__ import annotations

import base64
import json
from typing import Any

from ._command_line import DAMAGED, OK, PARTLY, Output, Request, aligned, counted, size
from ._inspection import InspectedPart, Inspection, Met, inspect, read, reason_of
from ._quarantine import iso

_KIND_WIDTH = 17


def show(request: Request, output: Output) -> int:
    if request.events:
        return _show_events(request, output)
    if request.check:
        return _check(request, output)
    inspection = inspect(request.directory)
    if request.json:
        output.say_json(_as_json(request.directory, inspection))
    else:
        for line in _as_text(inspection):
            output.say(line)
    return OK


class Sums:
    """Sums over parts, and the number of parts that cannot be counted."""

    def __init__(self, parts: list[InspectedPart]) -> None:
        self.uncounted = sum(part.waiting is None for part in parts)
        self.waiting = sum(part.waiting or 0 for part in parts)
        self.bytes = sum(part.waiting_bytes or 0 for part in parts)
        self.oldest = min((part.oldest for part in parts if part.oldest is not None), default=None)


def time_of(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds)


def _reasons_of(inspection: Inspection) -> list[dict[str, Any]]:
    reasons: dict[tuple[str, str], int] = {}
    for file in inspection.quarantine:
        for status, code, events in file.reasons:
            reasons[status, code] = reasons.get((status, code), 0) + events
    found = [{"status": status, "code": code, "events": events} for (status, code), events in reasons.items()]
    return sorted(found, key=lambda reason: -int(reason["events"]))


def _as_json(directory: str, inspection: Inspection) -> dict[str, Any]:
    sums = Sums(inspection.parts)
    files = inspection.quarantine
    return {
        "directory": directory,
        # No total is printed when some part cannot be counted.
        "waiting": None if sums.uncounted else sums.waiting,
        "waiting_bytes": None if sums.uncounted else sums.bytes,
        "oldest": time_of(sums.oldest),
        "parts_not_counted": sums.uncounted,
        "parts": [_part_as_json(part) for part in inspection.parts],
        "quarantine": {
            "events": sum(file.events for file in files),
            "sealed": sum(file.sealed for file in files),
            "unreadable": sum(file.unreadable for file in files),
            "reasons": _reasons_of(inspection),
            "files": [{"path": file.path, "events": file.events} for file in files],
        },
        "damaged": [
            {"path": kept.path, "bytes": kept.bytes, "missing": kept.missing} for kept in inspection.damaged
        ],
    }


def _part_as_json(part: InspectedPart) -> dict[str, Any]:
    holder = part.holder
    return {
        "path": part.path,
        "held": holder is not None,
        "holder": holder and {"pid": holder.pid, "this_host": holder.here, "seen": iso(holder.touched_at)},
        "segments": part.segments,
        "waiting": part.waiting,
        "waiting_bytes": part.waiting_bytes,
        "oldest": time_of(part.oldest),
        "problem": part.problem,
    }


def _as_text(inspection: Inspection) -> list[str]:
    sums = Sums(inspection.parts)
    since = "" if sums.oldest is None else f", the oldest since {iso(sums.oldest)}"
    wait = "waits" if sums.waiting == 1 else "wait"
    known = f"{counted(sums.waiting, 'event')} {wait} ({size(sums.bytes)}){since}."
    lines = [known]
    if sums.uncounted:
        parts = counted(sums.uncounted, "part")
        lines = [
            f"The number of waiting events is unknown: {parts} cannot be counted, see below. "
            f"In the others {known}"
        ]
    if inspection.parts:
        rows = [["PART", "HELD BY", "EVENTS", "SIZE", "OLDEST"]]
        for part in inspection.parts:
            events = "?" if part.waiting is None else str(part.waiting)
            taken = "?" if part.waiting_bytes is None else size(part.waiting_bytes)
            rows.append([part.path, _holder_of(part), events, taken, time_of(part.oldest) or "-"])
        lines += ["", *aligned(rows), *(part.problem for part in inspection.parts if part.problem)]
    return lines + _quarantine_as_text(inspection) + _damage_as_text(inspection)


def _quarantine_as_text(inspection: Inspection) -> list[str]:
    events = sum(file.events for file in inspection.quarantine)
    sealed = sum(file.sealed for file in inspection.quarantine)
    unreadable = sum(file.unreadable for file in inspection.quarantine)
    lines = ["", f"{counted(events, 'event')} in quarantine."] if events + unreadable else []
    reasons = [
        [str(each["events"]), str(each["status"]), str(each["code"])] for each in _reasons_of(inspection)
    ]
    if reasons:
        lines += aligned([["EVENTS", "STATUS", "CODE"], *reasons])
    if sealed:
        lines.append(
            f"{counted(sealed, 'event')} of them sealed: collector-spool --key-file shows the reasons."
        )
    if unreadable:
        lines.append(f"{counted(unreadable, 'line')} there cannot be read.")
    return lines


def _damage_as_text(inspection: Inspection) -> list[str]:
    if not inspection.damaged:
        return []
    lines = ["", "Damage was found. Move these files away to clear it:"]
    for kept in inspection.damaged:
        what = f"{size(kept.bytes)} that are not events"
        if kept.missing is not None:
            what = f"{counted(kept.missing, 'event')} missing"
        lines.append(f"{kept.path} ({what})")
    return lines


def _holder_of(part: InspectedPart) -> str:
    if part.holder is None:
        return "none"
    if not part.holder.here:
        return f"unknown, seen {iso(part.holder.touched_at)}"
    return "a process" if part.holder.pid is None else f"process {part.holder.pid}"


def _show_events(request: Request, output: Output) -> int:
    def visit(met: Met) -> None:
        if request.json:
            line = _event_as_json(met, request.contents)
            output.say(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
        else:
            for text in _event_as_text(met, request.contents):
                output.say(text)

    reading = read(request.directory, visit)
    for path, message in reading.findings:
        output.report(f"{path}: {message}")
    return PARTLY if reading.findings else OK


def _event_as_json(met: Met, contents: bool) -> dict[str, Any]:
    event = met.event
    if event is None or isinstance(event, str):
        return {"file": met.path, "offset": met.offset, "bytes": met.size, event or "unreadable": True}
    said: dict[str, Any] = {"captured_at": event.captured_at, "kind": event.kind, "bytes": len(event.body)}
    said |= {"file" if event.refusal else "segment": met.path, "offset": met.offset}
    if event.refusal:
        said["status"], said["code"] = reason_of(event.refusal)
        if contents:
            said["refusal"] = event.refusal
    return said | (_body_of(event.body) if contents else {})


def _event_as_text(met: Met, contents: bool) -> list[str]:
    event = met.event
    if event is None or isinstance(event, str):
        return [f"{met.size} bytes at {met.offset} of {met.path}: {event or 'unreadable'}"]
    status, code = reason_of(event.refusal) if event.refusal else ("", "")
    line = f"{event.captured_at}  {event.kind:<{_KIND_WIDTH}}  {len(event.body)} B  {status} {code}".rstrip()
    if not contents:
        return [line]
    body = _body_of(event.body)
    lines = [line]
    if event.refusal:
        lines.append("    " + json.dumps(event.refusal, ensure_ascii=False, separators=(",", ":")))
    return [*lines, "    " + body.get("event", f"in base64: {body.get('event_base64')}")]


def _body_of(body: bytes) -> dict[str, str]:
    try:
        return {"event": body.decode()}
    except UnicodeDecodeError:
        return {"event_base64": base64.b64encode(body).decode()}


def _check(request: Request, output: Output) -> int:
    found = read(request.directory, None)
    if request.json:
        output.say_json(
            {
                "intact": not found.findings,
                "segments": found.segments,
                "events": found.events,
                "done": found.done,
                "cut": found.cut,
                "quarantined": found.quarantined,
                "quarantine_not_opened": found.sealed,
                "findings": [{"path": path, "message": message} for path, message in found.findings],
            }
        )
        return DAMAGED if found.findings else OK
    events = (
        f"{counted(found.events, 'event')} in {counted(found.segments, 'segment')}, {found.done} of them done"
    )
    output.say(f"{events}; {counted(found.quarantined, 'event')} in quarantine.")
    if found.cut:
        output.say(f"{counted(found.cut, 'write')} cut off by the end of a process, never acknowledged.")
    if found.sealed:
        output.say(
            f"{counted(found.sealed, 'event')} in quarantine not opened: see collector-spool --key-file."
        )
    for path, message in found.findings:
        output.say(f"DAMAGED: {path}: {message}")
    if not found.findings:
        output.say("Every byte is as it was written.")
    return DAMAGED if found.findings else OK
