"""`RemoteContext`: a context in a worker, used like a `Session`."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

from openrknn.errors import RknnError
from openrknn.runtime.profile import RunTimes
from openrknn.serve.datatypes import Array
from openrknn.serve.plane.model_info import ModelInfo
from openrknn.serve.shared.tensor import Tensor
from openrknn.serve.worker.arena import Arena
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageError, MessageSocket, SlowSocketError
from openrknn.serve.worker.process import WorkerDiedError, WorkerProcess

__all__ = ["ContextFailedError", "RemoteContext", "connected", "words_of"]

_ALIGNED_BYTES = 64


class ContextFailedError(RknnError):
    """The model could not run in its worker; the worker lives."""


class RemoteContext:
    """One context. Opening it opens a session in the worker; `run` copies inputs into shared memory.

    Outputs are views of that memory: they are what they are until the next run.
    """

    lends_outputs = True

    def __init__(self, worker: WorkerProcess, card: ModelInfo, *, load_seconds: float, run_seconds: float) -> None:
        self._worker, self._run_seconds = worker, run_seconds
        self.times = RunTimes()
        self._shapes: dict[str, list[int]] | None = None
        signature = card.signature
        room = _ALIGNED_BYTES * (len(signature.inputs) + len(signature.outputs))
        try:
            self._arena = Arena.create(signature.largest_bytes() + room, signature.answer_bytes() + room)
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            raise ContextFailedError(f"no shared memory for the model's tensors: {error}") from None
        self._wire, answer = connected(worker, self._arena, load_seconds)
        if "device" not in answer:
            self.close()
            raise ContextFailedError(words_of(answer))
        self.device_name = str(answer["device"])[:200]

    @property
    def is_alive(self) -> bool:
        """False: its worker is gone, and a new context has to take its place."""
        return self._worker.is_alive

    def set_shapes(self, wanted: Mapping[str, tuple[int, ...]]) -> None:
        """For the next run."""
        self._shapes = {name: list(shape) for name, shape in wanted.items()}

    def run(self, inputs: Mapping[str, Tensor], *, layout: Mapping[str, str], outputs: str) -> dict[str, Array]:
        """As `Session.run`."""
        started = time.perf_counter()
        words = {
            "inputs": self._arena.put_inputs(inputs),
            "shapes": self._shapes,
            "layout": dict(layout),
            "outputs": outputs,
        }
        try:
            self._wire.send(words)
            answer = self._wire.receive(self._run_seconds)
            if "bad" in answer:
                raise ValueError(str(answer["bad"]))
            if "tensors" not in answer:
                raise ContextFailedError(words_of(answer))
            found = self._arena.views(answer["tensors"])
            run, read = _seconds(answer)
        except ClosedSocketError:
            raise self._worker.died() from None
        except SlowSocketError:
            self._worker.kill(f"one run took more than {self._run_seconds:g} s")
            raise self._worker.died() from None
        except MessageError as error:
            self._worker.kill(str(error))
            raise WorkerDiedError(f"the model's process was stopped: {error}") from None
        # The way there and back counts as feeding.
        self.times = RunTimes(max(0.0, time.perf_counter() - started - run - read), run, read)
        return found

    def close(self) -> None:
        """The worker closes its session when it notices."""
        self._wire.close()
        self._arena.close()


def connected(worker: WorkerProcess, arena: Arena, seconds: float) -> tuple[MessageSocket, dict[str, Any]]:
    """A wire to something new in a worker, which shares this memory, and what the worker says to that.

    If that fails, the memory is released.
    """
    ours, theirs = socket.socketpair()
    wire = MessageSocket(ours)
    sizes = {"input_bytes": arena.input_bytes, "output_bytes": arena.output_bytes}
    try:
        with theirs:
            descriptors = [theirs.fileno(), arena.descriptor]
            return wire, worker.ask({"do": "open", **sizes}, seconds=seconds, descriptors=descriptors)
    except BaseException:
        wire.close()
        arena.close()
        raise


def words_of(answer: Mapping[str, Any]) -> str:
    """The reason that a worker gives."""
    return str(answer.get("error", "the worker gave no reason"))[:2000]


def _seconds(answer: Mapping[str, Any]) -> tuple[float, float]:
    times = answer.get("times")
    if not isinstance(times, list) or len(times) != 2 or not all(isinstance(one, float) for one in times):
        raise MessageError("the times of a run are missing")
    return max(0.0, min(times[0], 1e6)), max(0.0, min(times[1], 1e6))
