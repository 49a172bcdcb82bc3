"""`Listening`: sound of one connection, to text or for a wake word."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict

from openrknn.serve.errors import BadRequestError, NotFoundError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.voice.names import code_of_language
from openrknn.serve.voice.operations import USUAL, Asked, Ears
from openrknn.serve.wyoming.codec import Event, Send
from openrknn.serve.wyoming.sound import Form
from openrknn.voice.listener import AUTO, ListenOptions

__all__ = ["Listening"]

_MOST_TERMS = 10_000
_QUIET_SECONDS = 2.0
"""After a wake word was heard: the same word again is the same."""


class Listening:
    """`transcribe` or `detect`, then sound. Its end is always answered."""

    def __init__(self, plane: Plane, send: Send) -> None:
        self._plane, self._send = plane, send
        self.acts: Mapping[str, Callable[[Event], Awaitable[None]]] = {
            "transcribe": self._transcribe, "detect": self._detect,
            "audio-start": self._audio_start, "audio-chunk": self._audio_chunk, "audio-stop": self._audio_stop,
        }  # fmt: skip
        self._stack = AsyncExitStack()
        self._ears: list[Ears] = []
        self._form: Form | None = None
        self._kind = "transcriber"
        self._names: list[str] = []
        self._asked = USUAL
        self._is_due = False
        """Something was asked for: sound is expected."""
        self._is_refused = self._is_lost = False
        """What was asked for cannot be done; it failed in the middle. Either way the sound that comes is not heard."""
        self._said: list[str] = []
        self._is_told = False
        self._heard: dict[str, float] = {}

    @property
    def is_busy(self) -> bool:
        """Voices are listening."""
        return bool(self._ears)

    async def close(self, error: BaseException | None = None) -> None:
        """Give the voices back."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._ears, self._form = [], None
        await stack.__aexit__(type(error) if error is not None else None, error, None)

    async def failed(self, event: Event, error: ServeError) -> None:
        """The client knows why. Clients that read no errors wait for the end of the answer, which comes with the end of
        the sound; it has no text: half of a command is worse than none."""
        with contextlib.suppress(ServeError):
            await self.close(error)
        if event.type == "audio-stop":
            await self._end("")
        elif event.type in {"transcribe", "detect"}:
            self._is_refused = True
        else:
            self._is_lost = True

    async def _transcribe(self, event: Event) -> None:
        self._kind, self._names, self._is_due, self._is_refused = "transcriber", [], True, False
        name, language = event.data.get("name"), event.data.get("language")
        voice = self._plane.voices.find(name if isinstance(name, str) else "", "transcriber")
        if isinstance(language, str) and language and not voice.understands(language):
            fitting = [one for one in self._plane.voices.all("transcriber") if one.understands(language)]
            if name or not fitting:
                raise BadRequestError(f"{voice.name!r} understands {voice.language_names()}, not {language[:20]!r}")
            voice = fitting[0]
        self._names = [voice.name]
        terms = [*_texts(event, "transcript_names"), *_texts(event, "transcript_terms")]
        code = code_of_language(language) if isinstance(language, str) else ""
        options = ListenOptions(
            language=(code or AUTO) if len(voice.languages) > 1 else "", hotwords=", ".join(terms)[:_MOST_TERMS]
        )
        self._asked = Asked(options)

    async def _detect(self, event: Event) -> None:
        self._kind, self._names, self._is_due, self._is_refused = "wake", [], True, False
        self._asked = USUAL
        names = event.data.get("names") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadRequestError("'names' is a list of wake words")
        there = [one.name for one in self._plane.voices.all("wake")]
        self._names = [name for name in there if name in names] if names else there
        if not self._names:
            self._plane.voices.find(names[0] if names else "", "wake")
            raise NotFoundError("none of these wake words is here")

    async def _audio_start(self, event: Event) -> None:
        await self.close()
        self._is_due, self._is_lost = True, False
        self._said, self._is_told, self._heard = [], False, {}
        if self._is_refused:
            return
        self._form = Form.of(event.data)
        for name in self._names or [""]:
            voice = self._plane.voices.find(name, self._kind)
            ears = Ears(voice, self._plane.settings.limits, self._form.rate, partial=False, asked=self._asked)
            self._ears.append(await self._stack.enter_async_context(ears))

    async def _audio_chunk(self, event: Event) -> None:
        if self._is_refused or self._is_lost or not self._is_due:
            return  # what follows a mistake that was told already
        if self._form is None:  # some clients say only with the sound what it is
            await self._audio_start(event)
        assert self._form is not None
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
        if self._ears and self._kind != "wake":
            await self._tell([one.text for one in await self._ears[0].finish() if one.final])
        await self._end("" if self._is_lost else " ".join(self._said))
        await self.close()

    async def _end(self, text: str) -> None:
        """The last event of an answer."""
        is_told, is_heard = self._is_told, bool(self._heard)
        self._is_due = self._is_refused = self._is_lost = self._is_told = False
        self._said, self._heard = [], {}
        if self._kind == "wake":
            if not is_heard:
                await self._send(Event("not-detected"))
            return
        await self._send(Event("transcript", {"text": text, "language": self._language()}))
        if is_told:
            await self._send(Event("transcript-stop"))

    def _language(self) -> str | None:
        return (self._ears[0].language or self._ears[0].voice.language) if self._ears else None

    async def _tell(self, texts: list[str]) -> None:
        """What is final goes out at once, for clients that understand it; the others wait for the transcript."""
        for text in filter(None, map(str.strip, texts)):
            if not self._is_told:
                self._is_told = True
                await self._send(Event("transcript-start", {"language": self._language()}))
            await self._send(Event("transcript-chunk", {"text": f" {text}" if self._said else text}))
            self._said.append(text)

    async def _detected(self, name: str, time: float) -> None:
        if name in self._heard and time - self._heard[name] < _QUIET_SECONDS:
            return
        self._heard[name] = time
        await self._send(Event("detection", {"name": name, "timestamp": round(1000 * time)}))


def _texts(event: Event, name: str) -> list[str]:
    """Words to expect, such as the names of rooms and devices."""
    some = event.data.get(name) or []
    if not isinstance(some, list) or not all(isinstance(one, str) for one in some):
        raise BadRequestError(f"{name!r} is a list of words")
    return some
