"""A made-up model: a server with the API of OpenAI that streams a fixed answer.

python model.py [port]
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GUIDELINE = {
    "metoprolol": "Metoprolol: start with 25 mg twice a day; hold it below 50 beats a minute.",
    "heparin": "Heparin: check platelets every other day from day 4 to day 14.",
}
UNKNOWN = "I have no guideline on that. Please ask a pharmacist."


class Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        question = request["messages"][-1]["content"].lower()
        answer = next((text for drug, text in GUIDELINE.items() if drug in question), UNKNOWN)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for word in answer.split():
            self.say(request["model"], {"content": word + " "}, None)
            time.sleep(0.03)
        self.say(request["model"], {}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, model: str, delta: dict[str, str], finish_reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        chunk = {
            "id": "made-up",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
            "choices": [choice],
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Logs no requests."""


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    ThreadingHTTPServer(("127.0.0.1", port), Model).serve_forever()
