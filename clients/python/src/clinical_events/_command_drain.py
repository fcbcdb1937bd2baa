"""``clinical-events drain``: sends waiting events without an application, for example from a replaced
host."""

from __future__ import annotations

import signal
from typing import Any, NamedTuple

from . import _system
from ._command_line import DAMAGED, INTERRUPTED, OK, PARTLY, CommandFailure, Output, Request, counted, size
from ._command_show import Sums
from ._http import CannotSend, Destination
from ._inspection import InspectedPart, Inspection, inspect
from ._parts import PATIENCE
from ._quarantine import iso
from ._sender import Backoff, Sender
from ._spool import Spool, SpoolState

_TIMEOUT = 60.0
_KIND_TIMEOUT = 5.0
"""Seconds to send the other kinds when the key may not send one kind."""
_LOOK = 0.2
_BACKOFF = Backoff(0.2, 5.0)
"""Bounds of the pause in seconds, shorter than an application's because a person is waiting."""
_MINUTES = f"{PATIENCE / 60:g} minutes"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class _Damage:
    def __init__(self) -> None:
        self.found = False
        self.bytes = self.missing = 0
        self.files: list[str] = []

    def meet(self, lost: int, missing: int, kept: str | None) -> None:
        self.found = True
        self.bytes += lost
        self.missing += missing
        self.files += [] if kept is None else [kept]


class _Course:
    """The progress of a drain, and why it ended early."""

    def __init__(self, timeout: float | None, output: Output, live: bool) -> None:
        self.why: str | None = None
        self.interrupted = False
        self.sender: Sender | None = None
        self._final: str | None = None
        self._timeout = timeout
        self._output = output
        self._live = live
        self._reported: set[str] = set()
        self._settled = 0
        self._progress_at = _system.monotonic()

    @property
    def cause(self) -> str | None:
        if self._final is not None or self.sender is None:
            return self._final
        return self.sender.setback or self.sender.denied

    def interrupt(self, *_: object) -> None:
        self.interrupted = True
        self.end("stopped by a signal")

    def end(self, why: str) -> None:
        self.why = self.why or why

    def warn(self, text: str) -> None:
        """Prints each warning of the sender once, unless the drain has ended."""
        if self.why is not None:
            return
        if not (self.sender and text == self.sender.hopeless) and not self._live:
            self._report(text)

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._output.report(text)

    def look(self, sender: Sender, state: SpoolState) -> None:
        if sender.hopeless is not None:
            self._final = sender.hopeless
            self.end("nothing more is sent")
            return
        now = _system.monotonic()
        settled = sender.sent + sender.erased + sender.refused
        if settled > self._settled:
            self._settled, self._progress_at = settled, now
        standing = now - self._progress_at
        if state.waiting == 0:
            self._watch(settled, state.watched, standing)
            return
        timeout = self._timeout or _TIMEOUT
        if standing >= timeout:
            still = "" if self.cause else ": no event was read or answered in that time"
            self.end(f"given up after {timeout:g} s{still}")
        elif sender.setback is None and sender.denied and standing >= _KIND_TIMEOUT:
            self.end("nothing more is sent")
        elif self._live:
            done = f"{settled:,} of {counted(settled + state.waiting, 'event')} sent"
            self._output.progress(f"{done}; {self.cause}" if self.cause else done)

    def _watch(self, settled: int, watched: int, standing: float) -> None:
        """Waits for parts whose lock cannot be probed, once all other events are sent."""
        if watched == 0:
            return
        if self._timeout is not None and standing >= self._timeout:
            self.end("given up")
            return
        parts = counted(watched, "part")
        text = f"{parts} of another host or from before a restart: adopted if untouched for {_MINUTES}"
        if self._live:
            self._output.progress(f"{counted(settled, 'event')} sent; {text}")
        else:
            self._report(text)


class _Left(NamedTuple):
    """The events left in the spool: held by live processes, and others."""

    held: Sums
    left: Sums
    not_taken: list[dict[str, Any]]


def drain(request: Request, output: Output, patience: float = PATIENCE) -> int:
    if not request.url:
        raise CommandFailure("no collector address: give --url or set COLLECTOR_URL")
    if not request.api_key:
        raise CommandFailure("no API key: give --api-key-file or set COLLECTOR_KEY")
    try:
        Destination(request.url, request.api_key)
    except CannotSend as error:
        raise CommandFailure(error.reason) from None
    course = _Course(request.timeout, output, output.live and not request.json)
    damage = _Damage()
    spool = Spool(
        request.directory,
        durability="fsync",
        on_trouble=output.report,
        on_damage=damage.meet,
        patience=patience,
    )
    sender = course.sender = Sender(
        spool,
        url=request.url,
        api_key=request.api_key,
        on_warning=course.warn,
        on_quarantine=_ignore,
        backoff=_BACKOFF,
    )
    for each in _SIGNALS:
        signal.signal(each, course.interrupt)
    _send(spool, sender, course)
    state = spool.state()
    spool.close()
    output.end_progress()
    if state.waiting > 0 and course.why is not None:
        output.report(f"{course.why}: {course.cause}" if course.cause else course.why)
    return _report(request, output, course, sender, damage, state)


