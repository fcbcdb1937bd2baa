"""Run one emitter against a fake model server and keep what it exports.

    python3 recorder.py FOLDER [--hide PATH]... -- COMMAND [ARGUMENT]...

COMMAND gets the addresses of the fake model server (OPENAI_BASE_URL, ANTHROPIC_BASE_URL) and of the
sink (OTEL_EXPORTER_OTLP_ENDPOINT, LANGFUSE_HOST). When it has ended, FOLDER holds each body that it
exported, in the order of arrival: request*.pb.base64 or request*.json of spans, logs* of log records.
Each PATH is replaced by as many characters, so that lengths stay right.
"""

import argparse
import base64
import gzip
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from model import answer

SIGNALS = {"/v1/traces": "request", "/api/public/otel/v1/traces": "request", "/v1/logs": "logs"}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer(self, asked)

    def log_message(self, *_):
        pass


class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bodies = []
    lock = threading.Lock()

    def do_POST(self):
        body = self.read_body()
        media = self.headers.get("content-type", "").split(";")[0]
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        signal = SIGNALS.get(self.path)
        if signal:
            with self.lock:
                self.bodies.append((signal, media, self.headers.get("content-encoding", ""), body))
        said = b"{}" if media == "application/json" else b""
        self.send_response(200)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def read_body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, *_):
        pass


def serve(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def same_length(path):
    """A path of another machine, as long as this one."""
    return ("/app/" + "modules/" * len(path))[: len(path) - 1] + "m"


def write(folder, hidden):
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("request*"), *folder.glob("logs*")]:
        old.unlink()
    seen = set()
    for at, (signal, media, encoding, body) in enumerate(Sink.bodies, start=1):
        for path in sorted(hidden, key=len, reverse=True):
            body = body.replace(path.encode(), same_length(path).encode())
        name = signal if at == 1 else f"{signal}-{at}"
        seen.add((signal, media, encoding))
        if media == "application/json":
            (folder / f"{name}.json").write_bytes(body)
        else:
            (folder / f"{name}.pb.base64").write_text(base64.b64encode(body).decode() + "\n")
        print(f"{name}: {media} {encoding or 'not compressed'}, {len(body)} bytes")
    if not seen:
        print("nothing was exported")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--hide", action="append", default=[], metavar="PATH")
    options.add_argument("command", nargs="+")
    given = options.parse_args()
    model, sink = serve(Model), serve(Sink)
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": f"{model}/v1",
        "ANTHROPIC_BASE_URL": model,
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_API_KEY": "none",
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink,
        "TRACELOOP_BASE_URL": sink,
        "LANGFUSE_HOST": sink,
        "LANGFUSE_BASE_URL": sink,
        "OTEL_SERVICE_NAME": "ward-assistant",
        "OTEL_RESOURCE_ATTRIBUTES": "host.name=ward-host",
        "OTEL_METRICS_EXPORTER": "none",
    }
    ended = subprocess.run(given.command, env=environment)
    write(given.folder, given.hide)
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
