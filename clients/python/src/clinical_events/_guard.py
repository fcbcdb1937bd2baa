"""Locks that never hold up the end of the process."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

is_finalizing = sys.is_finalizing


class _NoLock:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


_NO_LOCK = _NoLock()


def guarded(lock: Any) -> Any:
    """Returns the lock, or a null context while the interpreter ends and other threads were stopped.

    For use with ``with``: an interrupt may come right after a call of ``acquire``, but not there.
    """
    return _NO_LOCK if is_finalizing() else lock
