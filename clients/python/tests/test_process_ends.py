"""However a process ends or forks, no acknowledged event is lost, and none is stored twice."""

from __future__ import annotations

import signal
import unittest

from tests.programs import PATIENCE, Left, ProgramTest

#: With a disk that is never slow, on which no thread writes for the caller.
CAPTURE = """
sys.modules["clinical_events._core"]._SLOW_DISK = 1e9
log = Client(spool=SPOOL)
capture(log, wait=0)
"""


class Ends(ProgramTest):
    def test_ends_that_run_no_code(self) -> None:
        """[R-851] In mode `os` captured events outlive every end of the process, without a wait."""
        for name, end, code in (
            ("os._exit", "os._exit(3)", 3),
            ("SIGTERM without a handler", "os.kill(os.getpid(), signal.SIGTERM); time.sleep(100)", -15),
            ("SIGKILL", "os.kill(os.getpid(), signal.SIGKILL)", -9),
            ("exec", "os.execv('/bin/true', ['true'])", 0),
            ("abort", "os.abort()", -6),
        ):
            with self.subTest(name):
                self.setUp()
                self.run_program(CAPTURE + end, ends=code)
                self.assertEqual(len(self.assert_kept(21).ids), 21)

    def test_ends_that_run_code(self) -> None:
        for name, end, code in (
            ("the end of the program", "", 0),
            ("sys.exit", "sys.exit(3)", 3),
            ("an exception", "raise ValueError('x')", 1),
            ("KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGINT); time.sleep(100)", -2),
        ):
            with self.subTest(name):
                self.setUp()
                self.run_program(CAPTURE + end, ends=code)
                self.assertEqual(len(self.assert_kept(21).ids), 21)

    def test_captures_in_atexit_handlers_before_and_after_that_of_the_client(self) -> None:
        program = """
import atexit
atexit.unregister(sys.modules["clinical_events._client"]._at_exit)
atexit.register(lambda: capture(log, 5))  # runs last
atexit.register(sys.modules["clinical_events._client"]._at_exit)
log = Client(spool=SPOOL)
if sys.argv[1] == "captured":
    capture(log)
atexit.register(lambda: capture(log, 5))  # runs first
"""
        for first, events in (("captured", 33), ("never captured before", 12)):
            with self.subTest(first):
                self.setUp()
                self.run_program(program, first)
                self.assertEqual(len(self.assert_kept(events).ids), events)

    def test_captures_of_a_destructor_while_the_interpreter_ends(self) -> None:
        program = """
class Late:
    def __del__(self):
        capture(log, 3)
log = Client(spool=SPOOL)
capture(log, 3)
import builtins
builtins.keep = Late()
"""
        self.run_program(program)
        self.assertEqual(len(self.assert_kept(8).ids), 8)

    def test_threads_that_capture_until_the_interpreter_is_gone(self) -> None:
        program = """
log = Client(spool=SPOOL)
def busy():
    run = log.start_run()
    while True:
        acknowledged(*[run.output(summary="x" * 2000) for _ in range(20)])
class Late:
    def __del__(self):
        acknowledged(log.start_run().start)
import builtins
builtins.keep = Late()
for _ in range(6):
    threading.Thread(target=busy, daemon=True).start()
while not os.path.exists(ACKNOWLEDGED):
    time.sleep(0.01)
"""
        for _ in range(5):
            self.setUp()
            self.run_program(program)
            self.assert_kept()

    def test_mode_fsync_keeps_acknowledged_events(self) -> None:
        program = """
log = Client(spool=SPOOL, mode="fsync")
capture(log, 10)
capture(log, 0)
run = log.start_run()
for _ in range(100):
    run.output(summary="not waited for")
os.kill(os.getpid(), signal.SIGKILL)
"""
        self.run_program(program, ends=-9)
        self.assert_kept(12)

    def test_mode_fsync_writes_waiting_events_at_an_end_that_runs_code(self) -> None:
        program = """
log = Client(spool=SPOOL, mode="fsync")
run = log.start_run()
for _ in range(300):
    run.output(summary="not waited for")
acknowledged(run.start)
"""
        self.run_program(program)
        self.assertEqual(len(self.assert_kept().ids), 301)


class Signals(ProgramTest):
    def test_captures_in_signal_handlers(self) -> None:
        """[R-851] A capture may interrupt another one in its own thread at any place."""
        program = """
log = Client(spool=SPOOL, mode=sys.argv[1])
run = log.start_run()
inside, outside = [], []
signal.signal(signal.SIGALRM, lambda *_: inside.append(run.output(summary="inside")))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
while len(inside) < 1000:
    outside.append(run.output(summary="outside"))
signal.setitimer(signal.ITIMER_REAL, 0)
acknowledged(run.start, *inside, *outside)
print(len(inside) + len(outside) + 1)
"""
        for mode in ("os", "fsync"):
            with self.subTest(mode):
                self.setUp()
                printed, _ = self.run_program(program, mode)
                left = self.assert_kept(1001)
                self.assertEqual(len(left.ids), int(printed))

    def test_no_thread_of_the_client_takes_a_signal_of_the_process(self) -> None:
        program = """
log = Client("http://127.0.0.1:1", "cek_x", SPOOL)
acknowledged(log.start_run().start)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGUSR1, lambda *_: None)
# Pending: no thread has taken it. One that is just about to begin may take the first ones.
while signal.SIGUSR1 not in signal.sigpending():
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.05)
"""
        self.run_program(program)

    def test_interrupts_that_leave_a_capture_by_an_exception(self) -> None:
        program = """
class Stop(BaseException): pass
def stop(*_):
    raise Stop
log = Client(spool=SPOOL)
run = log.start_run()
signal.signal(signal.SIGALRM, stop)
stopped = 0
told = []
while stopped < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + stopped % 7 * 0.0001)
        while True:
            told.append(run.output(summary="x"))
    except Stop:
        stopped += 1
signal.setitimer(signal.ITIMER_REAL, 0)
run.output(summary="last")
acknowledged(*told)
"""
        self.run_program(program)
        self.assert_kept(300)


