"""Captures what a clinical AI does, writes it to disk before it is sent, and loses nothing."""

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
