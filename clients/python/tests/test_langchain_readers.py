"""An answer from LangChain is read as expected, and no value in it raises."""

from __future__ import annotations

import random
import unittest
from typing import Any

from tests.test_answers import ODD, seen, vectors_of

from clinical_events.integrations._readers import Answer
from clinical_events.integrations._readers._langchain import take_outputs, take_result, take_token

SEED = 39
MUTATIONS = 2000
VECTORS = list(vectors_of("langchain"))


def tokens(answer: Answer, stream: list[Any]) -> Answer:
    for piece in stream:
        if piece != "[CUT]":
            index = piece.get("generationInfo", {}).get("completion", 0)
            take_token(answer, piece.get("text"), piece, index)
    return answer


class Recordings(unittest.TestCase):
    def test_whole(self) -> None:
        """[R-1600] Every recorded answer of LangChain, in one piece, gives the expected result."""
        whole = [(name, vector) for name, form, vector in VECTORS if form == "whole"]
        assert len(whole) > 50
        for name, vector in whole:
            with self.subTest(name):
                answer = Answer()
                answer.ending = take_result(answer, vector["whole"], is_streamed=False) or answer.ending
                assert told(answer, vector) == vector["expected"]

    def test_tokens(self) -> None:
        """The received tokens of an answer remain when it breaks off."""
        for name, form, vector in VECTORS:
            if form == "stream":
                with self.subTest(name):
                    got = told(tokens(Answer(), vector["stream"]), vector)
                    for member in ("text", "reasoning", "tools", "choices"):
                        assert got.get(member) == vector["expected"].get(member)

    def test_names_that_are_put_together(self) -> None:
        """A name that came with several chunks, which LangChain has put together, is taken once."""
        answer = Answer()
        info = {"finish_reason": "stopstop", "model_name": "ward" * 3}
        result = {"generations": [[{"text": "Rest.", "generation_info": info}]]}
        assert take_result(answer, result, is_streamed=True) is None
        assert (answer.finish_reason, answer.model, answer.text) == ("stop", "ward", "Rest.")

    def test_outputs(self) -> None:
        """The words of a chain are those of its output, or of its last message."""
        for outputs, expected in [
            ("Rest.", "Rest."),
            ({"output": "Rest."}, "Rest."),
            ({"messages": [{"content": "Why?"}, {"content": [{"type": "text", "text": "Rest."}]}]}, "Rest."),
            ({"content": "Rest."}, "Rest."),
            ({"score": 3}, ""),
            (None, ""),
        ]:
            answer = Answer()
            take_outputs(answer, outputs)
            assert answer.text == expected


def told(answer: Answer, vector: dict[str, Any]) -> dict[str, Any]:
    """With the tools that the library could not read."""
    said = seen(answer, vector, "stream")
    for at, choice in enumerate(answer.choices):
        of = said if at == 0 else said["choices"][at - 1]
        for call, tool in zip(choice.tool_calls, of.get("tools", []), strict=True):
            if call.invalid:
                tool["invalid"] = True
            if not call.by_provider:
                tool.pop("by_provider", None)
    return said


class Mutations(unittest.TestCase):
    def test_mutated(self) -> None:
        """[R-865] For any value of LangChain, a reader makes an answer whose words are text."""
        chance = random.Random(SEED)

        def mutate(value: Any) -> Any:
            if chance.random() < 1 / 14:
                return chance.choice(ODD)
            if isinstance(value, list):
                return [mutate(each) for each in value]
            if isinstance(value, dict):
                return {name: mutate(each) for name, each in value.items() if chance.random() > 1 / 20}
            return value

        for _ in range(MUTATIONS):
            _, _, vector = chance.choice(VECTORS)
            answer = Answer()
            result = mutate(vector.get("whole", {}))
            take_result(answer, result if isinstance(result, dict) else {}, is_streamed=chance.random() < 0.5)
            for piece in vector.get("stream", []):
                chunk = mutate(piece)
                take_token(answer, chance.choice(ODD), chunk if isinstance(chunk, dict) else {})
            take_outputs(answer, mutate(vector.get("whole")))
            for choice in answer.choices:
                for words in (choice.text, choice.reasoning, *(call.input for call in choice.tool_calls)):
                    assert isinstance(words, str)
            assert isinstance(answer.facts, dict)


if __name__ == "__main__":
    unittest.main()
