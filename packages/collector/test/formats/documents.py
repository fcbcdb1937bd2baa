"""Reads plan, certificate and back-up with its API keys, written from docs/internals/formats.md alone, with nothing but the
standard library of Python 3.10.

    python3 documents.py DIRECTORY

DIRECTORY has `plan.json`, `certificate.json`, `backup/`, and `keys/` with the payload keys and the file `kek`. Prints what
is in them as JSON.
"""

import base64
import json
import re
import sqlite3
import sys
from datetime import datetime, timezone
from pathlib import Path

from aes import Aes256
from decoder import check, key_of_place, read_action, read_keys, read_ledger, root_of, sha256


def has_members(said, names, what):
    check(sorted(said) == sorted(names), f"the members of {what}")


# --- Plan

PLAN = "format log made through policy holds asked searched unread unmatched late sha256 events".split()
PLAN_EVENT = "sequence id run organisation kind received_at size because about blocked why erase".split()


def read_plan(path):
    plan = json.loads(path.read_text("utf-8"))
    check(plan["format"] == "clinical-events/erasure-plan/v1", "the format of a plan")
    has_members(plan, PLAN, "a plan")
    for event in plan["events"]:
        has_members(event, PLAN_EVENT, "an event of a plan")
        check(isinstance(event["erase"], bool), "a mark")
    hashed = {name: value for name, value in plan.items() if name != "sha256"}
    hashed["events"] = [{name: event[name] for name in event if name != "erase"} for event in plan["events"]]
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    check(sha256(text.encode()).hex() == plan["sha256"], "the SHA-256 of a plan")
    marks = "".join(f"{event['sequence']} {str(event['erase']).lower()}\n" for event in plan["events"])
    return plan, sha256(marks.encode()).hex()


# --- Certificate

CERTIFICATE = """format action reason log tool case planner applier mentions left overridden unread set_by_hand incomplete
    whole floors_overridden policy rule plan marks entries done_entry checkpoint printed began keys_destroyed organisations
    events events_by_kind runs first_received last_received bytes_left event_ids event_numbers bytes_removed directories
    key_wrapped_by keys_away copies left_out key_epoch_ended mirror_of mirrors viewers""".split()


def read_certificate(path):
    said = json.loads(path.read_text("utf-8"))
    check(said["format"] == "clinical-events/erasure-certificate/v1", "the format of a certificate")
    has_members({name: said[name] for name in said if name != "access_log_missing"}, CERTIFICATE, "a certificate")
    named = [(of, event) for of, ids in said["event_ids"].items() for event in ids]
    check(len(named) == said["events"] == sum(said["events_by_kind"].values()), "the number of events")
    check(sorted(said["event_ids"]) == said["organisations"] == sorted(said["event_numbers"]), "the organisations")
    for of, ids in said["event_ids"].items():
        check(len(ids) == len(said["event_numbers"][of]), "the sequences")
    return said


# --- API keys

APPLICATION = 0x434C4B59
KINDS = ["inference-start", "internal-artifact", "human-output", "outcome", "user-feedback", "otlp"]


def read_api_keys(path):
    database = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    check(database.execute("PRAGMA application_id").fetchone() == (APPLICATION,), "the application id of the keys")
    check(database.execute("PRAGMA user_version").fetchone() == (1,), "the version of the keys")
    database.row_factory = sqlite3.Row
    keys = []
    for row in database.execute("SELECT * FROM api_key ORDER BY created_order"):
        key = {name: row[name] for name in row.keys() if name != "created_order" and row[name] is not None}
        check(len(key["hash"]) == 32 and re.fullmatch("[a-z2-7]{12}", key["key_id"]), "an API key")
        check(key["permissions"] == "all" or set(key["permissions"].split(",")) <= set(KINDS), "permissions")
        check(("rate_per_second" in key) == ("rate_burst" in key), "a rate limit")
        keys.append({**key, "hash": key["hash"].hex()})
    database.close()
    return keys


