"""What belongs to one process: the events on their way to the spool, its threads, and its end.

In mode ``os`` the caller writes, for whatever else loses what it holds at every end of a process that runs
no code. Whoever captures joins a queue, and the first to find no one writing writes what is there, at most
twice; a thread writes while the disk is slow. Nothing here waits for a lock that a thread may hold for long, and
everything may be entered again by a signal handler or a destructor.
"""

from __future__ import annotations

import os
import sys
from collections import deque

from . import _system
from ._errors import Refused, SpoolFull, SpoolUnwritable
from ._sender import Sender
from ._spool import Forked, MemorySpool, Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What may wait for a disk that does not answer.
_MOST_WAITING = 32 << 20
_GROUP_BYTES = 4 << 20
_SLOW_DISK = 0.02
#: How long the end of the process waits for a write that is under way.
_LAST_WRITE = 5.0

_is_finalizing = sys.is_finalizing


class Captured:
    """An event on its way into the spool; it may be awaited, and need not be.

    ``event_id`` is known at once, and never used again, whatever becomes of the event.
    """

    __slots__ = ("_at", "_body", "_core", "_kind", "_settled", "_waiters", "error", "event_id")

    def __init__(self, event_id: str) -> None:
        self.event_id = event_id
        self.error: Refused | None = None
        self._settled = False
        self._core: Core | None = None
        self._waiters: list[Callable[[], object]] = []

    @classmethod
    def left_out(cls) -> Captured:
        """Of a client that is switched off: an id that nothing has."""
        event = cls("00000000-0000-0000-0000-000000000000")
        event._settled = True
        return event

    @property
    def done(self) -> bool:
        """Whether it is known what became of the event: it is in the spool, or ``error`` says why not."""
        return self._settled

    def wait(self, timeout: float | None = None) -> bool:
        """True once the event is as durable as the mode says; False after ``timeout`` seconds.

        Raises Refused when it was not captured. In a child forked meanwhile, False: the event is the parent's.
        """
        if not self._settled:
            if self._core is None or self._core.forgotten:
                return False
            gate = _system.allocate_lock()
            gate.acquire()
            self._when_settled(gate.release)
            gate.acquire(True, -1 if timeout is None else max(0.0, timeout))
        if self.error is not None:
            raise self.error
        return self._settled

    def __await__(self) -> Any:
        if not self._settled:
            # Whoever awaits has imported it.
            loop = sys.modules["asyncio"].get_running_loop()
            future = loop.create_future()

            def tell() -> None:
                if not future.done():
                    future.set_result(None)

            self._when_settled(lambda: loop.call_soon_threadsafe(tell))
            yield from future
        return self.wait()

    def _when_settled(self, call: Callable[[], object]) -> None:
        self._waiters.append(call)
        if self._settled:
            self._tell()

    def _settle(self, error: Refused | None) -> None:
        self.error = error
        self._body = b""
        self._settled = True
        if self._waiters:
            self._tell()

    def _tell(self) -> None:
        while self._waiters:
            try:
                self._waiters.pop()()
            except (RuntimeError, IndexError):
                # A loop that is closed; another thread that was faster.
                continue


