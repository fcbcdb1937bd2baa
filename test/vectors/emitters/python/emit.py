"""One emitter runs scenarios: python emit.py EMITTER SCENARIO..."""

import os
import sys

import scenarios


def provider():
    """The SDK with its defaults: protobuf over HTTP, compressed, batches."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(compression=Compression.Gzip)))
    trace.set_tracer_provider(made)
    return made


def logger_provider():
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    made = LoggerProvider()
    made.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(compression=Compression.Gzip)))
    set_logger_provider(made)
    return made


def official(names, of):
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    made, logs = provider(), logger_provider()
    known = {"openai": OpenAIInstrumentor, "anthropic": AnthropicInstrumentor, "langchain": LangChainInstrumentor}
    for name in of:
        known[name]().instrument(tracer_provider=made, logger_provider=logs)
    run(names)
    made.shutdown()
    logs.shutdown()


def openinference(names, of):
    from openinference.instrumentation import using_attributes
    from openinference.instrumentation.anthropic import AnthropicInstrumentor
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    made = provider()
    known = {"openai": OpenAIInstrumentor, "anthropic": AnthropicInstrumentor, "langchain": LangChainInstrumentor}
    for name in of:
        known[name]().instrument(tracer_provider=made)
    with using_attributes(user_id="clinician-7", session_id="visit-12", metadata={"bed": "4"}):
        run(names)
    made.shutdown()


def traceloop(names, of):
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    made = provider()
    known = {"openai": OpenAIInstrumentor, "anthropic": AnthropicInstrumentor, "langchain": LangchainInstrumentor}
    for name in of:
        known[name]().instrument(tracer_provider=made)
    run(names)
    made.shutdown()


def traceloop_sdk(names, of):
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import agent, task, tool, workflow
    from traceloop.sdk.instruments import Instruments

    Traceloop.init(app_name="ward-assistant", telemetry_enabled=False, instruments={Instruments(n) for n in of})
    Traceloop.set_association_properties({"user_id": "clinician-7", "session_id": "visit-12"})

    @tool(name="look_up_renal_function")
    def look_up(bed):
        return scenarios.RESULTS["look_up_renal_function"]

    @task(name="prepare")
    def prepare(question):
        return f"{question} {look_up('4')}"

    @agent(name="dose_agent")
    def dose(question):
        client = scenarios.openai_client()
        messages = scenarios.ask(question=prepare(question))
        return client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content

    @workflow(name="ward_round")
    def ward_round(question):
        return dose(question)

    ward_round(scenarios.DOSE)


def langfuse(names, of):
    from langfuse import Langfuse, observe, propagate_attributes
    from langfuse.openai import openai

    client = Langfuse(public_key="pk-none", secret_key="none")

    @observe(name="look_up_renal_function", as_type="tool")
    def look_up(bed):
        return scenarios.RESULTS["look_up_renal_function"]

    @observe(name="ward_agent", as_type="agent")
    def dose(question):
        messages = scenarios.ask(question=f"{question} {look_up('4')}")
        said = openai.OpenAI(max_retries=0).chat.completions.create(model="gpt-4o", messages=messages)
        return said.choices[0].message.content

    with propagate_attributes(user_id="clinician-7", session_id="visit-12"):
        dose(scenarios.DOSE)
    client.shutdown()


def pydantic_ai(names, of):
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    made = provider()
    agent = Agent("openai-chat:gpt-4o", instructions=scenarios.SYSTEM, name="ward_agent")
    agent.instrument = InstrumentationSettings(tracer_provider=made)

    @agent.tool_plain
    def look_up_renal_function(bed: str) -> str:
        """The last eGFR of a bed."""
        return scenarios.RESULTS["look_up_renal_function"]

    @agent.tool_plain
    def look_up_interactions(drugs: list[str]) -> str:
        """Interactions of drugs."""
        return scenarios.RESULTS["look_up_interactions"]

    agent.run_sync(scenarios.DOSE)
    made.shutdown()


def run(names):
    for name in names:
        getattr(scenarios, name)()


if __name__ == "__main__":
    emitter, *names = sys.argv[1:]
    globals()[emitter](names, os.environ.get("INSTRUMENT", "openai,anthropic").split(","))
