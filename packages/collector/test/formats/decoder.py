"""Reads a log, written from docs/internals/formats.md alone, with nothing but the standard library of Python 3.10.

    python3 decoder.py DIRECTORY

DIRECTORY has `ledger/` and, for encrypted payloads, `keys/` with the file `kek`. Prints what is in it as JSON. AES is slow
here: this is for small logs. Zstandard, which Python has since 3.14 only, is left to the program in `UNZSTD`.
"""

import base64
import hashlib
import json
import os
import re
import shlex
import struct
import subprocess
import sys
import zlib
from pathlib import Path

from aes import Aes256


class Damaged(Exception):
    """The bytes are not of the format."""


def check(holds, what):
    if not holds:
        raise Damaged(what)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


# --- Keys

LABEL = b"cle ggm sha512 1"
HEIGHT = 20


def key_of_place(bucket_id, nodes, place):
    """None where no node that is left covers the place."""
    for level, index, value in nodes:
        if place >> (HEIGHT - level) != index:
            continue
        while level < HEIGHT:
            children = hashlib.sha512(LABEL + bucket_id + bytes([level]) + struct.pack(">I", index) + value)
            level += 1
            index = place >> (HEIGHT - level)
            value = children.digest()[32:] if index & 1 else children.digest()[:32]
        return value
    return None


def read_epoch(path, kek):
    record = json.loads(path.read_text("utf-8"))
    members = {name: value for name, value in record.items() if name != "sha256"}
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False)
    check(sha256(text.encode()).hex() == record["sha256"], "the checksum of an epoch record")
    check(record["format"] == "clinical-events/epoch-key/v1", "the format of an epoch record")
    check(path.name == f"{record['epoch']:07}.json", "the name of an epoch record")
    for text in record["wrapped"]:
        wrapped = base64.b64decode(text)
        key = Aes256(kek).open_gcm(wrapped[:12], b"", wrapped[12:-16], wrapped[-16:])
        if key is not None and sha256(b"clinical-events epoch key check\0", key).hex() == record["check"]:
            return record["epoch"], key
    raise Damaged(f"{path.name}: no key is the one that was wrapped")


def read_key_state(name, data, epochs):
    check(data[:8] == b"CLEKEYS1" and len(data) >= 96, "a key state")
    crc, version, derivation, kind = struct.unpack_from("<IHBB", data, 8)
    check(crc == zlib.crc32(data[12:]), "the checksum of a key state")
    check((version, derivation) == (1, 1), "the version of a key state")
    ledger, bucket_id = data[16:32], data[32:48]
    first, generation, epoch = struct.unpack_from("<QQI", data, 48)
    due = {
        1: f"buckets/{first:016}-{bucket_id[:4].hex()}.keys",
        2: f"holds/{uuid_text(bucket_id)}.keys",
        3: "names.keys",
    }
    check(due.get(kind) == name, f"{name} has the name of its record")
    trees = Aes256(epochs[epoch]).open_gcm(data[68:80], data[12:68], data[80:-16], data[-16:])
    check(trees is not None, f"{name} opens by the key of its epoch")
    found, at = {}, 0
    while at < len(trees):
        end = at + 1 + trees[at]
        tree = trees[at + 1 : end].decode("ascii")
        (count,) = struct.unpack_from("<I", trees, end)
        at = end + 4
        nodes = []
        for _ in range(count):
            level, index = struct.unpack_from("<BI", trees, at)
            nodes.append((level, index, trees[at + 5 : at + 37]))
            at += 37
        found[tree] = nodes
    check(at == len(trees), "the trees of a key state")
    return {
        **{"kind": ["bucket", "hold", "names"][kind - 1], "ledger": ledger.hex(), "bucket_id": bucket_id},
        **{"first_sequence": first, "generation": generation, "epoch": epoch, "trees": found},
    }


def read_keys(directory):
    if not directory.is_dir():
        return {}
    kek = base64.b64decode((directory / "kek").read_text("ascii").strip())
    epochs = dict(read_epoch(path, kek) for path in sorted((directory / "epochs").iterdir()))
    paths = sorted(directory.glob("**/*.keys"))
    names = [path.relative_to(directory).as_posix() for path in paths]
    return {name: read_key_state(name, path.read_bytes(), epochs) for name, path in zip(names, paths)}


