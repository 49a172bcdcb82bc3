"""`Connection`: one client. Events are handled in order; a client that sends faster than a voice hears waits."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import asdict
from typing import Any

from openrknn.serve.errors import BadRequestError, NotFoundError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.voice.operations import Ears, speak
from openrknn.serve.voice.voice import Voice
from openrknn.serve.wyoming.codec import Event
from openrknn.serve.wyoming.info import info
from openrknn.serve.wyoming.sound import Form

__all__ = ["Connection", "Send"]

Send = Callable[[Event], Awaitable[None]]
_CHUNK_SAMPLES = 2048
_QUIET_SECONDS = 2.0
"""After a wake word was heard: the same word again is the same."""
_MOST_TEXT = 256 * 1024
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")


class Connection:
    """What a client wants, and the ears that are open for it."""

    def __init__(self, plane: Plane, send: Send) -> None:
        self._plane, self._limits, self._send = plane, plane.settings.limits, send
        self._stack = AsyncExitStack()
        self._ears: list[Ears] = []
        self._form: Form | None = None
        self._wish: tuple[str, list[str]] = ("transcriber", [])
        self._said: list[str] = []
        self._is_told = False
        self._heard: dict[str, float] = {}
        self._voice: dict[str, Any] | None = None
        """Of speech that comes in pieces."""
        self._text = ""
        self._text_size = 0
        self._is_speaking = False
        self._spoken = 0.0
        self._acts = {
            "describe": self._describe, "ping": self._ping, "transcribe": self._transcribe, "detect": self._detect,
            "audio-start": self._audio_start, "audio-chunk": self._audio_chunk, "audio-stop": self._audio_stop,
            "synthesize": self._synthesize, "synthesize-start": self._synthesize_start,
            "synthesize-chunk": self._synthesize_chunk, "synthesize-stop": self._synthesize_stop,
        }  # fmt: skip

    @property
    def is_busy(self) -> bool:
        """Somebody is in the middle of something."""
        return bool(self._ears) or self._voice is not None

    async def on(self, event: Event) -> None:
        """Deal with an event; those that are not known are left alone, as newer clients expect."""
        act = self._acts.get(event.type)
        if act is not None:
            await act(event)

    async def close(self, error: BaseException | None = None) -> None:
        """Give up what is under way."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._ears, self._form, self._voice, self._is_speaking = [], None, None, False
        await stack.__aexit__(type(error) if error is not None else None, error, None)

    async def _describe(self, _: Event) -> None:
        await self._send(Event("info", info(self._plane.voices)))

    async def _ping(self, event: Event) -> None:
        await self._send(Event("pong", {"text": event.data.get("text")}))

    # -- listening -----------------------------------------------------------------------------------------------

    async def _transcribe(self, event: Event) -> None:
        name, language = event.data.get("name"), event.data.get("language")
        voice = self._plane.voices.find(name if isinstance(name, str) else "", "transcriber")
        if isinstance(language, str) and language[:2].lower() != voice.language[:2].lower():
            fitting = [one for one in self._plane.voices.all("transcriber") if one.language[:2] == language[:2].lower()]
            if name or not fitting:
                raise BadRequestError(f"{voice.name!r} understands {voice.language!r}, not {language[:20]!r}")
            voice = fitting[0]
        self._wish = ("transcriber", [voice.name])

    async def _detect(self, event: Event) -> None:
        names = event.data.get("names") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadRequestError("'names' is a list of wake words")
        there = [one.name for one in self._plane.voices.all("wake")]
        chosen = [name for name in there if name in names] if names else there
        if not chosen:
            self._plane.voices.find(names[0] if names else "", "wake")
            raise NotFoundError("none of these wake words is here")
        self._wish = ("wake", chosen)

    async def _audio_start(self, event: Event) -> None:
        await self.close()
        kind, names = self._wish
        self._form = Form.of(event.data)
        self._said, self._is_told, self._heard = [], False, {}
        for name in names or [""]:
            voice = self._plane.voices.find(name, kind)
            ears = Ears(voice, self._limits, self._form.rate, partial=False)
            self._ears.append(await self._stack.enter_async_context(ears))

    async def _audio_chunk(self, event: Event) -> None:
        if not self._ears or self._form is None:
            return  # what follows a mistake that was told already
        # A client may change its mind in the middle only if the voice need not notice.
        form = Form.of({**asdict(self._form), **event.data})
        if form.rate != self._form.rate:
            raise BadRequestError("the rate changed in the middle of the sound")
        samples = form.samples(event.payload)
        for ears in self._ears:
            if ears.voice.kind == "wake":
                for found in await ears.hear(samples):
                    await self._detected(ears.voice.name, found.time)
            else:
                await self._tell([one.text for one in await ears.feed(samples) if one.final])

    async def _audio_stop(self, _: Event) -> None:
        if not self._ears:
            return
        ears = self._ears[0]
        if ears.voice.kind == "wake":
            if not self._heard:
                await self._send(Event("not-detected"))
        else:
            await self._tell([one.text for one in await ears.finish() if one.final])
            words = {"text": " ".join(self._said), "language": ears.voice.language}
            await self._send(Event("transcript", words))
            if self._is_told:
                await self._send(Event("transcript-stop"))
        await self.close()

    async def _tell(self, texts: list[str]) -> None:
        """What is final goes out at once, for clients that understand it; the others wait for the transcript."""
        for text in filter(None, map(str.strip, texts)):
            if not self._is_told:
                self._is_told = True
                await self._send(Event("transcript-start", {"language": self._ears[0].voice.language}))
            await self._send(Event("transcript-chunk", {"text": f" {text}" if self._said else text}))
            self._said.append(text)

    async def _detected(self, name: str, time: float) -> None:
        if name in self._heard and time - self._heard[name] < _QUIET_SECONDS:
            return
        self._heard[name] = time
        await self._send(Event("detection", {"name": name, "timestamp": round(1000 * time)}))

    # -- speaking ------------------------------------------------------------------------------------------------

    async def _synthesize(self, event: Event) -> None:
        if self._voice is not None:
            return  # the same text again, for servers that know no pieces
        text = event.data.get("text")
        if not isinstance(text, str):
            raise BadRequestError("'text' is what to say")
        voice, speaker = self._who(event.data.get("voice"))
        await self._say(voice, speaker, text)
        await self._end_speech(voice)

    async def _synthesize_start(self, event: Event) -> None:
        words = event.data.get("voice")
        self._who(words)
        self._voice, self._text, self._text_size = words if isinstance(words, dict) else {}, "", 0

    async def _synthesize_chunk(self, event: Event) -> None:
        """A sentence is said as soon as the next one begins."""
        text = event.data.get("text")
        if self._voice is None or not isinstance(text, str):
            return
        self._text_size += len(text)
        if self._text_size > _MOST_TEXT:
            raise BadRequestError(f"more than {_MOST_TEXT} characters are too much to say")
        *whole, self._text = _SENTENCE.split(self._text + text)
        for sentence in whole:
            await self._say(*self._who(self._voice), sentence)

    async def _synthesize_stop(self, _: Event) -> None:
        if self._voice is None:
            return
        voice, speaker = self._who(self._voice)
        await self._say(voice, speaker, self._text)
        await self._end_speech(voice)
        self._voice, self._text = None, ""
        await self._send(Event("synthesize-stopped"))

    def _who(self, words: object) -> tuple[Voice, str | None]:
        wanted = words if isinstance(words, dict) else {}
        name, language, speaker = (wanted.get(key) for key in ("name", "language", "speaker"))
        voices = self._plane.voices
        if not isinstance(name, str) and isinstance(language, str):
            fitting = [one for one in voices.all("speaker") if one.language[:2] == language[:2].lower()]
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
        async with aclosing(speak(voice, text, self._limits, speaker=speaker)) as pieces:
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
