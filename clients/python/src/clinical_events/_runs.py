"""Runs: the application reports what happens in a run, and every call returns immediately."""

# The two classes of a run use each other's members.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
import itertools
from contextvars import ContextVar

from . import _system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Mapping
    from types import TracebackType
    from typing import Any

    from ._client import Client
    from ._core import Captured
    from ._sampling import SampledRun

    Fields = Mapping[str, Any]
    GivenContent = str | bytes | bytearray | memoryview

START, ARTIFACT, OUTPUT, OUTCOME, FEEDBACK = range(5)
#: By kind: the field of the payload, and the member in it that names content.
PAYLOADS = ("inputs", "artifact", "output", "outcome", "feedback")
URI_FIELDS = ("input_uri", "artifact_uri", "output_uri", "evidence_uri", "")
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200

_current: ContextVar[Run | None] = ContextVar("clinical_events_run", default=None)


def current_run() -> Run | None:
    """Returns the innermost run of a ``with`` block or decorator around this code; None outside of any."""
    return _current.get()


class Details:
    """Details of a call in addition to the payload."""

    __slots__ = ("content", "latency_ms", "metadata", "parent_event_id", "sampled", "timestamp")

    def __init__(
        self,
        timestamp: Any = None,
        latency_ms: Any = None,
        parent_event_id: Any = None,
        metadata: Fields | None = None,
        content: Any = None,
    ) -> None:
        self.timestamp = timestamp
        self.latency_ms = latency_ms
        self.parent_event_id = parent_event_id
        self.metadata = metadata
        self.content = content
        #: Sampling of a start: the decision that it shares with others, and its own.
        self.sampled: SampledRun | None = None


class RunHandle:
    """A run that is known by its id alone."""

    _sampled: SampledRun | None = None

    def __init__(self, client: Client, run_id: Any) -> None:
        self._client = client
        #: A UUID that all events of the run share.
        self.id: str = run_id

    def artifact(
        self,
        artifact_type: str,
        *,
        artifact_uri: str | None = None,
        mime_type: str | None = None,
        description: str | None = None,
        content: GivenContent | None = None,
        fields: Fields | None = None,
        timestamp: Any = None,
        latency_ms: float | None = None,
        parent_event_id: str | None = None,
        metadata: Fields | None = None,
    ) -> Captured:
        """Captures an intermediate artifact: a tool call, a reasoning trace, retrieved text.

        Without ``artifact_uri`` and ``content`` the artifact gets a new URI.
        """
        if artifact_uri is None and content is None:
            artifact_uri = self._artifact_uri()
        named = {
            "artifact_type": artifact_type,
            "artifact_uri": artifact_uri,
            "mime_type": mime_type,
            "description": description,
        }
        details = Details(timestamp, latency_ms, parent_event_id, metadata, content)
        return self._report(ARTIFACT, named, fields, details)

    def output(
        self,
        *,
        output_uri: str | None = None,
        summary: str | None = None,
        output_type: str | None = None,
        content: GivenContent | None = None,
        fields: Fields | None = None,
        timestamp: Any = None,
        latency_ms: float | None = None,
        parent_event_id: str | None = None,
        metadata: Fields | None = None,
    ) -> Captured:
        """Captures content that was shown to a person. ``latency_ms`` is measured from the start of the
        run."""
        named = {"output_uri": output_uri, "summary": summary, "output_type": output_type}
        details = Details(timestamp, latency_ms, parent_event_id, metadata, content)
        if latency_ms is None and timestamp is None:
            details.latency_ms = self._elapsed()
        return self._report(OUTPUT, named, fields, details)

    def outcome(
        self,
        *,
        outcome_type: str | None = None,
        occurred_at: Any = None,
        description: str | None = None,
        evidence_uri: str | None = None,
        content: GivenContent | None = None,
        fields: Fields | None = None,
        timestamp: Any = None,
        latency_ms: float | None = None,
        parent_event_id: str | None = None,
        metadata: Fields | None = None,
    ) -> Captured:
        """Captures an outcome of the run, perhaps much later. Content is its evidence."""
        named = {
            "outcome_type": outcome_type,
            "occurred_at": occurred_at,
            "description": description,
            "evidence_uri": evidence_uri,
        }
        details = Details(timestamp, latency_ms, parent_event_id, metadata, content)
        return self._report(OUTCOME, named, fields, details)

    def feedback(
        self,
        *,
        feedback_type: str | None = None,
        rating_value: float | None = None,
        comment: str | None = None,
        direction: str | None = None,
        fields: Fields | None = None,
        timestamp: Any = None,
        latency_ms: float | None = None,
        parent_event_id: str | None = None,
        metadata: Fields | None = None,
    ) -> Captured:
        """Captures a user's feedback on the run. Thumbs have a ``direction``: ``up`` or ``down``."""
        named = {
            "feedback_type": feedback_type,
            "rating_value": rating_value,
            "comment": comment,
            "direction": direction,
        }
        details = Details(timestamp, latency_ms, parent_event_id, metadata)
        return self._report(FEEDBACK, named, fields, details)

    def _report(self, kind: int, named: dict[str, Any], fields: Fields | None, details: Details) -> Captured:
        said = {name: value for name, value in named.items() if value is not None}
        # A missing run id must not open a run with the event's own id.
        details.sampled = self._sampled
        run_id = "" if self.id is None else self.id  # pyright: ignore[reportUnnecessaryComparison]
        return self._client._capture(kind, run_id, {PAYLOADS[kind]: said}, details, fields)

    def _artifact_uri(self) -> str | None:
        return None

    def _elapsed(self) -> float | None:
        return None