def read_notes(directory):
    """The notes of actions beside the keys."""
    notes = []
    for path in sorted(directory.glob("actions/*.json")):
        text = path.read_bytes()
        check(path.stem == hashlib.sha256(text).hexdigest()[:32], "the name of a note")
        check(text.endswith(b"\n"), "the end of a note")
        notes.append(json.loads(text))
    return notes


# --- Envelope and leaf

KINDS = ["inference-start", "internal-artifact", "human-output", "outcome", "user-feedback"]
PROFILES = ["minimum", "full"]
DOORS = ["endpoint", "import", "otlp"]
ACTION = 0x80


def uuid_text(data):
    return re.sub("^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-", data.hex())


def id_or_none(data):
    return uuid_text(data) if any(data) else None


def envelope_end(data, at):
    return at + 62 + data[at + 4] + data[at + 5]


def read_envelope(data):
    version, kind, profile, door, length, _, received_at = struct.unpack_from(">6BQ", data)
    check(version == 1, "the version of an envelope")
    check(kind >= ACTION or kind < len(KINDS), "the kind of an envelope")
    check(profile < len(PROFILES) and door < (1 if kind >= ACTION else len(DOORS)), "profile and door")
    return {
        "kind": kind if kind >= ACTION else KINDS[kind],
        **{"profile": PROFILES[profile], "door": DOORS[door], "received_at": received_at},
        **{"event_id": uuid_text(data[14:30]), "run_id": id_or_none(data[30:46])},
        "parent_id": id_or_none(data[46:62]),
        "organisation": data[62 : 62 + length].decode("ascii"),
        "key_id": data[62 + length :].decode("ascii"),
    }


def leaf_of(envelope, commitment):
    return b"\1" + envelope[6:14] + sha256(envelope) + commitment


# --- Segments

HEADER = 80


def unzstd(block):
    program = os.environ.get("UNZSTD", "zstd -dc")
    return subprocess.run(shlex.split(program), input=block, stdout=subprocess.PIPE, check=True).stdout


def unpacked(data, size):
    (length,) = struct.unpack_from("<I", data)
    block = unzstd(data[4 : 4 + length])
    rows, at = [], 0
    while at < len(block):
        if block[at] == 0:
            (live,) = struct.unpack_from("<I", block, at + 1)
            rows.append(live)
            at += 5
        else:
            end = envelope_end(block, at + 29)
            rows.append((block[at + 1 : at + 29], block[at + 29 : end]))
            at = end
    commitment = 4 + length
    live = commitment + 32 * sum(isinstance(row, tuple) for row in rows)
    out = bytearray()
    for row in rows:
        if isinstance(row, int):
            out += data[live : live + row]
            live += row
            continue
        fixed, envelope = row
        frame = bytearray(struct.unpack_from("<I", fixed)[0])
        frame[4:32] = fixed
        frame[9] = 2
        frame[32:64] = data[commitment : commitment + 32]
        frame[64 : 64 + len(envelope)] = envelope
        commitment += 32
        frame[:4] = struct.pack("<I", zlib.crc32(frame[4:]))
        out += frame
    check(len(out) == size and live == len(data), "the size of a packed group")
    return bytes(out)


def expanded(data):
    """A compacted segment as the segment that it was, and its compactions."""
    check(data[-36:-28] == b"CLINSEGF", "the end of a compacted segment")
    table, size, count, compactions, crc = struct.unpack("<QQIII", data[-28:])
    rows = data[table:-36]
    check(len(rows) == 24 * count + 32 * compactions, "the rows of a compacted segment")
    check(crc == zlib.crc32(rows + data[-28:-4]), "the checksum of the rows")
    out, at = bytearray(b"CLINSEGM" + data[8:HEADER]), HEADER
    for row in range(count):
        kind, read_size, here, group_crc = struct.unpack_from("<IQQI", rows, 24 * row)
        group = data[at : at + here]
        check(group_crc == zlib.crc32(group), "the checksum of a group")
        out += unpacked(group, read_size) if kind == 1 else group
        at += here
    check(at == table and len(out) == size, "the size of a compacted segment")
    done = []
    for row in range(24 * count, len(rows), 32):
        through, when = struct.unpack_from("<QQ", rows, row)
        done.append({"through": through, "at": when, "entry_id": uuid_text(rows[row + 16 : row + 32])})
    return bytes(out), done


