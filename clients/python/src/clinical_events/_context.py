"""Values that a web request binds to the runs that start within it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Binding(Protocol):
    """A binding for the runs of one client, ``log``."""

    log: object

    def said(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """Returns the ``user`` of a run that starts now, if any, and further ``metadata``. Does not raise."""

        ...


binding: ContextVar[Binding | None] = ContextVar("clinical_events.binding", default=None)