class Run(RunHandle):
    """A run that this process started. ``start`` is the capture of its first event.

    ``with`` and ``async with`` make it the current run and capture its ending when an exception leaves them.
    """

    def __init__(
        self,
        client: Client,
        run_id: Any,
        parent: Run | None,
        payload: dict[str, Any],
        fields: Fields | None,
        details: Details,
    ) -> None:
        self.start: Captured
        self._began = _system.monotonic() if details.timestamp is None else None
        self._artifacts = itertools.count(1)
        self._tokens: list[Any] = []
        self._ended = False
        outer: Any = _current.get() if parent is None else parent
        if outer is not None and issubclass(type(outer), Run) and outer._client is client:
            details.sampled = outer._sampled
            if details.parent_event_id is None:
                details.parent_event_id = outer.start.event_id
        given = {name: value for name, value in payload.items() if value is not None}
        self.start = client._capture(START, run_id, given, details, fields)
        self._sampled = details.sampled
        super().__init__(client, self.start.event_id if run_id is None else run_id)

    def start_run(
        self,
        *,
        model: Fields | None = None,
        target: Fields | None = None,
        user: Fields | None = None,
        inputs: Fields | None = None,
        run_id: str | None = None,
        content: GivenContent | None = None,
        fields: Fields | None = None,
        timestamp: Any = None,
        latency_ms: float | None = None,
        parent_event_id: str | None = None,
        metadata: Fields | None = None,
    ) -> Run:
        """Starts a run nested in this one, for example of a model that this one calls."""
        return self._client.start_run(
            model=model,
            target=target,
            user=user,
            inputs=inputs,
            run_id=run_id,
            parent=self,
            content=content,
            fields=fields,
            timestamp=timestamp,
            latency_ms=latency_ms,
            parent_event_id=parent_event_id,
            metadata=metadata,
        )

    def fail(self, error: BaseException | None = None) -> None:
        """Captures that the run failed, with the error's class and HTTP status, never its message.

        CancelledError, GeneratorExit, KeyboardInterrupt and SystemExit are captured as an abort.
        """
        aborted = error is not None and not issubclass(type(error), Exception)
        self._end("aborted" if aborted else "failed", error)

    def abort(self) -> None:
        """Captures that the application aborted the run."""
        self._end("aborted", None)

    def unfinished(self) -> None:
        """Captures that the run waits for a person or for another process."""
        self._end("unfinished", None)

    def _end(self, ending: str, error: BaseException | None) -> None:
        """Captures the first ending of the run and ignores later ones."""
        if self._ended:
            return
        self._ended = True
        facts: dict[str, Any] = {"ending": ending}
        if error is not None:
            facts["error_name"] = _class_of(error)
        elif ending == "failed":
            facts["error_name"] = "unknown"
        status = _status_of(error)
        if status is not None:
            facts["status"] = status
        self.artifact(
            "other",
            description="How the run ended.",
            fields=facts,
            latency_ms=self._elapsed(),
            metadata={"instrumentation": {"by": "python"}},
        )

    def __enter__(self) -> Run:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The run is left in another context than it was entered in, for example when a loop closes an async
        # generator.
        with contextlib.suppress(ValueError, RuntimeError, IndexError):
            _current.reset(self._tokens.pop())
        if error is not None:
            self.fail(error)

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _artifact_uri(self) -> str | None:
        return f"urn:uuid:{self.id}?=artifact={next(self._artifacts)}"

    def _elapsed(self) -> float | None:
        return None if self._began is None else (_system.monotonic() - self._began) * 1000


