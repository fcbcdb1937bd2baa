"""The HTTP client of an SDK, with the calls of models that go through it captured.

What is replaced is ``send`` of the httpx client that the SDK holds: it is public, every attempt of an SDK is
one call of it, and redirects, authentication, proxies and transports stay inside of it; a transport sees each
redirect as a request, and is private. The body passes through a stream that looks at each chunk when the SDK
has asked for it, and never asks by itself.
"""

from __future__ import annotations

import codecs
import contextvars
import json
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from .._system import monotonic
from ._call import Begun, Ended, Ending, ModelCall, Options, Runs, is_time_out, quietly, starts_runs
from ._readers import Answer, Reader
from ._readers._answer import Fields, fields, text

# More characters than an answer has; beyond them it is passed on and not looked at any more.
MOST_CHARACTERS = 16 << 20
# SDKs wait for a minute at most before they try again.
_RETRIED_WITHIN_S = 120
_MOST_LATER = 1000

C = TypeVar("C")
# Of httpx bytes, of httpx2 several.
Decode = Callable[[bytes], bytes | Iterable[bytes]]


@dataclass(frozen=True)
class Dialect:
    """How requests of a provider are known.

    ``reader_for``: by a path, None where no model answers. ``earlier``: by method and path, the path of the
    earlier answer that is asked for; an answer has the path of its call, and its id.
    """

    provider: str
    reader_for: Callable[[str], type[Reader] | None]
    inputs: Callable[[Fields], dict[str, Any]]
    earlier: Callable[[str, str], str | None] = lambda _method, _path: None


def attach(client: C, runs: Runs, options: Options, dialect: Dialect) -> C:
    """On return the requests of ``client`` are captured; one capture takes the place of another.

    :raises TypeError: ``client`` has no httpx client.
    """
    http: Any = getattr(client, "_client", client)
    send = getattr(http, "send", None)
    if not callable(send):
        raise TypeError("capture takes a client of the SDK")
    # By a weak reference: a cycle would keep the client from being freed with its last reference.
    before = send if "send" in vars(http) and not isinstance(send, _Sending) else None
    if isinstance(send, _Sending):
        before = send.before
    kind = _AsyncSending if hasattr(http, "aclose") else _SyncSending
    http.send = kind(http, before, _Capture(runs, options, dialect))
    return client


class _Sending:
    """``send`` of one httpx client."""

    def __init__(self, http: Any, before: Any, capture: _Capture) -> None:
        self._http = weakref.ref(http)
        self.before = before
        self.capture = capture

    def original(self, request: Any, **given: Any) -> Any:
        if self.before is not None:
            return self.before(request, **given)
        http: Any = self._http()
        return http.__class__.send(http, request, **given)


class _SyncSending(_Sending):
    def __call__(self, request: Any, *, stream: bool = False, **given: Any) -> Any:
        watch = self.capture.begin(request)
        if watch is None:
            return self.original(request, stream=stream, **given)
        try:
            response = self.original(request, stream=True, **given)
        except BaseException as error:
            watch.refused(error)
            raise
        watch.answered(response)
        if not stream:
            # As httpx does: the answer is read before it is given.
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
            return await self.original(request, stream=stream, **given)
        try:
            response = await self.original(request, stream=True, **given)
        except BaseException as error:
            watch.refused(error)
            raise
        watch.answered(response)
        if not stream:
            try:
                await response.aread()
            except BaseException:
                await response.aclose()
                raise
        return response


# The last call of this thread or task: an SDK makes its next attempt where it has made the one before.
_last: contextvars.ContextVar[tuple[object, float, ModelCall] | None]
_last = contextvars.ContextVar("last", default=None)


