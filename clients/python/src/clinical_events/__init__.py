"""Captures events of a clinical AI, stores them on disk before sending, and loses none."""

from ._client import Client, ClientState
from ._core import Captured
from ._errors import (
    ClientClosed,
    ContentNotStored,
    EventInvalid,
    Refused,
    SpoolFull,
    SpoolRefused,
    SpoolUnwritable,
)
from ._runs import Run, RunHandle, current_run
from ._sampling import Sampling

__all__ = [
    "Captured",
    "Client",
    "ClientClosed",
    "ClientState",
    "ContentNotStored",
    "EventInvalid",
    "Refused",
    "Run",
    "RunHandle",
    "Sampling",
    "SpoolFull",
    "SpoolRefused",
    "SpoolUnwritable",
    "current_run",
]
