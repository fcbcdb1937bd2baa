"""Validates events against the protocol's schemas, as the collector does (JSON Schema 2020-12).

It supports the keywords that these schemas use and refuses a schema with another one. Neither pointers nor
messages hold a value or a name that the schemas do not define.
"""

# Validated values may be of any type.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import functools
import json
import os
import re
from socket import AF_INET6, inet_pton

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Issue = tuple[str, str, str]
    Check = Callable[[Any, list[Issue]], None]

KINDS = ("inference-start", "internal-artifact", "human-output", "outcome", "user-feedback")
PROFILES = ("minimum", "full")
#: The most issues that are reported for one event.
MAX_ISSUES = 20

_SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas")
_ANNOTATIONS = {"$schema", "$id", "title", "description"}
_CHECKED = {
    *("type", "required", "properties", "enum", "format", "minLength", "minimum", "maximum"),
    *("allOf", "$ref"),
}
_NOUNS = {"string": "a string", "object": "an object", "number": "a number", "integer": "an integer"}


@functools.cache
def validator(kind: str, profile: str) -> Callable[[Any], list[Issue]]:
    """Returns a function that lists the faults of a JSON value, at most 20: pointer, rule and message."""
    check = _compiled(resolved(f"{kind}.{profile}.json"), "")

    def validate(value: Any) -> list[Issue]:
        issues: list[Issue] = []
        check(value, issues)
        return issues[:MAX_ISSUES]

    return validate


def _read(name: str) -> dict[str, Any]:
    # Read through the loader, which also works for a package in an archive.
    text = __loader__.get_data(os.path.join(_SCHEMAS, name))  # type: ignore[name-defined]
    schema: dict[str, Any] = json.loads(text)
    return schema


def resolved(name: str) -> dict[str, Any]:
    return _resolve(_read(name))


def _resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with its references resolved, its own members last."""
    unknown = schema.keys() - _CHECKED - _ANNOTATIONS
    if unknown:
        raise ValueError(f"a schema has the unsupported keyword {sorted(unknown)[0]}")
    merged: dict[str, Any] = {}
    if "$ref" in schema:
        _merge(merged, resolved(schema["$ref"]))
    for part in schema.get("allOf", ()):
        _merge(merged, _resolve(part))
    own = {name: value for name, value in schema.items() if name not in ("allOf", "$ref")}
    if "properties" in own:
        own["properties"] = {name: _resolve(value) for name, value in own["properties"].items()}
    _merge(merged, own)
    return merged


def _merge(into: dict[str, Any], schema: dict[str, Any]) -> None:
    """Merges two schemas so that both apply. No schema of the protocol narrows a type or a range."""
    for name, value in schema.items():
        if name == "required":
            into[name] = [*into.get(name, []), *value]
        elif name == "properties":
            properties = into.setdefault(name, {})
            for key, inner in value.items():
                _merge(properties.setdefault(key, {}), inner)
        else:
            into[name] = value


def expectation(schema: dict[str, Any]) -> str:
    """Returns what a field must be, in the collector's words."""
    types = _types(schema)
    kind = next(name for name in types if name != "null")
    if "enum" in schema:
        noun = f"one of {', '.join(schema['enum'])}"
    elif schema.get("format") in _FORMATS:
        noun = _FORMATS[schema["format"]][0]
    elif schema.get("minLength") == 1:
        noun = "a non-empty string"
    elif "minimum" in schema:
        noun = f"{_NOUNS[kind]} from {schema['minimum']} to {schema['maximum']}"
    else:
        noun = _NOUNS[kind]
    return f"must be {noun}{' or null' if 'null' in types else ''}"


def _types(schema: dict[str, Any]) -> list[str]:
    types: Any = schema["type"]
    return [types] if isinstance(types, str) else types


