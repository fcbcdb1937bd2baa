from __future__ import annotations

import contextlib
import os
import pathlib
import select
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from tests import support  # noqa: F401
from tests.collector import CLOSE, RESET, STORED, STORED_BODY, FakeCollector, Request, answer, refusal, until

from clinical_events import _http
from clinical_events._answer import NoAnswer
from clinical_events._format import KINDS
from clinical_events._http import CannotSend, Connection, Destination
from clinical_events._sender import Backoff, Sender

LARGE = b'{"x":"' + b"a" * (4 << 20) + b'"}'
QUICK = Backoff(0.001, 0.01)


class Event:
    def __init__(self, kind: int, body: bytes) -> None:
        self.kind = kind
        self.body = body


class Waiting:
    """A spool in memory that fails if an event is settled twice."""

    def __init__(self, *bodies: bytes, kind: int = 3) -> None:
        self.queue = [Event(kind, body) for body in bodies]
        self.taken: list[Event] = []
        self.done: list[bytes] = []
        self.quarantined: list[tuple[bytes, dict[str, Any]]] = []
        self.full = 0
        self._lock = threading.Lock()

    def put(self, body: bytes, kind: int = 3) -> None:
        with self._lock:
            self.queue.append(Event(kind, body))

    def take(self) -> Event | None:
        with self._lock:
            if not self.queue:
                return None
            self.taken.append(self.queue.pop(0))
            return self.taken[-1]

    def settle(self, event: Event, done: bool) -> None:
        with self._lock:
            self.taken.remove(event)
            if done:
                self.done.append(event.body)
            else:
                self.queue.append(event)

    def quarantine(self, event: Event, refusal: dict[str, Any]) -> None:
        if self.full > 0:
            self.full -= 1
            raise OSError(28, "No space left on device", "/some/path")
        self.quarantined.append((event.body, refusal))
        self.settle(event, True)


class Case(unittest.TestCase):
    def sender(self, spool: Waiting, url: str | None, key: str | None = "key", **more: Any) -> Sender:
        self.warnings: list[str] = []
        self.refused: list[tuple[str, str | None, dict[str, Any]]] = []
        sender = Sender(
            spool,
            url=url,
            api_key=key,
            on_warning=self.warnings.append,
            on_quarantine=lambda *told: self.refused.append(told),
            **{"backoff": QUICK, "timeout": 120.0, **more},
        )
        self.addCleanup(sender.stop, 0)
        return sender

    def collector(
        self, respond: Callable[[Request], bytes | None] | None = None, **more: Any
    ) -> FakeCollector:
        collector = FakeCollector(respond, **more)
        self.addCleanup(collector.__exit__)
        return collector

    def connect(
        self, collector: FakeCollector, timeout: float = 120.0, ca_file: str | None = None
    ) -> Connection:
        connection = Connection(Destination(collector.url, "key", ca_file), timeout)
        self.addCleanup(connection.close)
        return connection


