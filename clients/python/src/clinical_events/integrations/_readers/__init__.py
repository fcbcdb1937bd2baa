"""Readers of the answers of models: pure functions of what the provider has sent."""

from ._answer import Answer, Choice, Reader, ToolCall
from ._chat import ChatReader
from ._messages import MessagesReader
from ._responses import ResponsesReader

__all__ = ["Answer", "ChatReader", "Choice", "MessagesReader", "Reader", "ResponsesReader", "ToolCall"]
