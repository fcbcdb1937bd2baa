"""ASGI 3.0 middleware that binds user and request to the runs that start within a request."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from .._context import binding
from ._readers._answer import word

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# inspect.CO_COROUTINE; the module is slow to import.
_ASYNC = 0x80


class Middleware:
    """Adds user and request to every run of ``log`` that starts while a request or websocket is served.

    ``user`` is called with the scope when a run starts, after the application's own middleware and routing.
    It returns the caller's id, the fields of ``user``, or None. A user that the application passes to the run
    takes precedence. ``request`` returns members of ``system_metadata.request`` in place of ``id``,
    ``method`` and ``route``. Neither path nor query is recorded: they may name a patient. ``log`` is the
    client.

    Messages and exceptions of the application pass unchanged; ``lifespan`` binds nothing.
    """

    def __init__(
        self,
        app: App,
        log: object,
        *,
        user: Callable[[Scope], str | Mapping[str, Any] | None] | None = None,
        request: Callable[[Scope], Mapping[str, Any] | None] | None = None,
    ) -> None:
        for name, asked in (("user", user), ("request", request)):
            code = getattr(asked, "__code__", None)
            if (asked is not None and not callable(asked)) or (code is not None and code.co_flags & _ASYNC):
                raise TypeError(f"{name} must be a function of the scope, not async")
        self._app = app
        self.log = log
        self.user = user
        self.request = request
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        token = binding.set(_Request(self, scope))
        try:
            await self._app(scope, receive, send)
        finally:
            # An abandoned request may be closed in another context.
            with contextlib.suppress(ValueError):
                binding.reset(token)

    def warn(self) -> None:
        """Warns once, without the error, which may name a patient."""
        if not self._warned:
            self._warned = True
            with contextlib.suppress(Warning):
                sentence = "user or request raised or returned no fields; runs start without it"
                warnings.warn(sentence, RuntimeWarning, stacklevel=2)


class _Request:
    """One request. Its id is the ``x-request-id`` of the caller, or a new one."""

    __slots__ = ("_id", "_middleware", "_scope", "log")

    def __init__(self, middleware: Middleware, scope: Scope) -> None:
        self._middleware = middleware
        self._scope = scope
        self.log = middleware.log
        self._id: str | None = None

    def said(self) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        of, scope = self._middleware, self._scope
        user: dict[str, Any] | None = None
        try:
            if of.user is not None:
                given = of.user(scope)
                user = {"caller_id": given} if isinstance(given, str) else dict(given) if given else None
            facts = self._facts() if of.request is None else dict(of.request(scope) or {})
        except Exception:  # noqa: BLE001  # The application's functions.
            of.warn()
            return user, {"request": {"binding_failed": True}}
        return user, {"request": facts} if facts else {}

    def _facts(self) -> dict[str, Any]:
        scope = self._scope
        if self._id is None:
            named = (value.decode("latin-1") for name, value in scope["headers"] if name == b"x-request-id")
            self._id = next(filter(None, map(word, named)), None) or str(uuid.uuid4())
        facts = {"id": self._id, "method": word(scope.get("method")) or scope["type"]}
        # The route template of the framework, which has names in place of ids.
        route = getattr(scope.get("route"), "path", None)
        return {**facts, "route": route} if isinstance(route, str) and len(route) <= 200 else facts
