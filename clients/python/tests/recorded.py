"""The events that a client in memory has captured, as they would be sent."""

from __future__ import annotations

import json
from typing import Any

from tests import support  # noqa: F401

from clinical_events import Client, Refused
from clinical_events._schema import KINDS


class Recorded(Client):
    """A client in memory that notes its refusals and warnings."""

    def __init__(self, **options: Any) -> None:
        self.refusals: list[tuple[str, str, Refused]] = []
        self.warnings: list[str] = []
        super().__init__(
            mode="memory",
            on_refused=lambda kind, event_id, error: self.refusals.append((kind, event_id, error)),
            on_warning=self.warnings.append,
            **options,
        )

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Kind and JSON of each event since the last time, in order."""
        spool = self._core().spool
        events: list[tuple[str, dict[str, Any]]] = []
        while spool is not None and (event := spool.take()) is not None:
            events.append((KINDS[event.kind], json.loads(event.body)))
            spool.settle(event, True)
        return events

    def endings(self) -> list[str]:
        """The ending and the name of the error of each event that ends a run."""
        artifacts = [event["artifact"] for kind, event in self.events() if kind == "internal-artifact"]
        return [
            f"{one['ending']} {one.get('error_name', '')}".strip() for one in artifacts if "ending" in one
        ]
