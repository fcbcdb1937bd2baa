"""The fake model server: OpenAI's chat, responses and embeddings, Anthropic's messages.

What is asked decides: a model named *-error answers 500, *-slow answers after three seconds, *-cut breaks
its stream off, *-length stops at the limit, *-filter is stopped by the filter; offered tools are all asked for
once, and answered for when their results are there. Texts and numbers are always the same.
"""

import base64
import itertools
import json
import struct
import time

NUMBERS = itertools.count(1)

SAID = "Halve the dose: eGFR is 28."
THOUGHT = "The renal function has fallen since Monday."
ARGUMENTS = {
    "look_up_renal_function": {"bed": "4"},
    "look_up_interactions": {"drugs": ["ramipril", "spironolactone"]},
    "ask_pharmacist": {"question": "Which dose of ramipril suits an eGFR of 28?"},
}
CHAT_USAGE = {"prompt_tokens": 62, "completion_tokens": 23, "total_tokens": 85}
CHAT_DETAILS = {
    "prompt_tokens_details": {"cached_tokens": 40, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 11, "audio_tokens": 0},
}


def answer(http, asked):
    model = asked["model"]
    if model.endswith("-error"):
        return send(http, 500, {"error": {"message": "The server had an error.", "type": "server_error"}})
    if model.endswith("-slow"):
        time.sleep(3)
    if http.path.endswith("/chat/completions"):
        return chat(http, asked)
    if http.path.endswith("/responses"):
        return responses(http, asked)
    if http.path.endswith("/embeddings"):
        return embeddings(http, asked)
    if http.path.endswith("/messages"):
        return messages(http, asked)
    return send(http, 404, {"error": {"message": f"no such path: {http.path}"}})


def send(http, status, body):
    said = json.dumps(body).encode()
    try:
        http.send_response(status)
        http.send_header("content-type", "application/json")
        http.send_header("content-length", str(len(said)))
        http.end_headers()
        http.wfile.write(said)
    except (BrokenPipeError, ConnectionResetError):
        http.close_connection = True


