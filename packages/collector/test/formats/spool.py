"""Reads spools, written from docs/internals/formats.md alone, with nothing but the standard library of Python 3.10.

    python3 spool.py DIRECTORY

DIRECTORY has cases: directories with `spool/` and `case.json`, whose member `key` is the key of the spool. Prints what each
spool has, by the name of its case, as JSON.
"""

import base64
import hmac
import json
import re
import struct
import sys
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

from aes import Aes256

MARKER = b"\xff\x5a\xce\xfe"
KINDS = ["inference-start", "internal-artifact", "human-output", "outcome", "user-feedback"]
END = 255
LATEST = 8_640_000_000_000_000


class Refused(Exception):
    """The whole spool is refused."""


def hkdf(key, salt, info, size):
    pseudorandom = hmac.digest(salt, key, "sha256")
    out, block = b"", b""
    for number in range(1, -(-size // 32) + 1):
        block = hmac.digest(pseudorandom, block + info + bytes([number]), "sha256")
        out += block
    return out[:size]


def derived(key, segment_id):
    keys = hkdf(key, segment_id, b"clinical-events spool segment 1", 48)
    return keys[:32], keys[32:]


def time_text(milliseconds):
    if milliseconds == LATEST:
        return "+275760-09-13T00:00:00.000Z"
    at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def body_of(body):
    try:
        return {"event": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"event_base64": base64.b64encode(body).decode()}


def read_header(name, data, key):
    """(id, AES key or None, whether it can be read). None: the segment is of another version."""
    of_name = bytes.fromhex(name)
    aes = key and derived(key, of_name)[0]
    if len(data) < 64 or zlib.crc32(data[:60]) != struct.unpack_from("<I", data, 60)[0]:
        return of_name, aes, True
    if data[:8] == b"CE-SPOOL":
        raise Refused("format")
    if data[:8] != b"CLINSPOL":
        return of_name, aes, True
    if data[8] != 1 or data[9] > 1:
        return None
    identity = data[16:32]
    if data[9] == 0:
        return identity, None, True
    if key is None:
        return identity, None, False
    aes, check = derived(key, identity)
    if check != data[32:48]:
        raise Refused("key")
    return identity, aes, True


def read_frame(data, at, identity, aes):
    """None where no frame begins."""
    if len(data) - at < 32 or data[at + 4 : at + 8] != MARKER:
        return None
    crc, _, size, kind, flags, _, captured_at, number = struct.unpack_from("<I4sIBBHQQ", data, at)
    if not 32 <= size <= len(data) - at or zlib.crc32(identity + data[at + 4 : at + size]) != crc:
        return None
    if not (kind < len(KINDS) or kind == END) or captured_at > LATEST or flags > 1:
        return None
    body = data[at + 32 : at + size]
    if flags == 1:
        opens = aes is not None and len(body) >= 16
        nonce, header = bytes(4) + data[at + 24 : at + 32], data[at + 4 : at + 32]
        body = Aes256(aes).open_gcm(nonce, header, body[:-16], body[-16:]) if opens else None
        if body is None:
            return None
    return {"at": at, "size": size, "kind": kind, "captured_at": captured_at, "number": number, "body": body}


def looks_cut(data, at):
    rest = data[at:]
    if rest[4:8] != MARKER[: max(0, min(4, len(rest) - 4))]:
        return False
    if len(rest) < 12:
        return True
    (size,) = struct.unpack_from("<I", rest, 8)
    return size >= 32 and size > len(rest)


def read_marks(data, identity):
    marks, at = set(), 0
    while at + 8 <= len(data):
        crc, count = struct.unpack_from("<II", data, at)
        end = at + 8 + 4 * count
        if end > len(data) or zlib.crc32(identity + data[at + 4 : end]) != crc:
            break
        marks.update(struct.unpack_from(f"<{count}I", data, at + 8))
        at = end
    return marks


def read_segment(path, header, found):
    identity, aes, _ = header
    data = path.read_bytes()
    done = path.with_suffix(".done")
    marks = read_marks(done.read_bytes(), identity) if done.is_file() else set()
    at, written, events, marked, ended = 64, 0, 0, 0, False
    while at < len(data):
        frame = read_frame(data, at, identity, aes)
        if frame is None:
            end = at + 1
            while end < len(data) and read_frame(data, end, identity, aes) is None:
                marker = data.find(MARKER, end + 5)
                end = marker - 4 if marker >= 0 else len(data)
            if end == len(data) and not ended and looks_cut(data, at):
                found["cut"] += 1
            elif any(data[at:end]):
                found["damaged"].append({"file": f"{path.stem}-{at}.bytes", "bytes": end - at})
            at = end
            continue
        at += frame["size"]
        if frame["kind"] == END:
            ended, written = True, max(written, frame["number"])
            continue
        events, written = events + 1, max(written, frame["number"] + 1)
        if frame["at"] in marks:
            marked += 1
            continue
        found["events"].append(
            {"kind": KINDS[frame["kind"]], "captured_at": time_text(frame["captured_at"]), **body_of(frame["body"])}
        )
    found["missing"] += max(0, written - events - (len(marks) - marked))


def read_spool(directory, key):
    found = {"events": [], "cut": 0, "missing": 0, "damaged": []}
    parts = [path for path in sorted(directory.iterdir()) if re.fullmatch("[0-9a-f]{26}", path.name)]
    segments = []
    for part in parts:
        paths = [path for path in sorted(part.iterdir()) if re.fullmatch(r"[0-9a-f]{32}\.segment", path.name)]
        headers = [(path, read_header(path.stem, path.read_bytes(), key)) for path in paths]
        known = [(path, header) for path, header in headers if header is not None]
        if all(header[2] for _, header in known):
            segments += known
    for path, header in segments:
        read_segment(path, header, found)
    return found


def open_line(key, line):
    """The object of a quarantine's line, which may be encrypted."""
    said = json.loads(line)
    if "sealed" not in said:
        return said
    sealed = base64.b64decode(said["sealed"], validate=True)
    aes = hkdf(key, sealed[:32], b"clinical-events spool text 1", 48)[:32]
    return json.loads(Aes256(aes).open_gcm(bytes(12), b"", sealed[32:-16], sealed[-16:]))


def read_quarantine(directory, key):
    lines = [line for path in sorted(directory.glob("quarantine/*.ndjson")) for line in path.read_bytes().split(b"\n")[:-1]]
    return [open_line(key, line) for line in lines]


def main(directory):
    cases = {}
    for case in sorted(path.parent for path in directory.glob("*/case.json")):
        key = json.loads((case / "case.json").read_text("utf-8")).get("key")
        key = key and bytes.fromhex(key)
        try:
            cases[case.name] = read_spool(case / "spool", key)
            quarantine = read_quarantine(case / "spool", key)
            cases[case.name] |= {"quarantine": quarantine} if quarantine else {}
        except Refused as error:
            cases[case.name] = {"refused": str(error)}
    print(json.dumps(cases))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
