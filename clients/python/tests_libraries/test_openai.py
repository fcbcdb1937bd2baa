"""The OpenAI SDK, captured: the recorded events, and the unchanged results for the application."""

from __future__ import annotations

import asyncio
import gc
import gzip
import hashlib
import json
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from server import (
    SECRET,
    Answering,
    Log,
    async_outcome_of,
    captured,
    expected,
    give,
    let_go,
    outcome_of,
    recordings,
    serving,
)

from clinical_events.integrations.openai import capture

openai = pytest.importorskip("openai")

MESSAGES: Any = [{"role": "user", "content": SECRET}]
ARGUMENTS = json.dumps({"patient": SECRET})
HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-9-2026-05-01"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def completion(message: dict[str, Any], finish_reason: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


WORDS = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": SECRET}),
    chunk({"content": ", treat."}),
]
WHOLE = [*WORDS, chunk({}, "stop"), {**HEAD, "choices": [], "usage": USAGE}, "[DONE]"]
RESPONSE = {
    **{"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-9", "status": "completed"},
    **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": []},
    "output": [
        {
            **{"type": "message", "id": "m", "role": "assistant", "status": "completed"},
            "content": [{"type": "output_text", "text": SECRET, "annotations": []}],
        }
    ],
}


def client_of(url: str, kind: Any = openai.OpenAI, **options: Any) -> Any:
    return kind(base_url=f"{url}/v1", api_key="key", **{"max_retries": 0, **options})


def asks(client: Any, **said: Any) -> Any:
    return client.chat.completions.create(model="gpt-9", messages=MESSAGES, **said)


def asker(api: str, asked: dict[str, Any]) -> Callable[[Any], Any]:
    """Sends the request of a recording to a client."""
    if api == "chat":
        return lambda client: client.chat.completions.create(
            model="m", messages=[], stream=asked["stream"], extra_body=asked
        )
    return lambda client: client.responses.create(
        model="m", input="", stream=asked["stream"], extra_body=asked
    )


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_every_recording_is_captured_as_expected_and_costs_the_application_nothing(api: str) -> None:
    """[R-865] Sync and async, whole and in streams; the application gets the same as without a capture."""
    current: list[Any] = []
    answers: list[Any] = []

    async def play(url: str) -> None:
        log = Log()
        sync, plain_sync = client_of(url), client_of(url)
        client, plain = (client_of(url, openai.AsyncOpenAI) for _ in range(2))
        for name, form, vector in recordings(api):
            current.append((form, vector))
            ask = asker(api, {**vector["request"], "stream": form == "stream"})
            for each in (sync, client):
                log.clear()
                capture(each, log, describe=lambda call: answers.append(call.answer))
                if each is sync:
                    given = outcome_of(lambda ask=ask: ask(plain_sync))
                    seen = outcome_of(lambda ask=ask: ask(sync))
                else:
                    given = await async_outcome_of(lambda ask=ask: ask(plain))
                    seen = await async_outcome_of(lambda ask=ask: ask(client))
                assert seen == given, (name, form)
                await let_go(log)
                found = captured(log, answers)
                assert found == expected(vector, found), (name, form)
        await client.close()
        await plain.close()

    if api == "responses" and not hasattr(client_of(""), "responses"):
        pytest.skip("this version of openai has no Responses API")
    with serving(lambda request: give(request, *current[-1])) as server:
        asyncio.run(play(server.url))


def test_a_completion_becomes_a_start_and_an_output_without_its_words() -> None:
    """[R-865] A run has the fields that the instrumentation of other languages writes."""
    log = Log()
    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        tools: Any = [{"type": "function", "function": {"name": "find_dose", "parameters": {}}}]
        asks(capture(client_of(server.url), log), tools=tools)
    start, output = log.events
    assert start["model_instance"] == {"model_id": "gpt-9", "provider": "openai"}
    assert start["inputs"] == {"message_count": 1, "tool_count": 1, "streamed": False}
    assert start["by"] == {"by": "openai"}
    assert output["latency_ms"] >= 0
    for name in ("latency_ms", "event_id", "timestamp", "protocol_version"):
        del output[name]
    assert output == {
        **{"kind": "human-output", "run_id": start["run_id"], "output_type": "text", "ending": "complete"},
        **{"output_uri": f"urn:uuid:{start['run_id']}?=output=1", "response_id": "chatcmpl-1"},
        **{"response_model": "gpt-9-2026-05-01", "finish_reason": "stop", "characters": len(SECRET)},
        **{"usage": {"input_tokens": 11, "output_tokens": 7}, "tool_calls": 0},
        "by": {"by": "openai", "shown_by": "default"},
    }
    assert SECRET not in json.dumps(log.events)


