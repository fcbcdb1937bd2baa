"""The validator agrees with the collector on every event."""

from __future__ import annotations

import json
import re
import unittest
from typing import Any

from scripts import schemas
from tests import support

from clinical_events._schema import KINDS, PROFILES, expectation, is_date_time, is_uri, resolved, validator

EXAMPLES = support.ROOT / "packages" / "protocol" / "examples"
EXPECTATIONS = support.ROOT / "packages" / "protocol" / "src" / "generated" / "expectations.ts"

BASE: dict[str, Any] = {
    "event_id": "2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12",
    "timestamp": "2026-03-02T09:31:44.182+01:00",
    "protocol_version": "0.0.1",
    "system_metadata": {},
}
SMALLEST: dict[str, dict[str, dict[str, Any]]] = {
    "minimum": {
        "inference-start": {},
        "internal-artifact": {"artifact": {"artifact_type": "other", "artifact_uri": "urn:x:1"}},
        "human-output": {"output": {}},
        "outcome": {"outcome": {}},
        "user-feedback": {"feedback": {}},
    },
    "full": {
        "inference-start": {"model_instance": {}, "user_identity": {}, "target_identity": {}, "inputs": {}},
        "internal-artifact": {"artifact": {"artifact_type": "other", "artifact_uri": "urn:x:1"}},
        "human-output": {"output": {"output_uri": "somewhere"}},
        "outcome": {"outcome": {"outcome_type": "unknown"}},
        "user-feedback": {"feedback": {"feedback_type": "text"}},
    },
}

NO_TEXTS = [5, True, None, [], ["x"], {}, {"x": "x"}]
NO_UUIDS = ["", "x", "2f1d7c3a9b4e4e0f8c615a7d0b3e9f12", "2f1d7c3a-9b4e-4e0f-8c61-5a7d0b3e9f12\n"]
NO_TIMES = ["", "2026-03-02", "2026-03-02T09:31:44", "2026-02-29T09:31:44Z", "2026-03-02 09:31:44Z"]
UUIDS = ["2F1D7C3A-9B4E-1E0F-8C61-5A7D0B3E9F12", "00000000-0000-0000-0000-000000000000"]

Faults = tuple[list[Any], list[Any], str]
TEXT: Faults = (["", "é🙂", "\0"], NO_TEXTS, "must be a string")
OBJECT: Faults = ([], ["x", 0, True, None, [], [{}]], "must be an object")
UUID: Faults = (UUIDS, [*NO_TEXTS, *NO_UUIDS], "must be a UUID")
UUID_OR_NULL: Faults = ([*UUIDS, None], [5, True, [], *NO_UUIDS, "null"], "must be a UUID or null")
TIME: Faults = (
    ["2024-02-29T23:59:60Z", "1985-04-12t23:20:50.52z", "2026-03-02T09:31:44-00:00"],
    [*NO_TEXTS, *NO_TIMES],
    "must be an RFC 3339 date-time with an offset from UTC",
)
NOT_EMPTY: Faults = ([" ", "0"], [*NO_TEXTS, ""], "must be a non-empty string")
INT32: Faults = (
    [0, -0.0, 1.0, 2147483647, -2147483648],
    [2147483648, -2147483649, 1.5, 1e300, "1", None, True, []],
    "must be an integer from -2147483648 to 2147483647",
)
URI: Faults = (
    ["https://a.example/b?c#d", "urn:uuid:x", "s3://bucket/key", "file:///x"],
    [*NO_TEXTS, "", "x", "/x", "//a/b", "https://a.example/a b", "http://[::1", "a:%zz"],
    "must be an absolute URI (RFC 3986)",
)
RATING: Faults = ([0, 5, 2.5], [-0.1, 5.01, "3", None, True], "must be a number from 0 to 5")


def one_of(*words: str) -> Faults:
    bad = [*NO_TEXTS, "", "x", words[0].upper()]
    return list(words), bad, f"must be one of {', '.join(words)}"


