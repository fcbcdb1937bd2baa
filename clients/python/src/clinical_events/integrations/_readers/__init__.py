"""Readers of model answers: pure functions of the provider's data."""

from ._answer import Answer, Choice, Reader, ToolCall
from ._chat import ChatReader
from ._messages import MessagesReader
from ._responses import ResponsesReader

__all__ = ["Answer", "ChatReader", "Choice", "MessagesReader", "Reader", "ResponsesReader", "ToolCall"]
