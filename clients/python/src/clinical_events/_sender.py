"""Sends waiting events until the collector has them (docs/CLIENT_SPEC.md, "Sending to the collector").

The gate holds back all events: it shuts when the collector does not answer or has no room, for longer each
time; then one request at a time tries again. A retry delays a single event.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, cast

from . import _system
from ._answer import Answer, NoAnswer, fields, refusal, retry_after
from ._format import KINDS
from ._http import CannotSend, Connection, Destination, said

_UNWELCOME = frozenset((401, 404, 405, 407, 421, 426))
_ACCEPTED = b'{"status":"accepted"}'
_SLOW = 60.0
_LONGEST_RETRY_AFTER = 600.0
_MOST_RETRIES = 1024
_MOST_RETRY_BYTES = 8 << 20
_LOOK = 1.0
_EVENT_ID = re.compile(r"[0-9A-Fa-f-]{36}")
CODE = re.compile(r"[a-z_]{1,40}")


class Event(Protocol):
    """An event that the sender took from the spool."""

    @property
    def kind(self) -> int: ...
    @property
    def body(self) -> bytes: ...


class Source(Protocol):
    """The part of ``_spool.Spool`` that the sender uses."""

    def take(self) -> Any: ...
    def settle(self, event: Any, done: bool) -> None: ...
    def quarantine(self, event: Any, refusal: dict[str, Any]) -> None: ...


class Backoff(NamedTuple):
    """A random pause between zero and a bound in seconds that doubles with each failure."""

    first: float = 0.2
    longest: float = 30.0

    def pause(self, failures: int) -> float:
        chance = int.from_bytes(os.urandom(4), "little") / (1 << 32)
        return chance * min(self.longest, self.first * 2.0 ** min(failures - 1, 60))


class _Job(NamedTuple):
    """An event in flight, or waiting for its retry. Ordered by ``due`` (monotonic clock), then by number."""

    due: float
    order: int
    event: Event
    attempts: int
    round: int


class Sender:
    """Sends events on its own threads, or one at a time in the caller.

    An event leaves the spool when the collector has stored it or has erased it since, or when it is in
    quarantine.

    ``sent``, ``erased`` and ``refused`` count events. ``hopeless`` says why waiting does not help;
    ``denied``, which kinds the key may not send; ``setback``, what failed since an event was last stored.
    """

    def __init__(
        self,
        spool: Source,
        *,
        url: str | None,
        api_key: str | None,
        ca_file: str | None = None,
        connections: int = 4,
        on_warning: Callable[[str], None],
        on_quarantine: Callable[[str, str | None, dict[str, Any]], None],
        backoff: Backoff = Backoff(),  # noqa: B008
        timeout: float = 30.0,
        slow: float = _SLOW,
    ) -> None:
        self.sent = self.erased = self.refused = 0
        self.hopeless: str | None = None
        self.denied: str | None = None
        self.setback: str | None = None
        self._spool = spool
        self._on_warning = on_warning
        self._on_quarantine = on_quarantine
        self._backoff, self._timeout, self._slow, self._most = backoff, timeout, slow, connections
        self._destination: Destination | None = None
        try:
            self._destination = Destination(url, api_key, ca_file)
        except CannotSend as error:
            self.hopeless = f"{error.what}; events are kept: {error.reason}"
        self._lock = _system.RLock()
        # ``wake`` releases it when there may be work, and must never wait for a lock.
        self._signal: Any = _system.allocate_lock()
        self._threads = 0
        self._started = self._stopping = self._gone = False
        self._connections: list[Connection] = []
        self._spare: list[Connection] = []
        self._callers: set[int] = set()
        self._in_flight = self._failures = self._round = self._order = 0
        self._shut_until = 0.0
        self._kind_shut_until: dict[int, float] = {}
        self._retries: list[_Job] = []
        self._retry_bytes = 0
        self._dry = False
        self._reported: dict[str, float] = {}

    @property
    def idle(self) -> bool:
        """Whether no request is pending and no waiting event can be sent now."""
        if self._destination is None or self._stopping:
            return True
        held = self.hopeless is not None or _system.monotonic() < self._shut_until
        return self._in_flight == 0 and (held or self._dry)

    def start(self) -> None:
        """Starts the threads once. If no thread can start, ``run_once`` sends."""
        if self._started:
            return
        self._started = True
        if self._destination is None:
            self._warn(cast(str, self.hopeless))
            return
        for _ in range(self._most):
            try:
                connection = Connection(self._destination, self._timeout)
                _system.start_thread(self._run, (connection,))
            except (RuntimeError, MemoryError):
                # Python 3.12 starts no thread while the interpreter ends.
                return
            self._connections.append(connection)
            with self._lock:
                self._threads += 1

    def wake(self) -> None:
        """Wakes a thread after an append. Never waits, and may be called in a signal handler."""
        self._dry = False
        if _system.monotonic() >= self._shut_until:
            # In an outage a thread wakes when the pause is over, so captures do not wake it.
            self._rouse()

    def _rouse(self) -> None:
        if self._signal.locked():
            # Another thread was faster.
            with contextlib.suppress(RuntimeError):
                self._signal.release()

    def run_once(self) -> bool:
        """Sends one event in the caller. Returns False when no event can be sent now."""
        caller = _system.thread_ident()
        if self._destination is None:
            self.start()
        # An event that a signal handler captures within this call is sent by this call.
        if self._destination is None or caller in self._callers:
            return False
        self._callers.add(caller)
        try:
            job, _ = self._next()
            if job is None:
                return False
            try:
                connection = self._spare.pop()
            except IndexError:
                connection = Connection(self._destination, self._timeout)
                self._connections.append(connection)
            self._send(connection, job)
            self._spare.append(connection)
            return True
        finally:
            self._callers.discard(caller)

    def stop(self, timeout: float) -> None:
        """Starts no further request and waits up to ``timeout`` seconds for pending ones.

        On return the events without an answer are back in the spool.
        """
        self._stopping = True
        deadline = _system.monotonic() + timeout
        while (self._in_flight or self._threads) and _system.monotonic() < deadline:
            self._rouse()
            _system.sleep(0.002)
        for connection in list(self._connections):
            connection.abort()
        deadline = _system.monotonic() + 0.5
        while (self._in_flight or self._threads) and _system.monotonic() < deadline:
            self._rouse()
            _system.sleep(0.002)
        with self._lock:
            self._gone = True
            retries, self._retries = self._retries, []
            spare, self._spare = self._spare, []
        for job in retries:
            self._spool.settle(job.event, False)
        for connection in spare:
            connection.close()

    def forget(self) -> None:
        """Closes the parent's connections in a forked child. Touches no lock."""
        self._stopping = self._gone = True
        for connection in self._connections:
            connection.forget()

    def _run(self, connection: Connection) -> None:
        while not self._stopping:
            try:
                job, wait = self._next()
                if job is None:
                    self._signal.acquire(True, wait)
                    continue
                # Another thread looks for the next event while this one sends.
                self.wake()
                self._send(connection, job)
            except Exception as error:  # noqa: BLE001 - the thread must survive whatever the spool raises
                self._warn(f"the spool gave no event to send: {said(error)}")
                with self._lock:
                    self._shut(0.0)
        connection.close()
        with self._lock:
            self._threads -= 1

    def _next(self) -> tuple[_Job | None, float]:
        """Returns the event to send now, or the seconds until one may be sent."""
        with self._lock:
            now = _system.monotonic()
            if self._stopping:
                return None, 0.0
            if now < self._shut_until:
                return None, min(_LOOK, self._shut_until - now)
            if self._in_flight >= (1 if self._failures else self._most):
                return None, _LOOK
            while True:
                # Set before the spool is read: an append in between resets it.
                self._dry = True
                job = self._take(now)
                if job is None:
                    return None, min(
                        _LOOK, max(0.001, self._retries[0].due - now) if self._retries else _LOOK
                    )
                self._dry = False
                shut_until = self._kind_shut_until.get(job.event.kind, 0.0)
                if now >= shut_until:
                    self._in_flight += 1
                    return job, 0.0
                self._retry(job.event, job.attempts, shut_until)

    def _take(self, now: float) -> _Job | None:
        if self._retries and self._retries[0].due <= now:
            job = heapq.heappop(self._retries)
            self._retry_bytes -= len(job.event.body)
            return job._replace(round=self._round)
        if len(self._retries) >= _MOST_RETRIES or self._retry_bytes >= _MOST_RETRY_BYTES:
            return None
        event = self._spool.take()
        return None if event is None else _Job(now, 0, event, 0, self._round)

    def _retry(self, event: Event, attempts: int, due: float) -> None:
        self._order += 1
        self._retry_bytes += len(event.body)
        heapq.heappush(self._retries, _Job(due, self._order, event, attempts, 0))

    def _send(self, connection: Connection, job: _Job) -> None:
        try:
            answer = connection.post(KINDS[job.event.kind], job.event.body)
        except NoAnswer as error:
            self._failed(job, error)
        except Exception as error:  # noqa: BLE001 - MemoryError too: the event is sent again
            self._failed(job, NoAnswer(said(error)))
        except BaseException:
            self._settle(job, False)
            raise
        else:
            if not self._gone:
                self._answered(job, answer)

    def _failed(self, job: _Job, error: NoAnswer) -> None:
        if self._gone:
            return
        if self._stopping:
            self._settle(job, False)
            return
        lasting = isinstance(error, CannotSend)
        what = (
            f"{error.what}; events are kept"
            if isinstance(error, CannotSend)
            else "the collector did not answer"
        )
        self._set_back(f"{what}: {error.reason}" if error.reason else what, lasting)
        self._later(job, 0.0)

    def _answered(self, job: _Job, answer: Answer) -> None:
        status = answer.status
        if status == 201 and (answer.body == _ACCEPTED or fields(answer.body).get("status") == "accepted"):
            self.hopeless = self.setback = None
            self._settle(job, True)
            return
        reported = fields(answer.body)
        code = reported.get("code")
        words = f"{status} {code}" if isinstance(code, str) and CODE.fullmatch(code) else str(status)
        if status == 409 and code == "event_erased":
            self.hopeless = self.setback = None
            self._settle(job, True, erased=True)
        elif status in (408, 425, 429) or status >= 500:
            self._set_back(f"the collector answered {status}")
            self._later(job, retry_after(answer.headers.get("retry-after", "")))
        elif status == 403:
            self._deny(job, words)
        elif status < 400 or status in _UNWELCOME:
            what = "the server at this address is not a collector"
            if status == 401:
                what = "the collector rejected the API key"
            self._set_back(f"{what} ({words}); events are kept", lasting=True)
            self._later(job, self._slow_pause())
        else:
            self.hopeless = self.setback = None
            self._refuse(job, refusal(answer, reported))

    def _settle(self, job: _Job, done: bool, erased: bool = False) -> None:
        self._spool.settle(job.event, done)
        with self._lock:
            self._in_flight -= 1
            if not done:
                return
            self.erased += erased
            self.sent += not erased
            self._went()

    def _went(self) -> None:
        """Applies the collector's verdict on an event. The caller holds the lock."""
        if self._reported:
            old = _system.monotonic() - 60.0
            self._reported = {text: at for text, at in self._reported.items() if at > old}
        if self._failures:
            self._failures = 0
            self._rouse()

    def _deny(self, job: _Job, words: str) -> None:
        kind = job.event.kind
        self.hopeless = None
        self.denied = f"the key may not send {KINDS[kind]} ({words}); these events are kept"
        self._warn(self.denied)
        with self._lock:
            self._in_flight -= 1
            self._went()
            self._kind_shut_until[kind] = _system.monotonic() + self._slow_pause()
            self._retry(job.event, job.attempts + 1, self._kind_shut_until[kind])

    def _refuse(self, job: _Job, why: dict[str, Any]) -> None:
        try:
            self._spool.quarantine(job.event, why)
        except Exception as error:  # noqa: BLE001 - a full disk, say: the event waits and is tried again
            self._warn(f"a refused event could not be put into quarantine: {said(error)}")
            with self._lock:
                self._in_flight -= 1
                due = _system.monotonic() + self._backoff.pause(job.attempts + 1)
                self._retry(job.event, job.attempts + 1, due)
            return
        with self._lock:
            self._in_flight -= 1
            self.refused += 1
            self._went()
        event_id = fields(job.event.body).get("event_id")
        known = isinstance(event_id, str) and _EVENT_ID.fullmatch(event_id) is not None
        try:
            self._on_quarantine(KINDS[job.event.kind], cast(str, event_id) if known else None, why)
        except Exception:  # noqa: BLE001 - a callback of the application
            return

    def _later(self, job: _Job, least: float) -> None:
        """Schedules the event again and holds back all others for at least the requested pause."""
        least = min(least, _LONGEST_RETRY_AFTER)
        with self._lock:
            self._in_flight -= 1
            due = _system.monotonic() + least + self._backoff.pause(job.attempts + 1)
            self._retry(job.event, job.attempts + 1, due)
            # A failure of a request that began before the gate shut does not shut it again.
            if job.round == self._round:
                self._shut(least)
            elif least > 0:
                self._shut_until = max(self._shut_until, _system.monotonic() + least)

    def _shut(self, least: float) -> None:
        self._failures += 1
        self._round += 1
        until = _system.monotonic() + least + self._backoff.pause(self._failures)
        self._shut_until = max(self._shut_until, until)

    def _slow_pause(self) -> float:
        return Backoff(self._slow / 2, self._slow / 2).pause(1) + self._slow / 2

    def _set_back(self, text: str, lasting: bool = False) -> None:
        self.setback = text
        self.hopeless = text if lasting else None
        self._warn(text)

    def _warn(self, text: str) -> None:
        """Warns once until events have been stored for a minute, so that a long outage gives one warning."""

        if text in self._reported:
            return
        self._reported[text] = _system.monotonic()
        try:
            self._on_warning(text)
        except Exception:  # noqa: BLE001 - a callback of the application
            return
