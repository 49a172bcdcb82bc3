"""A language model's process."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

from openrknn.llm.generation.model import LanguageModel
from openrknn.serve.llm.handler import Handler, card_of
from openrknn.serve.memory import keep_freed_memory
from openrknn.serve.worker.child import find, log_to_server
from openrknn.serve.worker.limits import bound_memory, stand_back
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageSocket

__all__ = ["main"]


def main(descriptor: int) -> None:
    """Load the model, then answer on the connection that the server opens, until it is gone."""
    stand_back()
    keep_freed_memory(32)
    log_to_server()
    wire = MessageSocket(socket.socket(fileno=descriptor))
    model: LanguageModel | None = None
    try:
        while True:
            words, descriptors = wire.receive_with_descriptors(None, 1)
            try:
                if words["do"] == "load":
                    model = _load(words)
                    answer: dict[str, Any] = {"card": card_of(model)}
                else:
                    assert model is not None
                    handler = Handler(model, MessageSocket(socket.socket(fileno=descriptors[0])))
                    threading.Thread(target=handler.run, daemon=True).start()
                    answer = {"opened": True}
            except Exception as error:  # noqa: BLE001 - whatever the model does, the server hears why
                answer = {"error": str(error) or type(error).__name__}
            wire.send(answer)
    except ClosedSocketError:
        pass
    os._exit(0)  # a thread inside a hanging run would keep the process


def _load(words: dict[str, Any]) -> LanguageModel:
    bound_memory(words["memory_bytes"], words["model_bytes"])
    opened = find(words["open_language"])(words["where"], words["device"], words["sequences"], *words["drafts"])
    assert isinstance(opened, LanguageModel)
    return opened