def test_tools_and_further_choices_become_artifacts() -> None:
    log = Log()
    call = {"id": "call_1", "type": "function", "function": {"name": "find_dose", "arguments": ARGUMENTS}}
    body = completion({"content": None, "tool_calls": [call, {**call, "id": "call_2"}]}, "tool_calls")
    body["choices"].append({"index": 1, "finish_reason": "stop", "message": {"content": SECRET}})
    with serving(lambda request: request.json(body)) as server:
        asks(capture(client_of(server.url), log))
    start, first, next_, other, end = log.events
    uri = f"urn:uuid:{start['run_id']}?=artifact="
    for at, event in enumerate((first, next_), 1):
        assert (event["artifact_type"], event["tool_name"]) == ("tool_call", "find_dose")
        assert (event["call_id"], event["artifact_uri"]) == (f"call_{at}", f"{uri}{at}")
        assert event["input_characters"] == len(ARGUMENTS)
    assert (other["artifact_type"], other["choice"], other["characters"]) == ("other", 1, len(SECRET))
    assert (end["ending"], end["tool_calls"], end["choices"]) == ("complete", 2, 2)
    assert SECRET not in json.dumps(log.events)


def test_a_stream_is_passed_on_as_it_comes() -> None:
    log, arrived = Log(), threading.Event()

    def answer(request: Answering) -> None:
        request.start_stream()
        request.send(*WHOLE[:2])
        # The server sends no more before this has arrived.
        assert arrived.wait(120)
        request.send(*WHOLE[2:])
        request.end_stream()

    with serving(answer) as server:
        text = ""
        for piece in asks(capture(client_of(server.url), log), stream=True):
            text += piece.choices[0].delta.content or "" if piece.choices else ""
            if text == SECRET:
                arrived.set()
    assert text == f"{SECRET}, treat."
    (end,) = log.ends
    assert (end["kind"], end["characters"], end["usage"]["output_tokens"]) == ("human-output", len(text), 7)
    assert log.starts[0]["inputs"]["streamed"] is True


def test_a_retry_of_the_sdk_is_of_the_run_that_it_repeats() -> None:
    """[R-865] One run for a call: each failure has its status, and no message."""
    log = Log()

    def answer(request: Answering) -> None:
        if request.number == 1:
            return request.cut()
        if request.number == 2:
            error = {"error": {"message": SECRET, "type": "rate_limit_exceeded"}}
            return request.json(error, 429, retry_after_ms="1")
        return request.json(completion({"content": "yes"}))

    with serving(answer) as server:
        client = capture(client_of(server.url), log)
        asks(client.with_options(max_retries=2))
        asks(client)
    assert len(log.starts) == 2
    ends = [event for event in log.ends if event["run_id"] == log.starts[0]["run_id"]]
    assert [end.get("status") for end in ends] == [None, 429, None]
    assert [end["ending"] for end in ends] == ["failed", "failed", "complete"]
    assert ends[0]["error_name"] in ("RemoteProtocolError", "ReadError")
    marks = [end["by"] for end in ends]
    assert [mark.get("attempt") for mark in marks] == [None, 2, 3]
    assert SECRET not in json.dumps(log.events)


