"""Sampling: decides which runs are captured and counts those that are left out (docs/reference/sampling.md).

The decision is made when a run begins, and applies to the run and its nested runs. A risk, an outcome or
feedback may reverse it; then the held events are captured. Outcomes and feedback are always captured.
"""

# A sampler uses private members of its runs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
import time
from collections import OrderedDict

from . import _system
from ._guard import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Risk = Callable[[str, dict[str, Any]], bool]

# : Approximate memory of a held event in addition to its bytes.
_HELD_OVERHEAD = 512
_MOST_MODELS = 32
_MOST_VERSIONS = 1000
CAPTURED, HELD, LEFT_OUT = "captured", "held", "left out"


class Sampling:
    """Options of sampling. Raises ValueError for an invalid rate or size.

    ``rate`` is the share of runs that are selected at random. ``risk(kind, event)`` is called with each
    event, as JSON, until it returns true or raises; then the run is captured. Until then the events of runs
    that were not selected are held, within bounds of runs, seconds and bytes. For ``after_model_change``
    seconds after this process first saw a version of a model, ``rate_after_model_change`` applies.
    """

    def __init__(
        self,
        rate: float = 1.0,
        *,
        risk: Risk | None = None,
        window_runs: int = 1000,
        window_seconds: float = 600.0,
        window_bytes: int = 16 << 20,
        after_model_change: float = 0.0,
        rate_after_model_change: float = 1.0,
    ) -> None:
        if not (0 <= rate <= 1 and 0 <= rate_after_model_change <= 1):
            raise ValueError("a sampling rate must be from 0 to 1")
        if not all(size >= 0 for size in (window_runs, window_seconds, window_bytes, after_model_change)):
            raise ValueError("sampling sizes and times must be at least 0")
        self.rate, self.risk = rate, risk
        self.window_runs, self.window_seconds, self.window_bytes = window_runs, window_seconds, window_bytes
        self.after_model_change, self.rate_after_model_change = after_model_change, rate_after_model_change


class SampledRun:
    """The sampling state of a run and the runs nested in it."""

    __slots__ = ("_began", "_held", "_marks", "_risky", "_run_ids", "_sampler", "_state", "model")

    def __init__(self, sampler: Sampler, model: dict[str, Any], state: str, marks: dict[str, Any]) -> None:
        self.model = model
        self._sampler = sampler
        self._state = state
        #: The decision that its starts carry.
        self._marks = marks
        self._began = _system.monotonic()
        self._risky = False
        self._run_ids: list[str] = []
        #: For each held event: its kind, its bytes, and a function that captures it.
        self._held: list[tuple[str, int, Callable[[], object]]] = []


