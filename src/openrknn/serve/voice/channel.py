"""`Channel`: one conversation with a voice, in its process or in this one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError, ModelFailedError
from openrknn.serve.voice.channel_handler import ChannelHandler, Engine
from openrknn.serve.worker.arena import Arena
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageError, SlowSocketError
from openrknn.serve.worker.process import WorkerProcess
from openrknn.serve.worker.remote import connected, words_of

__all__ = ["PIECE_BYTES", "Channel", "LocalChannel", "RemoteChannel"]

PIECE_BYTES = 1 << 20
"""Of a recording, put at a time."""
_SOUND_BYTES = 4 << 20
"""Each way: five seconds of speech at the highest rate are less."""


class Channel(Protocol):
    """Questions, one after the other."""

    @property
    def is_alive(self) -> bool:
        """False: it cannot answer any more."""

    def ask(self, words: Mapping[str, Any], array: Array | None, seconds: float) -> tuple[dict[str, Any], Array | None]:
        """The answer and its sound; BadRequestError or ModelFailedError."""

    def close(self) -> None:
        """Give everything back."""


class RemoteChannel:
    """To a handler in a voice's process. One that takes longer than allowed is ended, with all of its channels."""

    def __init__(self, worker: WorkerProcess, load_seconds: float) -> None:
        self._worker = worker
        self._arena = Arena.create(_SOUND_BYTES, _SOUND_BYTES)
        self._wire, answer = connected(worker, self._arena, load_seconds)
        if "opened" not in answer:
            self.close()
            raise ModelFailedError(words_of(answer))

    @property
    def is_alive(self) -> bool:
        return self._worker.is_alive

    def ask(self, words: Mapping[str, Any], array: Array | None, seconds: float) -> tuple[dict[str, Any], Array | None]:
        """Through shared memory."""
        try:
            rows = self._arena.put_inputs({"sound": array} if array is not None else {})
            self._wire.send({**words, "inputs": rows})
            answer = self._wire.receive(seconds)
            sound = self._arena.views(answer.get("tensors", [])).get("sound")
        except ClosedSocketError:
            raise ModelFailedError(f"the voice could not answer: {self._worker.died()}") from None
        except SlowSocketError:
            self._worker.kill(f"no answer within {seconds:g} s")
            raise ModelFailedError(f"the voice could not answer: {self._worker.died()}") from None
        except MessageError as error:
            self._worker.kill(str(error))
            raise ModelFailedError(f"the voice's process was stopped: {error}") from None
        return _checked(answer), sound.copy() if sound is not None else None

    def close(self) -> None:
        """The handler ends when it notices."""
        self._wire.close()
        self._arena.close()


class LocalChannel:
    """To a handler of this process."""

    is_alive = True

    def __init__(self, engine: Engine) -> None:
        self._handler = ChannelHandler(engine)

    def ask(self, words: Mapping[str, Any], array: Array | None, seconds: float) -> tuple[dict[str, Any], Array | None]:
        """It cannot be ended here: the time limit is the client's."""
        answer, sound = self._handler.answer(words, array)
        return _checked(answer), sound

    def close(self) -> None:
        """Forget everything."""
        self._handler.close()


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "bad" in answer:
        raise BadRequestError(str(answer["bad"])[:2000])
    if "error" in answer:
        raise ModelFailedError(f"the voice could not answer: {words_of(answer)}")
    return answer