def test_equal_requests_of_several_threads_and_tasks_are_retried_in_their_own_runs() -> None:
    """[R-865] Two equal requests may overlap: a retry belongs to the call of its thread or task."""
    log = Log()
    together = threading.Barrier(8)

    def answer(request: Answering) -> None:
        if request.headers["x-stainless-retry-count"] == "0":
            together.wait(120)
            return request.json({}, 503, retry_after_ms="1")
        return request.json(completion({"content": "yes"}))

    async def asked_in_tasks(url: str) -> None:
        async with client_of(url, openai.AsyncOpenAI, max_retries=1) as client:
            await asyncio.gather(*(asks(capture(client, log)) for _ in range(4)))

    with serving(answer) as server:
        client = capture(client_of(server.url, max_retries=1), log)
        threads = [threading.Thread(target=asks, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        asyncio.run(asked_in_tasks(server.url))
        for thread in threads:
            thread.join()
    assert len(log.starts) == 8
    for start in log.starts:
        ends = [event["ending"] for event in log.ends if event["run_id"] == start["run_id"]]
        assert ends == ["failed", "complete"]


def test_a_repeat_by_the_application_is_a_separate_run() -> None:
    log = Log()
    with serving(lambda request: request.json({}, 503)) as server:
        client = capture(client_of(server.url), log)
        for _ in range(2):
            with pytest.raises(openai.InternalServerError):
                asks(client)
    assert len(log.starts) == 2
    assert [end["status"] for end in log.ends] == [503, 503]


def streams_words(request: Answering) -> None:
    request.start_stream()
    request.send(*WORDS)
    # Until the client closes the stream.
    request.rfile.read(1)


def stops_at_words(how: str, stream: Any) -> None:
    for piece in stream:
        if piece.choices[0].delta.content:
            if how == "close":
                stream.close()
            return


@pytest.mark.parametrize("how", ["break", "close", "with"])
def test_a_stream_that_is_abandoned_half_way_is_aborted(how: str) -> None:
    """[R-1600] The part that came is an artifact and no output, and the connection is closed as before."""
    log = Log()
    with serving(streams_words) as server:
        stream = asks(capture(client_of(server.url), log), stream=True)
        if how == "with":
            with stream:
                stops_at_words(how, stream)
        else:
            stops_at_words(how, stream)
        del stream
        gc.collect()
    start, end = log.events
    assert start["kind"] == "inference-start"
    assert (end["artifact_type"], end["ending"], end["characters"]) == ("other", "aborted", len(SECRET))
    assert "error_name" not in end


def test_an_async_stream_that_is_abandoned_half_way_is_aborted() -> None:
    log = Log()

    async def ask(url: str) -> None:
        async with client_of(url, openai.AsyncOpenAI) as client:
            stream = await asks(capture(client, log), stream=True)
            async for piece in stream:
                if piece.choices[0].delta.content:
                    break
            await stream.close()
            dropped = await asks(client, stream=True)
            async for piece in dropped:
                if piece.choices[0].delta.content:
                    break
            del stream, dropped, piece
            gc.collect()

    with serving(streams_words) as server:
        asyncio.run(ask(server.url))
    gc.collect()
    assert [(end["ending"], end["characters"]) for end in log.ends] == [("aborted", len(SECRET))] * 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_time_out_is_a_failure(stream: bool) -> None:
    log, over = Log(), threading.Event()

    def answer(request: Answering) -> None:
        if stream:
            request.start_stream()
            request.send(*WORDS)
        over.wait(120)

    async def ask(url: str) -> None:
        async with client_of(url, openai.AsyncOpenAI, timeout=0.2) as client:
            answer = await asks(capture(client, log), stream=stream)
            async for _ in answer:
                pass

    with serving(answer) as server:
        with pytest.raises(Exception) as sync:  # noqa: PT011 -- Of the SDK, or in a stream of httpx.
            for _ in asks(capture(client_of(server.url, timeout=0.2), log), stream=stream):
                pass
        with pytest.raises(Exception) as asynchronous:  # noqa: PT011
            asyncio.run(ask(server.url))
        over.set()
    assert all("Timeout" in type(each.value).__name__ for each in (sync, asynchronous))
    assert [(end["ending"], end["error_name"]) for end in log.ends] == [("failed", "TimeoutError")] * 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_task_that_is_cancelled_has_aborted_its_call(stream: bool) -> None:
    log, over, came = Log(), threading.Event(), threading.Event()

    def answer(request: Answering) -> None:
        if stream:
            request.start_stream()
            request.send(*WORDS)
        came.set()
        over.wait(120)

    async def ask(url: str) -> None:
        async with client_of(url, openai.AsyncOpenAI) as client:
            words = asyncio.Event()

            async def read() -> None:
                async for piece in await asks(capture(client, log), stream=stream):
                    if piece.choices[0].delta.content == ", treat.":
                        words.set()

            task = asyncio.create_task(read())
            await (words.wait() if stream else asyncio.to_thread(came.wait, 120))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with serving(answer) as server:
        asyncio.run(ask(server.url))
        over.set()
    (end,) = log.ends
    assert (end["ending"], end["characters"]) == ("aborted", len(f"{SECRET}, treat.") if stream else 0)


def test_raw_and_streamed_responses_are_captured_in_any_encoding() -> None:
    log = Log()
    body = gzip.compress(json.dumps(completion({"content": SECRET})).encode())
    with serving(lambda request: request.give(body, content_encoding="gzip")) as server:
        client = capture(client_of(server.url), log)
        raw = client.chat.completions.with_raw_response.create(model="gpt-9", messages=MESSAGES)
        assert raw.parse().choices[0].message.content == SECRET
        assert raw.headers["x-request-id"] == "req_1"
        assert raw.elapsed.total_seconds() >= 0
        streamed = client.chat.completions.with_streaming_response
        with streamed.create(model="gpt-9", messages=MESSAGES) as response:
            read = b"".join(response.iter_bytes())
        assert json.loads(read)["id"] == "chatcmpl-1"
        with streamed.create(model="gpt-9", messages=MESSAGES) as response:
            assert response.http_response.num_bytes_downloaded == 0
    assert [(end["ending"], end["characters"]) for end in log.ends] == [
        *[("complete", len(SECRET))] * 2,
        ("aborted", 0),
    ]


def test_a_response_that_the_application_reads_itself_is_captured() -> None:
    log = Log()
    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        client = client_of(server.url)
        client._client.event_hooks["response"].append(lambda response: response.read())
        answer = asks(capture(client, log))
        assert answer.choices[0].message.content == SECRET
    module = type(client._client).__mro__[-3].__module__.partition(".")[0]
    httpx = __import__(module)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=completion({"content": SECRET})))
    http = httpx.Client(transport=transport)
    asks(capture(client_of("http://127.0.0.1:1", http_client=http), log))
    assert [(end["ending"], end["characters"]) for end in log.ends] == [("complete", len(SECRET))] * 2


