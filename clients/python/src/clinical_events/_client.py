"""The client: the application reports what happens, and every call returns immediately.

The only exception that a call raises is Python's own TypeError for an unknown parameter. Every other fault of
an event is reported in the return value, to ``on_refused``, and in one warning.
"""

# The exit hooks at the end of this file use members of the client.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import atexit
import os
import socket
import sys
import time
from collections.abc import Mapping

from . import _system
from ._context import binding
from ._core import Captured, Core, not_copied, nothing_captured
from ._errors import ClientClosed, ContentNotStored, EventInvalid, Refused, SpoolRefused
from ._runs import ARTIFACT, PAYLOADS, START, URI_FIELDS, Details, Run, RunHandle, decorated
from ._sampling import CAPTURED, HELD, Sampler, Sampling
from ._schema import KINDS, PROFILES, validator
from ._sender import CODE, Sender
from ._spool import MemorySpool, Spool
from ._values import json_bytes, json_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ._content import Content, ContentDirectory
    from ._runs import Fields, GivenContent

    Function = TypeVar("Function", bound=Callable[..., Any])

PROTOCOL_VERSION = "0.0.1"
MODES = ("os", "fsync", "memory", "direct")
MAX_EVENT_BYTES = 64 << 20
_INT32_MAX = 2**31 - 1
#: The end of the year 9999, the last that RFC 3339 can write.
_LATEST = 253_402_300_799_999
_SILENCE = 60.0

#: Clients that have captured an event and are not closed.
_open: list[Client] = []


class ClientState:
    """Counts of a client. Sizes are in bytes; ``oldest`` is in milliseconds since 1970, None if nothing
    waits."""

    __slots__ = (
        *("cut", "oldest", "quarantined", "refused", "erased"),
        *("waiting", "waiting_bytes", "watched"),
    )

    def __init__(self) -> None:
        self.waiting = self.waiting_bytes = self.quarantined = self.cut = self.watched = 0
        self.refused = self.erased = 0
        self.oldest: int | None = None

    def __repr__(self) -> str:
        return f"ClientState({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


