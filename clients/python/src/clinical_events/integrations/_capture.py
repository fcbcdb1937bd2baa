"""Captures the model calls that go through the HTTP client of an SDK.

It replaces ``send`` of the SDK's httpx client, which is public and is called once for each attempt;
redirects, authentication, proxies and transports stay inside it. (A transport is private and sees each
redirect as a request.) The body passes through a stream that reads each chunk only when the SDK asks for it.
"""

from __future__ import annotations

import codecs
import contextvars
import json
import re
import weakref
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .._system import monotonic
from ._call import Begun, Ended, Ending, ModelCall, Options, Runs, is_time_out, quietly, starts_runs
from ._readers import Reader
from ._readers._answer import Fields, fields, text

# More characters than any answer has; a longer one is passed on without being read.
MOST_CHARACTERS = 16 << 20
# SDKs wait at most a minute before they try again.
_RETRIED_WITHIN_S = 120
_MOST_LATER = 1000

C = TypeVar("C")
Later = tuple[ModelCall, type[Reader]]


@dataclass(frozen=True)
class Dialect:
    """Recognises the requests of a provider.

    ``reader_for`` returns a reader for a path, or None if no model answers there. ``earlier`` returns, by
    method and path, the path of an earlier answer that is fetched: the path of its call and its id.
    """

    provider: str
    reader_for: Callable[[str], type[Reader] | None]
    inputs: Callable[[Fields], dict[str, Any]]
    earlier: Callable[[str, str], str | None] = lambda _method, _path: None


def attach(client: C, runs: Runs, options: Options, dialect: Dialect) -> C:
    """Captures the requests of ``client`` and replaces an earlier capture.

    :raises TypeError: ``client`` has no httpx client.
    """
    http: Any = getattr(client, "_client", client)
    if not callable(getattr(http, "send", None)):
        raise TypeError("capture needs a client of the SDK")
    own: Any = http.__dict__.get("send")
    before = own.before if isinstance(own, _Sending) else own
    kind = _AsyncSending if hasattr(http, "aclose") else _Sending
    http.send = kind(http, before, _Capture(runs, options, dialect))
    return client


class _Sending:
    """Replaces ``send`` of one httpx client."""

    def __init__(self, http: Any, before: Any, capture: _Capture) -> None:
        # A weak reference, so that the client is freed with its last reference.
        self._http = weakref.ref(http)
        self.before = before
        self.capture = capture

    def _original(self, request: Any, **given: Any) -> Any:
        if self.before is not None:
            return self.before(request, **given)
        http: Any = self._http()
        return http.__class__.send(http, request, **given)

    def __call__(self, request: Any, *, stream: bool = False, **given: Any) -> Any:
        watch = self.capture.begin(request)
        if watch is None:
            return self._original(request, stream=stream, **given)
        try:
            response = self._original(request, stream=True, **given)
        except BaseException as error:
            watch.stopped(error)
            raise
        watch.answered(response)
        if not stream:
            # As in httpx, the answer is read before it is returned.
            try:
                response.read()
            except BaseException:
                response.close()
                raise
        return response


class _AsyncSending(_Sending):
    async def __call__(self, request: Any, *, stream: bool = False, **given: Any) -> Any:
        watch = self.capture.begin(request)
        if watch is None:
            return await self._original(request, stream=stream, **given)
        try:
            response = await self._original(request, stream=True, **given)
        except BaseException as error:
            watch.stopped(error)
            raise
        watch.answered(response)
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


# The last call of this thread or task, its key and its start: an SDK repeats a call in the same thread or
# task.
_last: contextvars.ContextVar[tuple[object, float, ModelCall] | None]
_last = contextvars.ContextVar("last", default=None)

# Calls with unfinished answers, by their addresses. Kept per client, run or function of `log`, which several
# clients of an SDK may share.
_later: weakref.WeakKeyDictionary[Any, OrderedDict[str, Later | None]] = weakref.WeakKeyDictionary()


