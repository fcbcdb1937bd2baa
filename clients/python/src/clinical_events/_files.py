"""File operations of the spool. Each change checks first that this process owns the spool."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags to open any file of a spool: follow no link, and do not wait for the other end of a pipe."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# macOS has no fdatasync.
datasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class Forked(Exception):
    """This process is a forked child of the object's owner."""


_forks = [0]


def _count_fork() -> None:
    _forks[0] += 1


os.register_at_fork(after_in_child=_count_fork)


class Mine:
    """Knows whether this process made the spool.

    After a fork in a signal handler the child runs the rest of the interrupted call, and must not change its
    parent's files, so a check immediately precedes every change. ``forget`` sets ``gone``. The check makes no
    call, since a signal could arrive after one.
    """

    __slots__ = ("_forks", "gone", "pid")

    def __init__(self) -> None:
        self._forks = _forks[0]
        self.pid = os.getpid()
        self.gone = False

    def check(self) -> None:
        """Raises Forked in a child."""
        if os.getpid() != self.pid or _forks[0] != self._forks:
            self.gone = True
        if self.gone:
            raise Forked

    def make_directory(self, path: str) -> None:
        """os.mkdir with mode 0700."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.mkdir(path, 0o700)

    def rename(self, source: str, target: str) -> None:
        """os.rename."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """os.unlink without an error for a missing file."""
        self.check()
        try:
            if self.gone or _forks[0] != self._forks:
                raise Forked
            os.unlink(path)
        except FileNotFoundError:
            return

    def open(self, path: str, flags: int) -> int:
        """os.open; new files have mode 0600."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        return os.open(path, flags, 0o600)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """os.pwrite."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        return os.pwrite(fd, data, offset)

    def append(self, fd: int, data: bytes) -> int:
        """os.write."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        """os.ftruncate."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.ftruncate(fd, size)

    def remove_directory(self, path: str) -> None:
        """os.rmdir."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.rmdir(path)


def sync_directory(path: str) -> None:
    """Flushes the names in the directory to stable storage."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """Makes the directory and its parents durably, with mode 0700. Raises OSError."""
    missing: list[str] = []
    at = path
    while not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
        if at == missing[-1]:
            break
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        sync_directory(os.path.dirname(directory))


def make_inside(path: str) -> None:
    """Makes a directory inside a spool and refuses a link. Raises OSError."""
    make_directory(path)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise OSError(errno.ENOTDIR, "a link is in the place of a directory", path)


def open_file(path: str, flags: int, mine: Mine | None = None) -> int:
    """Opens a regular file; creates it if ``mine`` is given. Raises OSError, EINVAL for other types."""
    try:
        fd = mine.open(path, flags | PLAIN) if mine else os.open(path, flags | PLAIN)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise OSError(errno.EINVAL, "is not a regular file", path) from error
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "is not a regular file", path)


def errno_name(error: OSError) -> str:
    """Returns the system's short name of an error, since its message may repeat a file name."""
    return errno.errorcode.get(error.errno or 0, "unknown")


def write_all(mine: Mine, fd: int, data: bytes, offset: int) -> None:
    """Writes all bytes. If it raises OSError, any part of them may be written."""
    written = 0
    while written < len(data):
        written += mine.write(fd, memoryview(data)[written:], offset + written)


def read_all(path: str, most: int) -> bytes:
    """Returns the first bytes of a file, empty when it does not exist. Raises OSError."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return pread(fd, min(most, os.fstat(fd).st_size), 0)
    finally:
        os.close(fd)


def pread(fd: int, size: int, offset: int) -> bytes:
    """Reads the requested bytes, fewer only at the end of the file. Raises OSError."""
    data = os.pread(fd, size, offset)
    while 0 < len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
        data += more
    return data
