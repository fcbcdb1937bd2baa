"""The reasons why an event was not captured. No message repeats a value of an event: values are patient
data."""

from __future__ import annotations


class Refused(Exception):
    """An event was not captured.

    ``code`` is a short name that programs compare; ``pointer`` is the place in the event as a JSON Pointer
    (RFC 6901), empty for the event as a whole.
    """

    def __init__(self, message: str, *, code: str, pointer: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.pointer = pointer


class EventInvalid(Refused):
    """The event is not valid.

    ``code`` is ``validation_failed``, ``not_json``, ``nesting_too_deep`` or ``body_too_large``.
    """


class SpoolFull(Refused):
    """The disk, the quota or the spool is full. Captured events are never dropped to make room."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="spool_full")


class SpoolUnwritable(Refused):
    """The spool cannot be written.

    ``uncertain`` is true when a failed write could not be undone: the event may then be found after a crash.
    """

    def __init__(self, message: str, *, uncertain: bool = False) -> None:
        super().__init__(message, code="spool_unwritable")
        self.uncertain = uncertain


class SpoolRefused(Refused):
    """The spool has an earlier format, or other users own it or can write to it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="spool_refused")


class ContentNotStored(Refused):
    """The content that the event refers to could not be stored, so the event was not captured either."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="content_not_stored")


class ClientClosed(Refused):
    """The event was captured after ``close``."""

    def __init__(self) -> None:
        super().__init__("the client is closed", code="client_closed")
