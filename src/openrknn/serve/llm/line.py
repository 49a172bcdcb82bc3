"""`Line`: many streams over one connection to a model's process."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from openrknn.errors import RknnError
from openrknn.serve.errors import BadRequestError, ModelFailedError, ServeError
from openrknn.serve.worker.message_socket import MessageError, MessageSocket
from openrknn.serve.worker.remote import words_of

__all__ = ["Line"]

_Answer = dict[str, Any] | ServeError


class Line:
    """Requests are numbered; a thread reads what comes back and gives each row to who waits for it."""

    def __init__(self, connection: socket.socket, why: Callable[[], str]) -> None:
        self._wire, self._why = MessageSocket(connection), why
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._sending = threading.Lock()
        self._reason = "the model's process is gone"
        self._waiting: dict[int, asyncio.Queue[_Answer]] = {}
        """By number; touched by the loop only."""
        self.is_alive, self._is_closed = True, False
        self.heard = time.monotonic()
        """When the process last said something."""
        self.queued = self.running = 0
        """Requests in its scheduler."""
        self._thread = threading.Thread(target=self._read, name="openrknn-llm-line", daemon=True)
        self._thread.start()

    def begin(self, words: dict[str, Any]) -> tuple[int, asyncio.Queue[_Answer]]:
        """Send a request; rows come through the queue."""
        number = next(self._numbers)
        answers: asyncio.Queue[_Answer] = asyncio.Queue()
        if not self.is_alive:
            raise ModelFailedError(self._reason)
        self._waiting[number] = answers
        self.heard = time.monotonic()
        self._send({**words, "id": number})
        return number, answers

    def end(self, number: int, *, is_complete: bool) -> None:
        """It is no longer waited for."""
        self._waiting.pop(number, None)
        if not is_complete and self.is_alive:
            self._send({"do": "cancel", "id": number})

    def _send(self, words: dict[str, Any]) -> None:
        try:
            with self._sending:
                self._wire.send(words)
        except MessageError:
            raise ModelFailedError(self._reason) from None

    def _read(self) -> None:
        try:
            while True:
                self._tell(self._deliver, self._wire.receive())
        except (RknnError, RuntimeError):
            self._tell(self._lost, "" if self._is_closed else self._why())  # it may take a moment to know

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    def _deliver(self, message: dict[str, Any]) -> None:
        self.heard = time.monotonic()
        queued, running, rows = message.get("waiting"), message.get("running"), message.get("rows")
        if not isinstance(queued, int) or not isinstance(running, int) or not isinstance(rows, list):
            return
        self.queued, self.running = queued, running
        for row in rows:
            if isinstance(row, list) and len(row) == 2 and isinstance(row[1], dict) and row[0] in self._waiting:
                self._waiting[row[0]].put_nowait(_checked(row[1]))

    def _lost(self, reason: str) -> None:
        self.is_alive = False
        self._reason = reason or self._reason
        self.queued = self.running = 0
        for answers in self._waiting.values():
            answers.put_nowait(ModelFailedError(self._reason))
        self._waiting = {}

    def close(self) -> None:
        """Hang up."""
        self.is_alive, self._is_closed = False, True
        self._wire.shut()
        self._thread.join(5.0)
        self._wire.close()


def _checked(row: dict[str, Any]) -> _Answer:
    if "bad" in row:
        return BadRequestError(str(row["bad"])[:2000])
    if "error" in row:
        return ModelFailedError(f"the model could not answer: {words_of(row)}")
    return row
