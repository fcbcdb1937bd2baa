"""The middleware of ASGI binds user and request to the runs that start within a request."""

from __future__ import annotations

import asyncio
import json
import unittest
import warnings
from collections.abc import Callable
from typing import Any

from tests import support  # noqa: F401  # The sources on the path.

from clinical_events import Client
from clinical_events._context import binding
from clinical_events.integrations.asgi import Middleware

WORDS = "the patient has fever"


def scope(kind: str = "http", **more: Any) -> dict[str, Any]:
    return {"type": kind, "method": "GET", "path": f"/{WORDS}", "headers": [], **more}


async def nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}


async def sent(message: Any) -> None:
    return None


def taken(log: Client) -> list[dict[str, Any]]:
    """The starts that a client has captured."""
    spool = log._core().spool
    events = [json.loads(event.body) for event in iter(spool.take, None)] if spool else []
    return [event for event in events if event["run_id"] == event["event_id"]]


class Binding(unittest.TestCase):
    def setUp(self) -> None:
        self.log = Client(mode="memory", on_warning=lambda _: None)
        self.addCleanup(self.log.close, 0)

    def serve(self, app: Callable[..., Any], *scopes: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
        """The runs that begin while the scopes are served at the same time."""
        middleware = Middleware(app, self.log, **options)

        async def serve() -> None:
            await asyncio.gather(*(middleware(each, nothing, sent) for each in scopes))

        asyncio.run(serve())
        self.assertIsNone(binding.get())
        return taken(self.log)

    async def start(self, *_: Any) -> None:
        await asyncio.sleep(0)
        self.log.start_run(inputs={})

    def test_request(self) -> None:
        """[R-1798] A run has the id, method and route of its request, and no path."""
        route = type("Route", (), {"path": "/patients/{id}"})()
        headers = [(b"x-request-id", b"r-1")]
        (named,) = self.serve(self.start, scope(headers=headers, route=route))
        request = {"id": "r-1", "method": "GET", "route": "/patients/{id}"}
        self.assertEqual(named["system_metadata"]["request"], request)
        (own,) = self.serve(self.start, scope(headers=[(b"x-request-id", WORDS.encode())]))
        self.assertEqual(len(own["system_metadata"]["request"]["id"]), 36)
        self.assertNotIn(WORDS, json.dumps([named, own]))

    def test_user(self) -> None:
        """[R-1798] Concurrent requests have a user each, and so may a run."""

        async def app(of: Any, *_: Any) -> None:
            of["user"] = of["path"]  # Like the middleware of an application that knows the user later.
            await asyncio.sleep(0)
            self.log.start_run(inputs={})
            run = self.log.start_run(inputs={}, user={"caller_id": "run"})
            run.start_run(inputs={})

        users = [scope(path=str(number)) for number in range(20)]
        starts = self.serve(app, *users, user=lambda of: of.get("user"))
        found = sorted(start["user_identity"]["caller_id"] for start in starts)
        self.assertEqual(found, sorted([*map(str, range(20)), *["run"] * 20, *map(str, range(20))]))

    def test_fields_of_a_user(self) -> None:
        """A user may be fields or absent; the application may set the request itself."""
        for said, expected in [({"caller_id": "n", "ward": 3}, {"caller_id": "n", "ward": 3}), (None, None)]:
            (start,) = self.serve(
                self.start, scope(), user=lambda _, said=said: said, request=lambda _: {"a": 1}
            )
            self.assertEqual(start.get("user_identity"), expected)
            self.assertEqual(start["system_metadata"]["request"], {"a": 1})

    def test_kinds(self) -> None:
        """A websocket is bound as a request is; lifespan and unknown scopes are passed on unbound."""
        (start,) = self.serve(self.start, scope("websocket", method=None))
        self.assertEqual(start["system_metadata"]["request"]["method"], "websocket")
        for kind in ("lifespan", "unknown"):
            (start,) = self.serve(self.start, {"type": kind})
            self.assertNotIn("request", start["system_metadata"])

    def test_streaming(self) -> None:
        """A run that starts in the middle of a streamed answer, or in a task of the request, is bound."""

        async def app(of: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start"})
            for more in (True, False):
                self.log.start_run(inputs={})
                await send({"type": "http.response.body", "more_body": more})
            await asyncio.create_task(self.start())

        starts = self.serve(app, scope(), scope())
        ids = [start["system_metadata"]["request"]["id"] for start in starts]
        self.assertEqual((len(ids), len(set(ids))), (6, 2))

    def test_cancelled(self) -> None:
        """[R-1798] A request that is cancelled or fails ends unchanged, and later runs are not bound."""
        seen: list[str] = []

        async def app(of: Any, *_: Any) -> None:
            try:
                with self.log.start_run(inputs={}):
                    await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def serve() -> None:
            task = asyncio.ensure_future(Middleware(app, self.log)(scope(), nothing, sent))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        asyncio.run(serve())
        self.assertEqual(seen, ["cancelled"])

        async def failing(*_: Any) -> None:
            raise ZeroDivisionError

        async def twice() -> None:
            with self.assertRaises(ZeroDivisionError):
                await Middleware(failing, self.log)(scope(), nothing, sent)
            self.assertIsNone(binding.get())

        asyncio.run(twice())

    def test_another_context(self) -> None:
        """A request that is abandoned half-way, and closed elsewhere, raises nothing."""

        async def app(*_: Any) -> None:
            await asyncio.get_running_loop().create_future()

        async def begin() -> Any:
            served = Middleware(app, self.log)(scope(), nothing, sent)
            served.send(None)
            return served

        asyncio.run(begin()).close()

    def test_another_client(self) -> None:
        """Runs of another client are not bound."""
        other = Client(mode="memory", on_warning=lambda _: None)

        async def app(*_: Any) -> None:
            other.start_run(inputs={})

        self.serve(app, scope())
        (start,) = taken(other)
        self.assertNotIn("request", start["system_metadata"])
        other.close(0)

    def test_functions_that_fail(self) -> None:
        """[R-1798] A run starts without a field whose function fails, with one warning."""

        def failing(_: Any) -> Any:
            raise ValueError(WORDS)

        async def later() -> None:
            """No user."""

        for options in ({"user": failing}, {"request": failing}, {"user": lambda _: 5}):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                starts = self.serve(self.start, scope(), scope(), **options)
            self.assertEqual(
                [s["system_metadata"]["request"] for s in starts], [{"binding_failed": True}] * 2
            )
            self.assertEqual(len(seen), 1)
            self.assertNotIn(WORDS, str(seen[0].message))
        with self.assertRaisesRegex(TypeError, "user must be a function of the scope"):
            Middleware(self.start, self.log, user=later)
        with self.assertRaisesRegex(TypeError, "request must be a function of the scope"):
            Middleware(self.start, self.log, request="r-1")  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
