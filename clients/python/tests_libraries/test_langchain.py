"""LangChain and LangGraph: the runs of a chain, and how calls end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from langchain_core import __version__
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeListLLM
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.output_parsers import StrOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.tools import tool
from tests.recording import Log
from tests.test_answers import vectors_of
from tests.test_langchain_readers import told

from clinical_events.integrations._call import DescribedCall
from clinical_events.integrations._readers import Answer
from clinical_events.integrations.langchain import CallbackHandler

WORDS = "the patient has fever"
ASKED = {"question": WORDS}


class RemoteProtocolError(Exception):
    """As httpx has it."""


class BusyError(Exception):
    status_code = 429


class Ward(BaseChatModel):
    """A model that raises its errors, and then answers."""

    model_name: str = "ward-model"
    errors: Any = ()
    message: Any = None
    pieces: Any = ()

    @property
    def _llm_type(self) -> str:
        return "ward"

    def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
        return {"ls_provider": "ward", "ls_model_name": self.model_name, "ls_model_type": "chat"}

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools)

    def _generate(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self.errors:
            raise self.errors.pop(0)
        message = self.message or AIMessage(content=WORDS)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for piece in self.pieces or [AIMessageChunk(content=WORDS)]:
            if isinstance(piece, BaseException):
                raise piece
            chunk = piece if isinstance(piece, ChatGenerationChunk) else ChatGenerationChunk(message=piece)
            yield chunk
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)


class Slow(Ward):
    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        yield ChatGenerationChunk(message=AIMessageChunk(content=WORDS))
        await asyncio.get_running_loop().create_future()


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(page_content=WORDS)]


prompt = ChatPromptTemplate.from_template("{question}")
model = Ward()
parser = StrOutputParser()


def recorded(chain: Runnable[Any, Any], how: str = "invoke", given: Any = None) -> Log:
    """The captured events of one call, whose errors are ignored."""
    log = Log()
    config: Any = {"callbacks": [CallbackHandler(log)]}
    asked = ASKED if given is None else given
    try:
        if how == "invoke":
            chain.invoke(asked, config)
        elif how == "ainvoke":
            asyncio.run(chain.ainvoke(asked, config))
        elif how == "batch":
            chain.batch([asked, asked], config)
        elif how == "stream":
            list(chain.stream(asked, config))
        else:

            async def read() -> None:
                async for _ in chain.astream(asked, config):
                    pass

            asyncio.run(read())
    except (BusyError, TimeoutError):
        pass
    assert WORDS not in json.dumps(log.events)
    for event in log.events:
        assert event["metadata"]["instrumentation"]["by"] == "langchain"
    return log


def models(log: Log) -> list[Any]:
    return [start["model"].get("model_id") for start in log.starts]


def parents(log: Log) -> list[int]:
    ids = [start["run_id"] for start in log.starts]
    return [ids.index(start["parent"]) if start["parent"] else -1 for start in log.starts]


def endings(log: Log) -> list[str]:
    return [end["ending"] for end in log.ends]


ONE = {
    "a model": model,
    "a sequence": prompt | model | parser,
    "with_retry": prompt | model.with_retry(),
    "with_fallbacks": prompt | model.with_fallbacks([Ward(model_name="other")]),
    "with_fallbacks of sequences": (prompt | model).with_fallbacks([prompt | Ward(model_name="other")]),
    "with_config": (prompt | model).with_config(tags=["ward"]),
    "a map": RunnableParallel(answer=prompt | model),
    "assign": RunnablePassthrough.assign(answer=prompt | model),
    "passthrough": {"question": RunnablePassthrough()} | prompt | model,
}


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("name", ONE)
def test_one_model(name: str, how: str) -> None:
    """[R-1600] A chain around one model is no run, and the model is."""
    log = recorded(ONE[name], how, WORDS if name == "a model" else None)
    assert models(log) == ["ward-model"]
    assert log.starts[0]["model"]["provider"] == "ward"
    assert log.starts[0]["inputs"]["message_count"] == 1
    assert (parents(log), endings(log)) == ([-1], ["complete"])
    assert log.ends[0]["kind"] == "human-output"


def test_batch() -> None:
    """Each call of a batch is a run."""
    assert models(recorded(prompt | model, "batch")) == ["ward-model", "ward-model"]


def test_no_model() -> None:
    """A chain that calls no model is not captured."""
    assert recorded(prompt | RunnablePassthrough()).events == []


def once(asked: Any, config: Any) -> Any:
    return (prompt | model).invoke(asked, config)


MANY = {
    "a function": (RunnableLambda(lambda asked, config: once(asked, config)), [None, "ward-model"]),
    "a named function": (RunnableLambda(once), ["once", "ward-model"]),
    "a sequence of models": (prompt | model | parser | model, [None, "ward-model", "ward-model"]),
    "a named sequence": ((prompt | model).with_config(run_name="Ward triage"), ["Ward triage", "ward-model"]),
}


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
@pytest.mark.parametrize("name", MANY)
def test_several_models(name: str, how: str) -> None:
    """[R-1600] A chain that may call more, or has a name from the application, is a run around its models."""
    chain, expected = MANY[name]
    log = recorded(chain, how)
    assert models(log) == expected
    assert parents(log) == [-1, *[0] * (len(expected) - 1)]
    assert endings(log) == ["complete"] * len(expected)
    assert [end["kind"] for end in log.ends][-1] == "internal-artifact"


def test_retriever() -> None:
    """The result of a retriever is an artifact of its run."""
    find = RunnableLambda(lambda _: WORDS) | Shelf()
    log = recorded({"question": find} | prompt | model | parser)
    assert models(log) == [None, "ward-model"]
    (chunk,) = (event for event in log.events if event.get("type") == "text_chunk")
    assert (chunk["run_id"], chunk["documents"]) == (log.starts[0]["run_id"], 1)


def test_plain_model() -> None:
    """A model without messages has the name of its class where it has no other."""
    log = recorded(FakeListLLM(responses=[WORDS]), given="x")
    assert (models(log), endings(log)) == (["FakeListLLM"], ["complete"])
    assert log.ends[0]["characters"] == len(WORDS)


def test_fallback() -> None:
    """A model that fails and its fallback are a run each."""
    log = recorded(prompt | Ward(errors=[BusyError(WORDS)]).with_fallbacks([Ward(model_name="other")]))
    assert (models(log), endings(log)) == (["ward-model", "other"], ["failed", "complete"])
    assert (log.ends[0]["error_name"], log.ends[0]["status"]) == ("BusyError", 429)


@pytest.mark.parametrize("around", [False, True])
def test_retry(around: bool) -> None:
    """[R-1600] A repeat by with_retry is the next attempt of the same run, for a model and for a chain."""
    failing = Ward(errors=[BusyError(WORDS)])
    options: Any = {"stop_after_attempt": 2, "wait_exponential_jitter": False}
    chain = (prompt | failing).with_retry(**options) if around else prompt | failing.with_retry(**options)
    log = recorded(chain)
    assert (models(log), endings(log)) == (["ward-model"], ["failed", "complete"])
    assert log.ends[1]["metadata"]["instrumentation"]["attempt"] == 2


def test_time_out() -> None:
    """A time-out is a failure, under any name of the library."""
    log = recorded(Ward(errors=[TimeoutError(WORDS)]), given="x")
    (end,) = log.ends
    assert (end["ending"], end["error_name"]) == ("failed", "TimeoutError")


def test_aborted() -> None:
    """[R-1600] A stream that the application stops reading, and a task that it cancels, are aborted."""
    log = Log()
    config: Any = {"callbacks": [CallbackHandler(log)]}
    stream = Ward(pieces=[AIMessageChunk(content="a"), AIMessageChunk(content="b")]).stream("x", config)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert endings(log) == ["aborted"]

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in Slow().astream("x", config):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(cancelled())
    assert endings(log) == ["aborted", "aborted"]


class Whole(Ward):
    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        if messages[0].content == "wait":
            await asyncio.get_running_loop().create_future()
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=WORDS))])


def test_cancelled_tasks() -> None:
    """[R-1600] An answer in one piece whose task is cancelled is aborted; no task is watched for longer."""
    log = Log()
    config: Any = {"callbacks": [CallbackHandler(log)]}

    async def main() -> None:
        task = asyncio.create_task(Whole().ainvoke("wait", config))
        while not log.starts:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await Whole().ainvoke("x", config)
        assert "_watch" not in repr(asyncio.current_task())

    asyncio.run(main())
    # The first versions begin a model in a task of its own, where nothing shows it.
    told = ["aborted"] if int(__version__.partition(".")[0]) >= 1 else []
    assert endings(log) == [*told, "complete"]


def test_tool() -> None:
    """A chain that a tool runs is a run of its own, in the run around the tool."""

    @tool
    def find_dose(drug: str, callbacks: Any = None) -> str:
        """Finds a dose."""
        return WORDS

    def act(asked: Any, config: Any) -> Any:
        find_dose.invoke({"drug": "x"}, config)
        return once(asked, config)

    log = recorded(RunnableLambda(act))
    assert (models(log), parents(log)) == (["act", "ward-model"], [-1, 0])


def test_described() -> None:
    """The application chooses the recorded words, and nests calls in the current run."""
    log = Log()
    outer = log.start_run(model={}, inputs={}, metadata={"instrumentation": {"by": "langchain"}})
    seen: list[DescribedCall] = []

    def describe(call: DescribedCall) -> dict[str, Any]:
        seen.append(call)
        return {"user": {"caller_id": "nurse-17"}, "output": {"summary": "short"}}

    handler = CallbackHandler(lambda: outer, describe=describe, shown=lambda call: True)
    model.invoke("x", {"callbacks": [handler]})
    assert log.starts[1]["parent"] == outer.id
    assert log.starts[1]["user"] == {"caller_id": "nurse-17"}
    assert log.ends[0]["summary"] == "short"
    assert seen[1].answer is not None
    assert seen[1].answer.text == WORDS
    assert seen[0].request["messages"][0][0].content == "x"


# Streams of several choices are left out: LangChain for Python takes the first alone.
VECTORS = [each for each in vectors_of("langchain") if each[0] != "streamed-choices"]


def played(name: str, form: str, vector: dict[str, Any]) -> dict[str, Any]:
    log = Log()
    answers: list[Answer] = []

    def describe(call: DescribedCall) -> dict[str, Any]:
        answers.extend([call.answer] if call.answer is not None else [])
        return {}

    handler = CallbackHandler(log, describe=describe)
    config: Any = {"callbacks": [handler]}
    pieces = [
        RemoteProtocolError(WORDS)
        if piece == "[CUT]"
        else ChatGenerationChunk(
            message=AIMessageChunk(**{"content": "", **piece["message"]}),
            generation_info=piece.get("generationInfo"),
        )
        for piece in vector["stream"]
    ]
    with contextlib.suppress(RemoteProtocolError):
        list(Ward(pieces=pieces).stream("When is it taken?", config))
    (end,) = log.ends
    said = told(answers[-1], vector)
    failure = {name: end[name] for name in ("error_name", "status") if name in end}
    return {**said, "ending": end["ending"], "shown": end["kind"] == "human-output", **failure}


@pytest.mark.parametrize(("name", "form", "vector"), [each for each in VECTORS if each[1] == "stream"])
def test_recorded_streams(name: str, form: str, vector: dict[str, Any]) -> None:
    """[R-1600] Every recorded stream, played by a model of LangChain, gives the expected result."""
    expected = dict(vector["expected"])
    if expected.get("error_name") == "UND_ERR_SOCKET":  # The name in Node.js.
        expected["error_name"] = "RemoteProtocolError"
    assert played(name, form, vector) == expected


langgraph = pytest.importorskip("langgraph.graph", reason="langgraph is not installed")


def test_graph() -> None:
    """[R-1600] A graph is a run around the models of its nodes; one that waits for a person is unfinished."""
    from langgraph.checkpoint.memory import MemorySaver
    from typing_extensions import TypedDict

    class State(TypedDict):
        question: str

    def ask(state: Any) -> Any:
        (prompt | model).invoke(state)
        return {"question": "z"}

    def approve(state: Any) -> Any:
        types = importlib.import_module("langgraph.types")
        if hasattr(types, "interrupt"):
            return {"question": types.interrupt("may it?")}
        raise importlib.import_module("langgraph.errors").NodeInterrupt("may it?")

    graph = langgraph.StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge("__start__", "ask")
    log = recorded(graph.compile())
    assert (models(log), parents(log)) == ([None, "ward-model"], [-1, 0])
    assert endings(log) == ["complete", "complete"]
    log = recorded(graph.compile().with_config(run_name="ward rounds"))
    assert models(log) == ["ward rounds", "ward-model"]
    graph.add_node("approve", approve)
    graph.add_edge("ask", "approve")
    log = Log()
    config: Any = {"callbacks": [CallbackHandler(log)], "configurable": {"thread_id": "1"}}
    graph.compile(checkpointer=MemorySaver()).invoke(ASKED, config)
    assert endings(log) == ["complete", "unfinished"]
