"""Captures chat completions and responses of the OpenAI SDK, in one piece and in streams.

Works with any server of the same protocol, and with SDK 1.48 and newer; earlier ones do not mark retries.
"""

from __future__ import annotations

import re
from typing import TypeVar

from ._call import Describe, DescribedCall, Options, Runs, Shown, counts
from ._capture import Dialect, attach
from ._readers import Answer, ChatReader, Choice, Reader, ResponsesReader, ToolCall
from ._readers._answer import Fields

__all__ = ["Answer", "Choice", "DescribedCall", "ToolCall", "capture"]

C = TypeVar("C")


def capture(client: C, log: Runs, *, describe: Describe | None = None, shown: Shown | None = None) -> C:
    """Returns ``client``, each of whose model calls becomes a run. Its results and errors do not change.

    ``client``: an ``OpenAI`` or ``AsyncOpenAI``; clients that ``with_options`` derives from it are captured
    too. ``log``: the client of this package, in whose current run the calls are nested; a run; or a function
    that returns one of them for each call. ``describe`` and ``shown``: see docs/reference/instrumentation.md.

    :raises TypeError: ``client`` is not a client of the SDK.
    :raises ValueError: an option is invalid.
    """
    return attach(client, log, Options(describe, shown), _DIALECT)


def _reader_for(path: str) -> type[Reader] | None:
    # This includes completions without chat.
    if path.endswith("/completions"):
        return ChatReader
    return ResponsesReader if path.endswith("/responses") else None


def _earlier(method: str, path: str) -> str | None:
    """``GET …/responses/{id}`` and ``POST …/responses/{id}/cancel``."""
    found = re.fullmatch(r"(.*/responses/[^/]+)(/cancel)?", path)
    return found[1] if found and method == ("POST" if found[2] else "GET") else None


def _inputs(request: Fields) -> dict[str, object]:
    messages = request.get("messages")
    return counts(request, request.get("input") if messages is None else messages)


_DIALECT = Dialect("openai", _reader_for, _inputs, _earlier)
