"""Captures what the Anthropic SDK asks of models: messages, in one piece and in streams.

The SDK from 0.35 on will do: earlier ones do not say which request is a retry.
"""

from __future__ import annotations

from typing import TypeVar

from ._call import Describe, DescribedCall, Options, Runs, Shown, counts
from ._capture import Dialect, attach
from ._readers import Answer, Choice, MessagesReader, ToolCall

__all__ = ["Answer", "Choice", "DescribedCall", "ToolCall", "capture"]

C = TypeVar("C")


def capture(client: C, log: Runs, *, describe: Describe | None = None, shown: Shown | None = None) -> C:
    """Returns ``client``, whose calls of models each become a run; it gives and raises what it did before.

    ``client``: an ``Anthropic`` or ``AsyncAnthropic``; those made of it by ``with_options`` are captured too.
    Other addresses, which cloud providers have, are not seen. ``log``, ``describe`` and ``shown``: as of
    ``clinical_events.integrations.openai.capture``.

    :raises TypeError: ``client`` is no client of the SDK.
    :raises ValueError: an option is none.
    """
    return attach(client, log, Options(describe, shown), _DIALECT)


_DIALECT = Dialect(
    provider="anthropic",
    reader_for=lambda path: MessagesReader if path.endswith("/v1/messages") else None,
    inputs=lambda request: counts(request, request.get("messages")),
)
