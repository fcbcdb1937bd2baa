"""scikit-learn, numpy and pandas: models, data and predictions of every form that they have."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted
from tests.recording import Log

from clinical_events.integrations.sklearn import capture

CHANCE = np.random.default_rng(39)
X = CHANCE.normal(size=(60, 3))
Y = (X.sum(axis=1) > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["age", "lactate", "rate"], index=[f"p-{at}" for at in range(60)])


def told(log: Log) -> list[Any]:
    return [end["prediction"] for end in log.ends]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("data", [X, FRAME, X.tolist(), sparse.csr_matrix(X), X.astype(np.float32)])
def test_exact(method: str, data: Any) -> None:
    """[R-1798] Features and predictions are, to the last bit, those of the model."""
    model = LogisticRegression().fit(X, Y)
    log = Log()
    captured = capture(model, log, model_id="sepsis", model_version="3", values=True)
    result = getattr(captured, method)(data)
    assert np.array_equal(result, getattr(model, method)(data))
    assert told(log) == result.tolist()
    assert log.starts[0]["model"] == {"model_id": "sepsis", "model_version": "3", "provider": "sklearn"}
    features = [start["inputs"]["features"] for start in log.starts]
    if data is FRAME:
        assert pd.DataFrame(features, index=FRAME.index).equals(FRAME)
    else:
        plain = data.toarray() if sparse.issparse(data) else np.asarray(data)
        assert features == plain.tolist()
    if method == "predict_proba":
        assert log.ends[0]["classes"] == [0, 1]


def test_mixed_frame() -> None:
    """Whole numbers, texts, times and missing values are unchanged, in any mix."""

    class Any_:
        def predict(self, data: Any) -> Any:
            return np.zeros(len(data))

    frame = pd.DataFrame(
        {
            "big": [2**53 - 1, 3],
            "text": ["a", None],
            "missing": [0.1, np.nan],
            "time": pd.to_datetime(["2026-01-01", None]),
            "whole": pd.array([1, None], dtype="Int64"),
            "flag": [True, False],
        }
    )
    log = Log()
    capture(Any_(), log, values=True).predict(frame)
    assert [start["inputs"]["features"] for start in log.starts] == [
        {
            "big": 2**53 - 1,
            "text": "a",
            "missing": 0.1,
            "time": "2026-01-01T00:00:00",
            "whole": 1,
            "flag": True,
        },
        {"big": 3, "text": None, "missing": None, "time": None, "whole": None, "flag": False},
    ]


def test_missing_values() -> None:
    """A model that takes missing values has null where they are."""
    data = X.copy()
    data[0, 0] = np.nan
    log = Log()
    capture(HistGradientBoostingClassifier().fit(data, Y), log, values=True).predict(data)
    assert log.starts[0]["inputs"]["features"][0] is None


@pytest.mark.parametrize("per", ["row", "call"])
def test_sampling(per: Any) -> None:
    """[R-1798] A sample of rows is marked, and keeps each row with its prediction and its label."""
    model = LinearRegression().fit(FRAME, X.sum(axis=1))
    log, labels = Log(), []

    def describe(call: Any) -> dict[str, Any]:
        labels.extend(call.request.index if call.answer is None else [])
        return {}

    result = capture(model, log, values=True, per=per, max_rows=7, describe=describe).predict(FRAME)
    assert len(result) == 60
    assert [(s["inputs"]["row_count"], s["inputs"]["captured_rows"]) for s in log.starts] == [(60, 7)] * len(
        log.starts
    )
    expected = pd.Series(result, index=FRAME.index)[labels].tolist()
    assert (told(log) if per == "row" else log.ends[0]["predictions"]) == expected
    assert len(labels) == 7


def test_several_outputs() -> None:
    """Models of several outputs, and those with probabilities, have all of them for each row."""
    outputs = np.stack([Y, 1 - Y], axis=1)
    forest = RandomForestClassifier(n_estimators=3, random_state=0).fit(X, outputs)
    log = Log()
    arrays = capture(forest, log, values=True).predict_proba(X)
    assert told(log)[5] == [each[5].tolist() for each in arrays]
    log = Log()
    mean, doubt = capture(GaussianProcessRegressor().fit(X, Y), log, values=True).predict(X, return_std=True)
    assert told(log)[5] == [mean[5], doubt[5]]


def test_replaces_the_model() -> None:
    """[R-1798] Pipelines and tools for models accept a captured model as its model."""
    pipeline = make_pipeline(StandardScaler(), SVC())
    log = Log()
    captured = capture(pipeline, log, values=True)
    with pytest.raises(NotFittedError):
        captured.predict(X)
    assert [(end["ending"], end["error_name"]) for end in log.ends] == [("failed", "NotFittedError")]
    log.events.clear()
    captured.fit(X, Y)
    check_is_fitted(captured)
    assert captured.score(X, Y) > 0.5
    assert not log.events
    assert captured.named_steps["svc"].C == 1.0
    assert type(clone(captured.named_steps["svc"])) is SVC
    captured.decision_function(FRAME.to_numpy())
    assert len(log.starts) == 60
    with pytest.raises(AttributeError):
        captured.predict_proba(X)
    assert cross_val_predict(pipeline, X, Y).shape == (60,)


def test_no_values() -> None:
    """[R-1798] Without values=True the events have the names of columns, and no number of a row."""
    log = Log()
    capture(LinearRegression().fit(FRAME, Y), log, per="call").predict(FRAME)
    assert log.starts[0]["inputs"]["feature_names"] == list(FRAME.columns)
    assert str(X[0, 0]) not in json.dumps(log.events)