def _compiled(schema: dict[str, Any], pointer: str) -> Check:
    message = expectation(schema)
    types = _types(schema)
    if "object" in types:
        return _object_check(schema, pointer, message)
    rules = _leaf_rules(schema)
    kinds: tuple[type, ...] = tuple(kind for name in types for kind in _PYTHON[name])
    whole = "integer" in types

    def check(value: Any, issues: list[Issue]) -> None:
        kind: type[Any] = type(value)
        if kind not in kinds or (whole and kind is float and not value.is_integer()):
            issues.append((pointer, "type", message))
            return
        if value is None:
            return
        for rule, holds in rules:
            if not holds(value):
                issues.append((pointer, rule, message))
                return

    return check


def _object_check(schema: dict[str, Any], pointer: str, message: str) -> Check:
    required: list[str] = schema.get("required", [])
    inner = {
        name: _compiled(value, f"{pointer}/{name}") for name, value in schema.get("properties", {}).items()
    }

    def check(value: Any, issues: list[Issue]) -> None:
        kind: type[Any] = type(value)
        if kind is not dict:
            issues.append((pointer, "type", message))
            return
        for name in required:
            if name not in value:
                issues.append((f"{pointer}/{name}", "required", "is required"))
        for name, check_inner in inner.items():
            if name in value:
                check_inner(value[name], issues)

    return check


def _leaf_rules(schema: dict[str, Any]) -> list[tuple[str, Callable[[Any], bool]]]:
    rules: list[tuple[str, Callable[[Any], bool]]] = []
    if "enum" in schema:
        words = frozenset(schema["enum"])
        rules.append(("enum", lambda value: value in words))
    if "minLength" in schema:
        shortest = schema["minLength"]
        rules.append(("minLength", lambda value: len(value) >= shortest))
    if "minimum" in schema:
        least = schema["minimum"]
        rules.append(("minimum", lambda value: value >= least))
    if "maximum" in schema:
        most = schema["maximum"]
        rules.append(("maximum", lambda value: value <= most))
    if schema.get("format") in _FORMATS:
        rules.append(("format", _FORMATS[schema["format"]][1]))
    return rules


_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_date_time(text: str) -> bool:
    """RFC 3339 section 5.6: an existing day and an offset; second 60 only in the last minute of a UTC day."""
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1] + (leap and month == 2):
        return False
    sign = match[7]
    hours, minutes = (int(match[8]), int(match[9])) if sign else (0, 0)
    if hour > 23 or minute > 59 or second > 60 or hours > 23 or minutes > 59:
        return False
    offset = hours * 60 + minutes if sign == "+" else -hours * 60 - minutes
    return second < 60 or (hour * 60 + minute - offset) % 1440 == 1439


# RFC 3986, appendix A. One character or octet per step, so that matching takes linear time.
_HOST = r"[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2}"
_PATH = rf"(?:{_HOST}|[:@/])*"
_QUERY = rf"(?:{_HOST}|[:@/?])*"
_AUTHORITY = rf"//(?:(?:{_HOST}|:)*@)?(?:\[([^\]]*)\]|(?:{_HOST})*)(?::[0-9]*)?(?=[/?#]|\Z)"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+\-.]*:(?:{_AUTHORITY}|(?!//)){_PATH}(?:\?{_QUERY})?(?:#{_QUERY})?")
_FUTURE = re.compile(r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+")
_LONGEST_IPV6 = 45


def is_uri(text: str) -> bool:
    """RFC 3986 section 3: absolute, that is, with a scheme; a fragment is allowed."""
    match = _URI.fullmatch(text)
    if match is None:
        return False
    literal = match[1]
    return literal is None or _FUTURE.fullmatch(literal) is not None or _is_ipv6(literal)


def _is_ipv6(text: str) -> bool:
    if len(text) > _LONGEST_IPV6 or "%" in text or not text.isascii():
        return False
    try:
        inet_pton(AF_INET6, text)
    except (OSError, ValueError):
        return False
    return True


_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")

_FORMATS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "uuid": ("a UUID", lambda text: _UUID.fullmatch(text) is not None),
    "date-time": ("an RFC 3339 date-time with an offset from UTC", is_date_time),
    "uri": ("an absolute URI (RFC 3986)", is_uri),
}
_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "null": (type(None),),
}
