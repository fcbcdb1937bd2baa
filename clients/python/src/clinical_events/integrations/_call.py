"""Turns a model call into a run: its start, its artifacts, and one event that ends it.

Nothing here raises, waits, or changes an object of the application. By default it records no text of
questions or answers, because these are patient data: the application chooses the contents of events with
``describe`` (docs/reference/instrumentation.md).
"""

from __future__ import annotations

import inspect
import itertools
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeVar, cast

from .._system import monotonic
from ._readers import Answer, Choice
from ._readers._answer import characters, failure_status, fields, is_list, is_object, list_of, present, word

T = TypeVar("T")

# `cut off`: the stream ended before the answer. `not read`: the answer is too large or has an unknown form.
# `unfinished`: queued, in progress, paused, or waiting for an approval.
Ending = Literal["complete", "failed", "aborted", "cut off", "not read", "unfinished"]
# A client, a run that the calls belong to, or a function that returns one of them for each call.
Runs = Any


@dataclass(frozen=True)
class DescribedCall:
    """The argument of the option functions; ``run_id`` and ``answer`` are set once the call has ended."""

    provider: str
    model: str | None
    request: Any
    run_id: str | None = None
    answer: Answer | None = None


Describe = Callable[[DescribedCall], "Mapping[str, Any] | None"]
Shown = bool | Callable[[DescribedCall], bool]


@dataclass(frozen=True)
class Options:
    """The application's choice of contents.

    ``describe`` is called when a call begins, for ``model``, ``user``, ``target``, ``inputs``,
    ``input_content`` and ``run_id``, and when it has ended, for ``output`` (None: not shown to a person),
    ``output_content``, ``reasoning_content``, ``tool_calls`` and ``choices``. ``shown`` says whether a
    complete answer with words is shown to a person; by default an answer that requests no tool counts as
    shown.
    """

    describe: Describe | None = None
    shown: Shown | None = None

    def __post_init__(self) -> None:
        if self.describe is not None and not callable(self.describe):
            raise ValueError("describe must be a function")
        if not (self.shown is None or isinstance(self.shown, bool) or callable(self.shown)):
            raise ValueError("shown must be True, False or a function")


@dataclass(frozen=True)
class Begun:
    """A call that begins. ``by`` names the integration; ``started_at`` is a ``_system.monotonic`` time."""

    by: str
    provider: str
    model: str | None
    request: Any
    inputs: Mapping[str, Any]
    started_at: float | None = None
    attempt: int | None = None
    timestamp: datetime | None = None
    marks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    model_version: str | None = None


@dataclass(frozen=True)
class Ended:
    """How a call ended.

    ``worded``: whether the answer has words, if known without the text; ``shown``: the application's
    statement on this answer; ``may_end_again``: the answer may be fetched later.
    """

    ending: Ending
    answer: Answer
    error: BaseException | None = None
    error_name: str | None = None
    status: int | None = None
    worded: bool | None = None
    shown: bool | None = None
    also: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timestamp: datetime | None = None
    latency_ms: float | None = None
    may_end_again: bool = False


