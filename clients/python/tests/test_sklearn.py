"""Predictions of models like those of scikit-learn, whose data are recognised by their methods."""

from __future__ import annotations

import copy
import json
import pickle
import unittest
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests import support  # noqa: F401  # The sources on the path.
from tests.recording import Log

from clinical_events import Client
from clinical_events.integrations._call import DescribedCall
from clinical_events.integrations.sklearn import Prediction, capture

WORDS = "the patient has fever"


class Array:
    """As numpy has it, of one dimension or two."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, ...]:
        return (
            len(self.values),
            *((len(self.values[0]),) if self.values and _is_row(self.values[0]) else ()),
        )

    def __getitem__(self, picked: Any) -> Any:
        return Array([self.values[at] for at in picked])

    def tolist(self) -> list[Any]:
        return self.values

    def __iter__(self) -> Any:
        return iter(self.values)


def _is_row(value: Any) -> bool:
    return isinstance(value, list)


class Frame:
    """As pandas has it."""

    def __init__(self, columns: list[str], rows: list[list[Any]], index: list[Any]) -> None:
        self.columns = columns
        self.rows = rows
        self.index = Array(index)
        self.shape = (len(rows), len(columns))

    @property
    def iloc(self) -> Frame:
        return self

    def __getitem__(self, picked: list[int]) -> Frame:
        rows, index = ([of[at] for at in picked] for of in (self.rows, self.index.values))
        return Frame(self.columns, rows, index)

    def itertuples(self, index: bool, name: str | None) -> Any:
        assert not index
        assert name is None
        return map(tuple, self.rows)


class Scalar:
    """As numpy has it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value


class Risk:
    """Predicts for each row the sum of its numbers."""

    def __init__(self, result: Callable[[Any], Any] | None = None) -> None:
        self.threshold = 0.5
        self.result = result
        self.feature_names_in_: Any = None

    def predict(self, X: Any, scale: float = 1.0) -> Any:
        if self.result is not None:
            return self.result(X)
        return Array([scale * self.score(row) for row in getattr(X, "rows", X)])

    def score(self, row: Any) -> float:
        return float(sum(row))

    def predict_proba(self, X: Any) -> Any:
        return Array([[0.25, 0.75] for _ in self.predict(X).values])

    classes_ = Array(["well", "ill"])


FRAME = Frame(["age", "Heart rate"], [[71, 90.5], [64, 60.0], [5, 0.1]], ["p-1", "p-2", "p-3"])