class Core:
    """The client in one process. Made at the first capture there, and opened by the first write."""

    def __init__(
        self,
        mode: str,
        open_spool: Callable[[], Spool | MemorySpool],
        open_sender: Callable[[Spool | MemorySpool], Sender],
        on_refused: Callable[[Captured, Refused], None],
        on_warning: Callable[[str], None],
    ) -> None:
        self.pid = os.getpid()
        self.forgotten = False
        #: No thread writes or sends any more: whoever captures writes.
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
        self._writing = 0
        self._slow = False
        self._threaded = False
        self._sending = False
        self._signal = _system.allocate_lock()
        self._signal.acquire()
        self._last_stamp = 0

    def new_id(self, now: int) -> str:
        """UUID version 7 (RFC 9562): 12 bits of counter behind the milliseconds, so that the ids of one client rise.

        A clock that is set back by more than ten seconds was put right, and is followed.
        """
        chance = os.urandom(10)
        stamp = (now << 12) | (int.from_bytes(chance[8:], "big") & 0x7FF)
        with self._lock if not _is_finalizing() else _NO_LOCK:
            last = self._last_stamp
            if (last >> 12) - 10_000 <= now <= last >> 12:
                stamp = last + 1
            self._last_stamp = stamp
        text = f"{stamp >> 12:012x}"
        low = int.from_bytes(chance[:8], "big") & 0x3FFFFFFFFFFFFFFF | 0x8000000000000000
        tail = f"{low:016x}"
        return f"{text[:8]}-{text[8:]}-{0x7000 | (stamp & 0xFFF):04x}-{tail[:4]}-{tail[4:]}"

    def put(self, event: Captured, kind: int, at: int, body: bytes) -> None:
        """The event joins the queue, and what the queue holds is written where nothing forbids it.

        Raises SpoolFull. What becomes of it later is told to ``event``, and a refusal to ``on_refused``.
        """
        event._core = self
        event._kind = kind
        event._at = at
        event._body = body
        with self._lock if not _is_finalizing() else _NO_LOCK:
            if self._waiting_bytes and self._waiting_bytes + len(body) > _MOST_WAITING:
                raise SpoolFull(f"{_MOST_WAITING >> 20} MiB of events wait for the disk")
            self._waiting_bytes += len(body)
            self._queue.append(event)
        self._write_soon()

    def _write_soon(self) -> None:
        if self.forgotten:
            # The fork of a signal handler: the event is the parent's, which writes it.
            return
        if not self._threaded:
            self._write_all()
        elif self._mode != "fsync":
            for _ in range(2):
                if self._slow or not self._queue or not self._write_once():
                    break
        if self._threaded and self._queue:
            self.wake()
        if self._mode == "direct":
            self._send_now()

    def wake(self) -> None:
        """The thread looks at the queue. Never waits."""
        try:
            if self._signal.locked():
                self._signal.release()
        except RuntimeError:
            # A signal handler was faster.
            return

    def _write_all(self) -> None:
        """Without a thread: until nothing waits, or for the caller that was interrupted in a write."""
        limit = _system.monotonic() + _LAST_WRITE
        while self._queue and not self.forgotten:
            if self._write_once():
                continue
            if self._writing == _system.thread_ident():
                return
            if _is_finalizing() or _system.monotonic() > limit:
                # Its thread will never run again, and nothing is known of what it was doing.
                self.spool = None
                self._writing = 0
            else:
                _system.sleep(0.001)

    def _write_once(self) -> bool:
        """Writes a group; false when someone else is writing."""
        mine = False
        try:
            with self._lock if not _is_finalizing() else _NO_LOCK:
                if not self._writing:
                    self._writing = _system.thread_ident()
                    mine = True
            if mine:
                self._write_group()
        finally:
            if mine:
                self._writing = 0
        return mine

    def _write_group(self) -> None:
        group: list[Captured] = []
        queue = self._queue
        size = 0
        error: Refused | None = None
        began = _system.monotonic()
        try:
            while queue and size < _GROUP_BYTES:
                group.append(queue.popleft())
                size += len(group[-1]._body)
            if not group:
                return
            spool = self.spool or self._open()
            spool.append([(event._kind, event._at, event._body) for event in group])
        except Forked:
            return
        except Refused as refused:
            error = refused
        except Exception as unforeseen:  # noqa: BLE001
            error = SpoolUnwritable(f"the event could not be written ({type(unforeseen).__name__})")
        except BaseException:
            # KeyboardInterrupt, or what a signal handler raises: the spool has cut it off, and it waits again.
            queue.extendleft(reversed(group))
            raise
        self._slow = _system.monotonic() - began > _SLOW_DISK
        with self._lock if not _is_finalizing() else _NO_LOCK:
            self._waiting_bytes -= size
        for event in group:
            event._settle(error)
        if error is not None:
            self.refused += len(group)
            for event in group:
                self._on_refused(event, error)
        elif self.sender is not None:
            self.sender.wake()

    def _open(self) -> Spool | MemorySpool:
        spool = self._open_spool()
        sender = self._open_sender(spool)
        self.spool, self.sender = spool, sender
        if self.ended or self._mode == "direct":
            return spool
        sender.start()
        try:
            _system.start_thread(self._keep, ())
            self._threaded = True
        except RuntimeError:
            # Since 3.12 no thread starts once the interpreter ends.
            self.ended = True
        return spool

    def _keep(self) -> None:
        """The thread that writes for a slow disk, and in mode ``fsync``, and tends the spool each second."""
        due = _system.monotonic() + 1.0
        while not self.ended and not self.forgotten:
            self._signal.acquire(True, max(0.0, due - _system.monotonic()))
            while self._queue and not self.ended:
                if not self._write_once():
                    _system.sleep(0.001)
            if _system.monotonic() >= due:
                self.tend()
                due = _system.monotonic() + 1.0

    def tend(self) -> None:
        spool = self.spool
        if spool is None or self.forgotten:
            return
        try:
            spool.tend()
        except Forked:
            return
        except Exception as error:  # noqa: BLE001
            self._on_warning(f"the spool could not be tended ({type(error).__name__})")

    def _send_now(self) -> None:
        """Mode ``direct``. A signal handler leaves it to the call that it interrupted."""
        if self._sending or self.sender is None:
            return
        self._sending = True
        try:
            while self.sender.run_once():
                pass
        except Forked:
            return
        finally:
            self._sending = False

    def flush(self, timeout: float, *, ending: bool = False) -> bool:
        """Whether the collector has everything, within so many seconds; ``ending``: not beyond the first failure.

        What other processes have left is adopted and sent too.
        """
        limit = _system.monotonic() + timeout
        self.wake()
        while self._queue and _system.monotonic() < limit:
            if not self._threaded:
                self._write_all()
            _system.sleep(0.001)
        spool, sender = self.spool, self.sender
        if spool is None or sender is None:
            return not self._queue
        spool.adopt()
        sender.wake()
        pause = 0.001
        while spool.state().waiting:
            hopeless = sender.hopeless is not None or (ending and self._is_idle(sender))
            if hopeless or _system.monotonic() >= limit:
                return False
            if not self._threaded and sender.run_once():
                continue
            _system.sleep(pause)
            pause = min(0.02, pause * 2)
        return not self._queue

    @staticmethod
    def _is_idle(sender: Sender) -> bool:
        return sender.idle

    def finish(self, timeout: float) -> bool:
        """The process ends, or the client is closed: what waits is written, sent for so long, and left to others.

        Later captures are written by their callers. Returns whether nothing waits.
        """
        if self.forgotten or self.pid != os.getpid():
            return False
        self.ended = True
        self.wake()
        self._threaded, threaded = False, self._threaded
        self._write_all()
        sent = self._drain(timeout, threaded)
        spool, sender = self.spool, self.sender
        if sender is not None:
            sender.stop(max(0.1, timeout))
        # Whoever captures from now on takes another one.
        self.spool = self.sender = None
        if spool is not None:
            self._settled(spool)
        return sent and not self._queue

    def _drain(self, timeout: float, threaded: bool) -> bool:
        self._threaded = threaded
        try:
            return timeout > 0 and self.flush(timeout, ending=True)
        finally:
            self._threaded = False

    def _settled(self, spool: Spool | MemorySpool) -> None:
        try:
            spool.tend()
            spool.close()
        except Forked:
            return
        except Exception as error:  # noqa: BLE001
            self._on_warning(f"the spool could not be closed ({type(error).__name__})")

    def forget(self) -> None:
        """In a forked child: closes what was inherited. Every lock may be held by a thread that is not here."""
        self.forgotten = True
        if self.sender is not None:
            self.sender.forget()
        if self.spool is not None:
            self.spool.forget()

    @property
    def waiting(self) -> tuple[int, int]:
        """Events that are not in the spool yet, and their bytes."""
        return len(self._queue), self._waiting_bytes


class _NoLock:
    """While the interpreter ends one thread runs, and the others may have stopped in a lock."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


_NO_LOCK = _NoLock()
