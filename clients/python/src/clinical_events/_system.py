"""The system's threads, locks and sockets, even if gevent has replaced Python's.

The client needs real threads: a greenlet sends nothing while the application computes. gevent is found in
``sys.modules`` and never imported, which would take 100 ms.
"""

from __future__ import annotations

import _thread
import signal as _signal
import socket as _socket
import sys
import time
from collections.abc import Callable
from typing import Any

_monkey: Any = sys.modules.get("gevent.monkey")


def _original(module: str, name: str, present: Any) -> Any:
    if _monkey is None or not _monkey.is_module_patched("threading" if module == "_thread" else module):
        return present
    return _monkey.get_original(module, name)


_start = _original("_thread", "start_new_thread", _thread.start_new_thread)
allocate_lock = _original("_thread", "allocate_lock", _thread.allocate_lock)
thread_ident = _original("_thread", "get_ident", _thread.get_ident)
sleep = _original("time", "sleep", time.sleep)
Socket = _original("socket", "socket", _socket.socket)
create_connection = _original("socket", "create_connection", _socket.create_connection)
RLock = _thread.RLock
monotonic = time.monotonic

#: Signals that the client's threads block: all but those that a fault of the thread itself raises.
_BLOCKED = _signal.valid_signals() - {
    _signal.SIGSEGV,
    _signal.SIGBUS,
    _signal.SIGFPE,
    _signal.SIGILL,
    _signal.SIGABRT,
}


def start_thread(function: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Starts a thread with all signals blocked. Raises RuntimeError when no thread can start.

    uWSGI calls exit() in its signal handler, which on another thread waits forever for the main one.
    """
    _start(_deaf, (function, args))


def _deaf(function: Callable[..., object], args: tuple[Any, ...]) -> None:
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _BLOCKED)
    function(*args)


def is_before_fork() -> bool:
    """Whether this is uWSGI's master: its forks hang forever while another thread runs Python."""
    uwsgi: Any = sys.modules.get("uwsgi")
    worker, mule = getattr(uwsgi, "worker_id", None), getattr(uwsgi, "mule_id", None)
    return worker is not None and mule is not None and worker() == 0 and mule() == 0