def responses_of(client: Any) -> Any:
    if not hasattr(client, "responses"):
        pytest.skip("this version of openai has no Responses API")
    return client.responses


def test_a_background_response_ends_its_run_when_it_is_fetched_later() -> None:
    """[R-1600] Earlier polls make no event, and the latency counts from the beginning of the run."""
    log = Log()
    queued = {**RESPONSE, "status": "queued", "output": []}

    def answer(request: Answering) -> None:
        if request.path.endswith("/cancel"):
            return request.json({**queued, "status": "cancelled"})
        return request.json(RESPONSE if request.number == 3 else queued)

    with serving(answer) as server:
        responses = responses_of(capture(client_of(server.url), log))
        responses.create(model="gpt-9", input=SECRET, background=True)
        for _ in range(3):
            responses.retrieve("resp_1")
        responses.create(model="gpt-9", input=SECRET, background=True)
        responses.cancel("resp_1")
    ends = [(end["run_id"], end["kind"], end["ending"]) for end in log.ends]
    first, second = (start["run_id"] for start in log.starts)
    assert ends == [
        (first, "internal-artifact", "unfinished"),
        (first, "human-output", "complete"),
        (second, "internal-artifact", "unfinished"),
        (second, "internal-artifact", "aborted"),
    ]


def test_a_background_stream_that_breaks_is_fetched_later() -> None:
    log = Log()

    def answer(request: Answering) -> None:
        if request.command == "GET":
            return request.json(RESPONSE)
        created = {"type": "response.created", "response": {**RESPONSE, "status": "queued", "output": []}}
        return request.stream([created, "[CUT]"])

    with serving(answer) as server:
        responses = responses_of(capture(client_of(server.url), log))
        with pytest.raises(Exception):  # noqa: B017, PT011 -- Its class is of the HTTP client.
            list(responses.create(model="gpt-9", input=SECRET, background=True, stream=True))
        responses.retrieve("resp_1")
    assert len(log.starts) == 1
    assert [end["ending"] for end in log.ends] == ["cut off", "complete"]