class _Capture:
    """Captures the requests of one SDK client."""

    def __init__(self, runs: Runs, options: Options, dialect: Dialect) -> None:
        self._runs = runs
        self._options = options
        self._dialect = dialect

    def begin(self, request: Any) -> _Watch | None:
        """Returns None for a request that is not a model call or cannot be read."""
        return quietly(lambda: self._begin(request, f"{request.url.scheme}://{request.url.netloc}"))

    def _begin(self, request: Any, origin: str) -> _Watch | None:
        dialect, path = self._dialect, request.url.path
        reader = dialect.reader_for(path) if request.method == "POST" else None
        if reader is None:
            return self._earlier(origin, dialect.earlier(request.method, path))
        body: bytes = quietly(lambda: request.content) or b""
        asked = fields(quietly(lambda: json.loads(body)))
        retries = request.headers.get("x-stainless-retry-count") or ""
        begun = Begun(
            by=dialect.provider,
            provider=dialect.provider,
            model=text(asked.get("model")),
            request=asked,
            inputs=dialect.inputs(asked),
            started_at=monotonic(),
            attempt=int(retries) + 1 if re.fullmatch("[0-9]{1,3}", retries) else 1,
        )
        key = (origin, path, hash(body))
        call = self._repeated(key, begun) or ModelCall(self._runs, self._options, begun)
        _last.set((key, monotonic(), call))

        def end(ended: Ended) -> None:
            answer, its_path = ended.answer, f"{path}/{ended.answer.id}"
            is_under_way = answer.ending is None and asked.get("background") is True
            is_later = answer.ending == "unfinished" or is_under_way
            is_later &= answer.id is not None and dialect.earlier("GET", its_path) is not None
            call.end(replace(ended, may_end_again=is_later))
            if is_later:
                self._fetched_later(origin + its_path, (call, reader))

        return _Watch(reader(), asked.get("stream") is True, end)

    def _repeated(self, key: object, begun: Begun) -> ModelCall | None:
        """Returns the last call of this thread or task if it failed and made the same request."""
        last, attempt = _last.get(), begun.attempt or 1
        if last is None or attempt == 1:
            return None
        before, at, call = last
        is_it = before == key and call.attempt == attempt - 1 and monotonic() - at < _RETRIED_WITHIN_S
        if not is_it or call.within is not starts_runs(self._runs):
            return None
        return call if call.begin_again(begun) else None

    def _fetched_later(self, address: str, later: Later) -> None:
        calls = _later.setdefault(self._runs, OrderedDict())
        before = calls.pop(address, later)
        # Two answers have this id, perhaps of two patients, so it identifies neither.
        calls[address] = later if before is not None and before[0] is later[0] else None
        while len(calls) > _MOST_LATER:
            calls.popitem(last=False)

    def _earlier(self, origin: str, path: str | None) -> _Watch | None:
        """Ends the call whose answer this request fetches, once the provider reports its end."""
        calls = None if path is None else _later.get(self._runs)
        address = f"{origin}{path}"
        later = calls.get(address) if calls else None
        if calls is None or later is None:
            return None
        call, reader = later

        def end(ended: Ended) -> None:
            answer = ended.answer
            is_ended = answer.ending not in (None, "unfinished") and answer.id is not None
            if is_ended and calls.get(address) is later:
                del calls[address]
                call.end(ended)

        return _Watch(reader(), False, end)


# Reading the response.


