"""Captures predictions of scikit-learn-like models from arrays, data frames and lists.

No library is imported: a model has ``predict``, ``predict_proba`` or ``decision_function``, and kinds of data
are recognised by their methods.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from .._system import monotonic
from ._call import Begun, Describe, Ended, ModelCall, Options, Runs, Shown, quietly
from ._readers import Answer
from ._readers._answer import model_name, present, word

__all__ = ["Prediction", "capture"]

_METHODS = ("predict", "predict_proba", "decision_function")
# A larger integer is not exact in every reader of JSON (RFC 8259, section 6).
_MOST = 2**53
# Maximum number of column names in an event.
_MOST_NAMES = 4096
_RANDOM = random.SystemRandom()


@dataclass(frozen=True)
class Prediction:
    """The ``request`` that ``describe`` and ``shown`` receive: the rows of one run as they were given.

    ``index`` has the row labels of the data frame, or the row numbers; ``predictions`` is None when the call
    failed.
    """

    method: str
    names: Sequence[str] | None
    rows: Sequence[Sequence[Any]]
    index: Sequence[Any]
    predictions: Sequence[Any] | None

    @property
    def row(self) -> dict[str, Any]:
        """The first row, by column name."""
        row = self.rows[0] if self.rows else ()
        names = self.names if self.names is not None else [str(at) for at in range(len(row))]
        return dict(zip(names, row, strict=False))


def capture(
    model: Any,
    log: Runs,
    *,
    model_id: str | None = None,
    model_version: str | None = None,
    per: Literal["row", "call"] = "row",
    values: bool = False,
    max_rows: int | None = None,
    describe: Describe | None = None,
    shown: Shown | None = None,
) -> Any:
    """Returns a wrapper that behaves like ``model`` and captures its predictions.

    ``per``: one run for each row, or one for each call. ``values``: events hold the exact values of features
    and predictions; otherwise only counts and column names, since values are patient data. A missing number
    is null; infinity and an integer beyond 2**53 are text.

    ``max_rows``: a random sample of this size is captured from a call with more rows, and each start has
    ``captured_rows`` in addition to ``row_count``. ``log``, ``describe`` and ``shown`` are as in every
    integration; ``request`` is a ``Prediction``. An error of the model is captured as one run and raised. The
    capture itself does not raise.
    """
    if per not in ("row", "call"):
        raise ValueError("per must be 'row' or 'call'")
    if max_rows is not None and (type(max_rows) is not int or max_rows < 1):
        raise ValueError("max_rows must be at least 1, or None")
    if not any(hasattr(model, name) for name in _METHODS):
        raise TypeError("the model has neither predict nor predict_proba nor decision_function")
    name = model_name(model_id) or type(model).__name__
    options = Options(describe=describe, shown=shown)
    return _Captured(model, _Capture(model, log, name, model_version, per, values, max_rows, options))


class _Captured:
    """A wrapper of a model with the model's attributes."""

    __slots__ = ("_capture", "_model")
    _capture: _Capture
    _model: Any

    def __init__(self, model: Any, capture: _Capture) -> None:
        object.__setattr__(self, "_model", model)
        object.__setattr__(self, "_capture", capture)

    def __getattr__(self, name: str) -> Any:
        if name in self.__slots__:  # Called before the model is set, for example in a copy.
            raise AttributeError(name)
        value: Any = getattr(self._model, name)
        return self._capture.around(name, value) if name in _METHODS and callable(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._model, name, value)

    def __dir__(self) -> list[str]:
        return dir(self._model)

    def __repr__(self) -> str:
        return f"captured {self._model!r}"

    def __reduce__(self) -> Any:
        raise TypeError("a captured model has a client, which cannot be pickled; pickle the model itself")


