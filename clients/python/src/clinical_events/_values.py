"""Converts an application's values to the JSON text that is sent, exactly, or refuses them.

A refusal names the type and the place of the fault and never a value: values are patient data.
"""

# Values of an application may be of any type.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping

from ._errors import EventInvalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

#: The collector's default limit (docs/SPEC.md, R-312).
MAX_LEVELS = 64
#: The binary digits of the largest double: most readers of JSON turn longer integers into Infinity.
_MAX_BITS = 1023
_LONGEST_NAME = 64
_CANNOT_BE_READ = "cannot be read"

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


def json_value(event: Mapping[str, Any], max_bytes: int) -> dict[str, Any]:
    """Returns a copy of ``event`` with only str, int, float, bool, None, list and dict with str keys.

    The application may change its objects afterwards. Raises only EventInvalid (``not_json``,
    ``nesting_too_deep``, ``body_too_large``); exceptions of the application's objects become one of these.
    """
    path: list[str | int] = []
    try:
        copy: dict[str, Any] = _Copying(max_bytes, path).copy(event)
    except EventInvalid:
        raise
    except Exception:  # noqa: BLE001
        # The error may contain values, so it is not reported.
        raise _fault(path, _CANNOT_BE_READ) from None
    return copy


def json_bytes(value: dict[str, Any], max_bytes: int) -> bytes:
    """Returns the UTF-8 JSON text of a result of ``json_value``. Raises EventInvalid (``body_too_large``)."""
    body = _encode(value).encode()
    if len(body) > max_bytes:
        raise too_large(max_bytes)
    return body


def too_large(max_bytes: int) -> EventInvalid:
    return EventInvalid(f"the event has more than {max_bytes} bytes", code="body_too_large")


def pointer_of(path: list[str | int]) -> str:
    """Returns a JSON Pointer (RFC 6901) with ``*`` for names that may be data."""
    return "".join(f"/{part}" if isinstance(part, int) or _is_shown(part) else "/*" for part in path)


def _is_shown(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and name.isascii() and name.replace("-", "_").isidentifier()


def _fault(path: list[str | int], message: str, code: str = "not_json") -> EventInvalid:
    pointer = pointer_of(path)
    return EventInvalid(
        f"the event is not valid: {pointer or 'the event'} {message}", code=code, pointer=pointer
    )


class _Copying:
    """The state of one copy: the path to the current value, and a lower bound of the text's bytes."""

    __slots__ = ("_left", "_max_bytes", "_path")

    def __init__(self, max_bytes: int, path: list[str | int]) -> None:
        self._max_bytes = self._left = max_bytes
        self._path = path

    def copy(self, value: Any) -> Any:
        kind: type[Any] = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            self._left -= 1
            return value
        if kind is float:
            return self._float(value)
        if kind is int:
            return self._int(value)
        if kind is dict:
            return self._object(value)
        if kind is list or kind is tuple:
            return self._array(value)
        return self._converted(value, kind)

    def _text(self, value: str) -> str:
        self._left -= len(value) + 2
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                self._refuse("has a lone surrogate")
        return value

    def _float(self, value: float) -> float:
        self._left -= 1
        if not math.isfinite(value):
            self._refuse("is not a finite number")
        return value

    def _int(self, value: int) -> int:
        self._left -= 1
        if not -(2**63) <= value < 2**64 and value.bit_length() > _MAX_BITS:
            self._refuse("is beyond the range of a double")
        return value

    def _array(self, value: Any) -> list[Any]:
        self._enter()
        path = self._path
        copy: list[Any] = []
        path.append(0)
        for index, item in enumerate(value):
            path[-1] = index
            copy.append(self.copy(item))
            if self._left < 0:
                raise too_large(self._max_bytes)
        path.pop()
        return copy

    def _object(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        self._enter()
        path = self._path
        copy: dict[str, Any] = {}
        path.append("")
        for key, item in value.items():
            kind: type[Any] = type(key)
            if not issubclass(kind, str):
                path.pop()
                self._refuse(f"has a key that is {_named(kind)}; JSON keys are strings")
            path[-1] = name = self._text(key if kind is str else str.__str__(key))
            copy[name] = self.copy(item)
            if self._left < 0:
                # Checked here too: an application's iterable may be endless.
                raise too_large(self._max_bytes)
        path.pop()
        return copy

    def _enter(self) -> None:
        """Refuses too many levels, and thus cycles."""
        self._left -= 2
        if self._left < 0:
            raise too_large(self._max_bytes)
        if len(self._path) == MAX_LEVELS:
            self._refuse(f"nests more than {MAX_LEVELS} levels deep or contains itself", "nesting_too_deep")

    def _converted(self, value: Any, kind: type[Any]) -> Any:
        """Recognises library classes by the names of their bases, without importing the library."""
        for base in kind.__mro__:
            convert = _BY_NAME.get((base.__module__, base.__qualname__))
            if convert is not None:
                return self.copy(convert(self, value))
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, float):
            return self._float(float.__float__(value))
        if isinstance(value, int):
            return self._int(int.__index__(value))
        if isinstance(value, Mapping):
            mapping: Any = value
            return self._object(mapping)
        if isinstance(value, (list, tuple)):
            return self._array(value)
        if hasattr(kind, "__dataclass_fields__"):
            fields = sys.modules["dataclasses"].fields(value)
            return self._object({field.name: getattr(value, field.name) for field in fields})
        if hasattr(kind, "model_dump"):
            return self.copy(value.model_dump())
        if hasattr(kind, "__fields__") and hasattr(kind, "dict"):
            return self.copy(value.dict())
        return self._scalar(value, kind)

    def _scalar(self, value: Any, kind: type[Any]) -> Any:
        """Converts a numpy-like scalar: no dimensions, and a kind that JSON has."""
        if hasattr(kind, "item") and getattr(value, "ndim", 1) == 0:
            dtype_kind = getattr(getattr(value, "dtype", None), "kind", "f")
            item = value.item()
            if dtype_kind in "biuf" and type(item) in (bool, int, float):
                return self.copy(item)
        hint = ": use tolist()" if hasattr(kind, "tolist") else ""
        return self._refuse(f"is {_named(kind)}, which JSON does not have{hint}")

    def date_time(self, value: Any) -> str:
        if value.tzinfo is None or value.utcoffset() is None:
            self._refuse("is a datetime without a time zone: use datetime.now(timezone.utc)")
        text: str = value.isoformat()
        return text

    def decimal(self, value: Any) -> float:
        if not value.is_finite():
            self._refuse("is not a finite number")
        number = float(value)
        if not math.isfinite(number) or type(value)(repr(number)) != value:
            self._refuse("is a Decimal that no double represents exactly: use str()")
        return number

    def _refuse(self, message: str, code: str = "not_json") -> NoReturn:
        raise _fault(self._path, message, code)


def _named(kind: type[Any]) -> str:
    name = kind.__name__
    return f"of the type {name}" if _is_shown(name) else "of another type"


_BY_NAME: dict[tuple[str, str], Callable[[_Copying, Any], Any]] = {
    ("enum", "Enum"): lambda _, value: value.value,
    ("datetime", "datetime"): _Copying.date_time,
    ("datetime", "date"): lambda _, value: value.isoformat(),
    ("uuid", "UUID"): lambda _, value: str(value),
    ("decimal", "Decimal"): _Copying.decimal,
}