class Sampler:
    """Makes the decisions of one process."""

    def __init__(self, sampling: Sampling, on_warning: Callable[[str], None]) -> None:
        self._sampling = sampling
        self._on_warning = on_warning
        self._lock = _system.RLock()
        #: Runs whose decision may still change, selected ones included, the oldest first; and the same by id.
        self._window: OrderedDict[SampledRun, None] = OrderedDict()
        self._by_id: dict[str, SampledRun] = {}
        self._held_bytes = 0
        self._first_seen: OrderedDict[tuple[Any, Any], float] = OrderedDict()
        self.omissions = Omissions()

    def begin(self, run_id: str, model: dict[str, Any], outer: SampledRun | None) -> SampledRun:
        """Registers a run; a nested one shares the decision. A forked child makes its own decisions."""
        with guarded(self._lock):
            nested = outer is not None and outer._sampler is self
            run = outer if nested and outer is not None else self._decide(model)
            if self._sampling.risk is not None and not nested:
                self._window[run] = None
            if run in self._window:
                run._run_ids.append(run_id.lower())
                self._by_id[run_id.lower()] = run
            return run

    def known(self, run: SampledRun | None, run_id: str) -> SampledRun | None:
        """Returns the run if this process decides on it, or finds it by id in the window."""
        return run if run is not None and run._sampler is self else self._by_id.get(run_id.lower())

    def judge(self, run: SampledRun | None, kind: str, event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Returns the decision on an event and its ``system_metadata.sampling``. May release held events."""
        self.expire()
        if run is None:
            return CAPTURED, {}
        marks = dict(run._marks) if kind == "inference-start" else {}
        risky = not run._risky and self._is_risky(kind, event)
        with guarded(self._lock):
            run._risky = run._risky or risky
            if not risky and kind not in ("outcome", "user-feedback"):
                return run._state, marks
            # Evaluated for selected runs too: all risky runs are captured, the others in proportion to the
            # rate.
            if run in self._window:
                marks["trigger"] = "risk" if risky else kind
            run._state = CAPTURED
            held = self._let_go(run)
        for _, _, release in held:
            release()
        return CAPTURED, marks

    def hold(self, run: SampledRun, kind: str, size: int, release: Callable[[], object]) -> None:
        """Holds an event of ``size`` bytes until its run is captured or dropped."""
        with guarded(self._lock):
            late = run._state
            if late == HELD:
                run._held.append((kind, size + _HELD_OVERHEAD, release))
                self._held_bytes += size + _HELD_OVERHEAD
        if late == CAPTURED:
            release()
        elif late == LEFT_OUT:
            self.leave_out(kind, run)
        self.expire()

    def leave_out(self, kind: str, run: SampledRun) -> None:
        with guarded(self._lock):
            self.omissions.add(kind, run.model, 1)

    def take(self) -> dict[str, Any] | None:
        """Returns the counts for an event and marks them as reported; None when there are none."""
        with guarded(self._lock):
            return self.omissions.take() if self.omissions.events else None

    def put_back(self, reported: dict[str, Any]) -> None:
        """Takes the counts back when the event that carried them was not captured."""
        with guarded(self._lock):
            self.omissions.put_back(reported)

    def expire(self, *, all_of_them: bool = False) -> None:
        """Drops the runs for which the window has no room, and counts them as left out."""
        sampling = self._sampling
        with guarded(self._lock):
            now = _system.monotonic()
            for run in list(self._window):
                fits = len(self._window) <= sampling.window_runs and self._held_bytes <= sampling.window_bytes
                if fits and now - run._began < sampling.window_seconds and not all_of_them:
                    break
                if run._state == HELD:
                    run._state = LEFT_OUT
                for kind, _, _ in self._let_go(run):
                    self.omissions.add(kind, run.model, 1)

    def _decide(self, model: dict[str, Any]) -> SampledRun:
        sampling = self._sampling
        changed = self._age(model) < sampling.after_model_change
        rate = sampling.rate_after_model_change if changed else sampling.rate
        selected = int.from_bytes(os.urandom(7), "big") / (1 << 56) < rate
        state = CAPTURED if selected else LEFT_OUT if sampling.risk is None else HELD
        marks: dict[str, Any] = {"rate": rate, "selected": selected}
        if changed:
            marks["after_model_change"] = True
        return SampledRun(self, model, state, marks)

    def _age(self, model: dict[str, Any]) -> float:
        """Returns the seconds since this version was first seen. A version that returns is not a change."""
        name = (model.get("model_id"), model.get("model_version"))
        now = _system.monotonic()
        seen = self._first_seen.setdefault(name, now)
        if len(self._first_seen) > _MOST_VERSIONS:
            self._first_seen.popitem(last=False)
        return now - seen

    def _is_risky(self, kind: str, event: dict[str, Any]) -> bool:
        risk = self._sampling.risk
        if risk is None:
            return False
        try:
            answer: Any = risk(kind, event)
            if not hasattr(answer, "__await__"):
                return bool(answer)
            answer.close()
        except Exception:  # noqa: BLE001, S110
            # The error may contain values of the event, so it is not reported.
            pass
        self._on_warning("the risk predicate raised or is a coroutine; the run is captured")
        return True

    def _let_go(self, run: SampledRun) -> list[tuple[str, int, Callable[[], object]]]:
        self._window.pop(run, None)
        for run_id in run._run_ids:
            self._by_id.pop(run_id, None)
        held, run._held = run._held, []
        self._held_bytes -= sum(size for _, size, _ in held)
        return held


class Omissions:
    """Counts what was left out until an event reports it."""

    def __init__(self) -> None:
        self.events = 0
        self._runs = 0
        self._since = _now()
        self._models: dict[tuple[Any, Any], list[int]] = {}
        self.reported_at = _system.monotonic()

    def add(self, kind: str, model: dict[str, Any], events: int) -> None:
        runs = int(kind == "inference-start")
        self._count((model.get("model_id"), model.get("model_version")), runs, events)
        self._runs += runs
        self.events += events

    def _count(self, name: tuple[Any, Any], runs: int, events: int) -> None:
        if name in self._models or len(self._models) < _MOST_MODELS:
            counts = self._models.setdefault(name, [0, 0])
            counts[0] += runs
            counts[1] += events

    def take(self) -> dict[str, Any]:
        models = [
            {
                **({"model_id": name[0]} if isinstance(name[0], str) else {}),
                **({"model_version": name[1]} if isinstance(name[1], str) else {}),
                "runs": counts[0],
                "events": counts[1],
            }
            for name, counts in self._models.items()
        ]
        reported = {"since": self._since, "runs": self._runs, "events": self.events, "models": models}
        self.events, self._runs, self._since, self._models = 0, 0, _now(), {}
        self.reported_at = _system.monotonic()
        return reported

    def put_back(self, reported: dict[str, Any]) -> None:
        self._since = reported["since"]
        self._runs += reported["runs"]
        self.events += reported["events"]
        for one in reported["models"]:
            self._count((one.get("model_id"), one.get("model_version")), one["runs"], one["events"])


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