class ModelCall:
    """A call and its ``run``, None if it could not be started; ``within``: the client or run around it."""

    def __init__(self, runs: Runs, options: Options, begun: Begun) -> None:
        self._begun = begun
        self._options = options
        self._started_at = monotonic() if begun.started_at is None else begun.started_at
        self._describe_failed = False
        # Tool calls of an earlier ending, which are not captured again.
        self._reported: frozenset[str | None] = frozenset()
        self.ending: Ending | None = None
        self.within: Any = quietly(lambda: starts_runs(runs))
        self.run: Any = quietly(self._start)

    def _start(self) -> Any:
        begun = self._begun
        said = self._described()
        named = present(model_id=begun.model, model_version=begun.model_version, provider=begun.provider)
        return self.within.start_run(
            model=_with(named, said.get("model")),
            inputs=_with(begun.inputs, said.get("inputs")),
            metadata=self._metadata(),
            **present(
                user=said.get("user"),
                target=said.get("target"),
                run_id=said.get("run_id"),
                content=said.get("input_content"),
                timestamp=begun.timestamp,
            ),
        )

    @property
    def attempt(self) -> int:
        return self._begun.attempt or 1

    @property
    def may_be_retried(self) -> bool:
        """Whether the last attempt ended in a way that libraries retry."""
        return self.ending not in (None, "complete", "unfinished")

    def begin_again(self, begun: Begun) -> bool:
        """Begins another attempt of this run if the last one failed.

        Returns False, without a change, if the last attempt is pending or complete, or called another model.
        """
        before = self._begun
        if not self.may_be_retried or (begun.provider, begun.model) != (before.provider, before.model):
            return False
        self._begun = replace(begun, attempt=begun.attempt or self.attempt + 1)
        self.ending = None
        return True

    def end(self, ended: Ended) -> None:
        """Ends the attempt, with or without an answer. Called again when an answer is fetched later."""
        if self.run is not None:
            quietly(lambda: self._end(ended))
        self.ending = ended.ending
        reported = ended.answer.tool_calls if ended.may_end_again else ()
        self._reported = frozenset(call.id for call in reported)
        # A call that may be repeated is kept for a while, without its request.
        if not ended.may_end_again:
            self._begun = replace(self._begun, request=None)

    def artifact(
        self,
        artifact_type: str,
        said: Mapping[str, Any],
        *,
        content: str | bytes | None = None,
        latency_ms: float | None = None,
        timestamp: datetime | None = None,
    ) -> None:
        """Captures an artifact of the run, with a URI for one without content."""
        if self.run is None:
            return
        own = dict(said)
        where = own.pop("artifact_uri", None)
        details = present(latency_ms=latency_ms, timestamp=timestamp, content=content, artifact_uri=where)
        self.run.artifact(artifact_type, fields=own, metadata=self._metadata(), **details)

    def _end(self, ended: Ended) -> None:
        answer, latency_ms = ended.answer, ended.latency_ms
        if latency_ms is None:
            latency_ms = (monotonic() - self._started_at) * 1000
        when: dict[str, Any] = {"latency_ms": latency_ms, "timestamp": ended.timestamp}
        worded = answer.has_content if ended.worded is None else ended.worded
        is_shown, by = self._is_shown(ended) if ended.ending == "complete" and worded else (False, "")
        said = self._described(run_id=self.run.id, answer=answer)
        self._steps(answer.choices[0], said, when, {})
        reported = _items(said.get("choices"))
        for number, choice in enumerate(answer.choices[1:], 1):
            of_choice: Mapping[str, Any] = fields(reported[number - 1]) if number <= len(reported) else {}
            self._steps(choice, of_choice, when, {"choice": number})
            about = {"description": "Another choice of the answer.", "choice": number, **choice.facts}
            self.artifact("other", about, content=of_choice.get("output_content"), **when)
        facts = {"ending": ended.ending, **answer.facts, **ended.also, **_failure(ended)}
        content = said.get("output_content")
        if not is_shown or ("output" in said and said["output"] is None):
            about = {"description": "How the model call ended.", **facts}
            self.artifact("other", about, content=content, **when)
            return
        output = {"output_type": answer.output_type, **facts, **fields(said.get("output"))}
        if content is None:
            output.setdefault("output_uri", f"urn:uuid:{self.run.id}?=output=1")
        details = present(content=content, **when)
        self.run.output(fields=output, metadata=self._metadata(shown_by=by), **details)

    def _steps(
        self, choice: Choice, said: Mapping[str, Any], when: Mapping[str, Any], number: dict[str, int]
    ) -> None:
        """Captures the reasoning and tool calls of a choice."""
        thoughts, content = choice.reasoning, said.get("reasoning_content")
        if thoughts or content is not None:
            self.artifact(
                "reasoning_trace", {**number, "characters": characters(thoughts)}, content=content, **when
            )
        described = _items(said.get("tool_calls"))
        for at, call in enumerate(choice.tool_calls):
            if call.id is not None and call.id in self._reported:
                continue
            own = dict(fields(described[at])) if at < len(described) else {}
            content = own.pop("content", None)
            named = present(
                tool_name=word(call.name),
                call_id=word(call.id),
                input_characters=characters(call.input),
                invalid=call.invalid or None,
            )
            self.artifact("tool_call", {**number, **named, **own}, content=content, **when)

    def _metadata(self, **more: object) -> dict[str, Any]:
        attempt = self.attempt if self.attempt > 1 else None
        failed = self._describe_failed or None
        begun = self._begun
        said = present(by=begun.by, attempt=attempt, **begun.marks, describe_failed=failed, **more)
        return {"instrumentation": said}

    def _call(self, **more: Any) -> DescribedCall:
        begun = self._begun
        return DescribedCall(begun.provider, begun.model, begun.request, **more)

    def _is_shown(self, ended: Ended) -> tuple[bool, str]:
        """Returns whether the answer is shown to a person, and who decided that."""
        said: Any = ended.shown
        option = self._options.shown
        if said is None and callable(option):
            call = self._call(run_id=self.run.id, answer=ended.answer)
            said = quietly(lambda: option(call))
        elif said is None:
            said = option
        if isinstance(said, bool):
            return said, "application"
        _drop(said)
        return not ended.answer.asks_for_tools, "default"

    def _described(self, **more: Any) -> Mapping[str, Any]:
        describe = self._options.describe
        if describe is None:
            return {}
        try:
            said: Any = describe(self._call(**more))
            if said is None or is_object(said):
                return fields(said)
            _drop(said)
        except Exception:  # noqa: BLE001, S110 -- The error may contain values of the call.
            pass
        self._describe_failed = True
        _warn_once()
        return {}


