"""Content that events refer to, in a directory by its SHA-256: ``<first two digits>/<all digits>``.

The caller's thread stores it, since an event is captured only after its content is durable.
"""

# Checked values may be of any type.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import contextlib
import hashlib
import os

from ._errors import ContentNotStored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Content:
    """Bytes and their SHA-256 in lower-case hexadecimal."""

    __slots__ = ("data", "sha256")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sha256 = hashlib.sha256(data).hexdigest()


class ContentDirectory:
    """A directory for content, readable by its user alone."""

    def __init__(self, directory: str) -> None:
        # An empty name must not mean the working directory.
        self._root = os.path.abspath(directory) if directory else None

    def read(self, content: Any) -> Content:
        """Copies a text (as UTF-8) or bytes. Raises ContentNotStored for other types."""
        return Content(_bytes_of(content))

    def put(self, content: Content) -> None:
        """Stores the whole content durably under its hash. Raises ContentNotStored."""
        if self._root is None:
            raise ContentNotStored("the directory for content has no name")
        directory = os.path.join(self._root, content.sha256[:2])
        try:
            if not os.path.isdir(directory):
                os.makedirs(directory, mode=0o700, exist_ok=True)
                _sync(self._root)
                _sync(os.path.dirname(self._root))
            path = os.path.join(directory, content.sha256)
            if not _is_there(path, content):
                _write(path, content.data)
            # Flushed for existing content too: the process that renamed it may have ended before its flush.
            _sync(directory)
        except OSError as error:
            raise ContentNotStored(
                f"the content that the event refers to could not be stored ({error.strerror})"
            ) from None


def _bytes_of(content: Any) -> bytes:
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError:
            raise ContentNotStored("the content has a lone surrogate") from None
    kind: type[Any] = type(content)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return bytes(content)
    raise ContentNotStored("content is a text or bytes")


def _is_there(path: str, content: Content) -> bool:
    """Whether the file has this content. A file with other bytes is damaged and replaced."""
    try:
        # Opened without blocking: a pipe would wait.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(fd, "rb") as file:
        return os.fstat(fd).st_size == len(content.data) and file.read() == content.data


def _write(path: str, data: bytes) -> None:
    partial = f"{path}.{os.urandom(16).hex()}.partial"
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(fd)
        os.rename(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