class _Sent:
    """A request as it is handed over to httpx."""

    def __init__(self, request: Any) -> None:
        self.method: str = request.method
        self.path: str = request.url.path
        self._origin = f"{request.url.scheme}://{request.url.netloc}"
        self._headers = request.headers
        self._body: bytes = quietly(lambda: request.content) or b""

    def fields(self) -> Fields:
        """Its body; empty when that is no JSON."""
        return fields(quietly(lambda: json.loads(self._body)))

    @property
    def key(self) -> object:
        """The same for requests that ask for the same."""
        return self.address(self.path), hash(self._body)

    @property
    def attempt(self) -> int:
        """By what the SDKs of OpenAI and Anthropic say of the attempts before."""
        retries = self._headers.get("x-stainless-retry-count") or ""
        return int(retries) + 1 if re.fullmatch("[0-9]{1,3}", retries) else 1

    def address(self, path: str) -> str:
        return self._origin + path


class _Capture:
    """What is captured of the requests of one SDK client."""

    def __init__(self, runs: Runs, options: Options, dialect: Dialect) -> None:
        self._runs = runs
        self._options = options
        self._dialect = dialect

    def begin(self, request: Any) -> _Watch | None:
        """None for a request that is none of a model, and where nothing can be known of it."""
        return quietly(lambda: self._begin(_Sent(request)))

    def _begin(self, sent: _Sent) -> _Watch | None:
        dialect = self._dialect
        reader = dialect.reader_for(sent.path) if sent.method == "POST" else None
        if reader is None:
            return self._earlier(sent)
        asked = sent.fields()
        begun = Begun(
            by=dialect.provider,
            provider=dialect.provider,
            model=text(asked.get("model")),
            request=asked,
            inputs=dialect.inputs(asked),
            started_at=monotonic(),
            attempt=sent.attempt,
        )
        call = self._repeated(sent.key, begun) or ModelCall(self._runs, self._options, begun)
        _last.set((sent.key, monotonic(), call))

        def end(ended: Ended) -> None:
            path = f"{sent.path}/{ended.answer.id}"
            is_known = ended.answer.id is not None and dialect.earlier("GET", path) is not None
            is_later = is_known and _may_be_fetched_later(ended.answer, asked)
            call.end(replace(ended, may_end_again=is_later))
            if is_later:
                _later_of(self._runs).add(sent.address(path), call, reader)

        return _Watch(reader(), asked.get("stream") is True, end)

    def _repeated(self, key: object, begun: Begun) -> ModelCall | None:
        """The last call of this thread or task, if it failed and asked for the same."""
        last, attempt = _last.get(), begun.attempt or 1
        if last is None or attempt == 1:
            return None
        before, at, call = last
        is_it = before == key and call.attempt == attempt - 1 and monotonic() - at < _RETRIED_WITHIN_S
        if not is_it or call.within is not starts_runs(self._runs):
            return None
        return call if call.begin_again(begun) else None

    def _earlier(self, sent: _Sent) -> _Watch | None:
        """Ends the call whose answer this request asks for, once the provider says that it has ended."""
        path = self._dialect.earlier(sent.method, sent.path)
        if path is None:
            return None
        calls, address = _later_of(self._runs), sent.address(path)
        later = calls.get(address)
        if later is None:
            return None
        call, reader = later

        def end(ended: Ended) -> None:
            answer = ended.answer
            if answer.ending in (None, "unfinished") or answer.id is None:
                return
            if calls.remove(address, call):
                call.end(ended)

        return _Watch(reader(), False, end)


def _may_be_fetched_later(answer: Answer, asked: Fields) -> bool:
    return answer.ending == "unfinished" or (answer.ending is None and asked.get("background") is True)


