"""Servers that answer like providers of models, and their recordings."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import http.server
import json
import os
import pathlib
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests import support  # noqa: E402

from clinical_events import Client  # noqa: E402

__all__ = [
    "SECRET",
    "Answering",
    "Log",
    "async_outcome_of",
    "captured",
    "expected",
    "give",
    "let_go",
    "outcome_of",
    "recordings",
    "serving",
    "shape",
]

KINDS = ("inference-start", "internal-artifact", "human-output")
# Words of patients: in an event only by a choice of the application.
SECRET = "Mrs Example has a rash"


class Log(Client):
    """A client, and the events that it has captured: the payload and the other fields of each in one dict."""

    def __init__(self) -> None:
        self._kept = tempfile.TemporaryDirectory()
        self._read: list[dict[str, Any]] = []
        spool, content = f"{self._kept.name}/spool", f"{self._kept.name}/content"
        super().__init__(
            spool=spool, content=content, on_refused=self._was_refused, on_warning=lambda _: None
        )
        self.refusals: list[str] = []

    def _was_refused(self, _kind: str, _event_id: str, refused: Exception) -> None:
        self.refusals.append(str(refused))

    def __del__(self) -> None:
        self.close(0)

    @property
    def events(self) -> list[dict[str, Any]]:
        assert self.refusals == []
        # Where the disk is slow a thread of the client writes. No collector is waited for: there is none.
        self.flush(120)
        core = self._cores.get(os.getpid())
        while core is not None and core.spool is not None and (taken := core.spool.take()) is not None:
            event = json.loads(taken.body)
            metadata = event.pop("system_metadata")
            payload = event.pop(("artifact", "output")[taken.kind - 1], {}) if taken.kind else {}
            around = {"by": metadata.get("instrumentation"), "latency_ms": metadata.get("latency_ms")}
            self._read.append({**event, **payload, **around, "kind": KINDS[taken.kind]})
        return self._read

    @property
    def starts(self) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == "inference-start"]

    @property
    def ends(self) -> list[dict[str, Any]]:
        return [event for event in self.events if "ending" in event]

    def clear(self) -> None:
        """Forgets the events captured until now."""
        del self.events[:]


class Answering(http.server.BaseHTTPRequestHandler):
    """One request that is answered. HTTP/1.1, so that a body without an end is detected as broken."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    number: int
    body: bytes

    def log_message(self, *_said: Any) -> None:
        """Prints nothing."""

    def handle_one_request(self) -> None:
        with contextlib.suppress(OSError):
            super().handle_one_request()

    def do_POST(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("content-length") or 0))
        server: Any = self.server
        with server.lock:
            server.requests.append(self)
            self.number = len(server.requests)
        server.answer(self)

    do_GET = do_POST

    def give(self, body: bytes, kind: str = "application/json", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-request-id", "req_1")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.give(json.dumps(value).encode(), status=status, **headers)

    def start_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def send(self, *events: Any) -> None:
        for event in events:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            data = event if isinstance(event, str) else json.dumps(event)
            piece = f"{name}data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """The connection breaks."""
        self.close_connection = True

    def stream(self, events: list[Any]) -> None:
        self.start_stream()
        if "[CUT]" in events:
            self.send(*events[: events.index("[CUT]")])
            self.cut()
        else:
            self.send(*events)
            self.end_stream()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    requests: list[Answering]
    answer: Callable[[Answering], None]
    lock: threading.Lock

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextlib.contextmanager
def serving(answer: Callable[[Answering], None]) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Answering)
    server.requests, server.answer, server.lock = [], answer, threading.Lock()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def recordings(api: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, ``whole`` or ``stream``, and the recording: all of an interface."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    for path in sorted((support.VECTORS / "answers" / api).glob("*.json")):
        vector = json.loads(path.read_text("utf-8"))
        found += [(path.stem, form, vector) for form in ("whole", "stream") if form in vector]
    return found


def give(request: Answering, form: str, vector: dict[str, Any]) -> None:
    if form == "whole":
        request.json(vector["whole"], vector.get("status", 200))
    else:
        request.stream(vector["stream"])


def captured(log: Log, answers: list[Any]) -> dict[str, Any]:
    """The captured events of one call, in the form of ``expected``."""
    (end,) = log.ends
    assert log.events[0]["kind"] == "inference-start"
    answer = answers[-1]
    expect_no_words(log, answer)
    first, *others = answer.choices
    seen: dict[str, Any] = {
        "ending": end["ending"],
        "shown": end["kind"] == "human-output",
        **choice_of(first),
    }
    if others:
        seen["choices"] = [choice_of(each) for each in others]
    for name in ("response_model", "refused", "media", "unread_parts", "error_name", "status"):
        if name in end:
            seen[name] = end[name]
    if end.get("usage"):
        seen["usage"] = end["usage"]
    types = [event.get("artifact_type") for event in log.events]
    assert types.count("reasoning_trace") == sum(1 for each in answer.choices if each.reasoning)
    assert types.count("tool_call") == sum(len(each.tool_calls) for each in answer.choices)
    return seen


def choice_of(choice: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"text": choice.text}
    if choice.reasoning:
        said["reasoning"] = choice.reasoning
    if choice.finish_reason is not None:
        said["finish_reason"] = choice.finish_reason
    tools = [
        {"name": each.name, "id": each.id, "by_provider": each.by_provider or None, "input": each.input}
        for each in choice.tool_calls
    ]
    if tools:
        said["tools"] = [{name: value for name, value in tool.items() if value is not None} for tool in tools]
    return said


def expect_no_words(log: Log, answer: Any) -> None:
    """Short words may be in a name or an id by chance."""
    events = json.dumps(log.events)
    for choice in answer.choices:
        for words in (choice.text, choice.reasoning, *(call.input for call in choice.tool_calls)):
            assert len(words) <= 12 or json.dumps(words)[1:-1] not in events


def expected(vector: dict[str, Any], seen: dict[str, Any]) -> dict[str, Any]:
    """Each HTTP client has its own name for a broken connection."""
    said = dict(vector["expected"])
    if "[CUT]" in vector.get("stream", []) and seen.get("error_name"):
        said["error_name"] = seen["error_name"]
    return said


def shape(answer: Any) -> Any:
    return answer.model_dump(warnings=False) if hasattr(answer, "model_dump") else answer


def outcome_of(act: Callable[[], Any]) -> Any:
    """The result for the application: a value, the parts of a stream, or an error."""
    pieces: list[Any] = []
    try:
        answer = act()
        if not hasattr(answer, "__next__"):
            return shape(answer)
        for piece in answer:
            pieces.append(shape(piece))
    except Exception as error:  # noqa: BLE001 -- Of any class: both clients must give the same.
        return pieces, type(error).__name__, str(error)
    return pieces


async def async_outcome_of(act: Callable[[], Any]) -> Any:
    pieces: list[Any] = []
    try:
        answer = await act()
        if not hasattr(answer, "__anext__"):
            return shape(answer)
        async for piece in answer:
            pieces.append(shape(piece))
    except Exception as error:  # noqa: BLE001
        return pieces, type(error).__name__, str(error)
    return pieces


async def let_go(log: Log) -> None:
    """Streams of earlier SDKs are closed when they are collected, those of tasks by the event loop."""
    for _ in range(20):
        if not log.ends:
            gc.collect()
            await asyncio.sleep(0)
