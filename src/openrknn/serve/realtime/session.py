"""`RealtimeSession`: one client. Sound comes in, text goes out while it is spoken."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.serve.errors import BadRequestError, ConflictError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.realtime.config import SessionConfig, updated
from openrknn.serve.realtime.formats import samples_of
from openrknn.serve.rest.openai import error_words
from openrknn.serve.rest.transcripts import languages_of, logprobs, usage
from openrknn.serve.voice.operations import Ears
from openrknn.voice.results import Segment

__all__ = ["RealtimeSession"]

Send = Callable[[dict[str, Any]], Awaitable[None]]
_ITEM = "conversation.item.input_audio_transcription"
_LEAST_SECONDS = 0.1
"""Of sound that can be committed."""
_SESSION_SECONDS = 3600


@dataclass(slots=True)
class _Turn:
    """Somebody speaks: an item of the conversation that is not complete."""

    item: str
    told: str = ""
    """Text that went out already; it cannot be taken back."""
    last: str = ""
    """The last partial text."""


class RealtimeSession:
    """Events are handled in order; each error is sent to the client, and the session continues."""

    def __init__(self, plane: Plane, config: SessionConfig, send: Send, *, is_old: bool) -> None:
        self._plane, self._config, self._is_old = plane, config, is_old
        self._raw_send = send
        self._id, self._until = f"sess_{secrets.token_hex(12)}", int(time.time()) + _SESSION_SECONDS
        self._ears: Ears | None = None
        self._turns: dict[int, _Turn] = {}
        self._finals: list[Segment] = []
        """Of sound that the client will commit."""
        self._before = 0.0
        """Seconds of sound before the stream that is open."""
        self._last_item: str | None = None
        self._acts: Mapping[str, Callable[[dict[str, Any]], Awaitable[None]]] = {
            "session.update": self._update, "transcription_session.update": self._update,
            "input_audio_buffer.append": self._append, "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
        }  # fmt: skip

    @property
    def has_stream(self) -> bool:
        """Whether one of the voice's streams is held."""
        return self._ears is not None

    async def begin(self) -> None:
        """The first event."""
        await self._send({"type": self._named("created"), "session": self._session()})

    async def on(self, words: object) -> None:
        """An event of the client."""
        event = words if isinstance(words, dict) else {}
        try:
            act = self._acts.get(str(event.get("type")))
            if "type" not in event:
                raise BadRequestError("an event is a JSON object with a 'type', sent as text").about(
                    "type", "invalid_event"
                )
            if act is None:
                raise BadRequestError(
                    f"events of type {str(event.get('type'))[:80]!r} are not known in a session that transcribes; "
                    f"there are {', '.join(self._acts)}"
                ).about("type", "invalid_event")
            await act(event)
        except ServeError as error:
            await self._failed(error, event.get("event_id"))

    async def rest(self) -> None:
        """After a pause in the input: send the text, and release the stream for other clients."""
        if self._ears is None:
            return
        try:
            await self._finish(is_asked=not self._config.has_turns)
        except ServeError as error:
            await self._failed(error, None)

    async def close(self) -> None:
        """The client is gone."""
        with contextlib.suppress(ServeError):
            await self._let_go()

    # -- events --------------------------------------------------------------------------------------------------

    async def _update(self, event: dict[str, Any]) -> None:
        if event.get("session") is None:
            raise BadRequestError("'session' is an object with the settings that change").about("session")
        config = updated(self._config, event["session"], self._plane.voices)
        if self._ears is not None and config != self._config:
            raise ConflictError("settings cannot change in the middle of sound: commit it, or clear it, first")
        self._config = config
        await self._send({"type": self._named("updated"), "session": self._session()})

    async def _append(self, event: dict[str, Any]) -> None:
        samples = samples_of(event.get("audio"), self._config.kind)
        if self._ears is None:
            config = self._config
            ears = Ears(
                config.voice, self._plane.settings.limits, config.rate, partial=config.has_turns, asked=config.asked(),
                is_endless=config.has_turns,
            )  # fmt: skip
            self._ears = await ears.__aenter__()
        await self._told(await self._ears.feed(samples))

    async def _commit(self, _: dict[str, Any]) -> None:
        if self._ears is None or self._ears.seconds < _LEAST_SECONDS:
            raise BadRequestError(
                f"there is less than {1000 * _LEAST_SECONDS:.0f} ms of sound to commit"
            ).about("input_audio_buffer", "input_audio_buffer_commit_empty")
        await self._finish(is_asked=True)

    async def _clear(self, _: dict[str, Any]) -> None:
        await self._let_go()
        await self._send({"type": "input_audio_buffer.cleared"})

    # -- text ----------------------------------------------------------------------------------------------------

    async def _told(self, segments: list[Segment]) -> None:
        if not self._config.has_turns:
            self._finals += [one for one in segments if one.final]
            return
        for one in segments:
            turn = self._turns.get(one.index)
            if turn is None:
                if not one.text.strip():
                    continue  # a click, of which nobody heard
                turn = self._turns[one.index] = _Turn(_new_item())
                start = {"audio_start_ms": self._milliseconds(one.start), "item_id": turn.item}
                await self._send({"type": "input_audio_buffer.speech_started", **start})
            if one.final:
                del self._turns[one.index]
                end = {"audio_end_ms": self._milliseconds(one.end), "item_id": turn.item}
                await self._send({"type": "input_audio_buffer.speech_stopped", **end})
                await self._committed(turn.item)
                await self._complete(turn, [one])
            else:
                await self._grow(turn, one.text.strip())

    async def _grow(self, turn: _Turn, text: str) -> None:
        """Send what two partial texts agree on: it rarely changes later."""
        agreed = _common(turn.last, text)
        turn.last = text
        if agreed.startswith(turn.told) and len(agreed) > len(turn.told):
            await self._delta(turn, agreed)

    async def _delta(self, turn: _Turn, text: str) -> None:
        delta = text[len(turn.told) :]
        turn.told = text
        await self._send({"type": f"{_ITEM}.delta", "item_id": turn.item, "content_index": 0, "delta": delta})

    async def _committed(self, item: str) -> None:
        before, self._last_item = self._last_item, item
        follows = {"previous_item_id": before}
        await self._send({"type": "input_audio_buffer.committed", "item_id": item, **follows})
        words = {
            "id": item, "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_audio", "transcript": None}],
        }  # fmt: skip
        for kind in ("created",) if self._is_old else ("added", "done"):
            await self._send({"type": f"conversation.item.{kind}", "item": words, **follows})

    async def _complete(self, turn: _Turn, segments: list[Segment]) -> None:
        text = " ".join(one.text.strip() for one in segments if one.text.strip())
        if text.startswith(turn.told) and len(text) > len(turn.told):
            await self._delta(turn, text)
        seconds = sum(one.end - one.start for one in segments)
        words: dict[str, Any] = {
            "type": f"{_ITEM}.completed", "item_id": turn.item, "content_index": 0, "transcript": text,
            "usage": usage(seconds),
        }  # fmt: skip
        if languages := languages_of(segments):
            words["languages"] = languages
        if self._config.has_logs and self._ears is not None:
            words["logprobs"] = logprobs(log for one in segments for log in self._ears.logs.pop(one.index, ()))
        await self._send(words)

    async def _finish(self, *, is_asked: bool) -> None:
        """Send the rest of the text; the next audio begins a new stream."""
        assert self._ears is not None
        before = self._last_item
        await self._told(await self._ears.finish())
        if is_asked and self._last_item == before:  # in turns there is an item already, if anybody spoke
            turn = _Turn(_new_item())
            await self._committed(turn.item)
            await self._complete(turn, self._finals)
        await self._let_go()

    async def _let_go(self, error: ServeError | None = None) -> None:
        ears, self._ears = self._ears, None
        self._turns, self._finals = {}, []
        if ears is not None:
            self._before += ears.seconds
            await ears.__aexit__(type(error) if error else None, error, None)

    # -- words ---------------------------------------------------------------------------------------------------

    async def _failed(self, error: ServeError, event_id: object) -> None:
        words = error_words(error.status, str(error), error.param, error.reason)["error"]
        if error.status >= 500:
            for turn in self._turns.values():
                await self._send({"type": f"{_ITEM}.failed", "item_id": turn.item, "content_index": 0, "error": words})
            with contextlib.suppress(ServeError):
                await self._let_go(error)
        identity = event_id if isinstance(event_id, str) else None
        await self._send({"type": "error", "error": {**words, "event_id": identity}})

    async def _send(self, words: dict[str, Any]) -> None:
        await self._raw_send({"event_id": f"event_{secrets.token_hex(10)}", **words})

    def _named(self, what: str) -> str:
        return f"transcription_session.{what}" if self._is_old else f"session.{what}"

    def _session(self) -> dict[str, Any]:
        head = {"id": self._id, "object": "realtime.transcription_session", "expires_at": self._until}
        return {**head, **self._config.words(is_old=self._is_old)}

    def _milliseconds(self, seconds: float) -> int:
        return round(1000 * (self._before + seconds))


def _new_item() -> str:
    return f"item_{secrets.token_hex(10)}"


def _common(one: str, other: str) -> str:
    """The whole words with which both begin."""
    same: list[str] = []
    for first, second in zip(one.split(" "), other.split(" "), strict=False):
        if first != second:
            break
        same.append(first)
    return " ".join(same)