class _Later:
    """Calls whose answers were unfinished, by their addresses; of too many the oldest are forgotten."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, tuple[ModelCall, type[Reader]] | None] = OrderedDict()

    def add(self, address: str, call: ModelCall, reader: type[Reader]) -> None:
        before = self._calls.pop(address, (call, reader))
        # Two answers under one id, perhaps of two patients: it names neither.
        self._calls[address] = (call, reader) if before is not None and before[0] is call else None
        while len(self._calls) > _MOST_LATER:
            self._calls.popitem(last=False)

    def get(self, address: str) -> tuple[ModelCall, type[Reader]] | None:
        return self._calls.get(address)

    def remove(self, address: str, call: ModelCall) -> bool:
        """False when it was ended before."""
        known = self._calls.get(address)
        return known is not None and known[0] is call and self._calls.pop(address, None) is not None


# Of the client, run or function that was given: several clients of an SDK may share it.
_later: weakref.WeakKeyDictionary[Any, _Later] = weakref.WeakKeyDictionary()


def _later_of(runs: Runs) -> _Later:
    return _later.setdefault(runs, _Later())


# What comes back.


class _Watch:
    """Looks at what answers a request, and ends its call once."""

    def __init__(self, reader: Reader, is_stream: bool, end: Callable[[Ended], None]) -> None:
        self._reader = reader
        self._is_stream = is_stream
        self._end = end
        self._is_over = False
        self._body: _Body | None = None

    def refused(self, error: BaseException) -> None:
        """There is no answer: the connection failed, a time was up, or the application gave it up."""
        self._over("failed", error)

    def answered(self, response: Any) -> None:
        """The head of an answer is there. On return its body is watched, if there is one that can be read."""
        if quietly(lambda: self._answered(response)) is None:
            self._over("not read")

    def _answered(self, response: Any) -> bool:
        if not 200 <= response.status_code <= 299:
            self._over("failed", status=response.status_code)
            return True
        kind: str = (response.headers.get("content-type") or "").lower()
        # SDKs that have asked for a stream take the answer for one, whatever it says to be.
        is_stream = kind.startswith("text/event-stream") or self._is_stream
        if not (
            re.match(r"text/event-stream|.*[/+]json\b", kind)
            or (is_stream and re.match(r"$|text/plain", kind))
        ):
            self._over("not read")
            return True
        if response.is_stream_consumed:
            # A transport of the application's own, or one of its hooks, has the whole body already.
            self._body = _Body(self._reader, is_stream, None)
            self.seen(response.content)
            self.over()
            return True
        self._body = _Body(self._reader, is_stream, _decoder_of(response))
        response.stream = _watched(response.stream, self)
        return True

    def seen(self, chunk: bytes) -> None:
        body = self._body
        if body is not None:
            quietly(lambda: body.take(chunk))

    def over(self, error: BaseException | None = None) -> None:
        """The body was read to its end, or it broke off."""
        body = self._body
        if self._is_over or body is None:
            return
        is_whole = error is None
        quietly(lambda: body.end(is_whole))
        said = self._reader.answer.ending
        if said is not None:
            # Anyone who stops reading after the last word has read it all.
            self._over(said, error)
        elif error is None:
            self._over("cut off" if body.is_stream and not body.is_too_long else "not read")
        else:
            self._over("cut off", error)

    def given_up(self) -> None:
        """The body was closed before its end."""
        self.over(GeneratorExit())

    def _over(self, ending: Ending, error: BaseException | None = None, status: int | None = None) -> None:
        if self._is_over:
            return
        self._is_over = True
        name: str | None = None
        answer = self._reader.answer
        if error is not None and answer.ending is None:
            if is_time_out(error):
                ending, name = "failed", "TimeoutError"
            elif not isinstance(error, Exception):
                # A task that is cancelled, a stream that is closed, an interrupt: it is the application's.
                ending, error = "aborted", None
        elif answer.ending is not None:
            error = None
        ended = Ended(ending, answer, error=error, error_name=name, status=status)
        quietly(lambda: self._end(ended))
        # What was asked and answered is not kept as long as the response is.
        self._body, self._end = None, _nothing


def _nothing(_ended: Ended) -> None:
    """In place of what has been done."""


class _Body:
    """The body of an answer, which is one object, or a stream of events."""

    def __init__(self, reader: Reader, is_stream: bool, decode: Decode | None) -> None:
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
        if self._decode is not None:
            decoded = self._decode(chunk)
            chunk = decoded if isinstance(decoded, bytes) else b"".join(decoded)
        piece = self._text.decode(chunk)
        # In place of a stream there may be one object, or the page of a proxy.
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
            self._reader.whole(parsed("".join(self._whole)))

    def _event(self, data: str) -> None:
        answer = self._reader.answer
        if data.startswith("[DONE]"):
            answer.ending = answer.ending or "complete"
        else:
            # What cannot be read here is passed on all the same.
            quietly(lambda: self._reader.piece(parsed(data)))


def parsed(words: str) -> Any:
    """The value of JSON. NaN and Infinity are none (RFC 8259, section 6)."""
    return json.loads(words, parse_constant=_refuse)


def _refuse(_name: str) -> None:
    raise ValueError("no JSON")


class EventStream:
    """Server-sent events (HTML Living Standard, section 9.2.6), as far as their data goes."""

    def __init__(self, on_data: Callable[[str], None]) -> None:
        self._on_data = on_data
        self._line: list[str] = []
        self._data: list[str] = []
        self._is_after_return = False

    def push(self, words: str) -> None:
        """Takes text as it comes, cut anywhere. An event is passed on once its empty line is there."""
        if not words:
            return
        # A line end of two characters may be cut in two.
        if self._is_after_return and words.startswith("\n"):
            words = words[1:]
        self._is_after_return = words.endswith("\r")
        first, *others = re.split(r"\r\n|\r|\n", words)
        self._line.append(first)
        for line in others:
            self._take("".join(self._line))
            self._line = [line]

    def end(self) -> None:
        """The text is over: servers leave out the last empty line."""
        self._take("".join(self._line))
        self._take("")

    def _take(self, line: str) -> None:
        if not line and self._data:
            data, self._data = "\n".join(self._data), []
            self._on_data(data)
        elif line == "data" or line.startswith("data:"):
            self._data.append(line[6:] if line.startswith("data: ") else line[5:])


def _decoder_of(response: Any) -> Decode | None:
    """Undoes the encoding of the body, which streams of httpx pass on as it is. None: there is none."""
    if (response.headers.get("content-encoding") or "identity").lower() == "identity":
        return None
    # httpx knows them all. It makes one decoder for a response and keeps it: that one is taken, not shared.
    decoder: Any = response._get_content_decoder()
    del response._decoder
    decode: Decode = decoder.decode
    return decode


class _Watched:
    """Gives what the stream of a response gives, when it is asked. All else is that stream's."""

    def __init__(self, inner: Any, watch: _Watch) -> None:
        self._inner = inner
        self._watch = watch
        self._chunks: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __del__(self) -> None:
        # A response that was dropped was given up.
        quietly(self._watch.given_up)

    def _stop(self, error: BaseException) -> None:
        is_end = isinstance(error, StopIteration | StopAsyncIteration)
        quietly(lambda: self._watch.over(None if is_end else error))


