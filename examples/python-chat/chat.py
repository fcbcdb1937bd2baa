"""A chat on a ward: FastAPI, the OpenAI client with a stream, and feedback by the run id.

The lines with `log`, `captured` and `describe` are the whole instrumentation.
"""

import os
import uuid
from collections.abc import AsyncIterator
from contextvars import ContextVar

import openai
from fastapi import FastAPI, Header, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from clinical_events import Client
from clinical_events.integrations import asgi
from clinical_events.integrations import openai as captured

run_id: ContextVar[str | None] = ContextVar("run_id", default=None)


def describe(call: captured.DescribedCall) -> dict[str, object]:
    """Adds to the events of a call: its target, and the texts as content."""
    if call.answer is None:
        question = call.request["messages"][-1]["content"]
        target = {"target_id": "bed-4", "target_type": "patient"}
        return {"run_id": run_id.get(), "target": target, "input_content": question}
    return {"output_content": call.answer.text}


# From COLLECTOR_URL, COLLECTOR_KEY and COLLECTOR_SPOOL.
log = Client(app_name="python-chat", content=os.environ.get("CHAT_CONTENT", "chat-events/content"))
model = captured.capture(openai.AsyncOpenAI(), log, describe=describe)
app = FastAPI()


def who_asks(scope: dict[str, object]) -> str | None:
    return Request(scope).headers.get("x-nurse")


app.add_middleware(asgi.Middleware, log=log, user=who_asks)


class Question(BaseModel):
    text: str


class Feedback(BaseModel):
    direction: str
    comment: str | None = None


@app.post("/chat")
async def chat(question: Question, x_nurse: str = Header()) -> StreamingResponse:
    asked = str(uuid.uuid4())
    run_id.set(asked)
    stream = await model.chat.completions.create(
        model="ward-assistant",
        messages=[{"role": "user", "content": question.text}],
        stream=True,
    )

    async def words() -> AsyncIterator[str]:
        async for chunk in stream:
            yield chunk.choices[0].delta.content or ""

    return StreamingResponse(words(), media_type="text/plain", headers={"x-run-id": asked})


@app.post("/runs/{asked}/feedback", status_code=204)
async def feedback(asked: uuid.UUID, given: Feedback) -> None:
    """Whenever it comes, in whichever process: the id is all that is needed."""
    log.run(str(asked)).feedback(feedback_type="thumbs", direction=given.direction, comment=given.comment)
