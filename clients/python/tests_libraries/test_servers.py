"""Servers and pools whose workers are forked, recycled and killed under load: nothing is lost or doubled.

The acknowledged events are compared with those of the collector, after the next client on the
spool has sent the waiting ones.
"""

from __future__ import annotations

import collections
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.collector import FakeCollector, until
from tests.programs import end_with_parent

from clinical_events import Client

SOURCES = str(pathlib.Path(__file__).resolve().parents[1] / "src")
APPLICATION = """
import os, sys
from clinical_events import Client
HERE = os.path.dirname(os.path.abspath(__file__))
log = Client(spool=f"{HERE}/spool", on_warning=lambda text: os.write(2, f"warned {text}\\n".encode()))

def note(*captured):
    lines = "".join(f"{each.event_id} {os.getpid()}\\n" for each in captured if each.wait(120))
    fd = os.open(os.path.join(HERE, "acknowledged"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, lines.encode())
    os.close(fd)

def work():
    run = log.start_run(model={"model_id": "m"})
    note(run.start, run.output(summary="seen"))
    return str(os.getpid()).encode()

def application(environ, start_response):
    start_response("200 OK", [("Content-Length", str(len(str(os.getpid()))))])
    return [work()]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    body = work()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

if os.environ.get("EARLY"):
    work()
"""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(120)
        self.sock.connect(self.path)