def read_segment(path):
    data = path.read_bytes()
    compactions = []
    if data[:8] == b"CLINSEGC":
        data, compactions = expanded(data)
    check(data[:8] == b"CLINSEGM", "the beginning of a segment")
    crc, version = struct.unpack_from("<II", data, 8)
    check(crc == zlib.crc32(data[12:HEADER]), "the checksum of a segment")
    check(version == 1, "the version of a segment")
    address, first, created = struct.unpack_from("<QQQ", data, 16)
    own, action, action_address = struct.unpack_from("<QQQ", data, 56)
    check(path.name == f"{first:016}.segment", "the name of a segment")
    return data, {
        **{"name": path.name, "compactions": compactions, "address": address, "first_sequence": first},
        **{"created": created, "ledger": data[40:56].hex(), "own_before": own},
        "action_before": {"sequence": action, "address": action_address},
    }


def read_frame(data, at, states):
    crc, size, version, state, extension, body = struct.unpack_from("<IIBBHI", data, at)
    frame = data[at : at + size]
    check(len(frame) == size and crc == zlib.crc32(frame[4:]), "the checksum of a frame")
    check(version == 1 and state <= 2, "the version of a frame")
    sequence, durable_before = struct.unpack_from("<QQ", frame, 16)
    commitment, end = frame[32:64], envelope_end(frame, 64)
    check(size == end + extension + body, "the size of a frame")
    envelope = read_envelope(frame[64:end])
    leaf = leaf_of(frame[64:end], commitment)
    entry = {
        **{"sequence": sequence, "durable_before": durable_before, "size": size, **envelope},
        **{"state": ["plain", "encrypted", "erased"][state], "commitment": commitment.hex()},
        **{"leaf": leaf.hex(), "leaf_hash": sha256(b"\0", leaf).hex()},
    }
    before, salted = frame[end : size - body - 16], frame[size - body - 16 :]
    if state == 2:
        check(not any(frame[end:]), "an erased frame holds nothing")
        salted = None
    elif state == 1:
        entry["bucket"] = before[4:8].hex()
        entry["suite"] = struct.unpack_from("<I", before)[0]
        salted = opened(entry, sha256(b"\0", leaf), before, salted, states)
    elif envelope["kind"] == ACTION:
        earlier, address = struct.unpack("<QQ", before)
        entry["action_before"] = {"sequence": earlier, "address": address}
    else:
        check(before == b"", "the extension of a plain frame")
    if salted is not None:
        check(sha256(salted) == commitment, "the commitment of a payload")
        entry.update({"salt": salted[:16].hex(), "body": salted[16:].decode("utf-8")})
    return entry


def opened(entry, leaf_hash, before, sealed, states):
    """Salt and body; None where the key is gone."""
    tag = re.compile(rf"buckets/\d{{16}}-{entry['bucket']}\.keys")
    found = [state for name, state in states.items() if tag.fullmatch(name)]
    if not found:
        return None
    nodes = found[0]["trees"].get(entry["organisation"], [])
    key = key_of_place(found[0]["bucket_id"], nodes, entry["sequence"] - found[0]["first_sequence"])
    if key is None:
        return None
    if entry["suite"] == 1:
        salted = Aes256(key).open_gcm(leaf_hash[:12], leaf_hash, sealed, before[8:24])
        check(salted is not None, "the tag of a payload")
        return salted
    check(entry["suite"] == 2, "a known suite")
    return Aes256(key).ctr(leaf_hash[:16], sealed)


def read_ledger(directory, states):
    segments, entries = [], []
    paths = sorted(directory.iterdir())
    for number, path in enumerate(paths):
        data, segment = read_segment(path)
        last = entries[-1] if entries else {"sequence": 0, "address": 0, "size": 0}
        check(segment["first_sequence"] == last["sequence"] + 1, "the order of segments")
        check(segment["address"] == last["address"] + last["size"], "the address of a segment")
        at = HEADER
        while any(data[at : at + 8]):
            entry = read_frame(data, at, states)
            check(entry["sequence"] == segment["first_sequence"] + sum(e["segment"] == number for e in entries), "a gap")
            entries.append({**entry, "address": segment["address"] + at - HEADER, "segment": number})
            at += entry["size"]
        segments.append(segment)
    return segments, entries


