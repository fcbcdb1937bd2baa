"""A hostile or careless value loses only its own event, and gets into no warning."""

from __future__ import annotations

import copy
import pickle
import tempfile
import traceback
import types
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

from tests import support  # noqa: F401
from tests.collector import FakeCollector, answer
from tests.recorded import Recorded

from clinical_events import Client, _system
from clinical_events._spool import Spool

CANARY = "Mrs Example has a rash"


class Raises:
    """On every access."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(CANARY)

    def __bool__(self) -> bool:
        raise RuntimeError(CANARY)


class Named(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__name__":
            raise RuntimeError(CANARY)
        return type.__getattribute__(cls, name)


class NameRaises(Exception, metaclass=Named):
    pass


class EndlessDict(dict[str, str]):
    def items(self) -> Any:
        while True:
            yield "", ""


class EndlessList(list[int]):
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 1


class Hostile(unittest.TestCase):
    def setUp(self) -> None:
        self.log = Recorded(max_event_bytes=1 << 16)
        self.addCleanup(self.log.close, 0)

    def test_a_structure_without_an_end_is_refused(self) -> None:
        for value in (EndlessDict(), EndlessList()):
            error = self.log.start_run(inputs={"x": value}).start.error
            assert error is not None
            self.assertEqual(error.code, "body_too_large")

    def test_an_object_in_place_of_a_run_or_an_error_raises_nothing(self) -> None:
        run = self.log.start_run(parent=Raises())  # type: ignore[arg-type]
        run.fail(Raises())  # type: ignore[arg-type]
        self.log.start_run(parent={"id": 1}).fail(NameRaises())  # type: ignore[arg-type]
        endings = [
            event["artifact"]["error_name"] for kind, event in self.log.events() if "artifact" in event
        ]
        self.assertEqual(endings, ["Raises", "NameRaises"])

    def test_a_refusal_holds_nothing_that_the_application_gave(self) -> None:
        start = self.log.start_run(inputs={"x": Raises()}).start
        error = start.error
        assert error is not None
        self.assertIsNone(error.__context__)
        self.assertIsNone(error.__traceback__)
        self.assertNotIn(CANARY, "".join(traceback.format_exception(error)))

    def test_an_absurd_clock_loses_no_event(self) -> None:
        for now in (-5 * 10**9, 2**80):
            with mock.patch("time.time_ns", return_value=now):
                self.assertTrue(self.log.start_run().start.wait(120))

    def test_a_copy_of_a_client_is_refused_with_the_reason(self) -> None:
        run = self.log.start_run()
        for each in (self.log, run, run.start, self.log.run(run.id)):
            for way in (pickle.dumps, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "make one in each process"):
                    way(each)
        with self.assertRaises(TypeError):
            copy.copy(self.log)

    def test_an_answer_that_repeats_the_event_is_not_repeated_in_a_warning(self) -> None:
        told: list[str] = []
        code = f'{{"code":"{CANARY}","message":"{CANARY}"}}'.encode()
        with FakeCollector(lambda _: answer(400, code)) as collector:
            log = Client(collector.url, "key", mode="memory", on_warning=told.append)
            log.start_run(inputs={"text": CANARY})
            self.assertTrue(log.flush(120))
            log.close()
        self.assertEqual(len(told), 1)
        self.assertNotIn(CANARY, told[0])

    def test_the_master_of_uwsgi_has_no_thread_and_releases_its_part(self) -> None:
        """A worker that is forked while a thread has the lock of the interpreter hangs."""
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        master = types.SimpleNamespace(worker_id=lambda: 0, mule_id=lambda: 0)
        with (
            mock.patch.dict("sys.modules", uwsgi=master),
            mock.patch.object(_system, "start_thread", side_effect=AssertionError("a thread began")),
        ):
            for mode in ("os", "fsync", "memory"):
                log = Client(spool=f"{place.name}/{mode}", mode=mode, on_warning=lambda _: None)
                for _ in range(2):
                    self.assertTrue(log.start_run().start.wait(120))
                self.assertEqual(log._core().spool is None, mode != "memory")
        for mode in ("os", "fsync"):
            worker = Spool(f"{place.name}/{mode}", on_trouble=lambda _: None)
            self.assertEqual(worker.state().waiting, 2)
            worker.close()


if __name__ == "__main__":
    unittest.main()