# No generators: one that is dropped would be closed later, and by the event loop.


class _WatchedSync(_Watched):
    def __iter__(self) -> _WatchedSync:
        self._chunks = iter(self._inner)
        return self

    def __next__(self) -> bytes:
        try:
            chunk: bytes = next(self._chunks)
        except BaseException as error:
            self._stop(error)
            raise
        self._watch.seen(chunk)
        return chunk

    def close(self) -> None:
        quietly(self._watch.given_up)
        self._inner.close()


class _WatchedAsync(_Watched):
    def __aiter__(self) -> _WatchedAsync:
        self._chunks = self._inner.__aiter__()
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._chunks.__anext__()
        except BaseException as error:
            self._stop(error)
            raise
        self._watch.seen(chunk)
        return chunk

    async def aclose(self) -> None:
        quietly(self._watch.given_up)
        await self._inner.aclose()


_kinds: dict[Any, Any] = {}


def _watched(inner: Any, watch: _Watch) -> Any:
    """httpx looks at the class of a stream: what watches one has the same base, of httpx or of httpx2."""
    kind: Any = inner.__class__
    made = _kinds.get(kind)
    if made is None:
        is_async = hasattr(kind, "__aiter__")
        watched, name = (_WatchedAsync, "AsyncByteStream") if is_async else (_WatchedSync, "SyncByteStream")
        base = next(each for each in kind.__mro__ if each.__name__ == name)
        made = _kinds[kind] = type(watched.__name__, (watched, base), {})
    return made(inner, watch)
