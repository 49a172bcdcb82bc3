"""The worker's side: a model, its sessions, and a thread for each of them."""

from __future__ import annotations

import importlib
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openrknn.runtime.session import Session
from openrknn.serve.memory import keep_freed_memory
from openrknn.serve.plane.contexts import Contexts, run_session
from openrknn.serve.worker.arena import Arena
from openrknn.serve.worker.limits import bound_memory, stand_back
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageSocket

__all__ = ["find", "log_to_server", "main"]

_END_SECONDS = 3.0
_DESCRIPTORS = 2


def main(descriptor: int) -> None:
    """Answer the server until it is gone."""
    stand_back()
    keep_freed_memory(32)
    log_to_server()
    worker = _Worker(MessageSocket(socket.socket(fileno=descriptor)))
    try:
        worker.serve()
    except ClosedSocketError:
        worker.finish()
    os._exit(0)  # a thread inside a hanging run would keep the process


class _Worker:
    def __init__(self, wire: MessageSocket) -> None:
        self._wire = wire
        self._contexts: Contexts | None = None
        self._describe: Callable[..., str] | None = None
        self._threads: list[threading.Thread] = []

    def serve(self) -> None:
        while True:
            words, descriptors = self._wire.receive_with_descriptors(None, _DESCRIPTORS)
            try:
                answer = self._answer(words, descriptors)
            except Exception as error:  # noqa: BLE001 - whatever the model does, the server hears why
                answer = {"error": _text(error)}
            self._wire.send(answer)

    def finish(self) -> None:
        """Their sockets are closed too: they close their sessions."""
        for thread in self._threads:
            thread.join(_END_SECONDS)

    def _answer(self, words: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if words["do"] == "load":
            return self._load(words)
        assert self._contexts is not None
        if words["do"] == "open":
            return self._open(self._contexts, words, descriptors)
        assert self._describe is not None
        return {"html": self._describe(self._contexts.model)}

    def _load(self, words: dict[str, Any]) -> dict[str, Any]:
        path = Path(words["path"])
        open_session = find(words["open_session"])
        if words["describe"] is not None:
            self._describe = find(words["describe"])
        bound_memory(words["memory_bytes"], path.stat().st_size)
        self._contexts = Contexts(
            path, device=words["device"], cores=words["cores"], warm_up=words["warm_up"], open_session=open_session
        )
        return {"card": self._contexts.card.as_json()}

    def _open(self, contexts: Contexts, words: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        connection = socket.socket(fileno=descriptors[0])
        try:
            arena = Arena(descriptors[1], words["input_bytes"], words["output_bytes"])
            session = contexts.open()
        except BaseException:
            connection.close()
            raise
        thread = threading.Thread(target=_serve_context, args=(MessageSocket(connection), arena, session), daemon=True)
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()
        return {"device": session.device.name}


def _serve_context(wire: MessageSocket, arena: Arena, session: Session) -> None:
    """One context: requests one after the other, until the server closes it."""
    try:
        while True:
            wire.send(_run(wire.receive(), arena, session))
    except ClosedSocketError:
        session.close()
    finally:
        wire.close()
        arena.close()


def _run(words: dict[str, Any], arena: Arena, session: Session) -> dict[str, Any]:
    try:
        inputs = arena.views(words["inputs"])
        if words["shapes"] is not None:
            session.set_shapes({name: tuple(shape) for name, shape in words["shapes"].items()})
        outputs = run_session(session, inputs, words["layout"], words["outputs"])
        times = session.times
        return {"tensors": arena.put_outputs(outputs), "times": [float(times.run_seconds), float(times.read_seconds)]}
    except (ValueError, TypeError) as error:
        return {"bad": str(error)}
    except Exception as error:  # noqa: BLE001 - the server replaces this context
        return {"error": _text(error)}


def _text(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "the model needs more memory than it may have; see --max-memory"
    return str(error) or type(error).__name__


def find(name: str) -> Any:
    """`module:name`, as `reference` writes it."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


class _Lines(logging.Handler):
    """A JSON object per line to standard error, which the server reads."""

    def emit(self, record: logging.LogRecord) -> None:
        line = json.dumps({"level": record.levelname.lower(), "message": record.getMessage()[:1500]})
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def log_to_server() -> None:
    """Everything that is logged here goes to standard error, a line each."""
    root = logging.getLogger()
    root.handlers[:] = [_Lines()]
    root.setLevel(logging.INFO)
