"""The Anthropic SDK, captured: the recorded events, and the unchanged results for the application."""

from __future__ import annotations

import asyncio
import json
import threading
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

from clinical_events.integrations.anthropic import capture

anthropic = pytest.importorskip("anthropic")

MESSAGES: Any = [{"role": "user", "content": SECRET}]
HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-9", "stop_sequence": None}
USAGE = {
    "input_tokens": 3,
    "cache_read_input_tokens": 8,
    "cache_creation_input_tokens": 0,
    "output_tokens": 7,
}
MESSAGE = {**HEAD, "content": [{"type": "text", "text": SECRET}], "stop_reason": "end_turn", "usage": USAGE}
WORDS = [
    {"type": "message_start", "message": {**HEAD, "content": [], "stop_reason": None, "usage": USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SECRET}},
]
WHOLE = [
    *WORDS,
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
    {"type": "message_stop"},
]


def client_of(url: str, kind: Any = anthropic.Anthropic, **options: Any) -> Any:
    return kind(base_url=url, api_key="key", **{"max_retries": 0, **options})


def asks(client: Any, **said: Any) -> Any:
    return client.messages.create(model="claude-9", max_tokens=99, messages=MESSAGES, **said)


def asker(asked: dict[str, Any]) -> Callable[[Any], Any]:
    """Sends the request of a recording to a client."""
    return lambda client: client.messages.create(
        model="m", max_tokens=9, messages=[], stream=asked["stream"], extra_body=asked
    )


def test_every_recording_is_captured_as_expected_and_costs_the_application_nothing() -> None:
    """[R-865] Sync and async, whole and in streams; the application gets the same as without a capture."""
    current: list[Any] = []
    answers: list[Any] = []

    async def play(url: str) -> None:
        log = Log()
        sync, plain_sync = client_of(url), client_of(url)
        client, plain = (client_of(url, anthropic.AsyncAnthropic) for _ in range(2))
        for name, form, vector in recordings("messages"):
            current.append((form, vector))
            ask = asker({**vector["request"], "stream": form == "stream"})
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

    with serving(lambda request: give(request, *current[-1])) as server:
        asyncio.run(play(server.url))


def test_a_message_becomes_a_start_and_an_output_without_its_words() -> None:
    log = Log()
    with serving(lambda request: request.json(MESSAGE)) as server:
        asks(capture(client_of(server.url), log))
    start, output = log.events
    assert start["model_instance"] == {"model_id": "claude-9", "provider": "anthropic"}
    assert start["inputs"] == {"message_count": 1, "tool_count": 0, "streamed": False}
    assert start["by"] == {"by": "anthropic"}
    assert (output["kind"], output["ending"], output["response_id"]) == ("human-output", "complete", "msg_1")
    assert (output["finish_reason"], output["characters"]) == ("end_turn", len(SECRET))
    assert output["usage"] == {
        **{"input_tokens": 11, "output_tokens": 7},
        **{"cache_read_input_tokens": 8, "cache_creation_input_tokens": 0},
    }
    assert SECRET not in json.dumps(log.events)


def test_the_streams_of_the_sdk_are_captured() -> None:
    log = Log()

    async def ask(url: str) -> None:
        async with (
            client_of(url, anthropic.AsyncAnthropic) as client,
            capture(client, log).messages.stream(model="claude-9", max_tokens=9, messages=MESSAGES) as stream,
        ):
            assert await stream.get_final_text() == SECRET

    with serving(lambda request: request.stream(WHOLE)) as server:
        client = capture(client_of(server.url), log)
        with client.messages.stream(model="claude-9", max_tokens=9, messages=MESSAGES) as stream:
            assert "".join(stream.text_stream) == SECRET
        asyncio.run(ask(server.url))
        raw = client.messages.with_raw_response.create(
            model="claude-9", max_tokens=9, messages=MESSAGES, stream=True
        )
        assert [event.type for event in raw.parse()][-1] == "message_stop"
    assert [(end["kind"], end["characters"]) for end in log.ends] == [("human-output", len(SECRET))] * 3
    assert all(start["inputs"]["streamed"] for start in log.starts)


def test_a_retry_of_the_sdk_is_of_the_run_that_it_repeats() -> None:
    """[R-865] An overload is an attempt of the run, with its status, and so is the next request."""
    log = Log()

    def answer(request: Answering) -> None:
        if request.number == 1:
            return request.json(
                {"type": "error", "error": {"type": "overloaded_error"}}, 529, retry_after_ms="1"
            )
        return request.json(MESSAGE)

    with serving(answer) as server:
        asks(capture(client_of(server.url, max_retries=2), log))
    assert len(log.starts) == 1
    assert [(end["ending"], end.get("status")) for end in log.ends] == [("failed", 529), ("complete", None)]


@pytest.mark.parametrize("how", ["abandoned", "time-out", "cancelled"])
def test_an_incomplete_stream_is_no_output(how: str) -> None:
    """[R-1600] Stopped by the application, by leaving or by a cancellation, or by a time-out."""
    log, over = Log(), threading.Event()

    def answer(request: Answering) -> None:
        request.start_stream()
        request.send(*WORDS)
        over.wait(120)

    async def ask(url: str) -> None:
        words = asyncio.Event()

        async def read() -> None:
            async for event in await asks(capture(client, log), stream=True):
                if event.type == "content_block_delta":
                    words.set()

        async with client_of(
            url, anthropic.AsyncAnthropic, timeout=0.5 if how == "time-out" else 600
        ) as client:
            task = asyncio.create_task(read())
            await words.wait()
            if how == "cancelled":
                task.cancel()
            with pytest.raises(BaseException) as stopped:  # noqa: PT011 -- Of asyncio, or of the HTTP client.
                await task
            assert type(stopped.value).__name__ in ("CancelledError", "ReadTimeout", "APITimeoutError")

    with serving(answer) as server:
        if how == "abandoned":
            stream = asks(capture(client_of(server.url), log), stream=True)
            for event in stream:
                if event.type == "content_block_delta":
                    break
            stream.close()
        else:
            asyncio.run(ask(server.url))
        over.set()
    (end,) = log.ends
    assert (end["kind"], end["characters"]) == ("internal-artifact", len(SECRET))
    assert end["ending"] == ("failed" if how == "time-out" else "aborted")
    assert end.get("error_name") == ("TimeoutError" if how == "time-out" else None)


def test_a_request_that_calls_no_model_is_left_alone() -> None:
    log = Log()
    with serving(lambda request: request.json({"input_tokens": 3, "data": [], "has_more": False})) as server:
        http = capture(client_of(server.url), log)._client
        http.post(f"{server.url}/v1/messages/count_tokens", json={})
        http.get(f"{server.url}/v1/messages")
    assert log.events == []
