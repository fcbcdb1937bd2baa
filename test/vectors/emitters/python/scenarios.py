"""What a ward assistant does with models, by the libraries that instrumentations of Python see."""

import json

SYSTEM = "You help on a ward."
DOSE = "Is the dose of ramipril right for bed 4?"
NEXT = "And spironolactone with it?"


def _tool(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"name": name, "description": description, "parameters": parameters}


TOOLS = [
    _tool("look_up_renal_function", "The last eGFR of a bed.", bed={"type": "string"}),
    _tool("look_up_interactions", "Interactions of drugs.", drugs={"type": "array", "items": {"type": "string"}}),
]
RESULTS = {
    "look_up_renal_function": "eGFR 28 ml/min",
    "look_up_interactions": "Hyperkalaemia: monitor potassium.",
}


def openai_client(**options):
    import openai

    return openai.OpenAI(max_retries=0, **options)


def ask(*more, question=DOSE):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}, *more]


def chat_plain():
    """One question; a second one, in the same conversation."""
    client = openai_client()
    first = client.chat.completions.create(model="gpt-4o", messages=ask(), user="clinician-7", temperature=0.2)
    said = {"role": "assistant", "content": first.choices[0].message.content}
    messages = ask(said, {"role": "user", "content": NEXT})
    client.chat.completions.create(model="gpt-4o", messages=messages, user="clinician-7")


def chat_stream_tools():
    """Streamed: two tools are asked for at once; then their results are sent and the answer is streamed."""
    client = openai_client()
    options = {
        **{"model": "gpt-4o", "stream": True, "stream_options": {"include_usage": True}},
        "tools": [{"type": "function", "function": tool} for tool in TOOLS],
    }
    calls = {}
    for chunk in client.chat.completions.create(messages=ask(), **options):
        for choice in chunk.choices:
            for part in choice.delta.tool_calls or []:
                call = calls.setdefault(part.index, {"id": part.id, "name": part.function.name, "arguments": ""})
                call["arguments"] += part.function.arguments
    asked = [
        {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
        for c in calls.values()
    ]
    results = [{"role": "tool", "tool_call_id": c["id"], "content": RESULTS[c["name"]]} for c in calls.values()]
    messages = ask({"role": "assistant", "content": None, "tool_calls": asked}, *results)
    for _ in client.chat.completions.create(messages=messages, **options):
        pass


def responses_reasoning():
    """The Responses API: reasoning with a summary, most input tokens from the cache; then two tools are asked for."""
    client = openai_client()
    options = {"model": "o4-mini", "instructions": SYSTEM, "reasoning": {"effort": "low", "summary": "auto"}}
    client.responses.create(input=DOSE, user="clinician-7", **options)
    tools = [{"type": "function", "strict": False, **tool} for tool in TOOLS]
    client.responses.create(input=[{"role": "user", "content": DOSE}], tools=tools, **options)


def failures():
    """HTTP 500; a time-out of 200 ms; a stream that breaks off; an answer cut at the limit; one that is filtered."""
    client = openai_client()
    for model, options in (("gpt-error", {}), ("gpt-slow", {"timeout": 0.2}), ("gpt-cut", {"stream": True})):
        try:
            for _ in client.chat.completions.create(model=model, messages=ask(), **options):
                pass
        except Exception as fault:
            print(model, type(fault).__name__)
    client.chat.completions.create(model="gpt-length", messages=ask(), max_tokens=8)
    client.chat.completions.create(model="gpt-filter", messages=ask())


def embeddings():
    """An embedding of two texts: no run."""
    openai_client().embeddings.create(model="text-embedding-3-small", input=[DOSE, NEXT])


def messages_thinking():
    """Claude thinks, says a sentence and asks for a tool; then its result is sent and the answer is streamed."""
    import anthropic

    client = anthropic.Anthropic(max_retries=0)
    tools = [{"name": t["name"], "description": t["description"], "input_schema": t["parameters"]} for t in TOOLS[:1]]
    options = {"model": "claude-sonnet-4-5", "max_tokens": 2000, "system": SYSTEM, "tools": tools}
    options["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    question = {"role": "user", "content": DOSE}
    first = client.messages.create(messages=[question], metadata={"user_id": "clinician-7"}, **options)
    said = {"role": "assistant", "content": [part.model_dump(exclude_none=True) for part in first.content]}
    call = next(part for part in first.content if part.type == "tool_use")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": RESULTS[call.name]}
    messages = [question, said, {"role": "user", "content": [result]}]
    with client.messages.stream(messages=messages, **options) as stream:
        for _ in stream:
            pass


def _langchain_tools():
    from langchain_core.tools import tool

    @tool
    def look_up_renal_function(bed: str) -> str:
        """The last eGFR of a bed."""
        return RESULTS["look_up_renal_function"]

    @tool
    def look_up_interactions(drugs: list[str]) -> str:
        """Interactions of drugs."""
        raise RuntimeError("The database does not answer.")

    look_up_interactions.handle_tool_error = True
    return [look_up_renal_function, look_up_interactions]


def _langchain_model(**options):
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o", max_retries=0, **options)


def langchain_agent():
    """An agent of LangChain asks for two tools, one of which fails and says so to the model; then it answers."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_tool_call
    from langchain_core.messages import ToolMessage

    @wrap_tool_call
    def say_failures(request, handler):
        try:
            return handler(request)
        except Exception as fault:
            return ToolMessage(f"No answer: {type(fault).__name__}", tool_call_id=request.tool_call["id"], status="error")

    options = {"system_prompt": SYSTEM, "middleware": [say_failures], "name": "ward_agent"}
    agent = create_agent(_langchain_model(), _langchain_tools(), **options)
    agent.invoke({"messages": [{"role": "user", "content": DOSE}]}, {"configurable": {"thread_id": "visit-12"}})


def langchain_agent_plain():
    """An agent of LangChain asks for one tool, and answers with its result."""
    from langchain.agents import create_agent

    agent = create_agent(_langchain_model(), _langchain_tools()[:1], system_prompt=SYSTEM, name="ward_agent")
    agent.invoke({"messages": [{"role": "user", "content": DOSE}]}, {"configurable": {"thread_id": "visit-12"}})


def langchain_rag():
    """A chain finds two documents and answers from them."""
    from langchain_core.documents import Document
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Formulary(BaseRetriever):
        def _get_relevant_documents(self, query, *, run_manager):
            texts = ("Ramipril: halve the dose below an eGFR of 30.", "Ramipril: check potassium.")
            return [Document(t, metadata={"id": f"doc-{at}", "score": 0.9 - at / 10}) for at, t in enumerate(texts)]

    prompt = ChatPromptTemplate.from_template("Answer from {documents}: {question}")
    given = {"documents": Formulary(), "question": RunnablePassthrough()}
    chain = given | prompt | _langchain_model() | StrOutputParser()
    print(json.dumps(chain.invoke(DOSE)))