class Client:
    """Captures events of a clinical AI and sends them to a collector. A process needs one client.

    Nothing is opened and no thread starts before the first capture. A wrong address, key or directory does
    not raise: a warning reports it, and events wait or are refused. Raises ValueError for an invalid mode,
    profile, sampling or size, which are set in code.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        spool: str | os.PathLike[str] | None = None,
        *,
        mode: str = "os",
        profile: str = "minimum",
        app_name: str | None = None,
        hostname: str | None = None,
        content: str | os.PathLike[str] | None = None,
        sampling: Sampling | None = None,
        max_bytes: int = 8 << 30,
        max_event_bytes: int = MAX_EVENT_BYTES,
        connections: int = 4,
        ca_file: str | None = None,
        on_refused: Callable[[str, str, Refused], None] | None = None,
        on_quarantine: Callable[[str, str | None, dict[str, Any]], None] | None = None,
        on_warning: Callable[[str], None] | None = None,
        exit_timeout: float = 2.0,
        enabled: bool = True,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}")
        if profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}")
        if sampling is not None and type(sampling) is not Sampling:
            raise ValueError("sampling must be a Sampling")
        if min(max_bytes, connections) < 1 or not 1 <= max_event_bytes <= MAX_EVENT_BYTES:
            raise ValueError(f"sizes must be at least 1, and max_event_bytes at most {MAX_EVENT_BYTES}")
        environment = os.environ
        self._url = url or environment.get("COLLECTOR_URL") or None
        self._api_key = api_key or environment.get("COLLECTOR_KEY") or None
        directory = os.fspath(spool or environment.get("COLLECTOR_SPOOL") or "")
        self._directory = os.path.abspath(directory) if directory else None
        self._mode, self._max_bytes, self._max_event_bytes = mode, max_bytes, max_event_bytes
        self._connections, self._ca_file, self._exit_timeout = connections, ca_file, exit_timeout
        self._reported_refused, self._reported_quarantine, self._reported_warning = (
            on_refused,
            on_quarantine,
            on_warning,
        )
        self._content = _content_directory(content)
        self._validators = [validator(kind, profile) for kind in KINDS]
        self._source = {"hostname": hostname or socket.gethostname()}
        if app_name is not None:
            self._source["app_name"] = app_name
        self._sampling = sampling
        self._enabled, self._closed = enabled, False
        self._cores: dict[int, Core] = {}
        self._warned: dict[str, float] = {}
        self._reporting: set[int] = set()
        _take_hook_of_uwsgi()

    def start_run(
        self,
        *,
        model: Fields | None = None,
        target: Fields | None = None,
        user: Fields | None = None,
        inputs: Fields | None = None,
        run_id: str | None = None,
        parent: Run | None = None,
        content: GivenContent | None = None,
        fields: Fields | None = None,
        timestamp: Any = None,
        latency_ms: float | None = None,
        parent_event_id: str | None = None,
        metadata: Fields | None = None,
    ) -> Run:
        """Captures the start of a run and returns the run, which captures its further events.

        The run is nested in ``parent``, or in the current run of this client. ``content`` is stored
        separately from the event, and ``inputs.input_uri`` names it. ``fields`` are added to the event.
        """
        bound = binding.get()
        if bound is not None and bound.log is self:
            bound_user, bound_metadata = bound.said()
            user = bound_user if user is None else user
            metadata = _over(bound_metadata, metadata)
        payload = {
            "model_instance": model,
            "user_identity": user,
            "target_identity": target,
            "inputs": inputs,
        }
        details = Details(timestamp, latency_ms, parent_event_id, metadata, content)
        return Run(self, run_id, parent, payload, fields, details)

    def run(self, run_id: str) -> RunHandle:
        """Returns the run with this id, for outcomes and feedback at any later time and in any process."""
        return RunHandle(self, run_id)

    def runs(
        self,
        *,
        model: Fields | None = None,
        target: Fields | None = None,
        user: Fields | None = None,
        inputs: Fields | None = None,
        fields: Fields | None = None,
        metadata: Fields | None = None,
    ) -> Callable[[Function], Function]:
        """Decorates a def, async def, generator or async generator: each call is a run.

        The run of a generator begins with its first step and is current only during its steps.
        """
        said: dict[str, Any] = {
            "model": model,
            "target": target,
            "user": user,
            "inputs": inputs,
            "fields": fields,
            "metadata": metadata,
        }

        def decorate(function: Function) -> Function:
            wrapped: Function = decorated(function, lambda: self.start_run(**said))
            return wrapped

        return decorate

    def flush(self, timeout: float = 30.0) -> bool:
        """Waits up to ``timeout`` seconds and returns whether the collector has everything in the spool."""
        core = self._core() if self._enabled and not self._closed else None
        try:
            return core.flush(timeout) if core is not None else True
        except Exception as error:  # noqa: BLE001
            self._warn(f"the spool could not be flushed ({type(error).__name__})")
            return False

    async def aflush(self, timeout: float = 30.0) -> bool:
        """``flush`` in a thread of the event loop's executor."""
        # Already imported by a caller that awaits.
        loop = sys.modules["asyncio"].get_running_loop()
        flushed: bool = await loop.run_in_executor(None, self.flush, timeout)
        return flushed

    def close(self, timeout: float = 5.0) -> bool:
        """Refuses further events and waits up to ``timeout`` seconds for the collector to take the others.

        Returns whether the collector has everything. Other events stay in the spool for the next client on
        the directory.
        """
        self._closed = True
        core = self._cores.get(os.getpid())
        if self in _open:
            _open.remove(self)
        return self._finish(core, timeout) if core is not None else True

    def _finish(self, core: Core, timeout: float) -> bool:
        try:
            if core.sampler is not None:
                core.sampler.expire(all_of_them=True)
                self._summarise(core, at_least=0.0)
            return core.finish(timeout)
        except Exception as error:  # noqa: BLE001
            self._warn(f"the client could not be closed ({type(error).__name__})")
            return False

    __reduce__ = not_copied

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def state(self) -> ClientState:
        """Counts of waiting, sent, refused and quarantined events of this process."""
        state = ClientState()
        core = self._cores.get(os.getpid())
        if core is None:
            return state
        state.refused = core.refused
        state.waiting, state.waiting_bytes = core.waiting
        if core.sender is not None:
            state.erased = core.sender.erased
        if core.spool is not None:
            held = core.spool.state()
            state.waiting += held.waiting
            state.waiting_bytes += held.waiting_bytes
            state.quarantined, state.cut, state.watched = held.quarantined, held.cut, held.watched
            state.oldest = held.oldest
        return state

    def _core(self) -> Core:
        """The core of this process; cores of parent processes are dropped. Every step is atomic."""
        pid = os.getpid()
        core = self._cores.get(pid)
        if core is None:
            core = self._cores.setdefault(pid, self._new_core())
            self._forget_parents()
            if self not in _open:
                _open.append(self)
            _finish_with_multiprocessing(self, pid)
        return core

    def _new_core(self) -> Core:
        sampler = None if self._sampling is None else Sampler(self._sampling, self._warn)
        core = Core(self._mode, self._open_spool, self._open_sender, self._on_refused, self._warn, sampler)
        core.each_second = lambda: self._summarise(core)
        return core

    def _forget_parents(self) -> None:
        """Closes, in a forked child, what the parent has opened."""
        own = os.getpid()
        for pid in list(self._cores):
            core = self._cores.pop(pid, None) if pid != own else None
            if core is not None:
                core.forget()

    def _open_spool(self) -> Spool | MemorySpool:
        if self._mode == "memory" or (self._mode == "direct" and self._directory is None):
            return MemorySpool()
        if self._directory is None:
            raise SpoolRefused("no spool directory is set: pass spool or set COLLECTOR_SPOOL")
        durability = "fsync" if self._mode == "fsync" else "os"
        return Spool(self._directory, durability=durability, max_bytes=self._max_bytes, on_trouble=self._warn)

    def _open_sender(self, spool: Spool | MemorySpool, quick: bool) -> Sender:
        return Sender(
            spool,
            url=self._url,
            api_key=self._api_key,
            ca_file=self._ca_file,
            connections=self._connections,
            timeout=max(0.1, self._exit_timeout) if quick else 30.0,
            on_warning=self._warn,
            on_quarantine=self._on_quarantine,
        )

    def _capture(
        self, kind: int, run_id: Any, payload: dict[str, Any], details: Details, more: Fields | None
    ) -> Captured:
        """Builds the event, serialises it and passes it to the spool. A ``run_id`` of None means the event's
        own id."""
        if not self._enabled:
            return nothing_captured()
        core = self._core()
        # An absurd clock, before 1970 or beyond what a frame can hold, must not lose the event.
        now = min(max(0, time.time_ns() // 1_000_000), _LATEST)
        event = core.new_event(kind, now)
        try:
            if self._closed:
                raise ClientClosed
            value, content = self._value(core.pid, event.event_id, kind, now, run_id, payload, details, more)
            if core.sampler is None:
                self._keep(core, event, json_bytes(value, self._max_event_bytes), content)
            else:
                self._sample(core, core.sampler, event, kind, value, content, details)
        except Exception as error:
            if core.has(event):
                # A signal handler raised it; the event is already queued.
                raise
            if not isinstance(error, Refused):
                # The error may contain values, so it is not reported.
                error = EventInvalid("the event cannot be read", code="not_json")
            core.refuse(event, error)
        return event

    def _keep(self, core: Core, event: Captured, body: bytes, content: Content | None) -> None:
        if content is not None and self._content is not None:
            self._content.put(content)
        core.put(event, body)

    def _value(
        self,
        pid: int,
        event_id: str,
        kind: int,
        now: int,
        run_id: Any,
        payload: dict[str, Any],
        details: Details,
        more: Fields | None,
    ) -> tuple[dict[str, Any], Content | None]:
        """Returns the event as JSON and the content to store first. Raises EventInvalid, ContentNotStored."""
        content = None
        if details.content is not None:
            content = self._named(kind, details.content, payload)
        event: dict[str, Any] = {
            "event_id": event_id,
            "run_id": event_id if run_id is None else run_id,
            "timestamp": _stamp(now) if details.timestamp is None else details.timestamp,
            "protocol_version": PROTOCOL_VERSION,
            "system_metadata": self._system_metadata(pid, details),
        }
        if details.parent_event_id is not None:
            event["parent_event_id"] = details.parent_event_id
        event.update(payload)
        if more is not None:
            name = "" if kind == START else PAYLOADS[kind]
            _add(event[name] if name else event, more, f"/{name}" if name else "")
        value = json_value(event, self._max_event_bytes)
        issues = self._validators[kind](value)
        if issues:
            reported = "; ".join(f"{pointer or 'the event'} {message}" for pointer, _, message in issues)
            raise EventInvalid(
                f"the event is not valid: {reported}", code="validation_failed", pointer=issues[0][0]
            )
        return value, content

    def _sample(
        self,
        core: Core,
        sampler: Sampler,
        event: Captured,
        kind: int,
        value: dict[str, Any],
        content: Content | None,
        details: Details,
    ) -> None:
        """Samples a valid event: events that are left out are validated too."""
        name, run_id = KINDS[kind], value["run_id"]
        if kind == START:
            details.sampled = sampler.begin(run_id, value.get("model_instance", {}), details.sampled)
        run = sampler.known(details.sampled, run_id)
        decision, marks = sampler.judge(run, name, value)
        if marks:
            value["system_metadata"]["sampling"] = marks
        reported = sampler.take() if decision == CAPTURED else None
        if reported is not None:
            value["system_metadata"]["not_captured"] = reported
            core.undo(event, lambda: sampler.put_back(reported))
        body = json_bytes(value, self._max_event_bytes)
        if decision == CAPTURED or run is None:
            self._keep(core, event, body, content)
            return
        core.leave_out(event)
        if decision == HELD:
            size = len(body) + (0 if content is None else len(content.data))
            sampler.hold(run, name, size, lambda: self._release(core, core.again(event), body, content))
        else:
            sampler.leave_out(name, run)

    def _release(self, core: Core, event: Captured, body: bytes, content: Content | None) -> None:
        try:
            self._keep(core, event, body, content)
        except Refused as error:
            core.refuse(event, error)

    def _summarise(self, core: Core, *, at_least: float = 60.0) -> None:
        """Captures the counts of what was left out, unless an event reported them within ``at_least``
        seconds."""
        sampler = core.sampler
        if sampler is None or core.forgotten:
            return
        sampler.expire()
        reported = sampler.take() if _system.monotonic() - sampler.omissions.reported_at >= at_least else None
        if reported is None:
            return
        now = time.time_ns() // 1_000_000
        event = core.new_event(ARTIFACT, now)
        core.undo(event, lambda: sampler.put_back(reported))
        value = {
            "event_id": event.event_id,
            "timestamp": _stamp(now),
            "protocol_version": PROTOCOL_VERSION,
            "system_metadata": {**self._source, "proc_id": str(core.pid), "not_captured": reported},
            "artifact": {
                "artifact_type": "other",
                "artifact_uri": f"urn:uuid:{event.event_id}",
                "description": "Runs and events that sampling left out: see system_metadata.",
            },
        }
        self._release(core, event, json_bytes(value, self._max_event_bytes), None)

    def _system_metadata(self, pid: int, details: Details) -> dict[str, Any]:
        metadata: dict[str, Any] = {**self._source, "proc_id": str(pid)}
        latency = _whole(details.latency_ms)
        if latency is not None:
            metadata["latency_ms"] = latency
        if details.metadata is not None:
            metadata.update(_members(details.metadata, "/system_metadata"))
        return metadata

    def _named(self, kind: int, content: Any, payload: dict[str, Any]) -> Content:
        """Returns the content to store once the event is valid. On return the payload names it."""
        if self._content is None:
            raise ContentNotStored("the client has no directory for content")
        stored = self._content.read(content)
        uri = f"sha256:{stored.sha256}"
        name = PAYLOADS[kind]
        given = payload.get(name)
        payload[name] = {**(_members(given, f"/{name}") if given is not None else {}), URI_FIELDS[kind]: uri}
        return stored

    def _on_refused(self, kind: int, event_id: str, error: Refused) -> None:
        if self._reported_refused is None:
            self._warn(f"an event ({KINDS[kind]}) was not captured: {error}")
            return
        me = _system.thread_ident()
        if me in self._reporting:
            # An event that the callback captures and that is refused must not call it again.
            return
        self._reporting.add(me)
        try:
            self._reported_refused(KINDS[kind], event_id, error)
        except Exception:  # noqa: BLE001, S110
            # A fault of the application's callback.
            pass
        finally:
            self._reporting.discard(me)

    def _on_quarantine(self, kind: str, event_id: str | None, refusal: dict[str, Any]) -> None:
        if self._reported_quarantine is None:
            status, code = refusal.get("status"), refusal.get("code") or ""
            if not CODE.fullmatch(code):
                # An answer may repeat values of the event, so its message is not printed.
                code = ""
            self._warn(
                f"an event ({kind}) was refused: {f'{status} {code}'.strip()}. It is kept in quarantine; "
                "to see it: clinical-events show --events"
            )
            return
        try:
            self._reported_quarantine(kind, event_id, refusal)
        except Exception:  # noqa: BLE001
            return

    def _warn(self, text: str) -> None:
        """Prints each sentence at most once a minute. Does not raise."""
        try:
            now = _system.monotonic()
            if now - self._warned.get(text, -_SILENCE) < _SILENCE:
                return
            if len(self._warned) > 100:
                self._warned.clear()
            self._warned[text] = now
            if self._reported_warning is not None:
                self._reported_warning(text)
            else:
                # sys.stderr is not used: a thread of the parent may have held its lock at the fork.
                os.write(2, f"clinical-events: {text}\n".encode(errors="replace"))
        except Exception:  # noqa: BLE001
            return


def _add(into: dict[str, Any], fields: Any, pointer: str) -> None:
    """Adds the application's own fields. Raises EventInvalid for a name that the call already sets."""
    for name, value in _members(fields, pointer).items():
        if name in into:
            raise EventInvalid(
                "the event is not valid: fields has a name that the call also sets",
                code="validation_failed",
                pointer=f"{pointer}/{name}",
            )
        into[name] = value


def _over(bound: dict[str, Any], metadata: Any) -> Any:
    """Adds ``metadata`` to ``bound``. Other values are returned unchanged, and refused later."""
    if metadata is not None and not issubclass(type(metadata), Mapping):
        return metadata
    merged: dict[str, Any] = {**bound, **(metadata or {})}
    return merged


def _members(given: Any, pointer: str) -> dict[Any, Any]:
    if issubclass(type(given), Mapping):
        return dict(given)
    raise EventInvalid(
        f"the event is not valid: {pointer or 'the event'} must be an object",
        code="not_json",
        pointer=pointer,
    )


def _whole(latency_ms: Any) -> Any:
    """Rounds a float to an int32, at most its maximum; None for NaN and below zero. The schema checks other
    values."""
    if not isinstance(latency_ms, float):
        return latency_ms
    if not latency_ms >= 0:
        return None
    return _INT32_MAX if latency_ms >= _INT32_MAX else round(latency_ms)


def _content_directory(directory: str | os.PathLike[str] | None) -> ContentDirectory | None:
    if directory is None:
        return None
    # Imported only when needed: hashlib takes 3 ms to import.
    from ._content import ContentDirectory

    return ContentDirectory(os.fspath(directory))


_last_second = (0, "1970-01-01T00:00:00")


def _stamp(now: int) -> str:
    """Formats a time by RFC 3339, in UTC with milliseconds."""
    global _last_second
    second, millisecond = divmod(now, 1000)
    # It is read and replaced in one step, because threads share it.
    last, text = _last_second
    if second != last:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _last_second = (second, text)
    return f"{text}.{millisecond:03d}Z"


def _after_fork() -> None:
    for client in list(_open):
        client._forget_parents()


def _at_exit() -> None:
    """Closes each client at the end of a process that runs exit handlers."""
    for client in list(_open):
        core = client._cores.get(os.getpid())
        if core is not None:
            client._finish(core, client._exit_timeout)


def _finish_with_multiprocessing(client: Client, pid: int) -> None:
    """Registers a finalizer: children of multiprocessing and of Celery's billiard do not run atexit
    handlers."""
    for package in ("multiprocessing", "billiard"):
        process, util = sys.modules.get(f"{package}.process"), sys.modules.get(f"{package}.util")
        if process is None or util is None:
            continue
        if getattr(process.current_process(), "_parent_pid", None) is not None:
            util.Finalize(None, _at_exit, exitpriority=-100)
    # Celery workers run no finalizers either.
    signals = sys.modules.get("celery.signals")
    if signals is not None:
        signals.worker_process_shutdown.connect(_finish_with_celery, weak=False)


def _finish_with_celery(**_: object) -> None:
    _at_exit()


def _take_hook_of_uwsgi() -> None:
    """Registers uWSGI's own hook: uWSGI forks without Python's hooks."""

    uwsgi: Any = sys.modules.get("uwsgi")
    if uwsgi is None or getattr(uwsgi, "_clinical_events", False):
        return
    before = getattr(uwsgi, "post_fork_hook", None)

    def hook() -> None:
        _after_fork()
        if before is not None:
            before()

    uwsgi.post_fork_hook, uwsgi._clinical_events = hook, True


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
