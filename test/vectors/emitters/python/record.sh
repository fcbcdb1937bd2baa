#!/bin/bash
# record.sh PYTHON TRACELOOP_PYTHON [FOLDER]...: record all folders of Python, or those that are named.
# The two are interpreters of virtual environments with requirements.txt and requirements-traceloop.txt.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=$1 traceloop=$2
shift 2
only=" $* "

record() { # FOLDER INTERPRETER INSTRUMENT EMITTER SCENARIO...
  local folder=$1 interpreter=$2 instrument=$3
  shift 3
  [ "$only" = "  " ] || [[ "$only" == *" $folder "* ]] || return 0
  echo "== $folder"
  INSTRUMENT=$instrument python3 "$here/../recorder.py" "$here/../../otlp/$folder" \
    --hide "$(dirname "$(dirname "$interpreter")")" --hide "$here" --hide "$HOME" \
    -- "$interpreter" "$here/emit.py" "$@"
}

on() { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_AND_EVENT OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT=true "$@"; }

on record 120-py-genai-openai-plain-details-log "$python" openai official chat_plain
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY \
  record 121-py-genai-openai-stream-tools "$python" openai official chat_stream_tools
on record 122-py-genai-openai-responses-reasoning "$python" openai official responses_reasoning
record 123-py-genai-openai-failures-nocontent "$python" openai official failures embeddings
on record 124-py-genai-anthropic-thinking-tool "$python" anthropic official messages_thinking
OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY \
  record 125-py-genai-langchain-agent "$python" langchain official langchain_agent
record 126-py-oi-openai-plain-stream-tools "$python" openai openinference chat_plain chat_stream_tools
record 127-py-oi-openai-responses-failures-embeddings "$python" openai openinference \
  responses_reasoning failures embeddings
record 128-py-oi-anthropic-thinking-tool "$python" anthropic openinference messages_thinking
record 129-py-oi-langchain-agent "$python" langchain openinference langchain_agent
record 130-py-oi-langchain-rag "$python" langchain openinference langchain_rag
record 131-py-tl-openai-plain-stream-tools "$traceloop" openai traceloop chat_plain chat_stream_tools
record 132-py-tl-openai-responses-failures-embeddings "$traceloop" openai traceloop \
  responses_reasoning failures embeddings
record 133-py-tl-anthropic-thinking-tool "$traceloop" anthropic traceloop messages_thinking
record 134-py-tl-langchain-agent "$traceloop" langchain traceloop langchain_agent_plain
record 135-py-tl-langchain-rag "$traceloop" langchain traceloop langchain_rag
record 136-py-traceloop-sdk-workflow "$traceloop" openai traceloop_sdk
TRACELOOP_TRACE_CONTENT=false \
  record 137-py-tl-openai-nocontent "$traceloop" openai traceloop chat_plain chat_stream_tools
record 138-py-langfuse-agent "$python" openai langfuse
record 139-py-pydantic-ai-agent "$python" openai pydantic_ai
