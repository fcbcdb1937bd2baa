"""The client's state in one process: queued events, threads, and the end of the process.

In mode ``os`` the caller writes, since a writer thread loses its queue when a process ends without running
code. A capture joins a queue, and the first caller to find no writer writes the queue, at most twice; a
thread writes while the disk is slow. A signal handler, a callback or a destructor may re-enter this code, so
nothing waits for a lock that its own thread may hold.
"""

# Only the core sets the outcome of an event.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import sys
from collections import deque

from . import _system
from ._errors import Refused, SpoolFull, SpoolUnwritable
from ._guard import guarded, is_finalizing
from ._sender import Sender
from ._spool import Forked, MemorySpool, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from ._sampling import Sampler

#: Bytes that may wait for a disk that does not answer.
_MOST_WAITING = 32 << 20
_GROUP_BYTES = 4 << 20
_SLOW_DISK = 0.02
#: Seconds that the end of the process waits for a pending write.
_LAST_WRITE = 5.0
_NO_ID = "00000000-0000-0000-0000-000000000000"


class Captured:
    """An event on its way into the spool, which a caller may await.

    ``event_id`` is set immediately and never reused, even if the event is refused. ``error`` is set when the
    event was not captured.
    """

    __slots__ = (
        *("_at", "_body", "_core", "_kind", "_left_out", "_settled", "_undo", "_waiters"),
        *("error", "event_id"),
    )

    def __init__(self, core: Core | None, event_id: str, kind: int, at: int) -> None:
        self.event_id = event_id
        self.error: Refused | None = None
        self._core = core
        self._kind = kind
        self._at = at
        self._body = b""
        # A client that is switched off captures nothing.
        self._settled = core is None
        self._waiters: list[Callable[[], object]] = []
        #: True when sampling left the event out or holds it.
        self._left_out = False
        self._undo: Callable[[], object] | None = None

    @property
    def done(self) -> bool:
        """Whether the outcome is known: the event is in the spool, or ``error`` says why not."""
        return self._settled

    def wait(self, timeout: float | None = None) -> bool:
        """Returns True once the event is as durable as the mode says, False after ``timeout`` seconds.

        Raises Refused when the event was not captured. Also returns False when sampling left it out or holds
        it; in a forked child, because the event belongs to the parent; and in a signal handler within the
        write.
        """
        if not self._settled:
            core = self._core
            if core is None or core.forgotten or core.interrupted:
                return False
            gate = _system.allocate_lock()
            gate.acquire()
            self._when_settled(gate.release)
            gate.acquire(True, -1 if timeout is None else max(0.0, timeout))
        if self.error is not None:
            raise self.error
        return self._settled and not self._left_out

    def __await__(self) -> Any:
        if not self._settled:
            # Already imported by a caller that awaits.
            loop = sys.modules["asyncio"].get_running_loop()
            future = loop.create_future()

            def report() -> None:
                if not future.done():
                    future.set_result(None)

            self._when_settled(lambda: loop.call_soon_threadsafe(report))
            yield from future
        return self.wait()

    def _when_settled(self, call: Callable[[], object]) -> None:
        self._waiters.append(call)
        if self._settled:
            self._report()

    def _settle(self, error: Refused | None) -> None:
        self.error = error
        self._body = b""
        self._settled = True
        if self._waiters:
            self._report()

    def _report(self) -> None:
        while self._waiters:
            try:
                self._waiters.pop()()
            except (RuntimeError, IndexError):
                # The loop is closed, or another thread was faster.
                continue


def not_copied(self: object) -> NoReturn:
    """Raises TypeError: a client belongs to one process and cannot be copied or pickled."""
    raise TypeError("a client cannot be copied or pickled: make one in each process, pass the ids of runs")


def nothing_captured() -> Captured:
    """The result of a capture by a client that is switched off."""
    return Captured(None, _NO_ID, 0, 0)


