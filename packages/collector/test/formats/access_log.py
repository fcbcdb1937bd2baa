"""Reads an access log, written from docs/internals/formats.md alone, with nothing but the standard library of Python 3.10.

    python3 access_log.py DIRECTORY

DIRECTORY has the files of an access log and `heads.ndjson`, the bodies of the heads in the order of the log. Prints what
is in it as JSON.
"""

import hashlib
import json
import re
import sys
from datetime import datetime
from pathlib import Path

NAME = re.compile(r"access(-\d{4})?\.log")
HEAD = re.compile(r"[0-9a-f]{64}")
FORMATS = {"clinical-events/access-log-head/v1": False, "clinical-events/access-log-closed/v1": True}


class Damaged(Exception):
    """The bytes are not of the format."""


def check(holds, what):
    if not holds:
        raise Damaged(what)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_actor(actor):
    return (
        isinstance(actor, dict)
        and actor.get("kind") in ("os", "oidc", "proxy")
        and isinstance(actor.get("name"), str)
        and all(isinstance(actor.get(name, ""), str) for name in ("role", "stated"))
        and isinstance(actor.get("proven", False), bool)
    )


def read_line(line):
    """None for a line that no collector wrote whole."""
    try:
        said = json.loads(line)
        datetime.strptime(said["at"], "%Y-%m-%dT%H:%M:%S.%fZ")
        right = all(isinstance(said[name], str) for name in ("reading", "command"))
        right = right and is_actor(said["actor"]) and is_count(said["uid"])
        right = right and (said["user"] is None or isinstance(said["user"], str))
        if said["state"] == "begun":
            right = right and isinstance(said["filter"], dict)
        else:
            right = right and said["state"] == "ended" and is_count(said["events"])
            right = right and isinstance(said["complete"], bool)
    except (ValueError, KeyError, TypeError):
        return None
    return said if right else None


def read_head(text):
    body = json.loads(text)
    check(body.get("format") in FORMATS, "a head of an unknown version")
    closes = FORMATS[body["format"]]
    file = body.get("file", "access.log")
    names = ["event_id", "format", *(["file"] if closes or file != "access.log" else []), "lines", "head"]
    check(list(body) == names, "the members of a head")
    check(json.dumps(body, separators=(",", ":")) == text, "white space in a head")
    check(NAME.fullmatch(file) and is_count(body["lines"]) and HEAD.fullmatch(body["head"]), "a head")
    return file, body["lines"], body["head"], closes


def read_file(path):
    """The lines, and the hash after each."""
    lines, hashes = [], [bytes(32)]
    for line in path.read_bytes().split(b"\n")[:-1]:
        hashes.append(hashlib.sha256(hashes[-1] + line).digest())
        lines.append(read_line(line))
    return lines, hashes


def decode(directory):
    found = {}
    # The name without a year sorts first.
    for path in sorted(directory.glob("access*.log"), key=lambda path: path.name.removesuffix(".log")):
        lines, hashes = read_file(path)
        found[path.name] = {"lines": lines, "hashes": hashes, "covered": 0, "closed": False}
    for text in (directory / "heads.ndjson").read_text("utf-8").splitlines():
        name, lines, head, closes = read_head(text)
        file = found[name]
        check(file["covered"] <= lines < len(file["hashes"]), "a head over lines that are missing")
        check(file["hashes"][lines].hex() == head, "the hash of a head")
        check(closes or not file["closed"], "a head of a closed file")
        file.update(covered=lines, closed=closes)
    return {name: {key: file[key] for key in ("lines", "covered", "closed")} for name, file in found.items()}


if __name__ == "__main__":
    json.dump(decode(Path(sys.argv[1])), sys.stdout)
