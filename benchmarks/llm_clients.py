"""64 clients of a language model, some of which go away, while its process is killed: is a stream wrong or lost?

    python benchmarks/llm_clients.py                         64 clients, 60 seconds, SIGKILL every ten
    python benchmarks/llm_clients.py --clients 8 --seconds 10 --kill-every 4
    python benchmarks/llm_clients.py --json llm_clients.json

The model has no weights: what it writes after a prompt can be computed by hand, so that each stream is compared with
its own text. The clients use /v1/chat/completions, /v1/responses, /v1/completions and /api/chat, streamed and whole,
each with a prompt of its own; a quarter of the streams is closed in the middle. A stream may end with its text, or with
an error that says why (the process was killed, the model is being started again) behind a beginning that is right.
wrong: other text, also of another stream. lost: no end and no error. Exit code 1: something was wrong or lost, or the
server still computes for clients that have gone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import logging
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.languages import chat_prompt, greedy, open_fake_language

_PATIENCE = 120.0
_TOKENS = 24
_GREEDY = {"temperature": 0, "num_predict": _TOKENS, "repeat_penalty": 1.0}
_PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/completions", "/api/chat")


def body_of(path: str, prompt: str, *, stream: bool) -> dict[str, Any]:
    """A request for the same text, in the words of a path."""
    messages = [{"role": "user", "content": prompt}]
    if path == "/api/chat":
        return {"messages": messages, "options": _GREEDY, "stream": stream, "model": "tiny"}
    asked: dict[str, Any] = {"model": "tiny", "temperature": 0, "stream": stream}
    if path == "/v1/responses":
        return {**asked, "input": prompt, "max_output_tokens": _TOKENS, "store": False}
    named = {"prompt": prompt} if path == "/v1/completions" else {"messages": messages}
    return {**asked, **named, "max_tokens": _TOKENS}


def read(path: str, row: dict[str, Any]) -> tuple[str, bool, str]:
    """(text, whether it is the last row, an error) of one row of a stream or of a whole answer."""
    if row.get("error"):
        return "", True, str(row["error"])
    if path == "/api/chat":
        return row["message"]["content"], row["done"], ""
    if path == "/v1/responses":
        return _response_row(row)
    (choice,) = row["choices"]
    told = choice if path == "/v1/completions" else choice.get("delta", choice.get("message"))
    text = told.get("text" if path == "/v1/completions" else "content") or ""
    return text, choice["finish_reason"] is not None, ""


def _response_row(row: dict[str, Any]) -> tuple[str, bool, str]:
    if row.get("object") == "response":
        return row["output"][0]["content"][0]["text"], True, ""
    kind = row["type"]
    if kind == "response.failed":
        return "", True, row["response"]["error"]["message"]
    return row.get("delta", ""), kind in ("response.completed", "response.incomplete"), ""


class Client(threading.Thread):
    """Sends requests until it is told to stop."""

    def __init__(self, number: int, url: str, stop: threading.Event) -> None:
        super().__init__(name=f"client-{number}")
        self.counts: Counter[str] = Counter()
        self.notes: list[str] = []
        self._number, self._stop_asking = number, stop
        self._where = urlsplit(url)
        self._random = random.Random(number)

    def run(self) -> None:
        """One request after the other, each on a connection of its own."""
        asked = 0
        while not self._stop_asking.is_set():
            asked += 1
            path, stream = self._random.choice(_PATHS), self._random.random() < 0.75
            prompt = f"client {self._number} asks {asked}: " + "x" * self._random.randrange(40)
            leave = self._random.randrange(1, 9) if stream and self._random.random() < 0.25 else None
            try:
                found = self._ask(path, prompt, stream=stream, leave_after=leave)
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                found = "lost"
                self.notes.append(f"{path} {prompt!r}: {type(error).__name__} {error}")
            self.counts[found] += 1

    def _ask(self, path: str, prompt: str, *, stream: bool, leave_after: int | None) -> str:
        expected = greedy(prompt if path == "/v1/completions" else chat_prompt(prompt), _TOKENS)
        connection = http.client.HTTPConnection(self._where.hostname or "", self._where.port or 0, timeout=_PATIENCE)
        try:
            connection.request("POST", path, json.dumps(body_of(path, prompt, stream=stream)))
            answer = connection.getresponse()
            if answer.status != 200:
                self.notes.append(f"{answer.status} {answer.read()[:120]!r}")
                return f"refused with {answer.status}"
            text, rows = "", 0
            for line in answer:
                data = line.decode().strip().removeprefix("data: ")
                if not data.startswith("{"):
                    continue
                part, is_last, error = read(path, json.loads(data))
                text, rows = text + part, rows + 1
                if error or is_last:
                    return self._judge(prompt, text, expected, error)
                if rows == leave_after:
                    return "left" if expected.startswith(text.rstrip("\ufffd")) else "wrong"
            self.notes.append(f"{path} {prompt!r}: no end after {text!r}")
            return "lost"
        finally:
            connection.close()

    def _judge(self, prompt: str, text: str, expected: str, error: str) -> str:
        is_right = expected.startswith(text.rstrip("\ufffd")) if error else text == expected
        if is_right:
            return "ended with a reason" if error else "right"
        self.notes.append(f"{prompt!r}: {text!r}, not {expected!r} {error}")
        return "wrong"


def besiege(server: Server, clients: int, seconds: float, kill_every: float) -> tuple[Counter[str], list[str], int]:
    """What became of all requests, notes about the bad ones, and how often the process was killed."""
    language, stop = server.plane.languages.find("tiny"), threading.Event()
    crowd = [Client(number, server.url, stop) for number in range(clients)]
    for one in crowd:
        one.start()
    end, kills = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(min(kill_every, max(0.0, end - time.monotonic())))
        pids = language.pids()
        if pids and time.monotonic() < end:
            os.kill(pids[0], signal.SIGKILL)
            kills += 1
    stop.set()
    counts: Counter[str] = Counter()
    notes: list[str] = []
    for one in crowd:
        one.join()
        counts += one.counts
        notes += one.notes
    deadline = time.monotonic() + _PATIENCE
    while language.active and time.monotonic() < deadline:
        time.sleep(0.05)
    counts["still computed"] += language.active
    return counts, notes, kills


def main() -> int:
    """0: nothing was wrong or lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--json", metavar="FILE", help="write the counts")
    options = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # it warns of sockets whose clients left
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tiny.gguf")
        file.write_bytes(b"x")
        settings = Settings([], llms=[str(file)], http_port=0, grpc_port=None, queue_size=2 * options.clients)
        with running(settings, open_language=open_fake_language) as server:
            counts, notes, kills = besiege(server, options.clients, options.seconds, options.kill_every)
    print(f"{sum(counts.values())} requests of {options.clients} clients, {kills} times SIGKILL")
    for what, count in counts.most_common():
        print(f"{count:8} {what}")
    bad = counts["wrong"] + counts["lost"] + counts["still computed"]
    for note in notes[:20] if bad else []:
        print(note)
    if options.json:
        Path(options.json).write_text(json.dumps({"counts": dict(counts), "kills": kills}, indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