@dataclass(frozen=True)
class _Capture:
    model: Any
    log: Runs
    model_id: str
    model_version: str | None
    per: str
    values: bool
    max_rows: int | None
    options: Options

    def around(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def predicting(*args: Any, **kwargs: Any) -> Any:
            moment = _Moment(name, args[0] if args else next(iter(kwargs.values()), None))
            try:
                result = method(*args, **kwargs)
            except BaseException as error:
                self._captured(moment, None, error)
                raise
            self._captured(moment, result, None)
            return result

        predicting.__name__ = name
        return predicting

    def _captured(self, moment: _Moment, result: Any, error: BaseException | None) -> None:
        try:
            self._report(moment, result, error)
        except Exception as trouble:  # noqa: BLE001  # The message may contain values.
            sentence = f"a prediction could not be captured ({type(trouble).__name__})"
            quietly(lambda: warnings.warn(sentence, RuntimeWarning, stacklevel=4))

    def _report(self, moment: _Moment, result: Any, error: BaseException | None) -> None:
        moment.end()
        data = moment.data
        count = _count(data)
        names = _names(data) or _names(self.model, "feature_names_in_")
        picked: list[int] | None = None
        if self.max_rows is not None and count is not None and count > self.max_rows:
            picked = sorted(_RANDOM.sample(range(count), self.max_rows))
        rows = [_as_row(row) for row in quietly(lambda: _rows(data, picked)) or []]
        made = quietly(lambda: _predictions(result, count, picked)) if error is None else None
        index = quietly(lambda: _index(data, picked)) or picked or range(len(rows or made or ()))
        said = present(
            row_count=count if count is not None else len(made) if made is not None else None,
            captured_rows=len(picked) if picked is not None else None,
            feature_count=len(rows[0]) if rows else len(names) if names else None,
            unread_rows=True if not rows and count != 0 else None,
        )
        each_row = self.per == "row" and made is not None and len(made) == len(rows or made)
        if not each_row:
            said.update(present(feature_names=_reported(names)))
            self._run(moment, Prediction(moment.method, names, rows, list(index), made), said, error)
            return
        for at, prediction in enumerate(made or ()):
            row = rows[at : at + 1]
            number = picked[at] if picked is not None else at
            one = Prediction(moment.method, names, row, list(index[at : at + 1]), [prediction])
            self._run(moment, one, {"row": number, **said}, None, is_row=True)

    def _run(
        self,
        moment: _Moment,
        about: Prediction,
        said: dict[str, Any],
        error: BaseException | None,
        *,
        is_row: bool = False,
    ) -> None:
        unread: list[str] = []
        inputs: dict[str, Any] = {"method": about.method, **said}
        facts: dict[str, Any] = {"method": about.method}
        if self.values:
            rows = [[_exact(value, unread) for value in row] for row in about.rows]
            names = about.names or ()
            is_named = len(rows) > 0 and len(set(names)) == len(names) == len(rows[0])
            if not is_row:
                inputs["rows"] = rows
            elif rows:
                inputs["features"] = dict(zip(names, rows[0], strict=True)) if is_named else rows[0]
            if about.predictions is not None:
                reported = [_exact(value, unread) for value in about.predictions]
                facts["prediction" if is_row else "predictions"] = reported[0] if is_row else reported
            if about.method == "predict_proba":
                classes = _rows(getattr(self.model, "classes_", ()), None)
                facts["classes"] = [_exact(name, unread) for name in classes]
        if unread:
            facts["unread_values"] = len(unread)
        begun = Begun(
            by="sklearn",
            provider=word(type(self.model).__module__.partition(".")[0]) or "unknown",
            model=self.model_id,
            model_version=self.model_version,
            request=about,
            inputs=inputs,
            started_at=moment.started_at,
            timestamp=moment.began,
        )
        aborted = error is not None and not isinstance(error, Exception)
        ended = Ended(
            ending="complete" if error is None else "aborted" if aborted else "failed",
            answer=_Scores(facts),
            error=error,
            timestamp=moment.ended,
            latency_ms=moment.latency_ms,
        )
        ModelCall(self.log, self.options, begun).end(ended)


class _Moment:
    """A call and its time."""

    def __init__(self, method: str, data: Any) -> None:
        self.method = method
        self.data = data
        self.began = datetime.now(timezone.utc)
        self.started_at = monotonic()
        self.ended = self.began
        self.latency_ms = 0.0

    def end(self) -> None:
        self.ended = datetime.now(timezone.utc)
        self.latency_ms = (monotonic() - self.started_at) * 1000


class _Scores(Answer):
    """The answer of a prediction: numbers that a person can be shown."""

    def __init__(self, facts: dict[str, Any]) -> None:
        super().__init__()
        self._facts = facts

    @property
    def has_content(self) -> bool:
        return True

    @property
    def output_type(self) -> str:
        return "prediction"

    @property
    def facts(self) -> dict[str, Any]:
        return self._facts


# Kinds of data, by their methods: numpy-like arrays, pandas and polars frames, sparse matrices, lists.


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _count(data: Any) -> int | None:
    shape = getattr(data, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[0])
    return len(data) if _is_list(data) else None


def _names(data: Any, attribute: str = "columns") -> list[str] | None:
    columns = getattr(data, attribute, None)
    return None if columns is None else [str(name) for name in columns]


def _reported(names: list[str] | None) -> list[str] | None:
    return [model_name(name) or "" for name in names[:_MOST_NAMES]] if names is not None else None


def _rows(data: Any, picked: list[int] | None) -> list[Any]:
    """Returns the rows with these numbers, or all, as Python scalars if the data supports that."""
    if hasattr(data, "iloc"):
        part = data if picked is None else data.iloc[picked]
        return list(part.itertuples(index=False, name=None) if hasattr(part, "itertuples") else part)
    if hasattr(data, "iter_rows"):
        return list((data if picked is None else data[picked]).iter_rows())
    if hasattr(data, "toarray"):
        return list((data if picked is None else data.tocsr()[picked]).toarray().tolist())
    if hasattr(data, "tolist"):
        return list((data if picked is None else data[picked]).tolist())
    if not _is_list(data):  # An iterator can be read once, and the model needs it.
        raise TypeError
    return list(data) if picked is None else [data[at] for at in picked]


def _as_row(row: Any) -> Sequence[Any]:
    listed: Any = row.tolist() if hasattr(row, "tolist") else row
    return listed if _is_list(listed) else [listed]


def _index(data: Any, picked: list[int] | None) -> list[Any] | None:
    index = getattr(data, "index", None)
    return _rows(index, None if picked is None else picked) if hasattr(index, "tolist") else None


def _predictions(result: Any, count: int | None, picked: list[int] | None) -> list[Any]:
    """Returns one prediction for each row, even if several outputs come as a list of arrays."""
    several = _is_list(result) and any(hasattr(each, "shape") for each in result)
    if several and all(_count(each) == count for each in result):
        return [list(row) for row in zip(*(_rows(each, picked) for each in result), strict=True)]
    return _rows(result, picked)


def _exact(value: Any, unread: list[str], depth: int = 0) -> Any:
    """Converts to JSON: text where JSON has no number, null (and counted) for other types."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int:
        return value if abs(value) <= _MOST else str(value)
    if type(value) is float:
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if _is_list(value) and depth < 8:
        return [_exact(each, unread, depth + 1) for each in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if type(value).__name__ in ("Decimal", "datetime64"):
        return str(value)
    for name in ("isoformat", "tolist", "item"):
        if hasattr(value, name) and depth < 8:
            plain = quietly(getattr(value, name))
            if plain is not None:
                return _exact(plain, unread, depth + 1)
    unread.append(type(value).__name__)
    return None