def starts_runs(runs: Runs) -> Any:
    """Returns where to start a call; for a client, its current run in this context."""
    return runs() if callable(runs) else runs


def quietly(act: Callable[[], T]) -> T | None:
    """Suppresses every exception of the capture within a call of the application."""
    try:
        return act()
    except Exception:  # noqa: BLE001 -- The message may contain values of events.
        return None


def is_time_out(error: BaseException | None) -> bool:
    """Whether the error or one of its causes is a timeout, by class; errors handled earlier do not count."""
    for _ in range(5):
        if error is None:
            return False
        if re.search(r"timed?_?out", type(error).__name__, re.IGNORECASE):
            return True
        error = error.__cause__
    return False


def _failure(ended: Ended) -> dict[str, Any]:
    """Returns the class name only: library messages may repeat the request."""
    answer, error = ended.answer, ended.error
    name = ended.error_name or answer.error_name
    if name is None and error is not None:
        name = word(type(error).__name__) or "unknown"
    said = (ended.status, answer.status, *(_asked(error, name) for name in ("status", "status_code")))
    status = next((each for each in map(failure_status, said) if each is not None), None)
    return present(error_name=name, status=status)


def _asked(error: object, name: str) -> object:
    return quietly(lambda: getattr(error, name, None))


def _with(own: Mapping[str, Any], more: object) -> Any:
    """Adds members; a value that is not a mapping is left for the client to refuse."""
    return {**own, **more} if is_object(more) else own if more is None else more


def _items(value: object) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []


def _drop(said: object) -> None:
    """Closes a coroutine, so that Python does not warn about it."""
    if inspect.iscoroutine(said):
        said.close()


_warnings = itertools.count()


def _warn_once() -> None:
    if next(_warnings) == 0:
        sentence = "describe raised or returned no dict; no words are recorded"
        quietly(lambda: warnings.warn(sentence, RuntimeWarning, stacklevel=2))


def counts(request: Mapping[str, Any], messages: object) -> dict[str, Any]:
    """Returns the parameters of a request, without words."""
    return {
        "message_count": len(list_of(messages)) if is_list(messages) else 1,
        "tool_count": len(list_of(request.get("tools"))),
        "streamed": request.get("stream") is True,
    }