def _class_of(error: BaseException) -> str:
    # The name is not read through attributes, which the class may override.
    name: str = type.__dict__["__name__"].__get__(type(error))
    return name


def _status_of(error: BaseException | None) -> int | None:
    """Returns the HTTP status of a library's error, which has one of three attribute names."""
    for name in ("status_code", "status", "code"):
        try:
            status = getattr(error, name, None)
        except Exception:  # noqa: BLE001, S112
            continue
        if type(status) is int and 400 <= status <= 599:
            return status
    return None


def decorated(function: Any, start: Callable[[], Run]) -> Any:
    """Recognises the kind of function by its code flags, because importing ``inspect`` takes 5 ms."""
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    wrap = _around_call
    if flags & _ASYNC_GENERATOR:
        wrap = _around_async_generator
    elif flags & _GENERATOR:
        wrap = _around_generator
    elif flags & _COROUTINE:
        wrap = _around_coroutine
    return functools.wraps(function)(wrap(function, start))


def _around_call(function: Any, start: Callable[[], Run]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with start():
            return function(*args, **kwargs)

    return wrapper


def _around_coroutine(function: Any, start: Callable[[], Run]) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with start():
            return await function(*args, **kwargs)

    return wrapper


def _around_generator(function: Any, start: Callable[[], Run]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        run = start()
        steps = function(*args, **kwargs)
        sent: Any = None
        thrown: BaseException | None = None
        try:
            while True:
                # Set for one step only: a context variable that is set across a yield leaks to the caller.
                token = _current.set(run)
                try:
                    value = steps.send(sent) if thrown is None else steps.throw(thrown)
                except StopIteration as stop:
                    return stop.value
                finally:
                    _left(token)
                sent = thrown = None
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001
                    thrown = error
        except BaseException as error:
            run.fail(error)
            raise
        finally:
            steps.close()

    return wrapper


def _around_async_generator(function: Any, start: Callable[[], Run]) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        run = start()
        steps = function(*args, **kwargs)
        sent: Any = None
        thrown: BaseException | None = None
        try:
            while True:
                token = _current.set(run)
                try:
                    value = await (steps.asend(sent) if thrown is None else steps.athrow(thrown))
                except StopAsyncIteration:
                    return
                finally:
                    _left(token)
                sent = thrown = None
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001
                    thrown = error
        except BaseException as error:
            run.fail(error)
            raise
        finally:
            await steps.aclose()

    return wrapper


def _left(token: Any) -> None:
    # The step may have ended in another context than it began in.
    with contextlib.suppress(ValueError, RuntimeError):
        _current.reset(token)