# --- Back-up

BACKUP = "format origin ledger_id at events entries signed_entries last_received_at growing".split()


def milliseconds(text):
    at = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    return round(at.timestamp() * 1000)


def open_sealed(key, record):
    sealed = base64.b64decode(record["sealed"], validate=True)
    text = Aes256(key).open_gcm(sealed[:12], record["action"].encode(), sealed[12:-16], sealed[-16:])
    check(text is not None, "the tag of a record")
    return text


def open_record(path, states, kek):
    """The text of a record, and the SHA-256 that its action has."""
    whole = path.read_bytes()
    record = json.loads(whole)
    check(path.stem == record["action"], "the name of a record")
    if record["format"] == "clinical-events/hold/v1":
        return record, sha256(whole).hex()
    if record["format"] == "clinical-events/sealed-hold/v1":
        hold = states[f"holds/{record['action']}.keys"]
        key = key_of_place(hold["bucket_id"], hold["trees"][""], 0)
        opened = json.loads(open_sealed(key, record))
        check(opened["format"] == "clinical-events/hold/v1", "the format of a hold")
        return opened, sha256(whole).hex()
    check(record["format"] == "clinical-events/erasure-record/v1", "the format of a record")
    wrapped = base64.b64decode(record["key"].split(" ")[0])
    text = open_sealed(Aes256(kek).open_gcm(wrapped[:12], b"", wrapped[12:-16], wrapped[-16:]), record)
    return json.loads(text), sha256(text).hex()


def read_records(directory, entries, keys):
    states, kek = read_keys(keys), base64.b64decode((keys / "kek").read_text("ascii").strip())
    bodies = [json.loads(entry["body"]) for entry in entries if entry["kind"] == 0x80 and read_action(entry)]
    logged = {body["action"]: body["record"] for body in bodies if "record" in body}
    records = {}
    for path in sorted(directory.glob("lifecycle/*/*.json")):
        record, digest = open_record(path, states, kek)
        check(logged[record["action"]] == digest, "the SHA-256 of a record")
        records[path.relative_to(directory).as_posix()] = record
    return records


def read_backup(directory, keys):
    state = json.loads((directory / "backup.json").read_text("utf-8"))
    check(state["format"] == "clinical-events/backup/v1", "the format of a back-up")
    has_members(state, BACKUP, "a back-up")
    segments, entries = read_ledger(directory / "ledger", read_keys(keys))
    events = [entry for entry in entries if not isinstance(entry["kind"], int)]
    check({segment["ledger"] for segment in segments} == {state["ledger_id"]}, "the log of a back-up")
    check((len(entries), len(events)) == (state["entries"], state["events"]), "the number of entries")
    check(events[-1]["received_at"] == milliseconds(state["last_received_at"]), "the time of the last event")
    check(segments[-1]["name"] == state["growing"], "the segment that grew")
    origin, size, root = (directory / "checkpoints/latest").read_text("utf-8").split("\n")[:3]
    check((origin, int(size)) == (state["origin"], state["signed_entries"]), "the newest checkpoint")
    leaves = [bytes.fromhex(entry["leaf_hash"]) for entry in entries[: int(size)]]
    check(root_of(leaves) == base64.b64decode(root), "the root of the newest checkpoint")
    check((directory / "checkpoints/origin.vkey").read_text("utf-8").startswith(f"{origin}+"), "the first key")
    return state, read_records(directory, entries, keys)


def main(directory):
    plan, marks = read_plan(directory / "plan.json")
    certificate = read_certificate(directory / "certificate.json")
    check((certificate["plan"], certificate["marks"]) == (plan["sha256"], marks), "the plan of a certificate")
    backup, records = read_backup(directory / "backup", directory / "keys")
    print(json.dumps({
        **{"plan": plan, "marks": marks, "certificate": certificate},
        **{"keys": read_api_keys(directory / "backup/keys.db"), "backup": backup, "records": records},
    }))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
