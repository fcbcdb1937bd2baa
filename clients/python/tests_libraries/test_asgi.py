"""Starlette and FastAPI: runs are bound, also in threads, streams and tasks after an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")

from fastapi import BackgroundTasks, FastAPI, Request, WebSocket
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from starlette.middleware.base import BaseHTTPMiddleware

from clinical_events import Client
from clinical_events.integrations.asgi import Middleware


@pytest.fixture(name="log")
def _log() -> Iterator[Client]:
    log = Client(mode="memory", on_warning=lambda _: None)
    yield log
    log.close(0)


def taken(log: Client) -> list[dict[str, Any]]:
    spool = log._core().spool
    return [json.loads(event.body) for event in iter(spool.take, None)] if spool else []


def application(log: Client) -> TestClient:
    app = FastAPI()

    @app.get("/threads/{patient}")
    def threads(patient: str) -> str:
        return log.start_run(inputs={}).id

    @app.get("/streams/{patient}")
    async def streams(patient: str) -> StreamingResponse:
        def words() -> Iterator[str]:
            for _ in range(2):
                yield log.start_run(inputs={}).id

        return StreamingResponse(words())

    @app.get("/tasks")
    async def tasks(background: BackgroundTasks) -> str:
        background.add_task(log.start_run, inputs={})
        return ""

    @app.get("/failing")
    async def failing() -> str:
        log.start_run(inputs={})
        raise ValueError

    @app.websocket("/sockets/{patient}")
    async def sockets(socket: WebSocket) -> None:
        await socket.accept()
        log.start_run(inputs={})
        await socket.close()

    async def known(request: Request, call_next: Any) -> Any:
        request.scope["caller"] = request.headers.get("authorization")
        return await call_next(request)

    app.add_middleware(BaseHTTPMiddleware, dispatch=known)
    app.add_middleware(Middleware, log=log, user=lambda scope: scope.get("caller"))
    return TestClient(app, raise_server_exceptions=False)


@pytest.mark.parametrize(
    ("path", "route", "runs"),
    [
        ("/threads/p-1", "/threads/{patient}", 1),
        ("/streams/p-1", "/streams/{patient}", 2),
        ("/tasks", "/tasks", 1),
        ("/failing", "/failing", 1),
    ],
)
def test_requests(log: Client, path: str, route: str, runs: int) -> None:
    """[R-1798] A run has its user and its request, in any thread or task."""
    with application(log) as client:
        for number in range(2):
            headers = {"x-request-id": f"r-{number}", "authorization": f"nurse-{number}"}
            client.get(path, headers=headers)
            starts = taken(log)
            assert len(starts) == runs
            for start in starts:
                request = {"id": f"r-{number}", "method": "GET", "route": route}
                assert start["system_metadata"]["request"] == request
                assert start["user_identity"] == {"caller_id": f"nurse-{number}"}
                assert "p-1" not in json.dumps(start)


def test_websocket(log: Client) -> None:
    """A websocket is bound as a request is."""
    with application(log) as client, client.websocket_connect("/sockets/p-1"):
        pass
    (start,) = taken(log)
    assert start["system_metadata"]["request"]["method"] == "websocket"
    assert "p-1" not in json.dumps(start)
