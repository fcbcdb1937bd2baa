"""The collector's address and one kept connection to it (docs/CLIENT_SPEC.md, "Sending to the collector").

Sockets never block and every wait has the request's deadline. Environment variables for proxies are not read.
"""

from __future__ import annotations

import _socket
import contextlib
import errno
import os
import re
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

from . import _system
from ._answer import Answer, AnswerReader, NoAnswer

_READ = 64 << 10
_SMALL = 16 << 10  # a request up to this size is written in one piece
_HELD = 0.02
_IDLE = 4.0
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\[\]\\%]+)(?::([0-9]{0,5}))?(/[^\s?#\\]*)?", re.I)
# Without it, a write to a closed connection ends a process that set SIGPIPE to its default.
_NOSIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
_poll: Callable[[], Any] = _system._original("select", "poll", getattr(select, "poll", None))  # pyright: ignore[reportPrivateUsage]


class CannotSend(NoAnswer):
    """The address, the key or the certificate is wrong, so that waiting does not help.

    ``what`` names the fault; ``reason`` is the message of the system or the client, perhaps empty.
    """

    def __init__(self, reason: str, what: str = "no event can be sent") -> None:
        super().__init__(reason)
        self.what = what


class Destination:
    """The collector's address and key. Raises CannotSend, which quotes neither, for invalid ones."""

    def __init__(self, url: str | None, api_key: str | None, ca_file: str | None = None) -> None:
        if not url:
            raise CannotSend("no collector address is set (url or COLLECTOR_URL)")
        match = _URL.fullmatch(url.strip())
        if not re.match(r"https?://", url.strip(), re.I):
            raise CannotSend("the URL of a collector must begin with http:// or https://")
        if match is None or int(match[3] or 0) > 65535:
            raise CannotSend("the URL of a collector is an origin and a path, and nothing else")
        key = (api_key or "").strip()
        if not key:
            raise CannotSend("no API key is set (api_key or COLLECTOR_KEY)")
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise CannotSend("the API key has invalid characters")
        self.secure = match[1].lower() == "https"
        self.port = int(match[3] or (443 if self.secure else 80))
        try:
            name = match[2].lower()
            host = name.encode("ascii" if name.isascii() else "idna")
            path = re.sub(rb"[^!-~]", lambda byte: b"%%%02X" % ord(byte[0]), (match[4] or "").encode())
        except UnicodeError:
            raise CannotSend("the URL of a collector is an origin and a path, and nothing else") from None
        # As bytes: for a str the socket functions import the IDNA codec.
        self.host = host.strip(b"[]")
        usual = self.port == (443 if self.secure else 80)
        port = b"" if usual else b":%d" % self.port
        self.before = b"POST " + path.rstrip(b"/") + b"/event/"
        self.after = (
            b" HTTP/1.1\r\nHost: " + host + port + b"\r\nContent-Type: application/json\r\nX-API-Key: "
            + key.encode() + b"\r\nContent-Length: "
        )  # fmt: skip
        self._ca_file = ca_file
        self._context: ssl.SSLContext | None = None

    def head(self, kind: str, size: int) -> bytes:
        return self.before + kind.encode() + self.after + b"%d\r\n\r\n" % size

    def context(self) -> ssl.SSLContext:
        """Makes the TLS context at the first connection, not in the application's thread: it reads files."""
        if self._context is None:
            context = ssl.create_default_context()
            context.set_alpn_protocols(["http/1.1"])
            if self._ca_file is not None:
                try:
                    context.load_verify_locations(self._ca_file)
                except (OSError, ValueError) as error:
                    raise CannotSend(said(error), "the certificate file cannot be used") from None
            self._context = context
        return self._context


class _Tls:
    """TLS over memory buffers, so that the socket stays unpatched under gevent."""

    def __init__(self, context: ssl.SSLContext, host: bytes) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)

    def handshake(self, data: bytes) -> tuple[bytes, bool]:
        """Takes received bytes. Returns the bytes to send, and whether the handshake is done."""
        self._in.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return self._out.read(), False
        return self._out.read(), True

    def seal(self, data: bytes | memoryview) -> bytes:
        self._object.write(data)
        return self._out.read()

    def open(self, data: bytes) -> tuple[bytes, bool]:
        """Takes received bytes. Returns the plain bytes, and whether the peer has closed TLS in order."""
        self._in.write(data)
        pieces: list[bytes] = []
        try:
            while piece := self._object.read(_READ):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(pieces), False
        except ssl.SSLZeroReturnError:
            pass
        return b"".join(pieces), True


class Connection:
    """A kept connection, opened by the first request and used by one thread at a time."""

    def __init__(self, destination: Destination, timeout: float = 30.0) -> None:
        self._destination = destination
        self._timeout = timeout
        self._socket: Any = None
        self._tls: _Tls | None = None
        self._poller: Any = None
        self._used_at = 0.0
        self._deadline = 0.0
        self._aborted = False
        self._unsent = False
        self._early = False

    def post(self, kind: str, body: bytes) -> Answer:
        """Sends the request and returns the collector's whole answer. Raises NoAnswer within the timeout."""
        self._deadline = _system.monotonic() + self._timeout
        head = self._destination.head(kind, len(body))
        reused = self._is_usable()
        while True:
            reader = AnswerReader()
            try:
                if self._socket is None:
                    self._connect()
                self._exchange(head, body, reader)
            except NoAnswer:
                self.close()
                raise
            except (OSError, _Ended) as error:
                self.close()
                # A kept connection that closes before an answer says nothing about the collector.
                if reused and reader.untouched and _is_reset(error):
                    reused = False
                    continue
                raise _no_answer(error) from None
            except BaseException:
                self.close()
                raise
            if reader.keeps_open and not self._unsent:
                self._used_at = _system.monotonic()
            else:
                self.close()
            assert reader.answer is not None
            return reader.answer

    def close(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Ends the request of another thread without an answer. Nothing is sent afterwards."""
        self._aborted = True
        connection = self._socket
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Closes the descriptor in a forked child; the connection stays the parent's."""
        connection, self._socket = self._socket, None
        if connection is not None:
            with contextlib.suppress(OSError):
                os.close(connection.detach())

    def _is_usable(self) -> bool:
        if self._socket is None:
            return False
        if _system.monotonic() - self._used_at < _IDLE and self._is_quiet():
            return True
        self.close()
        return False

    def _is_quiet(self) -> bool:
        """Whether the idle connection is usable: open, and without unrequested bytes other than TLS
        records."""
        try:
            data = self._socket.recv(_READ)
            return bool(data) and self._tls is not None and self._tls.open(data) == (b"", False)
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _connect(self) -> None:
        target = self._destination
        context = target.context() if target.secure else None
        found = _socket.getaddrinfo(target.host, target.port, 0, socket.SOCK_STREAM)
        for left in range(len(found), 0, -1):
            family, _, _, _, address = found[-left]
            try:
                self._open(family, address, max(0.0, self._deadline - _system.monotonic()) / left)
                break
            except OSError:
                self.close()
                if left == 1:
                    raise
        if context is not None:
            self._tls = _Tls(context, target.host)
            data = b""
            while True:
                out, done = self._tls.handshake(data)
                self._write(out, None)
                if done:
                    break
                self._wait(select.POLLIN)
                data = self._socket.recv(_READ)
                if not data:
                    raise _Ended
        if (self._tls is not None and self._tls.open(b"") != (b"", False)) or not self._is_quiet():
            raise NoAnswer("the connection received bytes or ended before the request")

    def _open(self, family: int, address: Any, seconds: float) -> None:
        if self._aborted:
            raise NoAnswer("the client is closing")
        connection = _system.Socket(family, socket.SOCK_STREAM)
        self._socket = connection
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._tls = None
        self._poller = _poll()
        error = connection.connect_ex(address)
        if error != 0:
            self._poller.register(connection, select.POLLOUT)
            ready = self._poller.poll(1000 * seconds)
            error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if ready else errno.ETIMEDOUT
            if error != 0:
                raise OSError(error, os.strerror(error))
        self._poller.register(connection, select.POLLIN)

    def _wait(self, mask: int, seconds: float | None = None) -> int:
        """Returns the ready events of the mask; 0 after ``seconds``. Raises NoAnswer at the deadline."""
        left = self._deadline - _system.monotonic()
        if mask != select.POLLIN:
            self._poller.modify(self._socket, mask)
        found = self._poller.poll(1000 * max(0.0, left if seconds is None else min(left, seconds)))
        if mask != select.POLLIN:
            self._poller.modify(self._socket, select.POLLIN)
        if not found and (seconds is None or seconds > left):
            raise NoAnswer(f"no answer within {self._timeout:g} s")
        return int(found[0][1]) if found else 0

    def _exchange(self, head: bytes, body: bytes, reader: AnswerReader) -> None:
        self._unsent, self._early = True, False
        try:
            for piece in _pieces(head, body):
                if piece is None:
                    # The system buffers more than the peer has read: an answer to an incomplete request
                    # comes now.
                    while reader.answer is None and self._wait(select.POLLIN, _HELD):
                        self._receive(reader)
                elif reader.answer is None:
                    self._write(self._tls.seal(piece) if self._tls else piece, reader)
            self._unsent = reader.answer is not None
        except (BrokenPipeError, ConnectionResetError):
            # A collector that refuses a request may close before it has read the whole request.
            if not self._wait(select.POLLIN, 0):
                raise
        while reader.answer is None:
            self._wait(select.POLLIN)
            self._receive(reader)

    def _write(self, data: bytes | memoryview, reader: AnswerReader | None) -> None:
        out = memoryview(data)
        while len(out) > 0:
            try:
                out = out[self._socket.send(out, _NOSIGNAL) :]
            except BlockingIOError:
                if self._wait(select.POLLIN | select.POLLOUT) & ~select.POLLOUT and reader is not None:
                    self._receive(reader)
                    if reader.answer is not None:
                        return

    def _receive(self, reader: AnswerReader) -> None:
        try:
            data: bytes = self._socket.recv(_READ)
        except BlockingIOError:
            return
        ended = not data
        if self._tls is not None:
            if ended:
                raise _Ended
            data, ended = self._tls.open(data)
        if ended and reader.untouched and not data:
            raise _Ended
        if data or ended:
            reader.feed(data, ended)
        self._early = self._early or (self._unsent and not reader.waits)
        # No collector answers for an event that it has not received.
        if self._early and reader.status in (201, 409):
            raise NoAnswer(f"{reader.status} came before the whole event was sent")


class _Ended(Exception):
    """The peer closed the connection without closing TLS."""


def _pieces(head: bytes, body: bytes) -> Iterator[bytes | memoryview | None]:
    """Yields a request in pieces, and None where to look for an early answer."""
    if len(head) + len(body) <= _SMALL:
        yield head + body
        return
    yield head
    view = memoryview(body)
    for start in range(0, len(body) - 1, _READ):
        yield view[start : min(start + _READ, len(body) - 1)]
    yield None
    yield view[-1:]


def _is_reset(error: Exception) -> bool:
    return isinstance(error, (_Ended, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError))


def said(error: BaseException) -> str:
    """Returns the system's message of an error, without a path or an address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _no_answer(error: Exception) -> NoAnswer:
    if isinstance(error, _Ended):
        return NoAnswer("the connection was closed without an answer")
    if isinstance(error, ssl.SSLCertVerificationError):
        return CannotSend(said(error), "the collector's certificate is not trusted")
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "unknown"
        if reason in (
            "WRONG_VERSION_NUMBER",
            "HTTP_REQUEST",
            "RECORD_LAYER_FAILURE",
            "PACKET_LENGTH_TOO_LONG",
        ):
            return CannotSend("", "the server at this address does not speak TLS")
        if reason == "UNEXPECTED_EOF_WHILE_READING" or isinstance(error, ssl.SSLEOFError):
            return NoAnswer("the connection was closed without an answer")
        return CannotSend("", f"TLS with the collector fails ({reason})")
    return NoAnswer(said(error))
