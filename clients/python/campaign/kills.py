"""Captures with a real collector while processes are killed: what was acknowledged is in the ledger once.

Writers capture into one spool, fork, and are killed by SIGKILL at moments that the seed chooses; the others
adopt what they leave and send it. In the end the collector's own log is read, and verified by its command.

    python3 clients/python/campaign/kills.py [--captures 1000000] [--kills 200] [--writers 4] [--seed N]

Prints one line of JSON, and ends with 0 when nothing was lost, nothing stored twice, and the log is intact.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "clients/python/src"))

from clinical_events import Client  # noqa: E402

COLLECTOR = [str(ROOT / "node_modules/.bin/node"), str(ROOT / "packages/collector/dist/main.js")]
BATCH = 50


def write(place: pathlib.Path, seed: int) -> None:
    """Captures until it is killed. Each id is noted once its event is acknowledged."""
    chance = random.Random(seed)
    log = Client(mode=chance.choice(["os", "os", "os", "fsync"]))
    notes = os.open(place / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def capture(count: int) -> None:
        run = log.start_run(model={"model_id": "m"})
        events = [
            run.output(summary="s" * min(200_000, int(chance.paretovariate(0.9)) * 10))
            for _ in range(count - 1)
        ]
        kept = [event.event_id for event in (run.start, *events) if event.wait()]
        os.write(notes, "".join(f"{event_id}\n" for event_id in kept).encode())

    while os.getppid() == int(os.environ["CAMPAIGN_PARENT"]):
        if chance.random() < 0.002:
            child = os.fork()
            if child == 0:
                capture(20)
                os._exit(0)
            os.waitpid(child, 0)
        capture(BATCH)
        # Not faster than a collector on the same two cores takes them.
        time.sleep(BATCH * 0.0006)


def start_collector(place: pathlib.Path) -> tuple[subprocess.Popen[str], str, str]:
    command = [*COLLECTOR, "serve", "--data-dir", str(place / "data"), "--port", "0"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    url = key = ""
    while serving.stdout is not None and not (url and key):
        line = serving.stdout.readline()
        if not line:
            raise SystemExit("the collector does not start")
        if found := re.search(r"cek_\w+", line):
            key = found[0]
        if found := re.search(r"http://(?:\[[^]]*\]|[\w.]+):\d+", line):
            url = re.sub(r"//(0\.0\.0\.0|\[::\]|localhost)", "//127.0.0.1", found[0])
    return serving, url, key


def run(captures: int, kills: int, writers: int, seed: int, place: pathlib.Path) -> dict[str, object]:
    serving, url, key = start_collector(place)
    # Its log must not fill the pipe.
    drain = subprocess.Popen(["cat"], stdin=serving.stdout, stdout=subprocess.DEVNULL)
    try:
        quarantined = capture_and_kill(captures, kills, writers, seed, place, url, key)
    finally:
        serving.terminate()
        serving.wait()
        drain.wait()
    return {"seed": seed, "killed": kills, **compare(place, quarantined)}


def capture_and_kill(
    captures: int, kills: int, writers: int, seed: int, place: pathlib.Path, url: str, key: str
) -> int:
    """On return the collector has everything. Returns how many events are in quarantine."""
    chance = random.Random(seed)
    spool = place / "spool"
    environment = {
        **os.environ,
        "COLLECTOR_URL": url,
        "COLLECTOR_KEY": key,
        "COLLECTOR_SPOOL": str(spool),
        "CAMPAIGN_PARENT": str(os.getpid()),
    }

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--writer", str(chance.getrandbits(32)), "--place", str(place)]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def acknowledged() -> int:
        # A line has 36 digits and its end.
        return (place / "acknowledged").stat().st_size // 37

    (place / "acknowledged").touch()
    running = [begin() for _ in range(writers)]
    killed = 0
    try:
        while (done := acknowledged()) < captures or killed < kills:
            if killed < kills and done >= captures * killed / kills:
                time.sleep(chance.random() * 0.2)
                victim = chance.randrange(writers)
                running[victim].kill()
                running[victim].wait()
                running[victim] = begin()
                killed += 1
            time.sleep(0.02)
            if sys.stderr.isatty():
                print(f"\r{done:,} of {captures:,} captured, {killed} killed", end="", file=sys.stderr)
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()
    if sys.stderr.isatty():
        print(file=sys.stderr)
    with Client(url=url, api_key=key, spool=spool) as log:
        while not log.flush(60) or list(spool.glob("*/*.segment")):
            if log.state.watched:
                raise SystemExit("a part of this host is watched")
            time.sleep(0.1)
    return len(list((spool / "quarantine").glob("*.ndjson")))


def compare(place: pathlib.Path, quarantined: int) -> dict[str, object]:
    kept = set((place / "acknowledged").read_text().split())
    stored: dict[str, int] = {}
    listing = subprocess.Popen(
        [*COLLECTOR, "events", "--data-dir", str(place / "data")], stdout=subprocess.PIPE, text=True
    )
    for line in listing.stdout or ():
        event_id = json.loads(line)["event_id"]
        stored[event_id] = stored.get(event_id, 0) + 1
    verified = subprocess.run([*COLLECTOR, "verify", "--data-dir", str(place / "data")], capture_output=True)
    return {
        "acknowledged": len(kept),
        "stored": len(stored),
        "lost": len(kept - stored.keys()),
        "twice": sum(count > 1 for count in stored.values()),
        "quarantined": quarantined,
        "damaged": len(list((place / "spool/damaged").glob("*"))),
        "intact": listing.wait() == 0 and verified.returncode == 0,
    }


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--captures", type=int, default=1_000_000)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--writers", type=int, default=4)
    options.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(31))
    options.add_argument("--writer", type=int, help=argparse.SUPPRESS)
    options.add_argument("--place", type=pathlib.Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.writer is not None:
        write(given.place, given.writer)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="campaign-") as place:
        result = run(given.captures, given.kills, given.writers, given.seed, pathlib.Path(place))
    print(json.dumps(result))
    faults = result["lost"] or result["twice"] or result["quarantined"] or result["damaged"]
    return 1 if faults or not result["intact"] else 0


if __name__ == "__main__":
    sys.exit(main())