class ConnectionTest(Case):
    def test_sends_a_small_and_a_large_event_on_one_connection(self) -> None:
        collector = self.collector()
        connection = self.connect(collector)
        for body in (b"{}", LARGE, b'{"x":1}'):
            self.assertEqual(connection.post("outcome", body).body, STORED_BODY)
        self.assertEqual([each.body for each in collector.requests], [b"{}", LARGE, b'{"x":1}'])
        self.assertEqual({each.connection for each in collector.requests}, {1})
        first = collector.requests[0]
        self.assertEqual(first.head.split("\r\n")[0], "POST /event/outcome HTTP/1.1")
        self.assertEqual(first.header("host"), f"127.0.0.1:{collector.port}")
        self.assertEqual(first.header("x-api-key"), "key")
        self.assertEqual(first.header("content-type"), "application/json")

    def test_half_an_answer_and_a_page_are_no_answer(self) -> None:
        for said in (
            STORED[:-1] + CLOSE,
            STORED[:9] + CLOSE,
            b"<html></html>" + CLOSE,
            CLOSE,
            RESET,
            b"\n\n" + CLOSE,
        ):
            with self.subTest(said), self.assertRaises(NoAnswer):
                self.connect(self.collector(lambda _, said=said: said)).post("outcome", b"{}")

    def test_silence_is_no_answer_after_the_time_out(self) -> None:
        for said in (None, STORED[:-1], b"HTTP/1.1 100 Continue\r\n\r\n"):
            with self.subTest(said), self.assertRaisesRegex(NoAnswer, r"no answer within 0\.05 s"):
                self.connect(self.collector(lambda _, said=said: said), 0.05).post("outcome", b"{}")

    def test_an_answer_byte_by_byte_does_not_outlast_the_time_out(self) -> None:
        release = threading.Event()
        self.addCleanup(release.set)

        def drip(listener: socket.socket) -> None:
            peer, _ = listener.accept()
            with peer, contextlib.suppress(OSError):
                while not release.wait(0.02):
                    peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        with self.assertRaisesRegex(NoAnswer, "no answer within"):
            Connection(Destination(f"http://127.0.0.1:{listener.getsockname()[1]}", "k"), 0.3).post(
                "outcome", b"{}"
            )

    def test_a_used_connection_that_closes_before_an_answer_is_replaced_once(self) -> None:
        for how in (CLOSE, RESET):
            with self.subTest(how):
                collector = self.collector(lambda each, how=how: how if each.number == 2 else STORED)
                connection = self.connect(collector)
                for _ in range(2):
                    self.assertEqual(connection.post("outcome", b"{}").status, 201)
                self.assertEqual([each.connection for each in collector.requests], [1, 1, 2])

    def test_a_new_connection_that_closes_before_an_answer_is_no_answer(self) -> None:
        collector = self.collector(lambda _: RESET)
        with self.assertRaises(NoAnswer):
            self.connect(collector).post("outcome", b"{}")
        self.assertEqual(len(collector.requests), 1)

    def test_a_used_connection_that_closes_within_an_answer_is_not_tried_again(self) -> None:
        for how in (CLOSE, RESET):
            with self.subTest(how):
                said = STORED[:5] + how
                collector = self.collector(lambda each, said=said: STORED if each.number == 1 else said)
                connection = self.connect(collector)
                connection.post("outcome", b"{}")
                with self.assertRaises(NoAnswer):
                    connection.post("outcome", b"{}")
                self.assertEqual(len(collector.requests), 2)

    def test_bytes_between_two_requests_answer_neither(self) -> None:
        collector = self.collector()
        connection = self.connect(collector)
        connection.post("outcome", b"{}")
        collector.say(STORED)
        until(lambda: select.select([connection._socket], [], [], 0)[0])
        connection.post("outcome", b"[]")
        self.assertEqual(
            [(each.body, each.connection) for each in collector.requests], [(b"{}", 1), (b"[]", 2)]
        )

    def test_a_connection_is_replaced_after_extra_bytes_a_close_or_idle_time(self) -> None:
        for said in (
            STORED + STORED,
            STORED + CLOSE,
            STORED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        ):
            with self.subTest(said):
                collector = self.collector(lambda _, said=said: said)
                connection = self.connect(collector)
                for _ in range(3):
                    self.assertEqual(connection.post("outcome", b"{}").status, 201)
                self.assertEqual([each.connection for each in collector.requests], [1, 2, 3])
        collector = self.collector()
        connection = self.connect(collector)
        connection.post("outcome", b"{}")
        with mock.patch.object(_http, "_IDLE", 0.0):
            connection.post("outcome", b"{}")
        self.assertEqual([each.connection for each in collector.requests], [1, 2])

    def test_an_acceptance_before_the_event_was_sent_is_no_answer(self) -> None:
        """[R-862] A 201 or a 409 that begins before the whole request was written is no answer."""
        for early in (STORED, refusal(409, "event_erased"), STORED[:30]):
            collector = self.collector(lambda _: CLOSE, early=lambda _, early=early: early)
            with self.subTest(early), self.assertRaisesRegex(NoAnswer, "before|without"):
                self.connect(collector).post("outcome", LARGE)

    def test_an_early_refusal_is_an_answer_and_ends_the_connection(self) -> None:
        collector = self.collector(
            early=lambda each: refusal(413, "body_too_large") if each.length > 99 else None
        )
        connection = self.connect(collector)
        self.assertEqual(connection.post("outcome", LARGE).status, 413)
        self.assertEqual(connection.post("outcome", b"{}").status, 201)
        self.assertEqual(collector.connections, 2)

    def test_an_early_status_1xx_is_no_answer_to_the_request(self) -> None:
        collector = self.collector(early=lambda _: b"HTTP/1.1 100 Continue\r\n\r\n")
        self.assertEqual(self.connect(collector).post("outcome", LARGE).status, 201)

    def test_an_unusable_address_or_key_is_refused_and_not_repeated(self) -> None:
        secret = "s3cret"
        wrong = [None, "", "collector", "http://", "http://host:99999", "http://\ud800", "http://[::1"]
        wrong += ["http://::1/", f"ftp://{secret}", f"http://a:{secret}@host", f"http://host/?{secret}"]
        wrong += [f"http://host/#{secret}", f"http://ho st/{secret}", f"http://{secret}%41"]
        wrong += [f"http://ho\nst/{secret}"]
        for url in wrong:
            with self.subTest(url), self.assertRaises(CannotSend) as raised:
                Destination(url, "key")
            self.assertNotIn(secret, str(raised.exception))
        for key in (None, "", " \n", f"{secret} x", f"{secret}\r\nX: y", f"{secret}\u00e9"):
            with self.subTest(key), self.assertRaises(CannotSend) as raised:
                Destination("http://host", key)
            self.assertNotIn(secret, str(raised.exception))

    def test_an_address_may_have_a_path_a_name_of_any_script_and_ipv6(self) -> None:
        cases = {
            "HTTP://Host:80/": b"POST /event/outcome HTTP/1.1\r\nHost: host\r\n",
            "https://host:443/a//": b"POST /a/event/outcome HTTP/1.1\r\nHost: host\r\n",
            "https://host:80/\u00e9": b"POST /%C3%A9/event/outcome HTTP/1.1\r\nHost: host:80\r\n",
            "http://b\u00fccher.example": b"POST /event/outcome HTTP/1.1\r\nHost: xn--bcher-kva.example\r\n",
            " http://[::1]:8080\n": b"POST /event/outcome HTTP/1.1\r\nHost: [::1]:8080\r\n",
        }
        for url, head in cases.items():
            self.assertEqual(Destination(url, " key\n").head("outcome", 2)[: len(head)], head)
        self.assertEqual(Destination("http://[::1]", "key").host, b"::1")

    def test_sends_by_ipv6_and_uses_no_proxy(self) -> None:
        try:
            collector = self.collector(host="::1")
        except OSError:
            self.skipTest("this machine has no IPv6 loopback")
        nowhere = dict.fromkeys(
            ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"), "http://127.0.0.1:9"
        )
        with mock.patch.dict(os.environ, nowhere):
            self.assertEqual(self.connect(collector).post("outcome", b"{}").status, 201)

    def test_a_forked_child_closes_its_copy_and_leaves_the_connection_to_the_parent(self) -> None:
        collector = self.collector()
        connection = self.connect(collector)
        connection.post("outcome", b"{}")
        pid = os.fork()
        if pid == 0:
            connection.forget()
            os._exit(0 if connection._socket is None else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(connection.post("outcome", b"{}").status, 201)
        self.assertEqual(collector.connections, 1)


class SenderTest(Case):
    def drained(self, spool: Waiting) -> Callable[[], bool]:
        return lambda: not spool.queue and not spool.taken

    def test_an_event_is_done_after_the_answer_of_a_collector(self) -> None:
        """[R-862] An event leaves the spool by a whole 201 with a collector's body or 409 event_erased."""
        statuses = (200, 204, 302, 101, 401, 403, 404, 405, 407, 408, 421, 425, 426, 429, 500, 503)
        foreign = [answer(201, body) for body in (b"", b"{}", b"[]", b"<html>", STORED_BODY[:-1])]
        cut = [STORED[:-1] + CLOSE, CLOSE, RESET, b"<html>" + CLOSE, b"\x16\x03\x01" + CLOSE]
        for said in (*(answer(status, STORED_BODY) for status in statuses), *foreign, *cut):
            with self.subTest(said):
                spool = Waiting(b'{"n":1}')
                collector = self.collector(lambda each, said=said: said if each.number == 1 else STORED)
                sender = self.sender(spool, collector.url, slow=0.01)
                sender.start()
                until(self.drained(spool))
                self.assertEqual((spool.done, spool.quarantined), ([b'{"n":1}'], []))
                self.assertEqual([each.body for each in collector.requests[:2]], [b'{"n":1}'] * 2)
                until(lambda sender=sender: sender.sent == 1)
                self.assertEqual(len(self.warnings), 1, self.warnings)

    def test_an_event_that_was_stored_and_erased_is_done_and_counted(self) -> None:
        spool = Waiting(b"{}")
        sender = self.sender(spool, self.collector(lambda _: refusal(409, "event_erased")).url)
        sender.start()
        until(lambda: sender.erased == 1)
        self.assertEqual((spool.done, sender.sent, self.warnings, self.refused), ([b"{}"], 0, [], []))

    def test_a_final_refusal_puts_its_event_into_quarantine_and_is_reported(self) -> None:
        for said, code in (
            (refusal(400, "validation_failed"), "validation_failed"),
            (refusal(409, "event_id_conflict"), "event_id_conflict"),
            (refusal(413, "body_too_large"), "body_too_large"),
            (answer(415, b"<html>"), None),
            (answer(499), None),
        ):
            with self.subTest(said):
                event_id = "0190aabb-ccdd-7102-8304-050607080900"
                spool = Waiting(b'{"event_id":"%s"}' % event_id.encode(), b'{"event_id":"secret"}')
                sender = self.sender(spool, self.collector(lambda _, said=said: said).url, connections=1)
                sender.start()
                until(lambda: len(self.refused) == 2)
                self.assertEqual(
                    [(kind, name) for kind, name, _ in self.refused],
                    [("outcome", event_id), ("outcome", None)],
                )
                self.assertEqual([why.get("code") for _, why in spool.quarantined], [code, code])
                self.assertEqual(spool.quarantined[0][1]["status"], int(said[9:12]))

    def test_a_quarantine_that_cannot_be_written_keeps_the_event(self) -> None:
        spool = Waiting(b"{}")
        spool.full = 3
        sender = self.sender(spool, self.collector(lambda _: refusal(400, "validation_failed")).url)
        sender.start()
        until(lambda: self.refused)
        self.assertEqual(len(spool.quarantined), 1)
        self.assertIn("No space left on device", self.warnings[0])
        self.assertNotIn("path", self.warnings[0])

    def test_nothing_is_sent_before_retry_after_has_passed(self) -> None:
        spool = Waiting(*[b'{"n":%d}' % n for n in range(20)])
        collector = self.collector(
            lambda each: answer(429, b"", "Retry-After: 1") if each.number == 1 else STORED
        )
        self.sender(spool, collector.url, connections=1).start()
        until(self.drained(spool))
        self.assertGreaterEqual(collector.requests[1].at - collector.requests[0].at, 1.0)
        self.assertEqual(len(collector.requests), 21)

    def test_a_key_that_may_not_send_a_kind_sends_the_others(self) -> None:
        spool = Waiting()
        for n in range(30):
            spool.put(b'{"n":%d}' % n, kind=n % 2)
        collector = self.collector(
            lambda each: refusal(403, "kind_not_permitted") if each.kind == KINDS[0] else STORED
        )
        sender = self.sender(spool, collector.url)
        sender.start()
        until(lambda: sender.sent == 15 and sender.idle)
        self.assertEqual(self.warnings, [sender.denied])
        self.assertIn("the key may not send inference-start (403 kind_not_permitted)", self.warnings[0])
        self.assertLessEqual(sum(each.kind == KINDS[0] for each in collector.requests), 4)
        sender.stop(120)
        self.assertEqual((len(spool.queue), spool.taken), (15, []))

    def test_an_event_that_fails_does_not_delay_the_others(self) -> None:
        spool = Waiting(*[b'{"n":%d}' % n for n in range(50)])
        collector = self.collector(lambda each: answer(500) if each.body == b'{"n":0}' else STORED)
        sender = self.sender(spool, collector.url)
        sender.start()
        until(lambda: sender.sent == 49)
        sender.stop(120)
        self.assertEqual([each.body for each in spool.queue], [b'{"n":0}'])

    def test_events_that_have_waited_in_memory_make_room_once_they_are_sent(self) -> None:
        bodies = [b'{"n":%d,"x":"%s"}' % (n, b"a" * (1 << 20)) for n in range(20)]
        spool = Waiting(*bodies)
        seen: set[bytes] = set()

        def fail_once(each: Request) -> bytes:
            new = each.body not in seen
            seen.add(each.body)
            return answer(500) if new else STORED

        self.sender(spool, self.collector(fail_once).url).start()
        until(self.drained(spool))
        self.assertEqual(sorted(spool.done), sorted(bodies))

    def test_while_it_fails_one_request_is_made_at_a_time_and_one_warning_given(self) -> None:
        under_way, most = [0], [0]
        lock = threading.Lock()

        def respond(each: Request) -> bytes:
            with lock:
                under_way[0] += 1
                if len(collector.requests) > 4:
                    most[0] = max(most[0], under_way[0])
            time.sleep(0.001)
            with lock:
                under_way[0] -= 1
            return answer(503)

        collector = self.collector(respond)
        spool = Waiting(*[b"{}"] * 100)
        self.sender(spool, collector.url).start()
        until(lambda: len(collector.requests) > 40)
        self.assertEqual((most[0], self.warnings), (1, ["the collector answered 503"]))

    def test_a_capture_wakes_a_thread_except_while_the_collector_cannot_be_reached(self) -> None:
        spool = Waiting(b"{}")
        sender = self.sender(spool, "http://127.0.0.1:9", backoff=Backoff(1000, 1000))
        signal = sender._signal
        signal.acquire()
        sender.wake()
        self.assertFalse(signal.locked())
        self.assertTrue(sender.run_once())
        signal.acquire(False)
        sender.wake()
        self.assertTrue(signal.locked())

    def test_no_more_than_1024_events_or_8_mib_wait_in_memory(self) -> None:
        for count, body in ((1500, b"{}"), (30, b'"' + b"a" * (1 << 20) + b'"')):
            with self.subTest(count):
                spool = Waiting(*[body] * count)
                collector = self.collector(lambda _: refusal(403, "kind_not_permitted"))
                sender = self.sender(spool, collector.url)
                sender.start()
                until(lambda sender=sender: sender.denied and sender.idle)
                most = min(1024, (8 << 20) // len(body) + 1) + 4
                self.assertLessEqual(len(spool.taken), most)
                self.assertGreaterEqual(len(spool.taken), most - 5)
                sender.stop(120)
                self.assertEqual((len(spool.queue), spool.taken), (count, []))

    def test_without_an_address_or_a_key_nothing_is_sent_and_one_warning_given(self) -> None:
        for url, key in ((None, "key"), ("http://127.0.0.1:9", None), ("nonsense", "key")):
            with self.subTest(url=url, key=key):
                spool = Waiting(b"{}")
                sender = self.sender(spool, url, key)
                sender.start()
                sender.wake()
                self.assertFalse(sender.run_once())
                self.assertTrue(sender.idle)
                self.assertEqual(self.warnings, [sender.hopeless])
                self.assertEqual(len(spool.queue), 1)

    def test_one_event_is_sent_in_the_caller_and_not_within_itself(self) -> None:
        spool = Waiting(b"1", b"2")
        nested: list[bool] = []

        def respond(_: Request) -> bytes:
            return STORED

        sender = self.sender(spool, self.collector(respond).url)
        take = spool.take

        def take_and_interrupt() -> Event | None:
            nested.append(sender.run_once())  # as a signal handler that captures would
            return take()

        spool.take = take_and_interrupt  # type: ignore[method-assign]
        self.assertEqual([sender.run_once() for _ in range(3)], [True, True, False])
        self.assertEqual((nested, spool.done), ([False] * 3, [b"1", b"2"]))

    def test_an_event_that_is_appended_later_is_sent_when_it_is_woken(self) -> None:
        spool = Waiting()
        sender = self.sender(spool, self.collector().url)
        sender.start()
        until(lambda: sender.idle)
        for n in range(20):
            spool.put(b'{"n":%d}' % n)
            sender.wake()
            until(lambda n=n: sender.sent == n + 1 and sender.idle)

    def test_a_stop_waits_for_answers_and_returns_unanswered_events_to_the_spool(self) -> None:
        spool = Waiting(b"1", b"2", b"3")
        reached = threading.Event()

        def respond(each: Request) -> bytes | None:
            reached.set()
            return None

        sender = self.sender(spool, self.collector(respond).url, connections=1)
        sender.start()
        self.assertTrue(reached.wait(120))
        self.assertFalse(sender.idle)
        sender.stop(0.05)
        self.assertEqual((sorted(each.body for each in spool.queue), spool.taken), ([b"1", b"2", b"3"], []))
        self.assertEqual(self.warnings, [])
        self.assertFalse(sender.run_once())

    def test_without_a_thread_the_caller_still_sends(self) -> None:
        spool = Waiting(b"{}")
        sender = self.sender(spool, self.collector().url)
        with mock.patch(
            "clinical_events._system.start_thread", side_effect=RuntimeError("at interpreter shutdown")
        ):
            sender.start()
        self.assertTrue(sender.run_once())
        self.assertEqual(spool.done, [b"{}"])

    def test_a_spool_and_callbacks_that_raise_end_no_thread(self) -> None:
        spool = Waiting(b"{}")
        raised: list[int] = []
        take = spool.take

        def failing() -> Event | None:
            if len(raised) < 5:
                raised.append(1)
                raise OSError(5, "Input/output error", "/some/path")
            return take()

        spool.take = failing  # type: ignore[method-assign]
        sender = self.sender(spool, self.collector().url)
        sender._on_warning = lambda _: 1 / 0  # type: ignore[assignment, return-value]
        sender.start()
        until(lambda: spool.done == [b"{}"])
        self.assertEqual(len(raised), 5)


def _certificate(directory: pathlib.Path) -> tuple[ssl.SSLContext, str] | None:
    """A self-signed certificate for 127.0.0.1, by the openssl program."""
    program = shutil.which("openssl")
    if program is None:
        return None
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=collector", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, str(certificate)


class TlsTest(Case):
    def setUp(self) -> None:
        directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, directory)
        made = _certificate(directory)
        if made is None:
            self.skipTest("there is no openssl program")
        self.context, self.ca_file = made

    def test_a_certificate_of_an_authority_that_was_given_is_trusted(self) -> None:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                self.context.maximum_version = version
                collector = self.collector(tls=self.context)
                connection = self.connect(collector, ca_file=self.ca_file)
                for body in (b"{}", LARGE, b"[]"):
                    self.assertEqual(connection.post("outcome", body).body, STORED_BODY)
                self.assertEqual([each.body for each in collector.requests], [b"{}", LARGE, b"[]"])
                self.assertEqual(collector.connections, 1)
                self.context.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED

    def test_a_used_connection_that_closes_before_an_answer_is_replaced(self) -> None:
        collector = self.collector(lambda each: CLOSE if each.number == 2 else STORED, tls=self.context)
        connection = self.connect(collector, ca_file=self.ca_file)
        for _ in range(3):
            self.assertEqual(connection.post("outcome", b"{}").status, 201)
        self.assertEqual([each.connection for each in collector.requests], [1, 1, 2, 2])

    def test_an_early_201_is_no_answer_and_an_early_413_is_one(self) -> None:
        for early, works in ((STORED, False), (refusal(413, "body_too_large"), True)):
            collector = self.collector(lambda _: CLOSE, early=lambda _, early=early: early, tls=self.context)
            with contextlib.nullcontext() if works else self.assertRaises(NoAnswer):
                self.assertEqual(
                    self.connect(collector, ca_file=self.ca_file).post("outcome", LARGE).status, 413
                )

    def test_a_body_that_ends_without_a_close_of_tls_is_no_answer(self) -> None:
        said = b"HTTP/1.1 201 Created\r\n\r\n" + STORED_BODY + CLOSE
        with self.assertRaises(NoAnswer):
            self.connect(self.collector(lambda _: said, tls=self.context), ca_file=self.ca_file).post(
                "outcome", b"{}"
            )

    def test_a_certificate_that_is_not_trusted_keeps_the_event_and_ends_waiting(self) -> None:
        spool = Waiting(b"{}")
        sender = self.sender(spool, self.collector(tls=self.context).url)
        sender.start()
        until(lambda: sender.hopeless)
        self.assertRegex(
            self.warnings[0], "the collector's certificate is not trusted; events are kept: self.signed"
        )
        sender.stop(120)
        self.assertEqual((len(spool.queue), spool.done), (1, []))

    def test_a_server_without_tls_and_a_file_without_certificates_are_reported(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def speak_http(peer: socket.socket) -> None:
            with peer:
                peer.recv(9999)
                peer.sendall(answer(400))

        def accept() -> None:
            # A sender of another test may still look for a server that had this port, and may leave at once.
            while listener.fileno() != -1:
                with contextlib.suppress(OSError):
                    threading.Thread(target=speak_http, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        with self.assertRaises(CannotSend) as raised:
            Connection(Destination(f"https://127.0.0.1:{listener.getsockname()[1]}", "k"), 120).post(
                "outcome", b"{}"
            )
        self.assertEqual(raised.exception.what, "the server at this address does not speak TLS")
        for file in ("/nowhere.pem", __file__):
            with self.assertRaises(CannotSend) as raised:
                Connection(Destination("https://127.0.0.1:1", "key", file), 120).post("outcome", b"{}")
            self.assertEqual(raised.exception.what, "the certificate file cannot be used")


if __name__ == "__main__":
    unittest.main()