def test_the_application_sees_the_error_that_it_would_see() -> None:
    log = Log()
    error = {"error": {"message": "no such model"}}
    with serving(lambda request: request.json(error, 404)) as server:
        plain = outcome_of(lambda: asks(client_of(server.url)))
        assert outcome_of(lambda: asks(capture(client_of(server.url), log))) == plain
    try:
        raise TimeoutError
    except TimeoutError:
        # An error that the application handles is no cause of a later one.
        away = outcome_of(lambda: asks(capture(client_of("http://127.0.0.1:1"), log)))
    assert away[1] == "APIConnectionError"
    assert [(end["ending"], end.get("status"), end.get("error_name")) for end in log.ends] == [
        ("failed", 404, None),
        ("failed", None, "ConnectError"),
    ]


def test_a_redirect_is_one_request() -> None:
    log = Log()

    def answer(request: Answering) -> None:
        if request.number == 1:
            return request.give(b"", status=307, location="/v1/chat/completions")
        return request.json(completion({"content": SECRET}))

    with serving(answer) as server:
        asks(capture(client_of(server.url), log))
    assert [event["kind"] for event in log.events] == ["inference-start", "human-output"]


@pytest.mark.parametrize(
    ("streamed", "kind", "body", "ending"),
    [
        (False, "application/json", b'{"choices": [null, 5, {"message": 7}], "usage": "no"', "not read"),
        (
            False,
            "application/json",
            b'{"usage": NaN, "choices": [{"message": {"content": "a"}}]}',
            "complete",
        ),
        (False, "text/html", b"<p>Sign in to the portal</p>", "not read"),
        (True, "text/event-stream", b"<p>Sign in to the portal</p>", "not read"),
        (True, "text/event-stream", b"", "cut off"),
        (True, "text/event-stream", b"data: {\n\ndata: 7\n\ndata: null\n\n", "cut off"),
        (True, "application/json", json.dumps(completion({"content": SECRET})).encode(), "complete"),
        (
            True,
            "text/event-stream",
            b": ok\r\n\r\ndata:" + json.dumps(chunk({"content": "x"}, "stop")).encode(),
            "complete",
        ),
        (
            False,
            "text/event-stream",
            b"data: " + json.dumps(chunk({"content": "x"}, "stop")).encode(),
            "complete",
        ),
        (False, "application/json", b"\xff\xfe\x00", "not read"),
        (False, "application/json", b"[" * 100_000, "not read"),
    ],
)
def test_a_body_of_any_form_reaches_the_application_as_it_is(
    streamed: bool, kind: str, body: bytes, ending: str
) -> None:
    """[R-865] Bytes are passed on unchanged, readable or not."""
    log = Log()
    with serving(lambda request: request.give(body, kind)) as server:
        http = capture(client_of(server.url), log)._client
        asked = {"model": "gpt-9", "messages": MESSAGES, "stream": streamed}
        answer = http.post(f"{server.url}/v1/chat/completions", json=asked)
        assert answer.content == body
        with http.stream("POST", f"{server.url}/v1/chat/completions", json=asked) as response:
            assert b"".join(response.iter_raw()) == body
    assert [end["ending"] for end in log.ends] == [ending] * 2
    assert SECRET not in json.dumps(log.events)


def test_the_application_chooses_the_content_of_events() -> None:
    log = Log()
    run_id = "0198c0de-0000-4000-8000-000000000001"
    seen: list[Any] = []

    def describe(call: Any) -> dict[str, Any]:
        seen.append(call)
        if call.answer is None:
            said = {"run_id": run_id, "user": {"caller_id": "u1"}, "model": {"model_version": "9.1"}}
            return {**said, "inputs": {"template": "rash"}, "input_content": SECRET}
        return {"output": {"summary": "a finding"}, "output_content": call.answer.text}

    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        asks(
            capture(
                client_of(server.url), log, describe=describe, shown=lambda call: call.answer.text == SECRET
            )
        )
        asks(
            capture(
                client_of(server.url), log, describe=lambda call: {"output": None} if call.answer else None
            )
        )
    start, output, *_, hidden = log.events
    content = f"sha256:{hashlib.sha256(SECRET.encode()).hexdigest()}"
    assert (start["run_id"], start["user_identity"]) == (run_id, {"caller_id": "u1"})
    assert (start["inputs"]["input_uri"], start["inputs"]["template"]) == (content, "rash")
    assert start["model_instance"] == {"model_id": "gpt-9", "provider": "openai", "model_version": "9.1"}
    assert (output["summary"], output["output_uri"]) == ("a finding", content)
    assert output["by"]["shown_by"] == "application"
    assert (hidden["artifact_type"], hidden["ending"]) == ("other", "complete")
    assert [(call.run_id, call.request["model"]) for call in seen] == [(None, "gpt-9"), (run_id, "gpt-9")]