class _Watch:
    """Reads the response to a request and ends its call once."""

    def __init__(self, reader: Reader, is_stream: bool, end: Callable[[Ended], None]) -> None:
        self._reader = reader
        self._is_stream = is_stream
        self._end: Callable[[Ended], None] | None = end
        self._body: _Body | None = None

    def answered(self, response: Any) -> None:
        """Takes the head of an answer and wraps its body, if it has a readable one."""
        if not quietly(lambda: self._answered(response)):
            self._over("not read")

    def _answered(self, response: Any) -> bool:
        """Returns False for an answer that cannot be read."""
        if not 200 <= response.status_code <= 299:
            self._over("failed", status=response.status_code)
            return True
        kind: str = (response.headers.get("content-type") or "").lower()
        # An SDK that asked for a stream treats the answer as one, whatever its media type.
        is_stream = kind.startswith("text/event-stream") or self._is_stream
        known = r"text/event-stream|.*[/+]json\b|$|text/plain" if is_stream else r".*[/+]json\b"
        if not re.match(known, kind):
            return False
        # The application's own transport or hook may have read the whole body already.
        is_there: bool = response.is_stream_consumed
        self._body = _Body(self._reader, is_stream, None if is_there else _decoder_of(response))
        if is_there:
            self.seen(response.content)
            self.stopped(None)
        else:
            response.stream = _watched(response.stream, self)
        return True

    def seen(self, chunk: bytes) -> bytes:
        """Reads the chunk and returns it unchanged."""
        body = self._body
        if body is not None:
            quietly(lambda: body.take(chunk))
        return chunk

    def stopped(self, error: BaseException | None = None) -> None:
        """Takes the end of the body. ``error`` is what cut it off, if anything."""
        body, is_whole = self._body, error is None
        if self._end is None:
            return
        if body is not None:
            quietly(lambda: body.end(is_whole))
        said = self._reader.answer.ending
        if said is not None:
            # A caller that stops reading after the last word has read everything.
            self._over(said)
        elif error is None:
            self._over("cut off" if body and body.is_stream and not body.is_too_long else "not read")
        elif is_time_out(error):
            self._over("failed", error, name="TimeoutError")
        elif not isinstance(error, Exception):
            # A cancelled task, a closed stream or an interrupt is the application's decision.
            self._over("aborted")
        else:
            self._over("failed" if body is None else "cut off", error)

    def given_up(self) -> None:
        """Takes the application's end of the stream."""
        self.stopped(GeneratorExit())

    def _over(
        self,
        ending: Ending,
        error: BaseException | None = None,
        *,
        name: str | None = None,
        status: int | None = None,
    ) -> None:
        # Request and answer are released before the response is.
        end, self._end, self._body = self._end, None, None
        if end is not None:
            ended = Ended(ending, self._reader.answer, error=error, error_name=name, status=status)
            quietly(lambda: end(ended))


class _Body:
    """The body of an answer: one object or a stream of events."""

    def __init__(
        self, reader: Reader, is_stream: bool, decode: Callable[[bytes], bytes | Iterable[bytes]] | None
    ) -> None:
        self._reader = reader
        self._decode = decode
        self.is_stream = is_stream
        self._characters = 0
        self._text = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._whole: list[str] = []
        self._events = EventStream(self._event)

    @property
    def is_too_long(self) -> bool:
        return self._characters > MOST_CHARACTERS

    def take(self, chunk: bytes) -> None:
        if self.is_too_long:
            return
        decoded = chunk if self._decode is None else self._decode(chunk)
        piece = self._text.decode(decoded if isinstance(decoded, bytes) else b"".join(decoded))
        # Instead of a stream there may be one object, or a proxy's page.
        if self._characters == 0 and re.match(r"\s*[{\[<]", piece):
            self.is_stream = False
        self._characters += len(piece)
        if self.is_stream:
            self._events.push(piece)
        else:
            self._whole.append(piece)

    def end(self, is_whole: bool) -> None:
        if self.is_stream:
            if is_whole:
                self._events.end()
            self._reader.end()
        elif is_whole and not self.is_too_long:
            self._reader.whole(_parsed("".join(self._whole)))

    def _event(self, data: str) -> None:
        answer = self._reader.answer
        if data.startswith("[DONE]"):
            answer.ending = answer.ending or "complete"
        else:
            # An unreadable answer is still passed on.
            quietly(lambda: self._reader.piece(_parsed(data)))


def _parsed(words: str) -> Any:
    """Parses JSON. NaN and Infinity, which Python servers send, become null."""
    return json.loads(words, parse_constant=lambda _: None)


