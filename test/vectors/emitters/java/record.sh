#!/bin/bash
# record.sh WORK [FOLDER]...: record all folders of Java, or those that are named. WORK has lib/ (the jars of
# pom.xml), classes/ (Ward.java compiled) and agent.jar (the Java agent): see README.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(cd "$1" && pwd)
shift
only=" $* "

record() { # FOLDER SCENARIO...
  local folder=$1
  shift
  [ "$only" = "  " ] || [[ "$only" == *" $folder "* ]] || return 0
  echo "== $folder"
  python3 "$here/../recorder.py" "$here/../../otlp/$folder" --hide "$work" --hide "$here" --hide "$HOME" \
    -- java -javaagent:"$work/agent.jar" -cp "$work/lib/*:$work/classes" Ward "$@"
}

export OTEL_LOGS_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
disabled=process.command_args,process.command_line,process.executable.path,process.runtime.description
export OTEL_RESOURCE_DISABLED_KEYS=$disabled,os.description,os.version
# Only what is about models: the agent would write a span of each HTTP request below it, and its own start.
export OTEL_INSTRUMENTATION_COMMON_DEFAULT_ENABLED=false OTEL_INSTRUMENTATION_OPENAI_ENABLED=true
on() { OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true "$@"; }

on record 140-java-agent-openai-plain plain
on record 141-java-agent-openai-tools tools
on record 142-java-agent-openai-stream-tools stream
on record 143-java-agent-openai-failures-embeddings failures embeddings
record 144-java-agent-openai-nocontent plain tools
OTEL_EXPORTER_OTLP_COMPRESSION=gzip OTEL_INSTRUMENTATION_COMMON_DEFAULT_ENABLED=true \
  on record 145-java-agent-openai-all-instrumentations plain