def follow_pointers(segments, entries):
    """The sequences of all actions, newest first, as pointers lead from one to the next."""
    at_address = {entry["address"]: entry for entry in entries}
    for number, segment in enumerate(segments):
        known = [e for e in entries if e["kind"] == ACTION and e["sequence"] < segment["first_sequence"]]
        newest = known[-1] if known else {"sequence": 0, "address": 0}
        check(segment["action_before"] == {key: newest[key] for key in ("sequence", "address")}, "a header's pointer")
        check(segment["own_before"] == sum(
            isinstance(e["kind"], int) for e in entries if e["sequence"] < segment["first_sequence"]), "own entries")
    in_last = [e for e in entries if e["segment"] == len(segments) - 1 and e["kind"] == ACTION]
    pointer = {key: in_last[-1][key] for key in ("sequence", "address")} if in_last else segments[-1]["action_before"]
    found = []
    while pointer["sequence"] > 0:
        entry = at_address[pointer["address"]]
        check(entry["kind"] == ACTION and entry["sequence"] == pointer["sequence"], "a pointer leads to an action")
        found.append(entry["sequence"])
        pointer = entry["action_before"]
    return found


# --- Actions


def read_set(text):
    numbers, value, shift = [], 0, 0
    for byte in base64.b64decode(text, validate=True):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value, shift = 0, 0
    sequences, end = [], 0
    for gap, length in zip(numbers[::2], numbers[1::2]):
        sequences += range(end + gap, end + gap + length)
        end += gap + length
    return sequences


ERASE = (
    ["reason", "part", "parts"],
    ["policy", "rule", "plan", "marks", "record", "override_floor", "incomplete"],
    ["events", "keys"],
)
MEMBERS = {
    **{"policy": ["policy"], "hold": ["record"], "release": ["hold"], "done": [], "rotate": ["epoch"]},
    "quarantine": ["batches", "entries", "ids"],
}


def read_action(entry):
    body = json.loads(entry["body"])
    check(body["format"] == "clinical-events/action/v1", "the format of an action")
    check(body["event_id"] == entry["event_id"], "the id of an action")
    first = ["event_id", "format", "action", "does"]
    if body["does"] == "erase":
        optional = [name for name in ERASE[1] if name in body]
        due = first + ERASE[0] + optional + ERASE[2]
    else:
        due = first + MEMBERS[body["does"]]
    check(list(body) == due, "the members of an action")
    check(json.dumps(body, separators=(",", ":"), ensure_ascii=False) == entry["body"], "the text of an action")
    said = {"sequence": entry["sequence"], "action": body["action"], "does": body["does"]}
    if body["does"] == "erase":
        erased = [(keys["organisation"], read_set(keys["sequences"])) for keys in body["keys"]]
        check(len({n for _, numbers in erased for n in numbers}) == body["events"], "the number of events")
        said["erased"] = [{"organisation": of, "sequences": numbers} for of, numbers in erased]
    return said


# --- All of it


def root_of(hashes):
    """The Merkle tree hash of RFC 6962, section 2.1, of leaf hashes."""
    if len(hashes) == 1:
        return hashes[0]
    half = 1
    while half * 2 < len(hashes):
        half *= 2
    return sha256(b"\1", root_of(hashes[:half]), root_of(hashes[half:]))


def readable(state):
    trees = {
        name: [{"level": level, "index": index, "value": value.hex()} for level, index, value in nodes]
        for name, nodes in state["trees"].items()
    }
    shown = {**state, "bucket_id": state["bucket_id"].hex(), "trees": trees}
    if state["kind"] != "bucket":
        keys = {name: key_of_place(state["bucket_id"], nodes, 0) for name, nodes in state["trees"].items()}
        shown["keys"] = {name: key and key.hex() for name, key in keys.items()}
    return shown


def main(directory):
    states = read_keys(directory / "keys")
    segments, entries = read_ledger(directory / "ledger", states)
    actions = [read_action(entry) for entry in entries if entry["kind"] == ACTION]
    led_to = follow_pointers(segments, entries)
    check(led_to == [action["sequence"] for action in reversed(actions)], "pointers lead to every action")
    print(json.dumps({
        "segments": segments,
        "entries": entries,
        "root": root_of([bytes.fromhex(entry["leaf_hash"]) for entry in entries]).hex(),
        "actions": actions,
        "keys": {name: readable(state) for name, state in states.items()},
        "notes": read_notes(directory / "keys"),
    }, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
