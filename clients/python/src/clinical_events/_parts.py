"""The parts of a spool: a directory for each process, held by a socket, adopted when it is abandoned.

The kernel refuses a connection once no process listens, however the holder ended. A file with a process id
cannot show that: a container does not see the processes of another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from . import _system
from ._errors import SpoolRefused
from ._files import Mine, errno_name, make_directory, open_file, sync_directory
from ._format import SERIES_NAME

PATIENCE = 180.0
"""Seconds; longer than an NFS client caches the times of a file (acregmax, 60 seconds)."""
DRAFT = "new-"
LOCK = "lock"
OWNER = "owner"
_LONGEST_PATH = 103
_QUEUE = 128


def _host() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


HOST = _host()
"""The id of this host and, if the system has one, of its current boot."""


def prepare(directory: str) -> None:
    """Makes the directory, owned by the user of this process and writable by no other user.

    Raises SpoolRefused for another owner or wider rights, and OSError when it cannot be made.
    """
    make_directory(directory)
    found = os.stat(directory)
    if found.st_uid != os.geteuid():
        raise SpoolRefused(
            f"{directory} belongs to user {found.st_uid}, and this process runs as {os.geteuid()}: "
            "a spool is for one user"
        )
    if found.st_mode & 0o022:
        raise SpoolRefused(
            f"other users can write to {directory} (mode {found.st_mode & 0o777:o}): change its mode, "
            "or name a directory inside it"
        )


def _at_lock(directory: str, call: Callable[[str], object]) -> None:
    """Calls ``call`` with a path of the lock that fits a socket address, even if the directory's path is
    long."""
    path = os.path.join(directory, LOCK)
    if len(os.fsencode(path)) <= _LONGEST_PATH or sys.platform != "linux":
        call(path)
        return
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        call(f"/proc/self/fd/{fd}/{LOCK}")
    finally:
        os.close(fd)


def new_series() -> bytes:
    """Returns 13 bytes: the time in milliseconds, so that series sort by time, and random bytes."""
    return int(time.time() * 1000).to_bytes(6, "big") + os.urandom(7)


class Part:
    """A directory of the spool that this process holds until ``end``."""

    def __init__(self, root: str, mine: Mine) -> None:
        """Makes and holds the part durably. If it raises OSError, nothing is left behind."""
        self._root = root
        self._mine = mine
        self.series = new_series()
        self.path = os.path.join(root, self.series.hex())
        draft = os.path.join(root, DRAFT + self.series.hex())
        mine.make_directory(draft)
        self._socket: socket.socket = _system.Socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            mine.check()
            _at_lock(draft, self._socket.bind)
            self._socket.listen(_QUEUE)
            fd = open_file(os.path.join(draft, OWNER), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mine)
            try:
                os.write(fd, f"{HOST}\n{os.getpid()}\n".encode())
            finally:
                os.close(fd)
            mine.rename(draft, self.path)
            sync_directory(root)
        except BaseException:
            self.forget()
            with contextlib.suppress(OSError):
                remove_emptied(draft, mine)
            raise

    def touch(self) -> None:
        """Touches ``owner``. Raises FileNotFoundError when another process has adopted the part."""
        os.utime(os.path.join(self.path, OWNER))
        if sys.platform != "linux":
            # BSD refuses a connection when the queue is full, as if the holder had ended.
            with contextlib.suppress(OSError):
                while True:
                    self._socket.accept()[0].close()

    def end(self) -> None:
        """Releases the part for adoption, and removes it if it is empty. Raises OSError."""
        self._mine.remove(os.path.join(self.path, OWNER))
        self.forget()
        # Not empty: the next process on the directory adopts it.
        with contextlib.suppress(OSError):
            remove_emptied(self.path, self._mine)

    def forget(self) -> None:
        """Closes the descriptor only: a shutdown in a child would reach the parent."""
        fd = self._socket.detach()
        if fd >= 0:
            os.close(fd)


def remove_emptied(directory: str, mine: Mine) -> None:
    """Removes the directory. Raises OSError when it holds anything but a lock and an owner."""
    if not set(os.listdir(directory)) <= {LOCK, OWNER}:
        raise OSError(errno.ENOTEMPTY, "is not empty", directory)
    mine.remove(os.path.join(directory, OWNER))
    mine.remove(os.path.join(directory, LOCK))
    mine.remove_directory(directory)


class Holder(NamedTuple):
    """The content of ``owner``; only its own host can verify it."""

    host: str
    pid: int | None


def read_owner(directory: str) -> Holder | None:
    """Returns the present or last holder of the part; None without an ``owner``. Raises OSError."""
    try:
        fd = open_file(os.path.join(directory, OWNER), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        host, _, rest = os.read(fd, 256).decode(errors="replace").partition("\n")
    finally:
        os.close(fd)
    pid = rest.partition("\n")[0]
    return Holder(host, int(pid) if pid.isascii() and pid.isdigit() and len(pid) <= 10 else None)


def lock_state(directory: str) -> str:
    """Returns ``free`` when no process listens, ``missing`` without a socket, and otherwise ``held``."""
    probe: socket.socket = _system.Socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A blocking call would wait while the holder's queue is full.
        probe.setblocking(False)
        _at_lock(directory, probe.connect)
    except ConnectionRefusedError:
        return "free"
    except FileNotFoundError:
        return "missing"
    except OSError:
        return "held"
    finally:
        probe.close()
    return "held"


class _Seen:
    __slots__ = ("alive", "since", "touched")

    def __init__(self, touched: int, since: float, alive: bool) -> None:
        self.touched = touched
        self.since = since
        self.alive = alive


class Watch:
    """Finds abandoned parts. ``clock`` is monotonic, in seconds, so that setting the time has no effect."""

    def __init__(
        self,
        root: str,
        mine: Mine,
        on_trouble: Callable[[str], None],
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = _system.monotonic,
    ) -> None:
        self._root = root
        self._mine = mine
        self._on_trouble = on_trouble
        self._patience = patience
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def abandoned(self, own: str | None = None) -> list[str]:
        """Returns the paths of abandoned parts except ``own``, oldest first. Raises OSError if the spool
        cannot be read."""
        names = sorted(os.listdir(self._root))
        for name in self._seen.keys() - set(names):
            del self._seen[name]
        found: list[str] = []
        for name in names:
            path = os.path.join(self._root, name)
            if path == own:
                continue
            try:
                if SERIES_NAME.fullmatch(name):
                    if self.state_of(name) == "abandoned":
                        found.append(path)
                elif name.startswith(DRAFT) and self._is_quiet(name, path):
                    # Its maker ended before it was complete.
                    remove_emptied(path, self._mine)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._on_trouble(f"{path} cannot be read ({errno_name(error)})")
        return found

    def state_of(self, name: str) -> str:
        """Returns ``held``, ``abandoned``, or ``unknown`` until watched long enough. Raises OSError."""
        path = os.path.join(self._root, name)
        holder = read_owner(path)
        if holder is None:
            self._seen.pop(name, None)
            return "abandoned"
        lock = lock_state(path)
        if holder.host == HOST and lock != "missing":
            self._seen.pop(name, None)
            return "held" if lock == "held" else "abandoned"
        if self._is_quiet(name, os.path.join(path, OWNER)):
            return "abandoned"
        if holder.host != HOST and self._seen[name].alive:
            self._on_trouble(f"{path} is in use by another host: a spool is for the processes of one host")
        return "unknown"

    def _is_quiet(self, name: str, path: str) -> bool:
        touched = os.stat(path, follow_symlinks=False).st_mtime_ns
        seen = self._seen.get(name)
        now = self._clock()
        if seen is not None and seen.touched == touched:
            return now - seen.since >= self._patience
        self._seen[name] = _Seen(touched, now, seen is not None)
        return self._patience == 0

    @property
    def watched(self) -> int:
        """Returns the number of parts that are not touched and were not watched long enough."""
        since = self._clock() - self._patience
        seen = list(self._seen.items())
        return sum(
            1 for name, part in seen if not part.alive and part.since > since and SERIES_NAME.fullmatch(name)
        )

    def may_come_back(self, path: str) -> bool:
        """Whether only watching showed that the part is abandoned: its holder may be paused."""
        return os.path.basename(path) in self._seen