#: Kind ("" for all), pointer, valid and invalid values, and the profiles that require it and that know it.
FIELDS: list[tuple[str, str, Faults, str, str]] = [
    ("", "/event_id", UUID, "minimum full", "minimum full"),
    ("", "/run_id", UUID, "", "minimum full"),
    ("", "/parent_event_id", UUID_OR_NULL, "", "minimum full"),
    ("", "/timestamp", TIME, "minimum full", "minimum full"),
    ("", "/protocol_version", NOT_EMPTY, "minimum full", "minimum full"),
    ("", "/system_metadata", OBJECT, "minimum full", "minimum full"),
    ("", "/system_metadata/hostname", TEXT, "", "minimum full"),
    ("", "/system_metadata/latency_ms", INT32, "", "minimum full"),
    ("inference-start", "/model_instance", OBJECT, "full", "minimum full"),
    ("inference-start", "/model_instance/model_id", TEXT, "", "minimum full"),
    ("inference-start", "/user_identity", OBJECT, "full", "minimum full"),
    ("inference-start", "/target_identity", OBJECT, "full", "minimum full"),
    ("inference-start", "/target_identity/target_id", TEXT, "", "minimum full"),
    ("inference-start", "/inputs", OBJECT, "full", "minimum full"),
    ("inference-start", "/inputs/prompt", TEXT, "", "minimum full"),
    (
        *("inference-start", "/user_identity/caller_type"),
        *(one_of("clinician", "patient", "admin", "service"), "", "full"),
    ),
    ("internal-artifact", "/artifact", OBJECT, "minimum full", "minimum full"),
    ("internal-artifact", "/artifact/artifact_uri", URI, "minimum full", "minimum full"),
    (
        *("internal-artifact", "/artifact/artifact_type"),
        one_of("text_chunk", "reasoning_trace", "tool_call", "explanation", "other"),
        *("minimum full", "minimum full"),
    ),
    ("human-output", "/output", OBJECT, "minimum full", "minimum full"),
    ("human-output", "/output/output_uri", TEXT, "full", "minimum full"),
    ("human-output", "/output/summary", TEXT, "", "minimum full"),
    (
        *("human-output", "/output/output_type"),
        *(one_of("text", "image", "video", "audio", "other"), "", "full"),
    ),
    ("outcome", "/outcome", OBJECT, "minimum full", "minimum full"),
    (
        *("outcome", "/outcome/outcome_type"),
        *(one_of("validated", "contradicted", "partial", "unknown"), "full", "full"),
    ),
    ("outcome", "/outcome/occurred_at", TIME, "", "full"),
    ("user-feedback", "/feedback", OBJECT, "minimum full", "minimum full"),
    ("user-feedback", "/feedback/rating_value", RATING, "", "full"),
    ("user-feedback", "/feedback/comment", TEXT, "", "full"),
]


def smallest(kind: str, profile: str) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(json.dumps({**BASE, **SMALLEST[profile][kind]}))
    return event