class Place:
    """A directory with an application, a collector, and the notes of both."""

    def __init__(self, directory: pathlib.Path, collector: FakeCollector) -> None:
        self.directory = directory
        self.collector = collector
        self.socket = str(directory / "http")
        self.answered = 0
        (directory / "application.py").write_text(APPLICATION)

    @property
    def environment(self) -> dict[str, str]:
        own = {"PYTHONPATH": SOURCES, "COLLECTOR_URL": self.collector.url, "COLLECTOR_KEY": "key"}
        return {**os.environ, **own, "COLLECTOR_SPOOL": "", "PYTHONWARNINGS": "ignore"}

    def begin(self, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        with open(self.directory / "log", "ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self.environment, **environment},
                preexec_fn=end_with_parent,
            )

    def ask(self) -> int | None:
        """One request; the process that has answered it."""
        connection = UnixConnection(self.socket)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            body = answer.read()
            return int(body) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    @property
    def acknowledged(self) -> list[tuple[str, int]]:
        file = self.directory / "acknowledged"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(line.split()[0], int(line.split()[1])) for line in lines]

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def load(self, disturb: list[Callable[[int], object]], each: int = 40) -> None:
        """Requests from six threads. After every `each` answers the next disturbance gets a worker's pid."""
        answers: collections.deque[int] = collections.deque()
        enough = threading.Event()

        def asks() -> None:
            while not enough.is_set():
                pid = self.ask()
                if pid is not None:
                    answers.append(pid)

        threads = [threading.Thread(target=asks, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        try:
            for act in disturb:
                goal = len(answers) + each
                until(lambda goal=goal: len(answers) >= goal)
                act(answers[-1])
            goal = len(answers) + each
            until(lambda: len(answers) >= goal)
        finally:
            enough.set()
            for thread in threads:
                thread.join()
        self.answered = len(answers)

    def check(self, at_least: int, *, killed: bool) -> None:
        """Each acknowledged event is at the collector, once, after the next client has sent the rest."""
        with Client(
            self.collector.url, "key", self.directory / "spool", on_warning=lambda _: None
        ) as following:
            until(lambda: following.flush(5))
        acknowledged = [event_id for event_id, _ in self.acknowledged]
        assert len(acknowledged) >= at_least, self.log
        stored: dict[str, bytes] = {}
        places: dict[tuple[str, str], str] = {}
        repeated = 0
        for request in list(self.collector.requests):
            event = json.loads(request.body)
            repeated += event["event_id"] in stored
            # A repeat has the same bytes as the first; and no event comes under two ids.
            assert stored.setdefault(event["event_id"], request.body) == request.body
            place = (event["run_id"], request.kind)
            assert places.setdefault(place, event["event_id"]) == event["event_id"]
        assert set(acknowledged) <= set(stored), "acknowledged and lost"
        if not killed:
            assert repeated == 0
            assert set(acknowledged) == set(stored)
        assert "damage" not in self.log
        # The segment of a watched process rests; here all are dead, and nothing is left.
        assert list((self.directory / "spool").rglob("*.segment")) == []


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        # It was recycled since it answered.
        return


def finish(process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGTERM) -> None:
    process.send_signal(how)
    process.wait(timeout=240)


@pytest.fixture
def place() -> Iterator[Place]:
    # Not that of pytest: the path of a socket has about 100 bytes.
    directory = pathlib.Path(tempfile.mkdtemp())
    begun: list[subprocess.Popen[bytes]] = []
    with FakeCollector() as collector:
        here = Place(directory, collector)
        begin = here.begin
        here.begin = lambda *command, **environment: (
            begun.append(  # type: ignore[method-assign]
                begin(*command, **environment)
            )
            or begun[-1]
        )
        yield here
        for process in begun:
            process.kill()
            process.wait()
    shutil.rmtree(directory, ignore_errors=True)


GUNICORN = {
    "sync": ("--workers", "3"),
    "gthread": ("--workers", "2", "--threads", "4"),
    "gevent": ("--workers", "2", "--worker-class", "gevent"),
}


@pytest.mark.parametrize("early", ["", "1"], ids=["", "captured-before-the-fork"])
@pytest.mark.parametrize("kind", GUNICORN)
def test_gunicorn_that_loads_the_application_before_it_forks(place: Place, kind: str, early: str) -> None:
    pytest.importorskip("gunicorn")
    if kind == "gevent":
        pytest.importorskip("gevent")
    server = place.begin(
        *(
            sys.executable,
            "-m",
            "gunicorn",
            "--preload",
            "--bind",
            f"unix:{place.socket}",
            "--no-control-socket",
        ),
        *(*GUNICORN[kind], "application:application"),
        EARLY=early,
    )
    place.load([kill, kill, lambda _: server.send_signal(signal.SIGHUP), kill, kill])
    finish(server)
    place.check(2 * place.answered, killed=True)


@pytest.mark.parametrize("kind", GUNICORN)
def test_gunicorn_whose_workers_are_recycled_and_end_in_order(place: Place, kind: str) -> None:
    pytest.importorskip("gunicorn")
    if kind == "gevent":
        pytest.importorskip("gevent")
    server = place.begin(
        *(
            sys.executable,
            "-m",
            "gunicorn",
            "--preload",
            "--bind",
            f"unix:{place.socket}",
            "--no-control-socket",
        ),
        *("--max-requests", "25", *GUNICORN[kind], "application:application"),
        EARLY="1",
    )
    place.load([int, int, lambda _: server.send_signal(signal.SIGHUP), int])
    finish(server)
    place.check(2 * place.answered, killed=False)


@pytest.mark.parametrize("early", ["", "1"], ids=["", "captured-before-the-fork"])
@pytest.mark.parametrize("threads", [(), ("--enable-threads", "--threads", "4")], ids=["alone", "threads"])
def test_uwsgi(place: Place, threads: tuple[str, ...], early: str) -> None:
    uwsgi = pathlib.Path(sys.executable).with_name("uwsgi")
    if not uwsgi.exists():
        pytest.skip("uWSGI is not installed beside this Python")
    server = place.begin(
        *(str(uwsgi), "--http-socket", place.socket, "--chmod-socket=600", "--master", "--processes", "3"),
        *("--no-orphans", "--module", "application", "--virtualenv", sys.prefix, *threads),
        EARLY=early,
    )
    place.load([kill, kill, lambda _: server.send_signal(signal.SIGHUP), kill, kill])
    finish(server, signal.SIGINT)
    place.check(2 * place.answered, killed=True)


def test_uvicorn_with_workers(place: Place) -> None:
    pytest.importorskip("uvicorn")
    server = place.begin(
        *(sys.executable, "-m", "uvicorn", "--uds", place.socket, "--workers", "2", "application:asgi"),
        EARLY="1",
    )
    place.load([kill, kill, lambda _: server.send_signal(signal.SIGHUP), kill])
    finish(server)
    place.check(2 * place.answered, killed=True)


TASKS = """
import os
from celery import Celery
import application
here = os.path.join(application.HERE, "broker")
for name in ("messages", "control"):
    os.makedirs(os.path.join(here, name), exist_ok=True)
options = {"data_folder_in": here + "/messages", "data_folder_out": here + "/messages",
           "control_folder": here + "/control", "polling_interval": 0.05}
app = Celery("tasks", broker="filesystem://", broker_transport_options=options)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=1, worker_hijack_root_logger=False)
application.work()

@app.task
def score():
    application.work()

if __name__ == "__main__":
    import sys
    for _ in range(int(sys.argv[1])):
        score.delay()
"""


def test_celery_with_a_pool_of_recycled_workers(place: Place) -> None:
    pytest.importorskip("celery")
    (place.directory / "tasks.py").write_text(TASKS)
    tasks = 90
    assert place.begin(sys.executable, "tasks.py", str(tasks)).wait(timeout=240) == 0
    worker = place.begin(
        *(sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "2"),
        *("--max-tasks-per-child", "7", "--without-gossip", "--without-mingle", "--without-heartbeat"),
    )

    # The module captures once in each process that imports it.
    def tasks_done() -> int:
        return (len(place.acknowledged) - 4) // 2

    until(lambda: tasks_done() >= tasks or worker.poll() is not None)
    finish(worker)
    place.check(2 * tasks, killed=False)


GREENLETS = """
import sys
import gevent
if sys.argv[1] == "client first":
    import application
    application.work()
import gevent.monkey
gevent.monkey.patch_all()
import application, os, threading
def captures():
    for _ in range(10):
        application.work()
        gevent.sleep(0)
gevent.joinall([gevent.spawn(captures) for _ in range(20)])
threads = [threading.Thread(target=captures) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
child = os.fork()
if child == 0:
    gevent.joinall([gevent.spawn(captures) for _ in range(5)])
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
gevent.spawn(lambda: application.log.flush(120)).join()
"""


@pytest.mark.parametrize("order", ["client first", "patched first"])
def test_greenlets_where_gevent_has_patched_python(place: Place, order: str) -> None:
    pytest.importorskip("gevent")
    (place.directory / "greenlets.py").write_text(GREENLETS)
    assert place.begin(sys.executable, "greenlets.py", order).wait(timeout=240) == 0, place.log
    place.check(2 * 290, killed=False)


POOL = """
import multiprocessing, os, signal, sys
import application

def work(number):
    application.work()
    if number == 47:
        # In the midst of a task: a process that waits for one holds a lock of the pool.
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    application.work()
    with multiprocessing.get_context(sys.argv[1]).Pool(3, maxtasksperchild=5) as pool:
        # Of a task whose process is killed a pool never hears again.
        tasks = [pool.apply_async(work, (number,)) for number in range(60)]
        while sum(task.ready() for task in tasks) < 59:
            tasks[0].wait(0.01)
        pool.close()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_whose_processes_are_recycled_and_killed(place: Place, method: str) -> None:
    (place.directory / "pool.py").write_text(POOL)
    assert place.begin(sys.executable, "pool.py", method).wait(timeout=240) == 0, place.log
    place.check(2 * 59, killed=True)