FORK_INSIDE = """
# Forks in a signal handler that runs within one of the calls that change files.
log = Client(spool=SPOOL)
parent = os.getpid()
children = []
def fork(*_):
    if os.getpid() != parent:
        return
    child = os.fork()
    if child:
        children.append(child)
    elif sys.argv[1] == "ends in the handler":
        capture(log, 3)
        os._exit(0)
signal.signal(signal.SIGUSR1, fork)
def interrupted(name, call):
    def wrapper(*arguments, **named):
        if os.getpid() == parent and name in interrupting:
            interrupting.remove(name)
            os.kill(parent, signal.SIGUSR1)
        result = call(*arguments, **named)
        if os.getpid() == parent and name + " done" in interrupting:
            interrupting.remove(name + " done")
            os.kill(parent, signal.SIGUSR1)
        return result
    return wrapper
for name in ("pwrite", "rename", "unlink", "open", "close", "fstat", "stat", "mkdir"):
    setattr(os, name, interrupted(name, getattr(os, name)))
names = ("open", "pwrite", "rename", "unlink", "close", "fstat", "stat", "mkdir")
interrupting = [each + when for each in names for when in ("", " done")]
if sys.argv[1] != "at the first capture":
    kept, interrupting[:] = list(interrupting), []
    capture(log, 3)
    interrupting[:] = kept
run = log.start_run()
for number in range(40):
    captured = run.output(summary="in the handler's reach")
    if os.getpid() == parent:
        acknowledged(captured)
if os.getpid() == parent:
    codes = [ended(child) for child in children]
    assert codes and set(codes) == {0}, codes
    print(len(children), flush=True)  # _exit writes nothing that waits
    os._exit(0)
"""


class Forks(ProgramTest):
    def test_a_fork_in_a_signal_handler_within_a_write(self) -> None:
        """[R-851] A child that is forked at any place of a capture leaves the files of its parent alone."""
        for how in ("ends in the handler", "returns into the call", "at the first capture"):
            with self.subTest(how):
                self.setUp()
                printed, _ = self.run_program(FORK_INSIDE, how)
                self.assertGreater(int(printed), 2)
                self.assert_kept(40)

    def test_forks_while_threads_capture(self) -> None:
        """[R-851] A forked child captures for itself, whatever its parent's threads were doing."""
        program = """
log = Client(spool=SPOOL)
capture(log, 3)
stop = []
def busy():
    while not stop:
        capture(log, 5)
threads = [threading.Thread(target=busy) for _ in range(8)]
[thread.start() for thread in threads]
codes = []
for number in range(60):
    child = os.fork()
    if child == 0:
        capture(log, 3)
        if number % 2:
            sys.exit(0)
        os._exit(0)
    codes.append(ended(child))
stop.append(1)
[thread.join() for thread in threads]
assert set(codes) == {0}, codes
"""
        self.run_program(program)
        self.assert_kept(240)

    def test_forks_while_a_thread_imports(self) -> None:
        program = """
log = Client(spool=SPOOL)
os.mkdir(os.path.join(HERE, "slow"))
sys.path.insert(0, os.path.join(HERE, "slow"))
for number in range(400):
    with open(os.path.join(HERE, "slow", f"slow{number}.py"), "w") as file:
        file.write("import time; time.sleep(0.005)")
def imports():
    for number in range(400):
        __import__(f"slow{number}")
thread = threading.Thread(target=imports)
thread.start()
if sys.argv[1] == "captured":
    capture(log, 3)
codes = []
for number in range(30):
    child = os.fork()
    if child == 0:
        capture(log, 3)
        log.flush(0.1)
        sys.exit(0)
    codes.append(ended(child))
thread.join()
assert set(codes) == {0}, codes
"""
        for before in ("captured", "never captured before"):
            with self.subTest(before):
                self.setUp()
                self.run_program(program, before)
                self.assert_kept(120)

    def test_multiprocessing(self) -> None:
        for method in ("fork", "spawn", "forkserver"):
            program = """
import multiprocessing
log = Client(spool=SPOOL)
def work(number):
    capture(log, 20)
    return os.getpid()
if __name__ == "__main__":
    capture(log, 5)
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(3) as pool:
        pool.map(work, range(6))
    processes = [context.Process(target=work, args=(n,)) for n in range(2)]
    [process.start() for process in processes]
    [process.join() for process in processes]
    assert all(process.exitcode == 0 for process in processes)
    capture(log, 5)
"""
            with self.subTest(method):
                self.setUp()
                self.run_program(program, method)
                self.assertEqual(len(self.assert_kept(180).ids), 180)

    def test_a_parent_that_dies_while_its_child_lives_is_adopted(self) -> None:
        """[R-854] A child keeps nothing of its parent alive: others adopt the events of a dead parent."""
        program = """
log = Client(spool=SPOOL)
capture(log, 9)
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    print("alone", flush=True)
    sys.stdin.read()
    capture(log, 4)
    sys.exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""
        process = self.begin(program)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), "alone\n")
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertEqual(len(Left(self.directory).ids), 10)
        # Its standard output is closed when the child has ended, too.
        process.communicate("", timeout=PATIENCE)
        self.assertEqual(len(self.assert_kept(15).ids), 15)


if __name__ == "__main__":
    unittest.main()
