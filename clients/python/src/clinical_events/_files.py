"""What the spool asks of the disk: each step that changes a file checks first that this process may."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How every file of a spool is opened: through no link, and without a wait for the other end of a pipe."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# macOS has no fdatasync.
datasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class Forked(Exception):
    """This process is a child of the one that made the object."""


_forks = [0]


def _count_fork() -> None:
    _forks[0] += 1


os.register_at_fork(after_in_child=_count_fork)


class Mine:
    """Whether this process is the one that made the spool.

    A fork in a signal handler runs the rest of the interrupted call in the child too, and what a child does
    must never reach its parent's files: every step that changes one asks just before it. ``gone`` is set
    by ``forget``; it and the number of forks are asked without a call, behind which a signal could come.
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
        """As os.mkdir, for its user alone."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.mkdir(path, 0o700)

    def rename(self, source: str, target: str) -> None:
        """As os.rename."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.rename(source, target)

    def remove(self, path: str) -> None:
        """As os.unlink, and no error when the file is not there."""
        self.check()
        try:
            if self.gone or _forks[0] != self._forks:
                raise Forked
            os.unlink(path)
        except FileNotFoundError:
            return

    def open(self, path: str, flags: int) -> int:
        """As os.open; what is made is for its user alone."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        return os.open(path, flags, 0o600)

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """As os.pwrite."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        return os.pwrite(fd, data, offset)

    def append(self, fd: int, data: bytes) -> int:
        """As os.write."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        """As os.ftruncate."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.ftruncate(fd, size)

    def remove_directory(self, path: str) -> None:
        """As os.rmdir."""
        self.check()
        if self.gone or _forks[0] != self._forks:
            raise Forked
        os.rmdir(path)


def sync_directory(path: str) -> None:
    """On return the names in the directory are on stable storage."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: str) -> None:
    """On return it exists; the names of all that was made, with mode 0700, are durable. Raises OSError."""
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
    """The same inside a spool, where a link might lead out of it. Raises OSError."""
    make_directory(path)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise OSError(errno.ENOTDIR, "a link is in the place of a directory", path)


def open_file(path: str, flags: int, mine: Mine | None = None) -> int:
    """A descriptor of a regular file, made if ``mine`` is given. Raises OSError, EINVAL for anything else."""
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
    """The system's short name of an error: its message may repeat the name of a file, which this does not."""
    return errno.errorcode.get(error.errno or 0, "unknown")


def write_all(mine: Mine, fd: int, data: bytes, offset: int) -> None:
    """On return all of it is written. Raises OSError; then any part of it may be."""
    written = 0
    while written < len(data):
        written += mine.write(fd, memoryview(data)[written:], offset + written)


def read_all(path: str, most: int) -> bytes:
    """The first bytes of a file, none when it is not there. Raises OSError."""
    try:
        fd = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    try:
        return pread(fd, min(most, os.fstat(fd).st_size), 0)
    finally:
        os.close(fd)


def pread(fd: int, size: int, offset: int) -> bytes:
    """The bytes that were asked for, or those up to the end of the file. Raises OSError."""
    data = os.pread(fd, size, offset)
    while 0 < len(data) < size and (more := os.pread(fd, size - len(data), offset + len(data))):
        data += more
    return data
