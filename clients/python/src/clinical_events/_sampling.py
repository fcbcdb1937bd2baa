"""Which runs are captured, when not all are; what is left out is counted (docs/reference/sampling.md).

A run is decided as a whole, with the runs nested in it, when it begins. A risk, an outcome or feedback may
turn the decision, and then what is held of the run follows. Outcomes and feedback are always captured.
"""

# The runs of a sampler are its own.
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

#: What a held event takes beside its bytes, about.
_HELD_OVERHEAD = 512
_MOST_MODELS = 32
_MOST_VERSIONS = 1000
CAPTURED, HELD, LEFT_OUT = "captured", "held", "left out"


class Sampling:
    """Which runs are captured. Raises ValueError for what is no rate or size.

    ``rate`` is the share that chance selects. ``risk(kind, event)`` is asked for each event, as JSON, until
    it says that its run must be captured; one that raises has said so. Until then the events of runs that
    chance did not select are held, within three bounds: of runs, of seconds and of bytes. For
    ``after_model_change`` seconds after this process has first seen a version of a model,
    ``rate_after_model_change`` counts.
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
            raise ValueError("a rate of sampling is from 0 to 1")
        if not all(size >= 0 for size in (window_runs, window_seconds, window_bytes, after_model_change)):
            raise ValueError("the sizes and times of sampling are from 0 on")
        self.rate, self.risk = rate, risk
        self.window_runs, self.window_seconds, self.window_bytes = window_runs, window_seconds, window_bytes
        self.after_model_change, self.rate_after_model_change = after_model_change, rate_after_model_change


class SampledRun:
    """A run with the runs nested in it, as far as sampling is concerned."""

    __slots__ = ("_began", "_held", "_marks", "_risky", "_run_ids", "_sampler", "_state", "model")

    def __init__(self, sampler: Sampler, model: dict[str, Any], state: str, marks: dict[str, Any]) -> None:
        self.model = model
        self._sampler = sampler
        self._state = state
        #: What its starts carry.
        self._marks = marks
        self._began = _system.monotonic()
        self._risky = False
        self._run_ids: list[str] = []
        #: Of each event that waits: its kind, its bytes, and what captures it after all.
        self._held: list[tuple[str, int, Callable[[], object]]] = []


class Sampler:
    """Decides in one process."""

    def __init__(self, sampling: Sampling, on_warning: Callable[[str], None]) -> None:
        self._sampling = sampling
        self._on_warning = on_warning
        self._lock = _system.RLock()
        #: Runs that may still be brought in whole, selected ones too, the oldest first; and by their ids.
        self._window: OrderedDict[SampledRun, None] = OrderedDict()
        self._by_id: dict[str, SampledRun] = {}
        self._held_bytes = 0
        self._first_seen: OrderedDict[tuple[Any, Any], float] = OrderedDict()
        self.omissions = Omissions()

    def begin(self, run_id: str, model: dict[str, Any], outer: SampledRun | None) -> SampledRun:
        """A run begins; a nested one shares the decision. What a forked child inherits is its parent's."""
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
        """The run, if this process decides about it; by its id, if it is in the window."""
        return run if run is not None and run._sampler is self else self._by_id.get(run_id.lower())

    def judge(self, run: SampledRun | None, kind: str, event: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """What becomes of an event, and what its ``system_metadata.sampling`` says. Releases what is held."""
        self.expire()
        if run is None:
            return CAPTURED, {}
        marks = dict(run._marks) if kind == "inference-start" else {}
        risky = not run._risky and self._is_risky(kind, event)
        with guarded(self._lock):
            run._risky = run._risky or risky
            if not risky and kind not in ("outcome", "user-feedback"):
                return run._state, marks
            # Also of a run that chance selected: such runs are captured all, and others in proportion.
            if run in self._window:
                marks["trigger"] = "risk" if risky else kind
            run._state = CAPTURED
            held = self._let_go(run)
        for _, _, release in held:
            release()
        return CAPTURED, marks

    def hold(self, run: SampledRun, kind: str, size: int, release: Callable[[], object]) -> None:
        """Keeps an event of ``size`` bytes until its run is captured or has to go."""
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
        """The counts that an event is to carry, which count as told from now on; None without any."""
        with guarded(self._lock):
            return self.omissions.take() if self.omissions.events else None

    def put_back(self, told: dict[str, Any]) -> None:
        """The event that carried them was not captured."""
        with guarded(self._lock):
            self.omissions.put_back(told)

    def expire(self, *, all_of_them: bool = False) -> None:
        """Lets go of the runs for which the window has no room, and counts what is left out."""
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
        """For how many seconds this version has been known. One that comes back has not changed again."""
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
            # Not with the error: it may name values of the event.
            pass
        self._on_warning("the predicate of risk has raised or is a coroutine; the run is captured")
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
        self.told_at = _system.monotonic()

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
        told = {"since": self._since, "runs": self._runs, "events": self.events, "models": models}
        self.events, self._runs, self._since, self._models = 0, 0, _now(), {}
        self.told_at = _system.monotonic()
        return told

    def put_back(self, told: dict[str, Any]) -> None:
        self._since = told["since"]
        self._runs += told["runs"]
        self.events += told["events"]
        for one in told["models"]:
            self._count((one.get("model_id"), one.get("model_version")), one["runs"], one["events"])


def _now() -> str:
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
