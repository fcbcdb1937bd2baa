#!/bin/bash
# record.sh BINARIES [FOLDER]...: record all folders of Go, or those that are named. BINARIES holds the programs
# openinference, otelc and openlit, built of the folders here: see README.md.
set -u
here=$(cd "$(dirname "$0")" && pwd)
binaries=$(cd "$1" && pwd)
shift
only=" $* "

record() { # FOLDER PROGRAM SCENARIO...
  local folder=$1 program=$2
  shift 2
  [ "$only" = "  " ] || [[ "$only" == *" $folder "* ]] || return 0
  echo "== $folder"
  python3 "$here/../recorder.py" "$here/../../otlp/$folder" --hide "$binaries" --hide "$here" -- "$binaries/$program" "$@"
}

record 160-go-oi-openai-chat-stream-tools openinference chat
record 161-go-oi-openai-failures openinference failures
record 162-go-oi-anthropic-thinking-tool openinference thinking
record 163-go-otelc-openai-chat-stream-tools otelc chat
record 164-go-otelc-openai-failures-embeddings otelc failures embeddings
record 165-go-openlit-openai-chat-stream-tools openlit chat
record 166-go-openlit-openai-failures-embeddings openlit failures embeddings
