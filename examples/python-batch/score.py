"""Scores a data frame with a risk model, one run for each row, and reports outcomes later.

python score.py                                  scores, and writes predictions.csv
python score.py outcome ADMISSION contradicted   reports an outcome, by the ids in predictions.csv
"""

import math
import sys
import uuid

import pandas as pd

from clinical_events import Client
from clinical_events.integrations.sklearn import Prediction, capture

PREDICTIONS = "predictions.csv"


class SepsisRisk:
    """Made by hand, with the method of scikit-learn for predictions."""

    classes_ = ("no sepsis", "sepsis")

    def predict_proba(self, frame: pd.DataFrame) -> list[list[float]]:
        weighted = 0.04 * (frame["heart_rate"] - 80) + 0.5 * (frame["lactate"].fillna(1.0) - 1) - 2
        risks = [1 / (1 + math.exp(-value)) for value in weighted]
        return [[1 - risk, risk] for risk in risks]


def score(log: Client) -> None:
    frame = pd.DataFrame(
        {"heart_rate": [88, 121, 97], "lactate": [1.1, 4.2, None]},
        index=["admission-1", "admission-2", "admission-3"],
    )
    run_ids = {admission: str(uuid.uuid4()) for admission in frame.index}

    def describe(call: object) -> dict[str, object]:
        prediction: Prediction = call.request
        admission = prediction.index[0]
        return {
            "run_id": run_ids[admission],
            "target": {"target_id": admission, "target_type": "encounter"},
            "user": {"caller_id": "nightly-batch", "caller_type": "service"},
        }

    model = capture(
        SepsisRisk(), log, model_id="sepsis-risk", model_version="3.1", values=True, describe=describe
    )
    risks = [row[1] for row in model.predict_proba(frame)]
    frame.assign(risk=risks, run_id=pd.Series(run_ids)).to_csv(PREDICTIONS, index_label="admission")
    print(f"{len(frame)} rows are scored; {PREDICTIONS} has the id of the run of each.")


def outcome(log: Client, admission: str, outcome_type: str) -> None:
    """Also months later, in another process: the id of the run is all that is needed."""
    run_id = pd.read_csv(PREDICTIONS, index_col="admission").loc[admission, "run_id"]
    log.run(run_id).outcome(outcome_type=outcome_type, description="From the discharge diagnosis.")
    print(f"Run {run_id} has an outcome now.")


if __name__ == "__main__":
    # From COLLECTOR_URL, COLLECTOR_KEY and COLLECTOR_SPOOL.
    with Client(app_name="python-batch") as log:
        if sys.argv[1:2] == ["outcome"]:
            outcome(log, *sys.argv[2:4])
        else:
            score(log)
        if not log.flush(10):
            print(f"{log.state.waiting} events wait for the next start.", file=sys.stderr)
