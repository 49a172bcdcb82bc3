"""`Speaking`: text of one connection, whole or in pieces, to sound."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.voice.operations import speak
from openrknn.serve.voice.voice import Voice
from openrknn.serve.wyoming.codec import Event, Send

__all__ = ["Speaking"]

_CHUNK_SAMPLES = 2048
_MOST_TEXT = 256 * 1024
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")


class Speaking:
    """`synthesize`, or `synthesize-start`, chunks and `synthesize-stop`. The end of either is always answered."""

    def __init__(self, plane: Plane, send: Send) -> None:
        self._plane, self._send = plane, send
        self.acts: Mapping[str, Callable[[Event], Awaitable[None]]] = {
            "synthesize": self._synthesize, "synthesize-start": self._start,
            "synthesize-chunk": self._chunk, "synthesize-stop": self._stop,
        }  # fmt: skip
        self._voice: dict[str, Any] | None = None
        """Of text that comes in pieces."""
        self._is_lost = False
        """It failed: what is left of the text is not said."""
        self._text = self._seen = ""
        """What is not said yet; all that came."""
        self._is_speaking = False
        self._spoken = 0.0

    @property
    def is_busy(self) -> bool:
        """Text is coming in pieces."""
        return self._voice is not None

    async def failed(self, event: Event, _: ServeError) -> None:
        """The client knows why. One that reads no errors waits for the end of the sound, or for the last word."""
        if self._is_speaking or event.type == "synthesize":
            self._is_speaking = False
            await self._send(Event("audio-stop"))
        if event.type == "synthesize-stop":
            self._forget()
            await self._send(Event("synthesize-stopped"))
        elif event.type != "synthesize":
            self._is_lost, self._voice = True, self._voice or {}

    def _forget(self) -> None:
        self._voice, self._text, self._seen, self._is_lost = None, "", "", False

    async def _synthesize(self, event: Event) -> None:
        text = event.data.get("text")
        if self._voice is not None:
            if not self._is_lost or (isinstance(text, str) and text.startswith(self._seen)):
                return  # the same text again, for servers that know no pieces
            self._forget()  # nobody ended the pieces that failed
        if not isinstance(text, str):
            raise BadRequestError("'text' is what to say")
        _check_format(event, text)
        voice, speaker = self._who(event.data.get("voice"))
        await self._say(voice, speaker, text)
        await self._end_speech(voice)

    async def _start(self, event: Event) -> None:
        self._forget()
        words = event.data.get("voice")
        self._voice = words if isinstance(words, dict) else {}
        _check_format(event, None)
        self._who(words)

    async def _chunk(self, event: Event) -> None:
        """A sentence is said as soon as the next one begins."""
        text = event.data.get("text")
        if self._voice is None:
            return  # nobody began
        if not isinstance(text, str):
            raise BadRequestError("'text' of a chunk is what to say")
        if len(self._seen) + len(text) > _MOST_TEXT:
            if self._is_lost:
                return
            raise BadRequestError(f"more than {_MOST_TEXT} characters are too much to say")
        self._seen += text
        if self._is_lost:
            return
        *whole, self._text = _SENTENCE.split(self._text + text)
        for sentence in whole:
            await self._say(*self._who(self._voice), sentence)

    async def _stop(self, _: Event) -> None:
        if self._voice is not None and not self._is_lost:
            voice, speaker = self._who(self._voice)
            await self._say(voice, speaker, self._text)
            await self._end_speech(voice)
        self._forget()
        await self._send(Event("synthesize-stopped"))

    def _who(self, words: object) -> tuple[Voice, str | None]:
        wanted = words if isinstance(words, dict) else {}
        name, language, speaker = (wanted.get(key) for key in ("name", "language", "speaker"))
        voices = self._plane.voices
        if not isinstance(name, str) and isinstance(language, str):
            fitting = [one for one in voices.all("speaker") if one.understands(language)]
            if fitting:
                return fitting[0], None
        voice = voices.find(name if isinstance(name, str) else "", "speaker")
        if speaker is not None and speaker not in voice.speakers:
            raise BadRequestError(f"{voice.name!r} has no speaker {str(speaker)[:80]!r}")
        return voice, speaker

    async def _say(self, voice: Voice, speaker: str | None, text: str) -> None:
        if not text.strip():
            return
        form = {"rate": voice.rate, "width": 2, "channels": 1}
        async with aclosing(speak(voice, text, self._plane.settings.limits, speaker=speaker)) as pieces:
            async for sound in pieces:
                await self._begin_speech(voice)
                for at in range(0, len(sound), _CHUNK_SAMPLES):
                    piece = sound[at : at + _CHUNK_SAMPLES].astype("<i2").tobytes()
                    words = {**form, "timestamp": round(1000 * self._spoken)}
                    await self._send(Event("audio-chunk", words, piece))
                    self._spoken += len(piece) / 2 / voice.rate

    async def _begin_speech(self, voice: Voice) -> None:
        if not self._is_speaking:
            self._is_speaking, self._spoken = True, 0.0
            await self._send(Event("audio-start", {"rate": voice.rate, "width": 2, "channels": 1, "timestamp": 0}))

    async def _end_speech(self, voice: Voice) -> None:
        await self._begin_speech(voice)  # silence has a beginning, too
        self._is_speaking = False
        await self._send(Event("audio-stop"))


def _check_format(event: Event, text: str | None) -> None:
    """`text` None: it comes in pieces."""
    form = event.data.get("text_format")
    if form in (None, "text"):
        return
    if form != "ssml":
        raise BadRequestError(f"text_format {str(form)[:40]!r} is not known here; there are 'text' and 'ssml'")
    if text is None:
        raise BadRequestError("SSML has to come whole: send it with `synthesize`")
    if not text.lstrip().startswith("<speak"):
        raise BadRequestError("SSML begins with <speak>")
