"""A collector with the answers of a test, on a socket of its own."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable

STORED_BODY = b'{"status":"accepted"}'


def answer(status: int, body: bytes = b"", *headers: str) -> bytes:
    """A whole answer with its length."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


STORED = answer(201, STORED_BODY)


def refusal(status: int, code: str, *headers: str) -> bytes:
    return answer(status, b'{"code":"%s","message":"why"}' % code.encode(), *headers)


class Request:
    """One request: its number, the number of its connection, and its content."""

    def __init__(self, connection: int, head: bytes) -> None:
        self.number = 0
        self.connection = connection
        self.head = head.decode("latin-1")
        self.path = self.head.split(" ")[1]
        self.kind = self.path.rsplit("/", 1)[1]
        self.length = int(self.header("content-length"))
        self.body = b""
        self.at = time.monotonic()

    def header(self, name: str) -> str:
        for line in self.head.split("\r\n")[1:]:
            if line.lower().startswith(name + ":"):
                return line.split(":", 1)[1].strip()
        return ""


# What a test answers: bytes, or None for silence. CLOSE after them ends the connection, RESET resets it.
CLOSE = b"\x00close"
RESET = b"\x00reset"
Respond = Callable[[Request], "bytes | None"]


class FakeCollector:
    """Listens until it is closed. Asks ``early`` when the head of a request has arrived, then ``respond``."""

    def __init__(
        self,
        respond: Respond | None = None,
        early: Respond | None = None,
        tls: object = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.respond: Respond = respond or (lambda _: STORED)
        self.early = early
        self.requests: list[Request] = []
        self.connections = 0
        self._numbers = itertools.count(1)
        self._tls = tls
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(
            (host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FakeCollector:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def say(self, unasked: bytes) -> None:
        """Sends bytes without a request on the first connection."""
        self._open[0].sendall(unasked)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        self._open.append(connection)
        with contextlib.suppress(OSError), connection:
            if self._tls is None:
                self._talk(connection, number)
            else:
                with self._tls.wrap_socket(connection, server_side=True) as secured:  # type: ignore[attr-defined]
                    self._talk(secured, number)

    def _talk(self, connection: socket.socket, number: int) -> None:
        rest = b""
        while True:
            while b"\r\n\r\n" not in rest:
                if not (data := connection.recv(65536)):
                    return
                rest += data
            head, rest = rest.split(b"\r\n\r\n", 1)
            request = Request(number, head)
            if self.early is not None and (said := self.early(request)) is not None:
                connection.sendall(said)
            while len(rest) < request.length:
                if not (data := connection.recv(65536)):
                    return
                rest += data
            request.body, rest = rest[: request.length], rest[request.length :]
            self.requests.append(request)
            request.number = next(self._numbers)
            if not self._answer(connection, self.respond(request)):
                return

    def _answer(self, connection: socket.socket, said: bytes | None) -> bool:
        if said is None:
            return True
        how = said[-6:]
        if how in (CLOSE, RESET):
            connection.sendall(said[:-6])
            if how == RESET:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            return False
        connection.sendall(said)
        return True


def until(condition: Callable[[], object]) -> None:
    """Waits for a condition, for at most two minutes."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not come true within two minutes")
        time.sleep(0.005)