def stream(http, events, done, cut_after=None):
    http.send_response(200)
    http.send_header("content-type", "text/event-stream")
    http.send_header("transfer-encoding", "chunked")
    http.end_headers()
    for at, (name, event) in enumerate(events):
        if at == cut_after:
            http.wfile.flush()
            http.close_connection = True
            return http.connection.shutdown(2)
        chunk(http, (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n")
    if done:
        chunk(http, "data: [DONE]\n\n")
    http.wfile.write(b"0\r\n\r\n")


def chunk(http, text):
    data = text.encode()
    http.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def wanted(asked, name_of, has_results):
    """Names of the tools that the answer asks for."""
    return [] if has_results or not asked.get("tools") else [name_of(tool) for tool in asked["tools"]]


def ending_of(model, tools, normal, length, filtered, asks):
    if model.endswith("-length"):
        return length
    if model.endswith("-filter"):
        return filtered
    return asks if tools else normal


def chat(http, asked):
    model = asked["model"]
    tools = wanted(asked, lambda t: t["function"]["name"], any(m["role"] == "tool" for m in asked["messages"]))
    ending = ending_of(model, tools, "stop", "length", "content_filter", "tool_calls")
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(ARGUMENTS[name])}}
        for at, name in enumerate(tools, start=1)
    ]
    words = None if calls or model.endswith("-filter") else SAID
    number = next(NUMBERS)
    base = {"id": f"chatcmpl-{number}", "created": 1795885833, "model": f"{model}-2024-08-06", "system_fingerprint": "fp_1"}
    usage = CHAT_USAGE | CHAT_DETAILS
    if not asked.get("stream"):
        message = {"role": "assistant", "content": words, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        choices = [
            {"index": at, "message": message, "finish_reason": ending, "logprobs": None}
            for at in range(asked.get("n") or 1)
        ]
        return send(http, 200, base | {"object": "chat.completion", "choices": choices, "usage": usage})
    deltas = [{"role": "assistant", "content": "" if words else None}]
    for at, call in enumerate(calls):
        text = call["function"]["arguments"]
        deltas.append({"tool_calls": [call | {"index": at, "function": call["function"] | {"arguments": ""}}]})
        for part in (text[:6], text[6:]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    if words:
        deltas += [{"content": SAID[at : at + 9]} for at in range(0, len(SAID), 9)]
    def piece(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return None, base | {"object": "chat.completion.chunk", "choices": [choice]}
    events = [piece(delta) for delta in deltas] + [piece({}, ending)]
    if (asked.get("stream_options") or {}).get("include_usage"):
        events.append((None, base | {"object": "chat.completion.chunk", "choices": [], "usage": usage}))
    return stream(http, events, done=True, cut_after=3 if model.endswith("-cut") else None)


def responses(http, asked):
    given = asked["input"] if isinstance(asked["input"], list) else []
    tools = wanted(asked, lambda t: t["name"], any(i.get("type") == "function_call_output" for i in given))
    summary = [{"type": "summary_text", "text": THOUGHT}]
    output = [{"id": "rs_1", "type": "reasoning", "summary": summary, "status": None}]
    for at, name in enumerate(tools, start=1):
        call = {"name": name, "arguments": json.dumps(ARGUMENTS[name])}
        output.append(call | {"id": f"fc_{at}", "type": "function_call", "call_id": f"call_{at}", "status": "completed"})
    if not tools:
        text = {"type": "output_text", "text": SAID, "annotations": [], "logprobs": []}
        output.append({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [text]})
    usage = {
        "input_tokens": 1200,
        "input_tokens_details": {"cached_tokens": 1024},
        "output_tokens": 23,
        "output_tokens_details": {"reasoning_tokens": 11},
        "total_tokens": 1223,
    }
    said = {
        **{"id": f"resp_{next(NUMBERS)}", "object": "response", "created_at": 1795885833, "model": f"{asked['model']}-2025-04-16"},
        **{"status": "completed", "error": None, "incomplete_details": None, "instructions": asked.get("instructions")},
        **{"output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": asked.get("tools") or []},
        **{"usage": usage, "metadata": {}, "temperature": 1.0, "top_p": 1.0, "max_output_tokens": None},
        **{"previous_response_id": None, "reasoning": asked.get("reasoning") or {}, "truncation": "disabled"},
        **{"text": {"format": {"type": "text"}}, "user": asked.get("user"), "store": True, "background": False},
    }
    if not asked.get("stream"):
        return send(http, 200, said)
    events = [{"type": "response.created", "response": said | {"status": "in_progress", "output": [], "usage": None}}]
    for at, item in enumerate(output):
        events.append({"type": "response.output_item.added", "output_index": at, "item": item})
        if item["type"] == "message":
            where = {"item_id": item["id"], "output_index": at, "content_index": 0}
            for start in range(0, len(SAID), 9):
                delta = SAID[start : start + 9]
                events.append({"type": "response.output_text.delta", "delta": delta, "logprobs": [], **where})
            events.append({"type": "response.output_text.done", "text": SAID, "logprobs": [], **where})
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": "response.completed", "response": said})
    numbered = [(e["type"], e | {"sequence_number": at}) for at, e in enumerate(events)]
    return stream(http, numbered, done=False)


def embeddings(http, asked):
    numbers = [0.25, -0.5, 0.125, 0.0]
    packed = base64.b64encode(struct.pack("<4f", *numbers)).decode()
    inputs = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    count = len(inputs) if inputs and isinstance(inputs[0], (str, list)) else 1
    vector = packed if asked.get("encoding_format") == "base64" else numbers
    data = [{"object": "embedding", "index": at, "embedding": vector} for at in range(count)]
    usage = {"prompt_tokens": 8 * count, "total_tokens": 8 * count}
    return send(http, 200, {"object": "list", "data": data, "model": asked["model"], "usage": usage})


def messages(http, asked):
    def has_result(m):
        return isinstance(m["content"], list) and any(p.get("type") == "tool_result" for p in m["content"])
    tools = wanted(asked, lambda t: t["name"], any(has_result(m) for m in asked["messages"]))
    ending = ending_of(asked["model"], tools, "end_turn", "max_tokens", "refusal", "tool_use")
    content = []
    if asked.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        content.append({"type": "thinking", "thinking": THOUGHT, "signature": "c2lnbmF0dXJl"})
    content.append({"type": "text", "text": "I look that up." if tools else SAID})
    for at, name in enumerate(tools, start=1):
        content.append({"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": ARGUMENTS[name]})
    usage = {
        **{"input_tokens": 12, "cache_creation_input_tokens": 64, "cache_read_input_tokens": 1024},
        **{"output_tokens": 30, "service_tier": "standard"},
    }
    base = {"id": f"msg_{next(NUMBERS)}", "type": "message", "role": "assistant", "model": asked["model"]}
    if not asked.get("stream"):
        return send(http, 200, base | {"content": content, "stop_reason": ending, "stop_sequence": None, "usage": usage})
    start = base | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage | {"output_tokens": 1}}
    events = [{"type": "message_start", "message": start}]
    for at, part in enumerate(content):
        if part["type"] == "text":
            empty, deltas = {"text": ""}, [{"type": "text_delta", "text": part["text"]}]
        elif part["type"] == "thinking":
            empty = {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": part["thinking"]},
                {"type": "signature_delta", "signature": part["signature"]},
            ]
        else:
            empty = {"input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(part["input"])}]
        events.append({"type": "content_block_start", "index": at, "content_block": part | empty})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": ending, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 30}})
    events.append({"type": "message_stop"})
    return stream(http, [(e["type"], e) for e in events], done=False)
