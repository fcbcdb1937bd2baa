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
    """The lock; none while the interpreter ends: one thread runs then, others were stopped in it.

    For ``with``, which no interrupt leaves between the lock and its release. A call of acquire is left so.
    """
    return _NO_LOCK if is_finalizing() else lock