class Core:
    """The client's state in one process, made at its first capture and opened by its first write."""

    __reduce__ = not_copied

    def __init__(
        self,
        mode: str,
        open_spool: Callable[[], Spool | MemorySpool],
        open_sender: Callable[[Spool | MemorySpool, bool], Sender],
        on_refused: Callable[[int, str, Refused], None],
        on_warning: Callable[[str], None],
        sampler: Sampler | None = None,
    ) -> None:
        self.sampler = sampler
        #: Called by the thread that tends the spool.
        self.each_second: Callable[[], object] = int
        self.pid = os.getpid()
        #: True in a forked child, which has a core of its own.
        self.forgotten = False
        #: True when no thread writes any more and each capture writes by itself.
        self.ended = False
        self.refused = 0
        self.spool: Spool | MemorySpool | None = None
        self.sender: Sender | None = None
        self._mode = mode
        self._open_spool = open_spool
        self._open_sender = open_sender
        self._on_refused = on_refused
        self._on_warning = on_warning
        self._lock = _system.RLock()
        self._queue: deque[Captured] = deque()
        self._waiting_bytes = 0
        #: The thread that writes; 0 when none does.
        self._writer = 0
        self._slow = False
        self._threaded = False
        self._sends = False
        self._signal = _system.allocate_lock()
        self._signal.acquire()
        self._last_stamp = 0

    def new_event(self, kind: int, at: int) -> Captured:
        """Returns a UUID version 7 (RFC 9562) with a 12-bit counter after the milliseconds, so that ids rise.

        A clock that was set back by more than ten seconds is taken as a correction and followed.
        """
        chance = os.urandom(10)
        stamp = (at << 12) | (int.from_bytes(chance[8:], "big") & 0x7FF)
        with guarded(self._lock):
            last = self._last_stamp
            if (last >> 12) - 10_000 <= at <= last >> 12:
                stamp = last + 1
            self._last_stamp = stamp
        low = int.from_bytes(chance[:8], "big") & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
        digits = f"{stamp >> 12:012x}{0x7000 | (stamp & 0xFFF):04x}{low:016x}"
        event_id = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        return Captured(self, event_id, kind, at)

    def put(self, event: Captured, body: bytes) -> None:
        """Queues the event and writes the queue, unless another thread or an outer call does.

        Raises SpoolFull when too much waits. The event gets its outcome later.
        """
        with guarded(self._lock):
            if self._waiting_bytes and self._waiting_bytes + len(body) > _MOST_WAITING:
                raise SpoolFull(f"{_MOST_WAITING >> 20} MiB of events wait for the disk")
            event._body = body
            self._queue.append(event)
            self._waiting_bytes += len(body)
        if self.forgotten:
            # A signal handler forked within this call: the parent completes the call and owns the event.
            return
        if not self._threaded:
            self._write_all()
            if self._mode in ("os", "fsync") and _system.is_before_fork():
                # The worker threads write and send it.
                self._in_turn(self._let_go)
        elif self._mode != "fsync":
            for _ in range(2):
                if self._slow or not self._queue or not self._write_once():
                    break
        if self._threaded:
            if self._queue:
                self._wake()
        elif self._mode == "direct" and self.sender is not None:
            self._send_now(self.sender)

    def undo(self, event: Captured, undo: Callable[[], object]) -> None:
        """Sets the callback for a refused event."""
        event._undo = undo

    def leave_out(self, event: Captured) -> None:
        """Marks the event as left out or held by sampling."""
        event._left_out = True
        event._settle(None)

    def again(self, event: Captured) -> Captured:
        """Returns a pending event with the id of one that sampling held."""
        return Captured(self, event.event_id, event._kind, event._at)

    @staticmethod
    def has(event: Captured) -> bool:
        """Whether the event was queued; then an exception of a signal handler does not refuse it."""
        return event._settled or bool(event._body)

    def refuse(self, event: Captured, error: Refused) -> None:
        """Refuses the event. The error's cause and traceback are dropped: they may hold values."""
        error.__context__ = error.__traceback__ = None
        event._settle(error)
        self.refused += 1
        if event._undo is not None:
            event._undo()
        self._on_refused(event._kind, event.event_id, error)

    def flush(self, timeout: float, *, ending: bool = False) -> bool:
        """Waits up to ``timeout`` seconds and returns whether the collector has everything.

        ``ending`` stops at the first failure. Parts that other processes left are adopted and sent too.
        """
        limit = _system.monotonic() + timeout
        while self._queue and _system.monotonic() < limit:
            self._wake()
            if not self._threaded:
                self._write_all()
            _system.sleep(0.001)
        if self.spool is None and not self.ended:
            self._in_turn(self._open_for_others)
        spool, sender = self.spool, self.sender
        if spool is None or sender is None:
            return not self._queue
        spool.adopt()
        sender.wake()
        pause = 0.001
        while spool.state().waiting:
            hopeless = sender.hopeless is not None or (ending and sender.idle)
            if hopeless or _system.monotonic() >= limit:
                return False
            if self._sends or not sender.run_once():
                _system.sleep(pause)
                pause = min(0.02, pause * 2)
        return not self._queue

    def finish(self, timeout: float) -> bool:
        """Ends the core: writes the queue, sends for ``timeout`` seconds, and releases the part.

        Returns whether no event waits. Later captures are written by their callers, to a new part.
        """
        if self.forgotten or self.pid != os.getpid():
            return False
        self.ended = True
        self._threaded = False
        self._wake()
        self._write_all()
        limit = _system.monotonic() + timeout
        sent = self.flush(timeout, ending=True)
        if self.sender is not None:
            self.sender.stop(max(0.0, limit - _system.monotonic()))
        last = _system.monotonic() + _LAST_WRITE
        while not self._in_turn(self._let_go) and _system.monotonic() < last:
            _system.sleep(0.001)
        return sent and not self._queue

    def _let_go(self) -> list[Captured]:
        spool, self.spool, self.sender = self.spool, None, None
        if spool is not None:
            self._tend(spool)
            spool.close()
        return []

    def forget(self) -> None:
        """Closes inherited descriptors in a forked child. Touches no lock: its holder may not exist here."""
        self.forgotten = True
        if self.sender is not None:
            self.sender.forget()
        if self.spool is not None:
            self.spool.forget()

    @property
    def interrupted(self) -> bool:
        """Whether this thread is already writing, for example in a signal handler: waiting would deadlock."""
        return bool(self._writer == _system.thread_ident())

    @property
    def waiting(self) -> tuple[int, int]:
        """Returns the number and the bytes of events that are not in the spool yet."""
        return len(self._queue), self._waiting_bytes

    def _wake(self) -> None:
        """Wakes the writer thread. Never waits."""
        try:
            if self._signal.locked():
                self._signal.release()
        except RuntimeError:
            # Another thread or a signal handler was faster.
            return

    def _write_all(self) -> None:
        """Writes the queue in the caller until it is empty."""
        limit = _system.monotonic() + _LAST_WRITE
        while self._queue and not self.forgotten:
            if self._write_once():
                continue
            if self.interrupted:
                # The interrupted call looks at the queue again.
                return
            if is_finalizing() or _system.monotonic() > limit:
                # The writer thread has ended in an unknown state, so a new part is made.
                self.spool = None
                self._writer = 0
            else:
                _system.sleep(0.001)

    def _write_once(self) -> bool:
        return self._in_turn(self._write_group)

    def _in_turn(self, act: Callable[[], list[Captured]]) -> bool:
        """Runs ``act`` and settles the events that it returns. Returns False, without ``act``, during a
        write."""
        mine = False
        refused: list[Captured] = []
        try:
            with guarded(self._lock):
                if not self._writer:
                    # This is one step, because interrupts come only at calls.
                    self._writer, mine = _system.thread_ident(), True
            if mine:
                refused = act()
        finally:
            if mine:
                self._writer = 0
        for event in refused:
            self.refuse(event, event.error or SpoolUnwritable("the event could not be written"))
        return mine

    def _write_group(self) -> list[Captured]:
        """Writes the events and returns those that the spool refused."""
        group: list[Captured] = []
        error: Refused | None = None
        began = _system.monotonic()
        groups = self.spool.groups if self.spool is not None else 0
        try:
            size = 0
            while self._queue and size < _GROUP_BYTES:
                # The order matters: an interrupt between the two must not lose the event.
                group.append(self._queue[0])
                self._queue.popleft()
                size += len(group[-1]._body)
            if group:
                spool = self.spool or self._open()
                spool.append([(event._kind, event._at, event._body) for event in group])
        except Forked:
            # A signal handler forked within this call; the parent completes it.
            return []
        except BaseException as fault:
            taken = not (group and self._queue and self._queue[0] is group[-1])
            written = self.spool is not None and self.spool.groups != groups
            error = _refusal_of(fault) if taken and not written else None
            if error is None:
                # KeyboardInterrupt, or an exception of a signal handler.
                if not taken:
                    group.pop()
                if written:
                    self._settle(group, None)
                else:
                    self._queue.extendleft(reversed(group))
                raise
        self._slow = _system.monotonic() - began > _SLOW_DISK
        self._settle(group, error)
        if error is None and self.sender is not None:
            self.sender.wake()
        return group if error is not None else []

    def _settle(self, group: list[Captured], error: Refused | None) -> None:
        size = sum(len(event._body) for event in group)
        with guarded(self._lock):
            # An interrupt may have made the count wrong; an empty queue corrects it.
            self._waiting_bytes = self._waiting_bytes - size if self._queue else 0
        try:
            for event in group:
                event._settle(error)
        except BaseException:
            # An interrupt must not leave a waiting caller.
            for event in group:
                event._settle(error)
            raise

    def _open(self) -> Spool | MemorySpool:
        spool = self._open_spool()
        # Without threads a request must not take longer than the exit may.
        quick = self.ended
        sender = self._open_sender(spool, quick)
        self.spool, self.sender = spool, sender
        if self.ended or self._mode == "direct" or _system.is_before_fork():
            return spool
        sender.start()
        try:
            _system.start_thread(self._keep, ())
            self._threaded = self._sends = True
        except RuntimeError:
            # Since Python 3.12 no thread starts while the interpreter ends.
            self.ended = True
        return spool

    def _open_for_others(self) -> list[Captured]:
        """Opens the spool for a flush of a client that has captured nothing, to send abandoned parts."""
        if self.spool is None:
            self._open()
        return []

    def _keep(self) -> None:
        """Runs in a thread: writes in mode ``fsync`` and for a slow disk, and tends the spool each second."""
        due = _system.monotonic() + 1.0
        while not self.ended and not self.forgotten:
            self._signal.acquire(True, max(0.0, due - _system.monotonic()))
            while self._queue and not self.ended:
                if not self._write_once():
                    _system.sleep(0.001)
            if _system.monotonic() >= due:
                self._tend(self.spool)
                self.each_second()
                due = _system.monotonic() + 1.0

    def _tend(self, spool: Spool | MemorySpool | None) -> None:
        if spool is None:
            return
        try:
            spool.tend()
        except Forked:
            return
        except Exception as error:  # noqa: BLE001
            self._on_warning(f"the spool could not be tended ({type(error).__name__})")

    def _send_now(self, sender: Sender) -> None:
        """Sends, in mode ``direct``, all events that can be sent now."""
        try:
            while sender.run_once():
                pass
            self._tend(self.spool)
        except Forked:
            return


def _refusal_of(fault: BaseException) -> Refused | None:
    """Returns why the spool refused a group; None for an exception of a signal handler during the write."""
    if isinstance(fault, Refused):
        return fault
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    if not isinstance(fault, Exception) or not where.startswith("clinical_events."):
        return None
    return SpoolUnwritable(f"the event could not be written ({type(fault).__name__})")