def _ignore(*_: object) -> None:
    """Does not report single events: quarantined events are counted."""


def _send(spool: Spool, sender: Sender, course: _Course) -> None:
    """Sends until all events are sent or there is a reason to end."""
    sender.start()
    tended = _system.monotonic()
    while course.why is None:
        state = spool.state()
        if state.waiting == 0 and state.watched == 0:
            break
        course.look(sender, state)
        if _system.monotonic() - tended >= 1:
            tended = _system.monotonic()
            spool.tend()
            sender.wake()
        _system.sleep(_LOOK if state.waiting > 1000 or sender.idle else 0.01)
    sender.stop(0.5)
    # Reads beyond the last event too: the bytes may be damaged.
    if course.why is None and (event := spool.take()) is not None:
        spool.settle(event, False)
    spool.tend()


def _left_of(inspection: Inspection) -> _Left:
    held = [part for part in inspection.parts if part.holder is not None and part.holder.here]
    others = [part for part in inspection.parts if part not in held and part.waiting != 0]
    reasons = [(part, _why_not_taken(part)) for part in others]
    not_taken = [{"path": part.path, "waiting": part.waiting, "why": why} for part, why in reasons if why]
    return _Left(Sums(held), Sums(others), not_taken)


def _why_not_taken(part: InspectedPart) -> str | None:
    if part.holder is None:
        return part.problem
    seen = f"held by another host or before a restart of this one, last seen {iso(part.holder.touched_at)}"
    why = f"{seen}; drain and running clients adopt it once it was unchanged for {_MINUTES}"
    return f"{why}; {part.problem}" if part.problem else why


def _report(
    request: Request, output: Output, course: _Course, sender: Sender, damage: _Damage, state: SpoolState
) -> int:
    inspection = inspect(request.directory)
    quarantined = sum(file.events for file in inspection.quarantine)
    found = _left_of(inspection)
    # Another process may have adopted the remaining events meanwhile.
    known = max(state.waiting, found.left.waiting)
    still = None if found.left.uncounted else known
    if request.json:
        settled = sender.sent + sender.refused + sender.erased
        output.say_json(
            {
                "found": None if still is None else settled + still,
                "sent": sender.sent,
                "erased": sender.erased,
                "waiting": still,
                "refused": sender.refused,
                "in_quarantine": quarantined,
                "held_by_others": None if found.held.uncounted else found.held.waiting,
                "not_taken": found.not_taken,
                "cut": state.cut,
                "damaged": {"bytes": damage.bytes, "missing_events": damage.missing, "files": damage.files},
                "cause": course.cause if state.waiting > 0 else None,
            }
        )
    else:
        waiting = f"at least {known}" if still is None else str(still)
        output.say(
            f"{counted(sender.sent, 'event')} sent, {waiting} still waiting, {sender.refused} refused."
        )
        _report_rest(output, sender, damage, quarantined, found)
    if course.interrupted:
        return INTERRUPTED
    if damage.found:
        return DAMAGED
    return OK if still == 0 and sender.refused == 0 else PARTLY


def _report_rest(output: Output, sender: Sender, damage: _Damage, quarantined: int, found: _Left) -> None:
    if sender.erased:
        output.say(f"{counted(sender.erased, 'event')} deleted: the collector had stored and erased them.")
    for each in found.not_taken:
        unknown = "an unknown number of events"
        count = unknown if each["waiting"] is None else counted(each["waiting"], "event")
        output.say(f"NOT TAKEN: {each['path']}: {count}; {each['why']}")
    if damage.found:
        gone = f", {counted(damage.missing, 'event')} missing" if damage.missing else ""
        output.say(f"DAMAGED: {size(damage.bytes)} that are not events{gone}; see clinical-events show")
    if quarantined:
        output.say(f"{counted(quarantined, 'event')} in quarantine: see clinical-events show --events")
    if found.held.uncounted:
        output.say("An unknown number of events is left to the processes that hold them.")
    elif found.held.waiting:
        output.say(f"{counted(found.held.waiting, 'event')} left to the processes that hold them.")
