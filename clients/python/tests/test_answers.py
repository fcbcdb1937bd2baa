"""Readers of answers: every recording gives the expected result, and no input raises."""

from __future__ import annotations

import json
import random
import sys
import unittest
from collections.abc import Iterator
from typing import Any

from tests import support

from clinical_events.integrations._readers import (
    Answer,
    ChatReader,
    Choice,
    MessagesReader,
    Reader,
    ResponsesReader,
    _answer,
)

READERS: dict[str, type[Reader]] = {
    "chat": ChatReader,
    "responses": ResponsesReader,
    "messages": MessagesReader,
}
SEED = 39
MUTATIONS = 2000


def vectors_of(api: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, ``whole`` or ``stream``, and the recording: all of an interface."""
    for path in sorted((support.VECTORS / "answers" / api).glob("*.json")):
        vector = json.loads(path.read_text("utf-8"))
        for form in ("whole", "stream"):
            if form in vector:
                yield path.stem, form, vector


def read(reader: Reader, form: str, sent: Any) -> Answer:
    if form == "whole":
        reader.whole(sent)
        return reader.answer
    for event in sent if isinstance(sent, list) else [sent]:
        if event == "[DONE]":
            reader.answer.ending = reader.answer.ending or "complete"
        elif event != "[CUT]":
            reader.piece(event)
    reader.end()
    return reader.answer


def seen(answer: Answer, vector: dict[str, Any], form: str) -> dict[str, Any]:
    """The result, in the form of ``expected``."""
    facts = answer.facts
    ending = answer.ending or ("cut off" if form == "stream" else "not read")
    kept = {
        name: facts[name] for name in ("response_model", "refused", "media", "unread_parts") if name in facts
    }
    usage = {"usage": answer.usage} if answer.usage else {}
    failure = {"error_name": answer.error_name, "status": answer.status}
    first, *others = answer.choices
    return {
        "ending": ending,
        "shown": ending == "complete" and answer.has_content and not answer.asks_for_tools,
        **choice_of(first),
        **({"choices": [choice_of(each) for each in others]} if others else {}),
        **kept,
        **usage,
        **{name: value for name, value in failure.items() if value is not None},
    }


def choice_of(choice: Choice) -> dict[str, Any]:
    said: dict[str, Any] = {"text": choice.text}
    if choice.reasoning:
        said["reasoning"] = choice.reasoning
    if choice.finish_reason is not None:
        said["finish_reason"] = choice.finish_reason
    if choice.tool_calls:
        said["tools"] = []
    for call in choice.tool_calls:
        named = {
            "name": call.name,
            "id": call.id,
            "by_provider": call.by_provider or None,
            "invalid": call.invalid or None,
            "input": call.input,
        }
        said["tools"].append({name: value for name, value in named.items() if value is not None})
    return said


def deep(levels: int) -> Any:
    value: Any = {}
    for level in range(levels):
        value = [value] if level % 2 == 0 else {"function": value}
    return value


DEEP = deep(500)
ODD: list[Any] = [
    *[None, True, False, 0, -1, 1e300, float("inf"), float("nan"), 1.5, 5.0, 2**53, "", "words of a patient"],
    *["__class__", "in_progress", "message", "0", "99999999999999999", "error", "{}", "}", '"{', "\ud800"],
    *[
        [],
        [[]],
        [None],
        {},
        {"type": 7},
        {"type": "reasoning", "content": {}},
        {"text": {"text": 5}},
        [{}],
        ["x"],
    ],
    *[{"type": "message", "content": [7, None, {"text": []}]}, {"length": -1}, {"type": {}}, DEEP],
    [{"index": 2**53}, {"index": "__class__", "id": [1], "function": {"arguments": {}}}],
]


def mutated(value: Any, at: list[int], odd: Any) -> Any:
    """The value with one of its members, that of this number, exchanged for another."""
    at[0] -= 1
    if at[0] == -1 or value is DEEP:
        return odd
    if isinstance(value, list):
        return [mutated(each, at, odd) for each in value]
    if isinstance(value, dict):
        return {name: mutated(each, at, odd) for name, each in value.items()}
    return value


class Recordings(unittest.TestCase):
    def test_every_recording_gives_the_expected_result(self) -> None:
        """[R-1600] Each recorded answer, whole and in a stream, is read as its recording says."""
        for api, reader in READERS.items():
            played = 0
            for name, form, vector in vectors_of(api):
                played += 1
                if vector.get("status", 200) >= 400:
                    continue  # An answer with a status of failure is not read.
                expected = dict(vector["expected"])
                if "[CUT]" in vector.get("stream", []):
                    del expected["error_name"]  # From the connection, and not from the answer.
                with self.subTest(api, name=name, form=form):
                    self.assertEqual(seen(read(reader(), form, vector[form]), vector, form), expected)
            self.assertGreater(played, 100, api)


class Hostile(unittest.TestCase):
    def test_mutated_answers_raise_nothing_and_keep_their_types(self) -> None:
        """[R-865] No answer raises, and every result has the expected types."""
        for api, reader in READERS.items():
            chance = random.Random(SEED)
            vectors = list(vectors_of(api))
            for number in range(MUTATIONS):
                _, form, vector = chance.choice(vectors)
                sent = vector[form]
                for _ in range(chance.randint(1, 4)):
                    sent = mutated(sent, [chance.randint(0, 200)], chance.choice(ODD))
                with self.subTest(api, number=number):
                    self._check(read(reader(), form, sent))

    def _check(self, answer: Answer) -> None:
        self.assertIn(answer.ending, ("complete", "failed", "unfinished", "aborted", None))
        for value in (answer.id, answer.model, answer.error_name):
            self.assertIsInstance(value, str | None)
        self.assertIsInstance(answer.status, int | None)
        for choice in answer.choices:
            self.assertIs(type(choice.text), str)
            self.assertIs(type(choice.reasoning), str)
            self.assertIsInstance(choice.finish_reason, str | None)
            for call in choice.tool_calls:
                self.assertIs(type(call.input), str)
                self.assertIs(type(call.by_provider), bool)
                self.assertIsInstance(call.name, str | None)
                self.assertIsInstance(call.id, str | None)
        self.assertTrue(all(type(count) is int for count in answer.usage.values()))
        self.assertNotIn(
            " ", "".join(json.dumps({**answer.facts, "response_model": None}).split(": ")).replace(", ", ",")
        )


def streams(length: int) -> dict[str, tuple[type[Reader], list[Any]]]:
    """The most expensive known streams, with this number of events."""
    tool = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]
    asked = {"type": "response.function_call_arguments.delta", "delta": "x"}
    part = [
        {"type": "response.output_text.delta", "item_id": "m", "delta": "x"},
        {"type": "response.content_part.done", "item_id": "m", "part": {"type": "output_text", "text": ""}},
    ]
    block = {"type": "content_block_delta", "index": 0}
    return {
        "chat, words": (ChatReader, [{"choices": [{"delta": {"content": "x"}}]}] * length),
        "chat, tools": (ChatReader, [{"choices": [{"delta": {"tool_calls": tool}}]}] * length),
        "chat, choices": (
            ChatReader,
            [{"choices": [{"index": n, "delta": {"content": "x"}}]} for n in range(length)],
        ),
        "responses, asked": (ResponsesReader, [{**asked, "item_id": f"i{n}"} for n in range(length)]),
        "responses, parts": (ResponsesReader, part * (length // 2)),
        "responses, items": (
            ResponsesReader,
            [
                {
                    "type": "response.output_item.added",
                    "output_index": n,
                    "item": {"type": "message", "id": f"m{n}"},
                }
                for n in range(length)
            ],
        ),
        "messages, words": (
            MessagesReader,
            [{**block, "delta": {"type": "text_delta", "text": "x"}}] * length,
        ),
        "messages, tools": (
            MessagesReader,
            [{**block, "delta": {"type": "input_json_delta", "partial_json": "{}"}}] * length,
        ),
        "messages, blocks": (
            MessagesReader,
            [
                {"type": "content_block_start", "index": n, "content_block": {"type": "tool_use"}}
                for n in range(length)
            ],
        ),
    }


def bodies(length: int) -> dict[str, tuple[type[Reader], Any]]:
    """Answers in one piece, with as many parts."""
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    return {
        "chat": (ChatReader, {"choices": [{"message": {"tool_calls": [call] * length}}]}),
        "responses": (ResponsesReader, {"output": [item] * length}),
        "messages": (MessagesReader, {"content": [block] * length}),
    }


class Cost(unittest.TestCase):
    def cost_of(self, form: str, reader: Reader, sent: Any) -> int:
        """Lines of the readers that run, and characters that they put together."""
        counted = 0
        joined = _answer.Words.__str__

        def count_line(frame: Any, event: str, _argument: Any) -> Any:
            nonlocal counted
            counted += event == "line"
            return count_line

        def count_joined(words: _answer.Words) -> str:
            nonlocal counted
            counted += words.length if len(words._pieces) > 1 else 0
            return joined(words)

        def trace(frame: Any, _event: str, _argument: Any) -> Any:
            return count_line if "_readers" in frame.f_code.co_filename else None

        _answer.Words.__str__ = count_joined  # type: ignore[method-assign]
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            read(reader, form, sent)
        finally:
            sys.settrace(before)
            _answer.Words.__str__ = joined  # type: ignore[method-assign]
        return counted

    def test_an_answer_twice_as_long_costs_about_twice_as_much(self) -> None:
        """[R-865] The work of a reader grows with the length of an answer and not with its square."""
        for form, made in (("stream", streams), ("whole", bodies)):
            short, long = made(1000), made(2000)
            for name in short:
                with self.subTest(form, name=name):
                    first, second = (
                        self.cost_of(form, kind(), sent) for kind, sent in (short[name], long[name])
                    )
                    self.assertGreater(first, 1000)
                    self.assertLess(second, 2.5 * first)


if __name__ == "__main__":
    unittest.main()
