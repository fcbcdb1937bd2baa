"""Captures messages of the Anthropic SDK, in one piece and in streams.

Works with SDK 0.35 and newer; earlier ones do not mark retries.
"""

from __future__ import annotations

from typing import TypeVar

from ._call import Describe, DescribedCall, Options, Runs, Shown, counts
from ._capture import Dialect, attach
from ._readers import Answer, Choice, MessagesReader, ToolCall

__all__ = ["Answer", "Choice", "DescribedCall", "ToolCall", "capture"]

C = TypeVar("C")


def capture(client: C, log: Runs, *, describe: Describe | None = None, shown: Shown | None = None) -> C:
    """Returns ``client``, each of whose model calls becomes a run. Its results and errors do not change.

    ``client``: an ``Anthropic`` or ``AsyncAnthropic``; clients that ``with_options`` derives from it are
    captured too. Cloud providers' other paths are not captured. ``log``, ``describe`` and ``shown``: see
    ``clinical_events.integrations.openai.capture``.

    :raises TypeError: ``client`` is not a client of the SDK.
    :raises ValueError: an option is invalid.
    """
    return attach(client, log, Options(describe, shown), _DIALECT)


_DIALECT = Dialect(
    provider="anthropic",
    reader_for=lambda path: MessagesReader if path.endswith("/v1/messages") else None,
    inputs=lambda request: counts(request, request.get("messages")),
)