def with_field(event: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    *around, last = pointer[1:].split("/")
    holder = event
    for name in around:
        holder = holder.setdefault(name, {})
    holder[last] = value
    return event


def without_field(event: dict[str, Any], pointer: str) -> dict[str, Any]:
    *around, last = pointer[1:].split("/")
    holder = event
    for name in around:
        holder = holder.get(name, {})
    holder.pop(last, None)
    return event


class Schemas(unittest.TestCase):
    def setUp(self) -> None:
        self.check = {(kind, profile): validator(kind, profile) for kind in KINDS for profile in PROFILES}

    def test_the_package_has_the_schemas_of_the_protocol(self) -> None:
        """[R-861] The client checks by the very schemas of the protocol."""
        held = {path.name: path.read_bytes() for path in schemas.TARGET.glob("*.json")}
        self.assertEqual(held, schemas.wanted(), "run clients/python/scripts/schemas.py")

    def test_an_event_with_its_required_fields_alone_is_valid(self) -> None:
        for (kind, profile), check in self.check.items():
            self.assertEqual(check(smallest(kind, profile)), [])

    def test_the_examples_of_the_protocol_are_valid_in_their_profiles(self) -> None:
        for kind in KINDS:
            for example in json.loads((EXAMPLES / f"{kind}.json").read_bytes()).values():
                for profile in PROFILES:
                    issues = self.check[kind, profile](example["value"])
                    self.assertEqual(issues == [], profile in example["profiles"], (kind, profile, issues))

    def test_every_field_accepts_its_valid_values_only(self) -> None:
        """[R-861] An event is valid for the client where it is for the collector, with the same words."""
        for kind, profile, pointer, (good, bad, message), known in self.each_field():
            check = self.check[kind, profile]
            for value in good:
                self.assertEqual(check(with_field(smallest(kind, profile), pointer, value)), [], pointer)
            for value in bad:
                issues = check(with_field(smallest(kind, profile), pointer, value))
                told = [(at, words) for at, _, words in issues]
                self.assertEqual(told, [(pointer, message)] if known else [], (pointer, value))

    def test_a_field_is_required_where_its_profile_says_so(self) -> None:
        for own, pointer, _, required, _ in FIELDS:
            for kind in (own,) if own else KINDS:
                for profile in PROFILES:
                    issues = self.check[kind, profile](without_field(smallest(kind, profile), pointer))
                    wanted = [(pointer, "required", "is required")] if profile in required else []
                    self.assertEqual(issues, wanted)

    def test_all_faults_are_reported_together_and_each_field_once(self) -> None:
        for kind, profile, pointer, (_, bad, _), known in self.each_field():
            if known and not pointer.startswith("/event_id"):
                event = with_field({**smallest(kind, profile), "event_id": 1}, pointer, bad[0])
                pointers = [at for at, _, _ in self.check[kind, profile](event)]
                self.assertEqual(pointers, ["/event_id", pointer])
        for value in (None, True, 0, "", "x", [], [BASE]):
            self.assertEqual(self.check["outcome", "full"](value), [("", "type", "must be an object")])

    def test_the_message_of_every_field_is_that_of_the_collector(self) -> None:
        wanted = dict(re.findall(r'^ {2}"(.*)": "(.*)",$', EXPECTATIONS.read_text("utf-8"), re.MULTILINE))
        found: dict[str, str] = {}

        def gather(schema: dict[str, Any], pointer: str) -> None:
            found[pointer] = expectation(schema)
            for name, inner in schema.get("properties", {}).items():
                gather(inner, f"{pointer}/{name}")

        for kind in KINDS:
            for profile in PROFILES:
                gather(resolved(f"{kind}.{profile}.json"), "")
        self.assertEqual(found, wanted)

    def each_field(self) -> list[tuple[str, str, str, Faults, bool]]:
        return [
            (kind, profile, pointer, faults, profile in known)
            for own, pointer, faults, _, known in FIELDS
            for kind in ((own,) if own else KINDS)
            for profile in PROFILES
        ]


class Formats(unittest.TestCase):
    def test_a_date_time_is_one_of_rfc_3339(self) -> None:
        for text in (
            *("1985-04-12T23:20:50.52Z", "1996-12-19T16:39:57-08:00", "1990-12-31T23:59:60Z"),
            *("1990-12-31T15:59:60-08:00", "1991-01-01T05:29:60+05:30", "2000-02-29t00:00:00-00:00"),
            *("0000-01-01T00:00:00Z", f"2026-03-02T09:31:44.{'1' * 1000}Z"),
        ):
            self.assertTrue(is_date_time(text), text)
        for text in (
            *("2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z", "2026-04-00T00:00:00Z"),
            *("2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-03-02T24:00:00Z", "2026-03-02T09:60:00Z"),
            *("2026-12-31T23:59:61Z", "2026-12-31T22:59:60Z", "2026-12-31T23:59:60+01:00"),
            *("2026-03-02T09:31:44.Z", "2026-03-02T09:31:44,5Z", "2026-03-02T09:31:44+0100"),
            *("2026-03-02T09:31:44+24:00", "2026-03-02T09:31:44Z\n", "\uff12026-03-02T09:31:44Z"),
        ):
            self.assertFalse(is_date_time(text), text)

    def test_a_uri_is_one_of_rfc_3986(self) -> None:
        for text in (
            *("ftp://ftp.is.co.za/rfc/rfc1808.txt", "ldap://[2001:db8::7]/c=GB?objectClass?one", "x:"),
            *("mailto:John.Doe@example.com", "tel:+1-816-555-1212", "s3://bucket/a%20key", "http://"),
            *("http://user:secret@host:8080/a//b?c=d/e?f#g/h?i", "http://[v7.abc:def]/", "http://host:/"),
            *("http://[::ffff:192.0.2.1]:80", "http://[1:2:3:4:5:6:7::]/", "data:text/plain;base64,SGVsbG8="),
        ):
            self.assertTrue(is_uri(text), text)
        for text in (
            *("", "a/b", "//host/a", "#a", "1a:b", "a%41:b", ":b", "http://host/a b", "http://host\\a"),
            *("http://host/{id}", "http://host/é", "http://host/%4", "a:b#c#d", "http://host:8o"),
            *("http://host/[1]", "http://[::1/", "http://[1::2::3]/", "http://[fe80::1%25en0]/"),
            *("http://[1:2:3:4::5:6:7:8]/", "http://[::1]x/", "http://a@b@c/", "http://host/\n"),
        ):
            self.assertFalse(is_uri(text), text)

    def test_a_long_text_takes_linear_time(self) -> None:
        for text in (f"http://{'a' * 1_000_000} ", f"a:{'%41' * 300_000}%", f"http://[{':' * 1_000_000}]/"):
            self.assertFalse(is_uri(text))


if __name__ == "__main__":
    unittest.main()
