"""`Handler`: requests of all clients in, events out, a step of the scheduler at a time. Runs in the model's process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from typing import Any

from openrknn.errors import RknnError, UnsupportedError
from openrknn.llm.errors import TemplateError
from openrknn.llm.generation.errors import ConstraintError, PromptError
from openrknn.llm.generation.events import Event
from openrknn.llm.generation.model import LanguageModel
from openrknn.llm.generation.thinking import opened_thought
from openrknn.serve.llm.words import event_row, read_request
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageSocket

__all__ = ["Handler", "card_of"]

_BAD = (PromptError, ConstraintError, TemplateError, UnsupportedError, ValueError, TypeError)
"""What only a wrong request brings about."""


def card_of(model: LanguageModel) -> dict[str, Any]:
    """What the server tells others about it."""
    details = model.details
    return {
        "architecture": details.architecture, "parameters": details.parameters, "context": details.context,
        "capacity": model.generator.engine.capacity, "format": details.format, "quantisation": details.quantisation,
        "licence": details.licence, "notice": details.notice, "template": details.template,
        "can_chat": model.template is not None, "can_embed": model.can_embed,
    }  # fmt: skip


class Handler:
    """One thread reads what is asked, another one computes."""

    def __init__(self, model: LanguageModel, wire: MessageSocket) -> None:
        self._model, self._wire = model, wire
        self._asked: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._clients: dict[int, int] = {}
        """Number of the scheduler -> number of the server."""
        self._opened: dict[int, str] = {}
        """Number of the server -> the tag that closes the thought in which its prompt ends."""

    def run(self) -> None:
        """Until the server closes the connection."""
        threading.Thread(target=self._read, name="openrknn-llm-read", daemon=True).start()
        scheduler = self._model.generator.scheduler
        try:
            while self._take(wait=scheduler.is_idle):
                if not scheduler.is_idle:
                    self._step()
        except ClosedSocketError:
            pass
        finally:
            scheduler.close()
            self._wire.close()

    def _read(self) -> None:
        try:
            while True:
                self._asked.put(self._wire.receive())
        except RknnError:
            self._asked.put(None)

    def _take(self, *, wait: bool) -> bool:
        """Everything that was asked by now; False: the server is gone."""
        while True:
            try:
                words = self._asked.get(block=wait)
            except queue.Empty:
                return True
            if words is None:
                return False
            self._answer(words)
            wait = False

    def _answer(self, words: Mapping[str, Any]) -> None:
        number = words["id"]
        try:
            if words["do"] == "start":
                self._clients[self._start(words)] = number
                return
            if words["do"] == "cancel":
                self._cancel(number)
                return
            row = {"tokenize": self._tokenize, "embed": self._embed}[words["do"]](words)
        except Exception as error:  # noqa: BLE001 - whatever the model does, the client hears why
            row = _failure(error)
        self._send([[number, row]])

    def _start(self, words: Mapping[str, Any]) -> int:
        request = read_request(words["request"])
        scheduler = self._model.generator.scheduler
        if words.get("messages") is None:
            return scheduler.add(self._tokens(words), request)
        prompt = self._chat_prompt(words)
        number = scheduler.add(self._model.generator.vocabulary.encode(prompt), request)
        if request.constraint is None and (opened := opened_thought(prompt)):
            self._opened[words["id"]] = opened
        return number

    def _chat_prompt(self, words: Mapping[str, Any]) -> str:
        return self._model.chat_prompt(words["messages"], words.get("tools"), **(words.get("options") or {}))

    def _tokens(self, words: Mapping[str, Any]) -> list[int]:
        if words.get("messages") is not None:
            return self._model.generator.vocabulary.encode(self._chat_prompt(words))
        prompt = words["prompt"]
        if isinstance(prompt, str):
            return self._model.generator.vocabulary.encode(prompt)
        return [int(one) for one in prompt]

    def _cancel(self, number: int) -> None:
        self._opened.pop(number, None)
        for mine, theirs in list(self._clients.items()):
            if theirs == number:
                del self._clients[mine]
                self._model.generator.scheduler.cancel(mine)

    def _tokenize(self, words: Mapping[str, Any]) -> dict[str, Any]:
        return {"tokens": self._tokens(words)}

    def _embed(self, words: Mapping[str, Any]) -> dict[str, Any]:
        tokens = self._tokens(words)
        if words.get("truncate"):
            tokens = tokens[: self._model.details.context]
        vector = self._model.embed(tokens, words.get("pooling"))
        return {"embedding": [float(one) for one in vector], "tokens": len(tokens)}

    def _step(self) -> None:
        scheduler = self._model.generator.scheduler
        rows: list[list[Any]] = []
        for mine, outcome in scheduler.step():
            number = self._clients.get(mine)
            if number is None:
                continue
            if not isinstance(outcome, Event):
                rows.append([number, _failure(outcome)])
                del self._clients[mine]
                continue
            row = event_row(outcome, self._model.generator.vocabulary)
            if opened := self._opened.pop(number, ""):
                row["opened"] = opened
            rows.append([number, row])
            if outcome.finish is not None:
                del self._clients[mine]
        self._send(rows)

    def _send(self, rows: list[list[Any]]) -> None:
        """Also without rows: the server sees that work goes on."""
        scheduler = self._model.generator.scheduler
        self._wire.send({"rows": rows, "waiting": scheduler.waiting, "running": scheduler.running})


def _failure(error: Exception) -> dict[str, Any]:
    """`bad`: it is the request that is wrong; `error`: it is the model."""
    if isinstance(error, _BAD):
        return {"bad": str(error) or type(error).__name__}
    if isinstance(error, MemoryError):
        return {"error": "the model needs more memory than it may have; see --max-memory"}
    return {"error": str(error) if isinstance(error, RknnError) else f"{type(error).__name__}: {error}"}
