"""Why an event was not captured. No message repeats a value of an event: values are patient data."""

from __future__ import annotations


class Refused(Exception):
    """An event was not captured.

    ``code`` is a short name that programs compare, ``pointer`` the place in the event as a JSON Pointer
    (RFC 6901), empty for the event as a whole.
    """

    def __init__(self, message: str, *, code: str, pointer: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.pointer = pointer


class EventInvalid(Refused):
    """The collector would not take the event.

    ``code`` is ``validation_failed``, ``not_json``, ``nesting_too_deep`` or ``body_too_large``.
    """


class SpoolFull(Refused):
    """The disk, the quota or the spool is full; nothing that was captured before makes room."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="spool_full")


class SpoolUnwritable(Refused):
    """The spool cannot be written.

    ``uncertain`` is true when the disk failed and what the write left could not be cut off: the event may
    then be found after a crash.
    """

    def __init__(self, message: str, *, uncertain: bool = False) -> None:
        super().__init__(message, code="spool_unwritable")
        self.uncertain = uncertain


class SpoolRefused(Refused):
    """The whole spool is refused: its format is earlier, or others than its user have or can write it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="spool_refused")


class ContentNotStored(Refused):
    """The content that the event refers to could not be stored, so the event was not captured either."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="content_not_stored")


class ClientClosed(Refused):
    """The event came after ``close``."""

    def __init__(self) -> None:
        super().__init__("the client is closed", code="client_closed")