def test_invalid_fields_of_describe_are_refused_and_the_rest_is_captured() -> None:
    log = Log()
    call = {"id": "call_1", "type": "function", "function": {"name": "find_dose", "arguments": ARGUMENTS}}
    tools = ({"mime_type": "application/json", "content": ARGUMENTS},)
    with serving(lambda request: request.json(completion({"tool_calls": [call]}))) as server:
        asks(capture(client_of(server.url), log, describe=lambda _: {"model": "gpt", "tool_calls": tools}))
    log.flush(120)
    assert len(log.refusals) == 1
    log.refusals.clear()
    tool, end = log.events
    assert (tool["mime_type"], tool["artifact_uri"][:7], end["ending"]) == (
        "application/json",
        "sha256:",
        "complete",
    )


def raises(*_given: Any) -> Any:
    raise ValueError(SECRET)


async def is_async(*_given: Any) -> bool:
    return False


@pytest.mark.parametrize("function", [raises, is_async])
@pytest.mark.filterwarnings("ignore:describe has")
def test_a_function_that_raises_or_is_async_costs_the_words_and_not_the_call(function: Any) -> None:
    log = Log()
    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        asks(capture(client_of(server.url), log, describe=function, shown=function))
    start, output = log.events
    for event in (start, output):
        assert event["by"]["describe_failed"] is True
    assert output["by"]["shown_by"] == "default"
    assert SECRET not in json.dumps(log.events)


def test_an_application_whose_log_fails_continues() -> None:
    class Broken:
        def start_run(self, **_said: Any) -> Any:
            raise RuntimeError("closed")

    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        for log in (Broken(), raises, None):
            assert asks(capture(client_of(server.url), log)).id == "chatcmpl-1"


def test_calls_are_nested_in_the_run_that_is_given_or_active() -> None:
    """[R-865] In the active run of a client, also in tasks with overlapping calls."""
    log = Log()
    outer = log.start_run(model={"model_id": "agent"})

    async def ask(url: str) -> None:
        async with client_of(url, openai.AsyncOpenAI) as client, outer:
            await asyncio.gather(asks(capture(client, log)), asks(client))

    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        client = client_of(server.url)
        asks(capture(client, outer))
        asks(capture(client, lambda: outer))
        asks(capture(client, log))
        with outer:
            asks(client)
        asyncio.run(ask(server.url))
    within = [start.get("parent_event_id") for start in log.starts]
    id_ = outer.start.event_id
    assert within == [None, id_, id_, None, id_, id_, id_]


def test_one_capture_replaces_another_and_options_are_checked() -> None:
    first, second = Log(), Log()
    with serving(lambda request: request.json(completion({"content": SECRET}))) as server:
        client = client_of(server.url)
        assert capture(client, first) is client
        asks(capture(client, second))
    assert (len(first.events), len(second.events)) == (0, 2)
    with pytest.raises(TypeError):
        capture(object(), first)
    with pytest.raises(ValueError, match="shown"):
        capture(client, first, shown="yes")  # type: ignore[arg-type]


def test_a_request_that_calls_no_model_is_left_alone() -> None:
    log = Log()
    with serving(lambda request: request.json({"object": "list", "data": [], "model": "e"})) as server:
        client = capture(client_of(server.url), log)
        client.models.list()
        client.embeddings.create(model="e", input=SECRET, encoding_format="float")
    assert log.events == []


def test_a_client_is_freed_with_its_last_reference() -> None:
    gc.collect()
    gc.disable()
    try:
        http = capture(openai.DefaultHttpxClient(), Log())
        freed = weakref.ref(http)
        del http
        assert freed() is None
    finally:
        gc.enable()