class Capture(unittest.TestCase):
    def setUp(self) -> None:
        self.log = Log()

    def capture(self, model: Any = None, **options: Any) -> Any:
        said = {"model_id": "sepsis", "model_version": "3.1", **options}
        return capture(model or Risk(), self.log, **said)

    def test_a_run_for_each_row(self) -> None:
        """[R-1798] Each row is a run: the model's name and version, the features by name, the prediction."""
        result = self.capture(values=True).predict(FRAME)
        self.assertEqual(result.values, [161.5, 124.0, 5.1])
        self.assertEqual(len(self.log.starts), 3)
        start, end = self.log.starts[0], self.log.ends[0]
        self.assertEqual(
            start["model"],
            {"model_id": "sepsis", "model_version": "3.1", "provider": __name__.partition(".")[0]},
        )
        inputs = {"method": "predict", "row": 0, "row_count": 3, "feature_count": 2}
        self.assertEqual(start["inputs"], {**inputs, "features": {"age": 71, "Heart rate": 90.5}})
        self.assertEqual((end["ending"], end["kind"], end["prediction"]), ("complete", "human-output", 161.5))
        self.assertEqual(end["metadata"], {"instrumentation": {"by": "sklearn", "shown_by": "default"}})
        self.assertLessEqual(start["timestamp"], end["timestamp"])
        self.assertGreaterEqual(end["latency_ms"], 0)

    def test_a_run_for_each_call(self) -> None:
        """[R-1798] A call is a run, with the names of its columns, its rows and its predictions in order."""
        self.capture(per="call", values=True).predict_proba(FRAME)
        (start,), (end,) = self.log.starts, self.log.ends
        inputs = {"method": "predict_proba", "row_count": 3, "feature_count": 2}
        names = {"feature_names": ["age", "Heart rate"]}
        self.assertEqual(start["inputs"], {**inputs, **names, "rows": FRAME.rows})
        self.assertEqual((end["predictions"], end["classes"]), ([[0.25, 0.75]] * 3, ["well", "ill"]))

    def test_no_values(self) -> None:
        """[R-1798] Without values=True no value of a row or prediction is in the events."""
        for per in ("row", "call"):
            self.capture(per=per).predict(Frame(["age"], [[987654]], [WORDS]))
        written = json.dumps(self.log.events)
        self.assertNotIn("987654", written)
        self.assertNotIn(WORDS, written)
        self.assertEqual([start["inputs"]["row_count"] for start in self.log.starts], [1, 1])

    def test_sampling(self) -> None:
        """[R-1798] Of a call with more rows max_rows are captured, and every start has their number."""
        rows = [[at] for at in range(1000)]
        for data in (rows, Array(rows), Frame(["n"], rows, list(range(1000)))):
            self.log.events.clear()
            model = self.capture(Risk(lambda _: Array(list(range(1000)))), values=True, max_rows=10)
            self.assertEqual(len(model.predict(data).values), 1000)
            inputs = [start["inputs"] for start in self.log.starts]
            self.assertEqual(
                [(each["row_count"], each["captured_rows"]) for each in inputs], [(1000, 10)] * 10
            )
            features = [list(dict(enumerate(_values(each["features"]))).values()) for each in inputs]
            self.assertEqual([[end["prediction"]] for end in self.log.ends], features)
            self.assertEqual([each["row"] for each in inputs], sorted(row for (row,) in features))
        self.log.events.clear()
        self.capture(Risk(lambda _: Array(list(range(1000)))), values=True, max_rows=10, per="call").predict(
            rows
        )
        self.assertEqual(
            [[at] for at in self.log.ends[0]["predictions"]], self.log.starts[0]["inputs"]["rows"]
        )
        self.log.events.clear()
        self.capture(max_rows=3).predict(FRAME)
        self.assertEqual(len(self.log.starts), 3)
        self.assertNotIn("captured_rows", self.log.starts[0]["inputs"])

    def test_exact_numbers(self) -> None:
        """[R-1798] Numbers are unchanged; those outside JSON are null or text."""
        values = [
            0.1,
            Scalar(3),
            True,
            None,
            float("nan"),
            float("-inf"),
            2**53 + 1,
            Decimal("0.10"),
            object(),
        ]
        self.capture(Risk(lambda _: [[Scalar(0.1), "\ud800", 1]]), values=True).predict([values])
        told = [0.1, 3, True, None, None, "-inf", "9007199254740993", "0.10", None]
        self.assertEqual(self.log.starts[0]["inputs"]["features"], told)
        self.assertEqual(self.log.ends[0]["prediction"], [0.1, "\ufffd", 1])
        self.assertEqual(self.log.ends[0]["unread_values"], 1)

    def test_failed(self) -> None:
        """[R-1798] An error reaches the application unchanged, as one failed run without its message."""

        def failing(_: Any) -> Any:
            raise KeyError(WORDS)

        with self.assertRaisesRegex(KeyError, WORDS):
            self.capture(Risk(failing)).predict(FRAME)
        (start,), (end,) = self.log.starts, self.log.ends
        self.assertEqual(
            (end["ending"], end["error_name"], end["kind"]), ("failed", "KeyError", "internal-artifact")
        )
        self.assertEqual(start["inputs"]["row_count"], 3)
        self.assertNotIn(WORDS, json.dumps(self.log.events))

        def interrupted(_: Any) -> Any:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.capture(Risk(interrupted)).predict(FRAME)
        self.assertEqual(self.log.ends[1]["ending"], "aborted")

    def test_described(self) -> None:
        """The application sets the person and the run of a row, and whether a person is shown it."""
        runs = {
            label: f"00000000-0000-4000-8000-00000000000{at}" for at, label in enumerate(FRAME.index.values)
        }

        def describe(call: DescribedCall) -> dict[str, Any]:
            about: Prediction = call.request
            said = {"target": {"target_id": about.index[0]}, "run_id": runs[about.index[0]]}
            return {
                **said,
                "output": {"summary": f"{about.predictions[0]:.1f}"} if about.row["age"] > 60 else None,
            }

        self.capture(describe=describe).predict(FRAME)
        self.assertEqual([start["target"]["target_id"] for start in self.log.starts], list(runs))
        self.assertEqual([start["run_id"] for start in self.log.starts], list(runs.values()))
        self.assertEqual([end.get("summary") for end in self.log.ends], ["161.5", "124.0", None])
        self.log.events.clear()
        self.capture(shown=False).predict(FRAME)
        self.assertEqual([end["kind"] for end in self.log.ends], ["internal-artifact"] * 3)

    def test_describe_that_fails(self) -> None:
        """A describe that fails loses only the words of the event."""

        def failing(_: Any) -> Any:
            raise ValueError(WORDS)

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(self.capture(describe=failing).predict(FRAME).values[0], 161.5)
        self.assertEqual(len(self.log.ends), 3)
        self.assertTrue(self.log.ends[0]["metadata"]["instrumentation"]["describe_failed"])
        self.assertEqual(self.log.starts[0]["model"]["model_version"], "3.1")

    def test_data_of_other_forms(self) -> None:
        """Data that cannot be read, several outputs, and rows that are fewer than predictions lose no run."""
        forms: list[tuple[Any, Any, list[Any]]] = [
            (iter([[1]]), [7, 8], [7, 8]),
            ([[1], [2]], [Array([1, 2]), Array([3, 4])], [[1, 3], [2, 4]]),
            ([[1], [2]], (Array([1, 2]), Array([3, 4])), [[1, 3], [2, 4]]),
            ([1, 2], Array([1, 2]), [1, 2]),
        ]
        for data, result, expected in forms:
            self.log.events.clear()
            self.capture(Risk(lambda _, result=result: result), values=True).predict(data)
            told = [end.get("prediction", end.get("predictions")) for end in self.log.ends]
            self.assertEqual(told, expected)
            self.assertIs(
                self.log.starts[0]["inputs"].get("unread_rows"), None if isinstance(data, list) else True
            )
        named = Risk(lambda data: Array([1]))
        named.feature_names_in_ = Array(["age", "rate"])
        for row, features in [([1, 2], {"age": 1, "rate": 2}), ([1, 2, 3], [1, 2, 3])]:
            self.log.events.clear()
            self.capture(named, values=True).predict([row])
            self.assertEqual(self.log.starts[0]["inputs"]["features"], features)
        self.log.events.clear()
        self.capture(Risk(lambda _: 5)).predict(5)
        self.assertEqual([end["ending"] for end in self.log.ends], ["complete"])
        self.log.events.clear()
        self.assertEqual(self.capture().predict([]).values, [])
        self.assertEqual(self.log.events, [])

    def test_replaces_the_model(self) -> None:
        """[R-1798] A captured model behaves like the model, and its own calls are captured once."""
        model = Risk()
        captured = self.capture(model)
        self.assertEqual(captured.threshold, 0.5)
        captured.threshold = 0.7
        self.assertEqual((model.threshold, captured.score([1, 2])), (0.7, 3.0))
        self.assertEqual(captured.predict(X=[[1]], scale=2.0).values, [2.0])
        captured.predict_proba([[1]])
        methods = [start["inputs"]["method"] for start in self.log.starts]
        self.assertEqual(methods, ["predict", "predict_proba"])
        self.assertFalse(hasattr(captured, "decision_function"))
        self.assertIn("predict", dir(captured))
        for act in (pickle.dumps, copy.copy):
            with self.assertRaisesRegex(TypeError, "pickle the model itself"):
                act(captured)

    def test_mistakes(self) -> None:
        """A mistake in the code raises where it is made."""
        for options in ({"per": "batch"}, {"max_rows": 0}, {"max_rows": True}, {"shown": 3}, {"describe": 3}):
            with self.assertRaises(ValueError):
                capture(Risk(), self.log, **options)
        with self.assertRaisesRegex(TypeError, "neither predict"):
            capture(object(), self.log)
        self.assertEqual(capture(Risk(), lambda: self.log).predict([[1]]).values, [1.0])
        self.assertEqual(self.log.starts[0]["model"]["model_id"], "Risk")

    def test_a_log_that_fails(self) -> None:
        """The prediction is returned even if the events fail."""
        self.assertEqual(capture(Risk(), lambda: None).predict([[1]]).values, [1.0])

    def test_client(self) -> None:
        """The events are valid for the client."""
        refused: list[Any] = []
        log = Client(mode="memory", on_warning=lambda _: None, on_refused=lambda *said: refused.append(said))
        for per in ("row", "call"):
            capture(Risk(), log, values=True, per=per).predict(FRAME)
        spool = log._core().spool
        events = [json.loads(event.body) for event in iter(spool.take, None)]
        self.assertEqual(refused, [])
        self.assertEqual(len(events), 8)
        self.assertEqual(events[1]["output"]["prediction"], 161.5)
        log.close(0)


def _values(features: Any) -> list[Any]:
    return list(features.values()) if isinstance(features, dict) else features


if __name__ == "__main__":
    unittest.main()
