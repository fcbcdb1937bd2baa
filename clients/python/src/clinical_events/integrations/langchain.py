"""Captures runs of LangChain and LangGraph: a callback handler for ``langchain-core`` 0.3 and newer."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from ._call import (
    Begun,
    Describe,
    Ended,
    Ending,
    ModelCall,
    Options,
    Runs,
    Shown,
    is_time_out,
    quietly,
)
from ._readers import Answer
from ._readers._answer import fields, list_of, model_name, text
from ._readers._langchain import take_outputs, take_result, take_token

if TYPE_CHECKING:
    BaseCallbackHandler = object
else:
    from langchain_core.callbacks import BaseCallbackHandler

__all__ = ["CallbackHandler"]

# Beyond this number the oldest are dropped, so that runs which never end cannot fill the memory.
_MOST_OPEN = 10_000
_RETRY = re.compile(r"retry:attempt:[0-9]+")
_PAUSES = ("GraphInterrupt", "NodeInterrupt", "GraphDrained")
_ABORTS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
# The errors of httpx, requests, urllib3, aiohttp and provider SDKs for a broken connection.
_BROKEN = re.compile(
    "API_?Connection_?Error|Connection\\w*Error|Remote_?Protocol_?Error|(Read|Write|Network|Protocol)Error"
    "|IncompleteRead|ChunkedEncodingError|Client(Payload|Connector|OS)Error|ServerDisconnectedError|BrokenPipeError"
)


@dataclass(eq=False)
class _Open:
    """An open step of LangChain, even if it is not a run, so that repeats of ``with_retry`` are found.

    ``within``: the innermost run that contains it or is it. ``repeated_by``: the chain around a single model
    that may repeat it as a whole.
    """

    within: ModelCall | None = None
    own: ModelCall | None = None
    is_tool: bool = False
    is_retry: bool = False
    repeated_by: _Open | None = None
    last_model: ModelCall | None = None
    is_paused: bool = False
    has_begun: bool = False
    answer: Answer = field(default_factory=Answer)
    around: _Open | None = None
    # Removes the callback that watches the task of the call.
    unwatch: Callable[[], object] | None = None


class CallbackHandler(BaseCallbackHandler):
    """A callback handler for the ``callbacks`` of a call, which all inner calls inherit.

    A model call becomes a run, as does the outermost chain, agent or graph, or one that a tool runs, unless
    it only calls one model; inner runs are nested in it. Retrieved documents become an artifact. ``log`` is
    the client, a run that the calls belong to, or a function that returns one of them; ``describe`` and
    ``shown`` are as in every integration. Does not raise.
    """

    # Runs in the task and thread of the call, so that events keep their order and `log` sees its context.
    run_inline = True

    def __init__(self, log: Runs, *, describe: Describe | None = None, shown: Shown | None = None) -> None:
        self._runs = log
        self._options = Options(describe=describe, shown=shown)
        self._open: dict[UUID, _Open] = {}

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        request = {"model": serialized, "messages": messages, "extra": more}
        quietly(lambda: self._begin_model(request, len(messages[0]), run_id, parent_run_id))

    def on_llm_start(
        self, serialized: Any, prompts: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        request = {"model": serialized, "prompts": prompts, "extra": more}
        quietly(lambda: self._begin_model(request, len(prompts), run_id, parent_run_id))

    def on_llm_new_token(self, token: Any, *, run_id: UUID, chunk: Any = None, **more: Any) -> None:
        """Keeps the partial answer for a call that breaks off."""
        open_ = self._open.get(run_id)
        if open_ is not None:
            open_.has_begun = True
            quietly(lambda: take_token(open_.answer, token, _generation(chunk)))

    def on_llm_end(self, response: Any, *, run_id: UUID, **more: Any) -> None:
        open_ = self._take(run_id)
        if open_ is None or open_.own is None:
            return
        answer = Answer()
        reported = quietly(lambda: take_result(answer, _result(response), is_streamed=open_.has_begun))
        missed = cast("Ending | None", reported)
        open_.own.end(Ended(ending=missed or answer.ending or "not read", answer=answer))

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._fail(run_id, error)

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        caller = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        quietly(lambda: self._begin_chain(_chain_of(caller), inputs, run_id, parent_run_id, more))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        open_ = self._open.pop(run_id, None)
        if open_ is None or open_.own is None:
            return
        quietly(lambda: take_outputs(open_.answer, _plain(outputs)))
        is_paused = open_.is_paused or fields(outputs).get("__interrupt__") is not None
        # The inner model's answer is the output already.
        ending: Ending = "unfinished" if is_paused else "complete"
        open_.own.end(Ended(ending=ending, answer=open_.answer, worded=False))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._fail(run_id, error)

    def on_tool_start(
        self, serialized: Any, input_str: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **more: Any
    ) -> None:
        outer = self._open.get(parent_run_id) if parent_run_id is not None else None
        self._keep(run_id, _Open(outer.within if outer else None, is_tool=True, around=outer))

    def on_tool_end(self, output: Any, *, run_id: UUID, **more: Any) -> None:
        self._open.pop(run_id, None)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **more: Any) -> None:
        self._fail(run_id, error)

    def on_retriever_end(self, documents: Any, *, parent_run_id: UUID | None = None, **more: Any) -> None:
        outer = self._open.get(parent_run_id) if parent_run_id is not None else None
        within = outer.within if outer is not None else None
        if within is not None:
            quietly(lambda: within.artifact("text_chunk", {"documents": len(documents)}))

    def _begin_model(self, request: dict[str, Any], count: int, id: UUID, parent: UUID | None) -> None:
        extra = request["extra"]
        metadata, asked = fields(extra.get("metadata")), fields(extra.get("invocation_params"))
        kwargs = fields(fields(request["model"]).get("kwargs"))
        kind = list_of(fields(request["model"]).get("id"))
        names = ("model", "model_name", "model_id", "deployment", "deployment_name", "azure_deployment")
        given = [metadata.get("ls_model_name"), *(asked.get(name) or kwargs.get(name) for name in names)]
        # An application's own class has no other name.
        own = [*kind[-1:], fields(request["model"]).get("name")]
        begun = Begun(
            by="langchain",
            provider=text(metadata.get("ls_provider")) or "langchain",
            model=next(filter(None, map(model_name, [*given, *own])), None),
            request=request,
            inputs={
                "message_count": count,
                "tool_count": len(list_of(asked.get("tools") or asked.get("functions"))),
            },
        )
        outer = self._open.get(parent) if parent is not None else None
        # with_retry marks a repeated call and makes it as a child of the same LangChain run.
        before: ModelCall | None = None
        if outer is not None and _is_retry(extra.get("tags")):
            before = outer.last_model
        elif outer is not None and outer.is_retry and outer.repeated_by is not None:
            before = outer.repeated_by.last_model
        call = self._begin(id, outer, begun, before)
        for each in (outer, outer.repeated_by if outer is not None else None):
            if each is not None:
                each.last_model = call
        self._watch(id, self._open[id])

    def _begin_chain(
        self, chain: Any, inputs: Any, id: UUID, parent: UUID | None, more: dict[str, Any]
    ) -> None:
        outer = self._open.get(parent) if parent is not None else None
        if parent is not None and outer is None:
            return
        name = more.get("name")
        models = _models_in(chain, name)
        given = model_name(name) if _is_given(name, chain) else None
        if (outer is None or outer.is_tool) and (given is not None or models > 1):
            begun = Begun(by="langchain", provider="langchain", model=given, request=inputs, inputs={})
            self._begin(id, outer, begun)
            return
        within = outer.within if outer is not None else None
        repeated_by = outer if models <= 1 else None
        is_retry = _is_retry(more.get("tags"))
        self._keep(id, _Open(within, repeated_by=repeated_by, is_retry=is_retry, around=outer))

    def _begin(
        self, id: UUID, outer: _Open | None, begun: Begun, before: ModelCall | None = None
    ) -> ModelCall:
        if before is not None and before.begin_again(begun):
            call = before
        else:
            within = outer.within if outer is not None else None
            runs = within.run if within is not None and within.run is not None else self._runs
            call = ModelCall(runs, self._options, begun)
        self._keep(id, _Open(call, own=call, around=outer))
        return call

    def _keep(self, id: UUID, open_: _Open) -> None:
        self._open[id] = open_
        while len(self._open) > _MOST_OPEN:
            self._open.pop(next(iter(self._open)), None)

    def _take(self, id: UUID) -> _Open | None:
        open_ = self._open.pop(id, None)
        if open_ is not None and open_.unwatch is not None:
            quietly(open_.unwatch)
        return open_

    def _watch(self, id: UUID, open_: _Open) -> None:
        """Watches the call's task: LangChain does not report the cancellation of an answer in one piece."""
        task = quietly(asyncio.current_task)
        if task is None:
            return

        def done(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                self._fail(id, asyncio.CancelledError())

        task.add_done_callback(done)
        open_.unwatch = partial(task.remove_done_callback, done)

    def _fail(self, id: UUID, error: BaseException) -> None:
        open_ = self._take(id)
        if open_ is None:
            return
        # LangGraph ends a graph with a paused node like a complete one.
        around = open_.around if type(error).__name__ in _PAUSES else None
        while around is not None:
            around.is_paused = True
            around = around.around
        if open_.own is not None:
            ended = quietly(lambda: _ended(error, open_))
            open_.own.end(ended or Ended(ending="failed", answer=open_.answer, error=error))


def _ended(error: BaseException, open_: _Open) -> Ended:
    """Returns the ending that an error means."""
    names = {each.__name__ for each in type(error).__mro__}
    answer = open_.answer
    if not names.isdisjoint(_PAUSES):  # LangGraph raises an error to wait for a person.
        return Ended(ending="unfinished", answer=answer)
    if "GraphBubbleUp" in names:  # LangGraph raises an error to hand over to another graph.
        return Ended(ending="complete", answer=answer, worded=False)
    if is_time_out(error):
        return Ended(ending="failed", answer=answer, error=error, error_name="TimeoutError")
    if isinstance(error, _ABORTS) or any(name.startswith(("Cancelled", "Abort")) for name in names):
        return Ended(ending="aborted", answer=answer, error=error)
    body = fields(getattr(error, "body", None))
    if getattr(error, "status_code", None) is None and open_.has_begun:
        if body:  # An error that the model's server sent within a stream.
            said = Answer()
            said.fail(fields(body.get("error")) or body)
            return Ended(
                ending="failed", answer=answer, error=error, error_name=said.error_name, status=said.status
            )
        if any(map(_BROKEN.fullmatch, names)):
            return Ended(ending="cut off", answer=answer, error=error)
    return Ended(ending="failed", answer=answer, error=error)


def _is_retry(tags: Any) -> bool:
    return any(isinstance(tag, str) and _RETRY.fullmatch(tag) for tag in list_of(tags))


# LangChain's objects as dicts of their members, without getters, which leave parts out.


def _result(response: Any) -> dict[str, Any]:
    return {
        "generations": [[_generation(each) for each in of] for of in response.generations],
        "llm_output": response.llm_output,
    }


def _generation(generation: Any) -> dict[str, Any]:
    said = _members(generation)
    if said.get("message") is not None:
        said["message"] = _members(said["message"])
    return said


def _members(value: Any) -> dict[str, Any]:
    return {**getattr(value, "__dict__", {})}


def _plain(outputs: Any) -> Any:
    """Returns the generation with its last message as a dict."""
    messages = fields(outputs).get("messages")
    if messages:
        return {"messages": [_members(messages[-1])]}
    return outputs if isinstance(outputs, str) or fields(outputs) else _members(outputs)


# Which of LangChain's chains become a run: most are wrappers that call one model.

# The name that with_structured_output gives to its chain.
_OF_ONE = re.compile("StructuredOutput")
# LangChain's own default names, which do not identify a model or agent.
_OF_LANGCHAIN = re.compile(
    r"Runnable.*|ChannelWrite.*|ChannelRead.*|(LangGraph|CompiledGraph|CompiledStateGraph|StateGraph|RemoteGraph)"
    r"|Pregel.*|__\w+__|RouterRunnable|DynamicRunnable|\w*StructuredOutput\w*|AgentExecutor|\w+Chain|format_\w+"
    r"|retrieval_chain|retrieve_documents|stuff_documents_chain|history_aware_retriever|<lambda>|_\w+"
)


def _chain_of(frame: FrameType | None) -> Any:
    """Finds the chain that begins among the callers, since LangChain passes only its name."""
    for _ in range(16):
        if frame is None:
            return None
        chain: Any = frame.f_locals.get("self")
        if hasattr(chain, "get_name") and hasattr(chain, "ainvoke"):
            return chain
        frame = frame.f_back
    return None


def _is_given(name: Any, chain: Any) -> bool:
    """Whether the application has given this name to a chain."""
    if not isinstance(name, str) or _OF_LANGCHAIN.fullmatch(name) or name == type(chain).__name__:
        return False
    wrapped = quietly(lambda: chain.bound.get_name())
    return name != wrapped


def _models_in(chain: Any, name: Any) -> float:
    """Returns the maximum number of models that it can call; infinity if that is unknown."""
    if isinstance(name, str) and _OF_ONE.search(name):
        return 1
    count = quietly(lambda: _models_of(chain, 32))
    return float("inf") if count is None else count


def _models_of(step: Any, depth: int) -> float:
    kinds = {each.__name__ for each in type(step).__mro__}
    if depth == 0 or step is None:
        return float("inf")

    def of(*steps: Any) -> list[float]:
        return [_models_of(each, depth - 1) for each in steps]

    if "RunnableSequence" in kinds:
        return sum(of(*step.steps))
    if "RunnableWithFallbacks" in kinds:
        return max(of(step.runnable, *step.fallbacks))
    if "RunnableParallel" in kinds:
        return sum(of(*step.steps__.values()))
    if "RunnableAssign" in kinds:
        return of(step.mapper)[0]
    if "RunnableBindingBase" in kinds:
        of_one = _OF_ONE.search(step.config.get("run_name") or "")
        return 1 if of_one else of(step.bound)[0]
    if "RunnablePassthrough" in kinds:
        return 0 if step.func is None else float("inf")
    if "BaseLanguageModel" in kinds:
        return 1
    return 0 if kinds & {"BasePromptTemplate", "BaseOutputParser", "BaseLLMOutputParser"} else float("inf")
