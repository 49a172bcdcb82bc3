"""A voice's process: one handler and one thread for each channel."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

from openrknn.serve.memory import keep_freed_memory
from openrknn.serve.voice.channel_handler import ChannelHandler, Engine
from openrknn.serve.worker.arena import Arena
from openrknn.serve.worker.child import find, log_to_server
from openrknn.serve.worker.limits import bound_memory, stand_back
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageSocket

__all__ = ["main"]

_DESCRIPTORS = 2


def main(descriptor: int) -> None:
    """Answer the server until it is gone."""
    stand_back()
    keep_freed_memory(32)
    log_to_server()
    wire = MessageSocket(socket.socket(fileno=descriptor))
    engine: Engine | None = None
    try:
        while True:
            words, descriptors = wire.receive_with_descriptors(None, _DESCRIPTORS)
            try:
                if words["do"] == "load":
                    engine = _load(words)
                    answer: dict[str, Any] = {"card": engine.card()}
                else:
                    assert engine is not None
                    answer = _open(engine, words, descriptors)
            except Exception as error:  # noqa: BLE001 - whatever the voice does, the server hears why
                answer = {"error": str(error) or type(error).__name__}
            wire.send(answer)
    except ClosedSocketError:
        pass
    os._exit(0)  # a thread inside a hanging run would keep the process


def _load(words: dict[str, Any]) -> Engine:
    bound_memory(words["memory_bytes"], words["set_bytes"])
    return Engine(
        words["where"], words["kind"], words["device"], warm_up=words["warm_up"], opener=find(words["open_voice"])
    )


def _open(engine: Engine, words: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
    connection = socket.socket(fileno=descriptors[0])
    arena = Arena(descriptors[1], words["input_bytes"], words["output_bytes"])
    parts = MessageSocket(connection), arena, ChannelHandler(engine)
    threading.Thread(target=_serve, args=parts, daemon=True).start()
    return {"opened": True}


def _serve(wire: MessageSocket, arena: Arena, handler: ChannelHandler) -> None:
    """One channel, until the server closes it."""
    try:
        while True:
            words = wire.receive()
            arrays = arena.views(words["inputs"])
            answer, array = handler.answer(words, arrays.get("sound"))
            answer["tensors"] = arena.put_outputs({"sound": array} if array is not None else {})
            wire.send(answer)
    except ClosedSocketError:
        handler.close()
    finally:
        wire.close()
        arena.close()
