"""A process with the client for Python in it, as client.mjs is for Node: client.py <what> <JSON of options>.

Prints its measurement as one line of JSON, and ends. The measurement includes the time of the import.
"""

import sys
import time

sys.path.insert(0, __file__.rsplit("/bench/", 1)[0] + "/clients/python/src")
_began = time.perf_counter()
from clinical_events import Client  # noqa: E402

IMPORTED_MS = (time.perf_counter() - _began) * 1000

import json  # noqa: E402
import os  # noqa: E402
from collections import deque  # noqa: E402

# Nothing listens there.
AWAY = "http://127.0.0.1:9"
# Between two samples of the memory.
AT_ONCE = 500

what, text = sys.argv[1:]
options = json.loads(text)
refused = 0


def count_refused(*_):
    global refused
    refused += 1


def open_client(mode="os"):
    """The client, and a function that captures an event of the same size as the other loads."""
    event = json.loads(options["event"])
    app, artifact = event["system_metadata"], dict(event["artifact"])
    log = Client(
        options.get("url", AWAY),
        options.get("key", "none"),
        options["directory"],
        mode=mode,
        app_name=app["app_name"],
        hostname=app["hostname"],
        on_refused=count_refused,
        on_warning=lambda said: print(said, file=sys.stderr),
    )
    run = log.run(event["run_id"])
    of = {
        "parent_event_id": event["parent_event_id"],
        "latency_ms": app["latency_ms"],
        **artifact,
    }
    artifact_type = of.pop("artifact_type")
    return log, lambda: run.artifact(artifact_type, **of)


def steadily(per_second, seconds, act, between):
    """Calls act at a rate a second, for a number of seconds."""
    count = per_second * seconds
    begin = time.perf_counter()
    done = 0
    while done < count:
        due = min(count, int((time.perf_counter() - begin) * per_second))
        while done < due:
            act(done)
            done += 1
        between()


def percentiles(values):
    """In microseconds."""
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "max": 1}
    return {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for name, share in at.items()
    }


def cost():
    log, capture = open_client()
    rate, calls = options["rate"], []

    def act(done):
        before = time.perf_counter()
        capture()
        after = time.perf_counter()
        # The first second opens the spool and the connections.
        if done > rate:
            calls.append((after - before) * 1e6)

    steadily(rate, options["seconds"], act, lambda: time.sleep(0.0002))
    log.close(60 if "url" in options else 0)
    return {"microseconds": percentiles(calls)}


def durable():
    log, capture = open_client("fsync")
    pending, waits = deque(), []

    def look():
        now = time.perf_counter()
        while pending and pending[0][1].done:
            waits.append((now - pending.popleft()[0]) * 1e6)
        time.sleep(0.0002)

    begin = time.perf_counter()
    steadily(
        options["rate"],
        options["seconds"],
        lambda _: pending.append((time.perf_counter(), capture())),
        look,
    )
    while pending:
        look()
    seconds = time.perf_counter() - begin
    waiting = log.state.waiting
    log.close(0)
    return {
        "rate": waiting / seconds,
        "waiting": waiting,
        "events": len(waits),
        "microseconds": percentiles(waits),
    }


def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def backlog():
    log, capture = open_client()
    events = options["events"]
    before = highest = rss()
    begin = time.perf_counter()
    for captured in range(events):
        capture()
        if captured % AT_ONCE == 0:
            highest = max(highest, rss())
    rate = events / (time.perf_counter() - begin)
    waiting = log.state.waiting
    log.close(0)
    return {"waiting": waiting, "rate": rate, "grownBytes": highest - before}


def drain():
    log, _ = open_client()
    begin, cpu = time.perf_counter(), time.process_time()
    log.flush(300)
    seconds, used = time.perf_counter() - begin, time.process_time() - cpu
    left, quarantined = log.state.waiting, log.state.quarantined
    log.close()
    taken = options["waiting"] - left - quarantined
    return {
        "taken": taken,
        "left": left,
        "quarantined": quarantined,
        "seconds": seconds,
        "rate": taken / seconds,
        "cpuSeconds": used,
    }


measured = {"cost": cost, "durable": durable, "backlog": backlog, "drain": drain}[
    what
]()
print(json.dumps({**measured, "importedMs": IMPORTED_MS, "refused": refused}))
