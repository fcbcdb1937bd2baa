"""A log in memory with the interface of the client: the events that integrations make, as they make them."""

from __future__ import annotations

import json
import uuid
from typing import Any


class Run:
    """Records the calls of a run. A value outside JSON raises, as a client would refuse it."""

    def __init__(self, log: Log, outer: str | None, **said: Any) -> None:
        self.log = log
        self.id = said.pop("run_id", None) or str(uuid.uuid4())
        self.event_id = self.id
        log.take("inference-start", self.id, parent=outer, **said)

    def start_run(self, **said: Any) -> Run:
        return Run(self.log, self.event_id, **said)

    def artifact(self, artifact_type: str, **said: Any) -> None:
        if "artifact_uri" in said.get("fields", {}):
            raise ValueError("the run names its artifacts itself")
        self.log.take("internal-artifact", self.id, type=artifact_type, **said)

    def output(self, **said: Any) -> None:
        self.log.take("human-output", self.id, **said)


class Log:
    """A client."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def start_run(self, **said: Any) -> Run:
        return Run(self, None, **said)

    def take(self, kind: str, run_id: str, **said: Any) -> None:
        # On return the event is in the form of JSON, with its own and its schema's fields in one object.
        told = {**said, **said.pop("fields", {})}
        told.pop("fields", None)
        kept = json.dumps({"kind": kind, "run_id": run_id, **told}, default=str, allow_nan=False)
        kept.encode("utf-8")
        self.events.append(json.loads(kept))

    @property
    def starts(self) -> list[dict[str, Any]]:
        return self.of("inference-start")

    @property
    def ends(self) -> list[dict[str, Any]]:
        return [event for event in self.events if "ending" in event]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]