class EventStream:
    """Reads the data of server-sent events (HTML Living Standard, section 9.2.6)."""

    def __init__(self, on_data: Callable[[str], None]) -> None:
        self._on_data = on_data
        self._line: list[str] = []
        self._data: list[str] = []
        self._is_after_return = False

    def push(self, words: str) -> None:
        """Takes text in any pieces. An event is passed on once its empty line has come."""
        if not words:
            return
        # CR LF may be cut in two.
        if self._is_after_return and words.startswith("\n"):
            words = words[1:]
        self._is_after_return = words.endswith("\r")
        first, *others = re.split(r"\r\n|\r|\n", words)
        self._line.append(first)
        for line in others:
            self._take("".join(self._line))
            self._line = [line]

    def end(self) -> None:
        """Takes the end of the text: servers may leave out the last empty line."""
        self._take("".join(self._line))
        self._take("")

    def _take(self, line: str) -> None:
        if not line and self._data:
            data, self._data = "\n".join(self._data), []
            self._on_data(data)
        elif line == "data" or line.startswith("data:"):
            self._data.append(line[6:] if line.startswith("data: ") else line[5:])


def _decoder_of(response: Any) -> Any:
    """Returns a decoder of the body's encoding, which httpx streams do not decode; None without one."""
    if (response.headers.get("content-encoding") or "identity").lower() == "identity":
        return None
    # httpx makes one decoder for a response and keeps it; it is taken from the response, not shared.
    decoder: Any = response._get_content_decoder()
    del response._decoder
    return decoder.decode


class _Watched:
    """Wraps the stream of a response and reads only when it is read."""

    def __init__(self, inner: Any, watch: _Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __iter__(self) -> _Chunks:
        return _Chunks(iter(self._inner), self._watch)

    def close(self) -> None:
        self._watch.given_up()
        self._inner.close()

    def __del__(self) -> None:
        # The application dropped the response.
        quietly(self._watch.given_up)


class _AsyncWatched(_Watched):
    def __aiter__(self) -> _AsyncChunks:
        return _AsyncChunks(self._inner.__aiter__(), self._watch)

    async def aclose(self) -> None:
        self._watch.given_up()
        await self._inner.aclose()


# No generator functions: the event loop would close a dropped one later than the stream inside it.


class _Chunks(Iterator[bytes]):
    def __init__(self, chunks: Any, watch: _Watch) -> None:
        self._chunks = chunks
        self._watch = watch

    def __next__(self) -> bytes:
        try:
            return self._watch.seen(next(self._chunks))
        except BaseException as error:
            self._watch.stopped(None if isinstance(error, StopIteration) else error)
            raise


class _AsyncChunks(AsyncGenerator[bytes, None]):
    """An async generator, because httpx2 closes a generator as soon as it has read it."""

    def __init__(self, chunks: Any, watch: _Watch) -> None:
        self._chunks = chunks
        self._watch = watch

    async def asend(self, value: None) -> bytes:
        try:
            return self._watch.seen(await self._chunks.__anext__())
        except BaseException as error:
            self._watch.stopped(None if isinstance(error, StopAsyncIteration) else error)
            raise

    async def athrow(self, *error: Any) -> Any:
        throw: Any = self._chunks.athrow
        return await throw(*error)

    async def aclose(self) -> None:
        if hasattr(self._chunks, "aclose"):
            await self._chunks.aclose()


_kinds: dict[Any, Any] = {}


def _watched(inner: Any, watch: _Watch) -> Any:
    """Returns a wrapper class with the stream's own base class, which httpx and httpx2 check."""
    kind: Any = inner.__class__
    if kind not in _kinds:
        is_async = hasattr(kind, "__aiter__")
        watched, name = (_AsyncWatched, "AsyncByteStream") if is_async else (_Watched, "SyncByteStream")
        base = next(each for each in kind.__mro__ if each.__name__ == name)
        _kinds[kind] = type(watched.__name__, (watched, base), {})
    return _kinds[kind](inner, watch)
