"""Values of an application: sent exactly, or refused with type and place and without the value."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import types
import unittest
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from tests import support  # noqa: F401

from clinical_events import EventInvalid
from clinical_events._values import json_bytes, json_value

MOST = 1 << 20


def sent(value: Any) -> Any:
    """The result of a reader of the JSON text."""
    return json.loads(json_bytes(json_value({"value": value}, MOST), MOST))["value"]


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):
    HIGH = "high"


class Level(enum.IntEnum):
    TWO = 2


@dataclasses.dataclass
class Vital:
    name: str
    at: datetime.datetime
    unit: ClassVar[str] = "mmHg"


class Pydantic2:
    def model_dump(self) -> dict[str, Any]:
        return {"risk": 0.5, "when": datetime.date(2026, 11, 28)}


class Pydantic1:
    __fields__: ClassVar[dict[str, Any]] = {"risk": None}

    def dict(self) -> dict[str, Any]:
        return {"risk": 0.5}


class Kind:
    def __init__(self, kind: str) -> None:
        self.kind = kind


class Scalar:
    """As numpy has them."""

    ndim = 0

    def __init__(self, item: Any, kind: str) -> None:
        self._item = item
        self.dtype = Kind(kind)

    def item(self) -> Any:
        return self._item

    def tolist(self) -> Any:
        return self._item


class Array(Scalar):
    ndim = 1


class Frozen(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return {"a": (1, None)}[key]

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Hostile:
    @property
    def ndim(self) -> int:
        raise ValueError("secret words")

    def item(self) -> int:
        return 1


AWARE = datetime.datetime(2026, 11, 28, 9, 30, 1, 250_000, tzinfo=datetime.timezone.utc)
IDENTITY = uuid.UUID("2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12")
Pair = collections.namedtuple("Pair", "a b")

TAKEN: list[tuple[str, Any, Any]] = [
    ("an aware datetime", AWARE, "2026-11-28T09:30:01.250000+00:00"),
    ("a date", datetime.date(2026, 11, 28), "2026-11-28"),
    ("a UUID", IDENTITY, str(IDENTITY)),
    ("a Decimal that a double equals", decimal.Decimal("0.93"), 0.93),
    ("a Decimal with zeros at its end", decimal.Decimal("1.500"), 1.5),
    ("a tuple", (1, (2, None)), [1, [2, None]]),
    ("a named tuple", Pair(1, 2), [1, 2]),
    ("an Enum", Colour.RED, "red"),
    ("an Enum that is a str", Word.HIGH, "high"),
    ("an IntEnum", Level.TWO, 2),
    ("a dataclass", Vital("bp", AWARE), {"name": "bp", "at": "2026-11-28T09:30:01.250000+00:00"}),
    ("a model of pydantic 2", Pydantic2(), {"risk": 0.5, "when": "2026-11-28"}),
    ("a model of pydantic 1", Pydantic1(), {"risk": 0.5}),
    ("a Mapping", Frozen(), {"a": [1, None]}),
    ("a mappingproxy", types.MappingProxyType({"a": 1}), {"a": 1}),
    ("an OrderedDict", collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ("a float32 of numpy, widened exactly", Scalar(0.9300000071525574, "f"), 0.9300000071525574),
    ("an int64 of numpy", Scalar(3, "i"), 3),
    ("a bool of numpy", Scalar(True, "b"), True),
    ("a key that is an Enum of texts", {Word.HIGH: 1}, {"high": 1}),
    ("None in a value", {"lactate": None}, {"lactate": None}),
    ("a whole number of 64 bits", 2**64 - 1, 2**64 - 1),
    ("a NUL and characters beyond the plane", "\0é🙂", "\0é🙂"),
]

_circle: dict[str, Any] = {}
_circle["again"] = [_circle]

REFUSED: list[tuple[str, Any, str, str]] = [
    ("a naive datetime", datetime.datetime(2026, 11, 28), "without a time zone", "/value"),
    ("NaN", float("nan"), "not a finite number", "/value"),
    ("infinity", {"x": [1, float("inf")]}, "not a finite number", "/value/x/1"),
    ("a NaN of numpy", Scalar(float("nan"), "f"), "not a finite number", "/value"),
    ("a lone surrogate", ["\ud800"], "lone surrogate", "/value/0"),
    ("a lone surrogate in a key", {"\udc80": 1}, "lone surrogate", "/value/*"),
    ("bytes", b"secret words", "of the type bytes", "/value"),
    ("a set", {"secret words"}, "of the type set", "/value"),
    ("a timedelta", datetime.timedelta(1), "of the type timedelta", "/value"),
    ("a time of day", datetime.time(9), "of the type time", "/value"),
    ("a generator", (x for x in "ab"), "of the type generator", "/value"),
    ("an object without a conversion", object(), "of the type object", "/value"),
    ("a class", Vital, "of the type type", "/value"),
    ("an array of numpy", Array([1], "f"), "use tolist()", "/value"),
    ("a datetime64 of numpy", Scalar(1_795_900_000_000_000_000, "M"), "of the type Scalar", "/value"),
    ("a Decimal that no double equals", decimal.Decimal("0.1234567890123456789"), "Decimal", "/value"),
    ("a Decimal that is NaN", decimal.Decimal("sNaN"), "not a finite number", "/value"),
    ("a key that is a number", {1: 2}, "of the type int", "/value"),
    ("a key that is None", {"a": {None: 1}}, "of the type NoneType", "/value/a"),
    ("a number beyond a double", 10**400, "beyond the range", "/value"),
    ("what holds itself", _circle, "64 levels", "/value" + "/again/0" * 31 + "/again"),
    ("what throws when it is read", {"secret words": Hostile()}, "cannot be read", "/value/*"),
]


class Values(unittest.TestCase):
    def test_every_value_that_json_has_is_sent_exactly(self) -> None:
        """[R-1413] A value of an application is sent exactly."""
        for name, given, wanted in TAKEN:
            with self.subTest(name):
                self.assertEqual(sent(given), wanted)
                self.assertIs(type(sent(given)), type(wanted))

    def test_every_other_value_is_refused_with_its_type_and_place(self) -> None:
        """[R-1413] Any other value is refused with type and place, and without the value."""
        for name, given, words, pointer in REFUSED:
            with self.subTest(name):
                with self.assertRaises(EventInvalid) as raised:
                    sent(given)
                self.assertIn(words, str(raised.exception))
                self.assertEqual(raised.exception.pointer, pointer)
                self.assertNotIn("secret", str(raised.exception))

    def test_sixty_four_levels_are_taken_and_sixty_five_are_refused(self) -> None:
        for levels, fits in ((63, True), (64, False)):
            value: Any = 1
            for _ in range(levels):
                value = [value]
            # The event itself is one level.
            if fits:
                self.assertEqual(sent(value), value)
            else:
                with self.assertRaises(EventInvalid) as raised:
                    sent(value)
                self.assertEqual(raised.exception.code, "nesting_too_deep")

    def test_the_size_is_that_of_the_text_and_a_structure_that_multiplies_ends_early(self) -> None:
        body = {"value": "é" * 10}
        value = json_value(body, MOST)
        self.assertEqual(len(json_bytes(value, 32)), 32)
        bomb: Any = ["x"] * 10
        for _ in range(50):
            bomb = [bomb] * 10
        for limit, given in ((31, body), (1 << 16, {"bomb": bomb}), (1000, {"a": ["x"] * 1_000_000})):
            with self.assertRaises(EventInvalid) as raised:
                json_bytes(json_value(given, limit), limit)
            self.assertEqual(raised.exception.code, "body_too_large")

    def test_a_later_change_of_a_value_does_not_change_the_event(self) -> None:
        given: dict[str, Any] = {"list": [1], "dict": {"a": 1}}
        copy = json_value(given, MOST)
        given["list"].append(2)
        given["dict"]["a"] = 2
        self.assertEqual(copy, {"list": [1], "dict": {"a": 1}})

    def test_the_scalars_of_numpy_itself(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy is not installed")
        taken = [numpy.float32(0.93), numpy.int64(3), numpy.bool_(1), numpy.float64(0.1)]
        self.assertEqual(sent(taken), [float(numpy.float32(0.93)), 3, True, 0.1])
        day = numpy.datetime64("2026-11-28")
        for value in (numpy.zeros(2), day, numpy.float32("nan"), numpy.longdouble(1)):
            with self.assertRaises(EventInvalid):
                sent(value)

    def test_the_models_of_pydantic_itself(self) -> None:
        try:
            import pydantic
        except ImportError:
            self.skipTest("pydantic is not installed")
        model = pydantic.create_model("Score", risk=(float, 0.5), at=(datetime.datetime, AWARE))
        self.assertEqual(sent(model()), {"risk": 0.5, "at": "2026-11-28T09:30:01.250000+00:00"})


if __name__ == "__main__":
    unittest.main()
