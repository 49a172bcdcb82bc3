"""`ChannelHandler`: what a voice does with the questions of one channel. Runs in the voice's process."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from openrknn.errors import RknnError
from openrknn.serve.datatypes import Array
from openrknn.serve.voice.rows import row_of
from openrknn.voice.audio import Audio, Resampler, read_audio, resample
from openrknn.voice.errors import AudioError, PhonemeError, UnknownSpeakerError
from openrknn.voice.listener import ListenOptions
from openrknn.voice.results import Segment
from openrknn.voice.segments import Rules
from openrknn.voice.speakers import EMBEDDING, SpeakerTracker

__all__ = ["ChannelHandler", "Engine", "OpenVoice", "open_voice"]

_LOG = logging.getLogger(__name__)

OpenVoice = Callable[[str, str, str], Any]
"""(where, kind, device) -> Transcriber, Speaker or Wake."""
_CLASSES = {
    "transcriber": ("openrknn.voice.transcriber", "Transcriber"),
    "speaker": ("openrknn.voice.speaker", "Speaker"),
    "wake": ("openrknn.voice.wake", "Wake"),
    "embedding": ("openrknn.voice.speakers", "SpeakerEmbedding"),
}
_STEP_SECONDS = 4.0
"""Of a recording, fed to a stream at a time."""
_PIECE_SECONDS = 5.0
"""Of speech, given at a time."""
_MOST_RATE = 384_000
_LEAST_KNOWN, _MOST_KNOWN = 1.0, 30.0
"""Seconds of a recording that shows how somebody sounds."""


def open_voice(where: str, kind: str, device: str) -> Any:
    """The real ones. They are imported here, by the process that needs them."""
    module, name = _CLASSES[kind]
    made = getattr(importlib.import_module(module), name)
    return made([where] if kind == "wake" else where, device)


class Engine:
    """A voice that is open. Transcribers and speakers serve all channels; a wake word has one listener a channel."""

    def __init__(self, where: str, kind: str, device: str, *, warm_up: bool, opener: OpenVoice = open_voice) -> None:
        self.kind = kind
        self._open: Callable[[], Any] = lambda: opener(where, kind, device)
        self.shared = self._spare = self._open()
        self._lock = threading.Lock()
        self._embedding: Any = None
        self._open_embedding: Callable[[], Any] = lambda: opener(EMBEDDING, "embedding", device)
        if warm_up:
            self._warm_up()

    def _warm_up(self) -> None:
        """Weights are packed and buffers made before the first person waits for them."""
        if self.kind == "transcriber":
            self.shared.warm_up()
        elif self.kind == "speaker":
            try:
                next(iter(self.shared.stream("a")), None)
            except PhonemeError as error:
                _LOG.warning("%s", error)  # said again to everybody who asks
        elif self.kind == "wake":
            self.shared.feed(np.zeros(1280, np.float32))
            self.shared.reset()

    def card(self) -> dict[str, Any]:
        """What the server tells others about it."""
        speakers = getattr(self.shared, "speakers", None) or {}
        return {
            "rate": int(getattr(self.shared, "rate", 16000)),
            "language": str(getattr(self.shared, "language", "") or ""),
            "languages": [str(code) for code in getattr(self.shared, "languages", ())][:1000],
            "tasks": [str(task) for task in getattr(self.shared, "tasks", ())][:1000],
            "speakers": [str(name) for name in speakers][:1000],
            "has_words": bool(getattr(self.shared, "has_words", False)),
            "has_logs": bool(getattr(self.shared, "has_logs", False)),
        }

    def embedding(self) -> Any:
        """What distinguishes speakers, opened when the first client asks for it."""
        with self._lock:
            if self._embedding is None:
                self._embedding = self._open_embedding()
            return self._embedding

    def listener(self) -> Any:
        """A wake word of one's own; the first one is there already."""
        with self._lock:
            found, self._spare = self._spare, None
        return found if found is not None else self._open()


class ChannelHandler:
    """Answers one question after the other. Words and an array come in, words and perhaps an array go out."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._parts: list[bytes] = []
        self._audio: Audio | None = None
        self._at = 0
        self._stream: Any = None
        self._resampler: Resampler | None = None
        self._has_logs = False
        self._tracker: SpeakerTracker | None = None
        self._known: list[tuple[str, Any]] = []
        self._speech: Iterator[Array] | None = None
        self._listener: Any = None
        self._acts: dict[str, Callable[[Mapping[str, Any], Array | None], tuple[dict[str, Any], Array | None]]] = {
            "put": self._put, "known": self._know, "decode": self._decode, "step": self._step,
            "open": self._open, "feed": self._feed, "finish": self._finish, "speak": self._speak, "next": self._next,
            "reset": self._reset,
        }  # fmt: skip

    def answer(self, words: Mapping[str, Any], array: Array | None) -> tuple[dict[str, Any], Array | None]:
        """`bad`: it is the question that is wrong; `error`: it is the voice."""
        started = time.perf_counter()
        try:
            found, sound = self._acts[words["do"]](words, array)
        except (AudioError, PhonemeError, UnknownSpeakerError, ValueError, TypeError) as error:
            return {"bad": str(error) or type(error).__name__}, None
        except MemoryError:
            return {"error": "the voice needs more memory than it may have; see --max-memory"}, None
        except RknnError as error:
            return {"error": str(error)}, None
        except Exception as error:  # noqa: BLE001 - whatever a voice does, the server hears why
            return {"error": f"{type(error).__name__}: {error}"}, None
        return {**found, "seconds": time.perf_counter() - started}, sound

    def close(self) -> None:
        """Forget everything."""
        self._reset({}, None)
        close = getattr(self._listener, "close", None)
        if close is not None:
            close()

    # -- recordings ----------------------------------------------------------------------------------------------

    def _put(self, _: Mapping[str, Any], array: Array | None) -> tuple[dict[str, Any], None]:
        assert array is not None
        self._parts.append(array.tobytes())
        return {}, None

    def _know(self, words: Mapping[str, Any], _: Array | None) -> tuple[dict[str, Any], None]:
        body, self._parts = b"".join(self._parts), []
        audio = read_audio(body)
        if not _LEAST_KNOWN <= audio.seconds <= _MOST_KNOWN:
            raise AudioError(
                f"the recording of {words['name']!r:.60} has {audio.seconds:.1f} s; a known speaker needs "
                f"{_LEAST_KNOWN:g} to {_MOST_KNOWN:g} s"
            )
        self._known.append((str(words["name"]), self._engine.embedding()(audio.samples, audio.rate)))
        return {}, None

    def _decode(self, words: Mapping[str, Any], _: Array | None) -> tuple[dict[str, Any], None]:
        body, self._parts = b"".join(self._parts), []
        audio = read_audio(body)
        most = float(words["most_seconds"])
        if audio.seconds > most:
            raise AudioError(f"the recording has {audio.seconds:.0f} s; this server takes {most:g} s at a time")
        rate = int(self._engine.shared.rate)
        self._audio = audio if audio.rate == rate else Audio(resample(audio.samples, audio.rate, rate), rate)
        self._at = 0
        return {"audio_seconds": audio.seconds}, None

    def _step(self, words: Mapping[str, Any], _: Array | None) -> tuple[dict[str, Any], None]:
        assert self._audio is not None
        if self._stream is None:
            self._begin(words, partial=0.0)  # only what is final is told
        size = int(_STEP_SECONDS * self._audio.rate)
        piece = self._audio.samples[self._at : self._at + size]
        self._at += len(piece)
        is_done = self._at >= len(self._audio.samples)
        if self._tracker is not None:
            self._tracker.feed(piece)
        found = list(self._stream.feed(piece))
        if is_done:
            found += self._stream.finish()
        answer = {**self._told(found), "done": is_done}
        if self._tracker is not None:
            for one in found:
                if one.final and one.text.strip():
                    self._tracker.take(one)
            if is_done:
                answer["speakers"] = self._tracker.names(self._known)
        if is_done:
            self._reset({}, None)
        return answer, None

    def _begin(self, words: Mapping[str, Any], partial: float) -> None:
        asked = dict(words.get("options") or {})
        self._has_logs = bool(asked.pop("logs", False))
        if asked.pop("speakers", False):
            self._tracker = SpeakerTracker(self._engine.embedding(), int(self._engine.shared.rate))
        rules = asked.pop("rules", None)
        if "temperatures" in asked:
            asked["temperatures"] = tuple(asked["temperatures"])
        more = {} if rules is None else {"rules": Rules(**rules)}
        options = ListenOptions(**asked) if asked else None
        self._stream = self._engine.shared.stream(partial=partial, options=options, **more)

    def _told(self, segments: list[Segment]) -> dict[str, Any]:
        token_bytes = self._engine.shared.token_bytes if self._has_logs else None
        return {
            "segments": [row_of(one, token_bytes) for one in segments],
            "language": str(getattr(self._stream, "language", "") or ""),
            "warnings": [str(one)[:500] for one in getattr(self._stream, "warnings", ())][:16],
        }

    # -- live ----------------------------------------------------------------------------------------------------

    def _open(self, words: Mapping[str, Any], _: Array | None) -> tuple[dict[str, Any], None]:
        self._reset({}, None)
        rate = words["rate"]
        if type(rate) is not int or not 4000 <= rate <= _MOST_RATE:
            raise AudioError(f"a rate of {rate!r:.20} samples a second is not taken; 8000 to 48000 is usual")
        if self._engine.kind == "wake":
            self._listener = self._listener or self._engine.listener()
            self._listener.reset()
            wanted = int(getattr(self._listener, "rate", 16000))
        else:
            self._begin(words, float(words["partial"]))
            wanted = int(self._engine.shared.rate)
        self._resampler = Resampler(rate, wanted) if rate != wanted else None
        return {}, None

    def _feed(self, _: Mapping[str, Any], array: Array | None) -> tuple[dict[str, Any], None]:
        assert array is not None
        samples: Array = array.astype(np.float32) / np.float32(32768)
        if self._resampler is not None:
            samples = self._resampler.feed(samples)
        return self._heard(samples, is_last=False), None

    def _finish(self, _: Mapping[str, Any], __: Array | None) -> tuple[dict[str, Any], None]:
        rest = self._resampler.finish() if self._resampler is not None else np.zeros(0, np.float32)
        found = self._heard(rest, is_last=True)
        self._reset({}, None)
        return found, None

    def _heard(self, samples: Array, *, is_last: bool) -> dict[str, Any]:
        if self._engine.kind == "wake":
            found = self._listener.feed(samples) if len(samples) else []
            return {"detections": [[str(one.word), float(one.time), float(one.score)] for one in found]}
        segments = list(self._stream.feed(samples)) if len(samples) else []
        if is_last:
            segments += self._stream.finish()
        return self._told(segments)

    # -- speech --------------------------------------------------------------------------------------------------

    def _speak(self, words: Mapping[str, Any], _: Array | None) -> tuple[dict[str, Any], None]:
        chosen: dict[str, Any] = {}
        if (speaker := words.get("speaker")) is not None:
            is_name = speaker in (getattr(self._engine.shared, "speakers", None) or {})
            chosen["speaker"] = speaker if is_name else int(speaker)
        if words["speed"] != 1.0:
            usual = getattr(self._engine.shared, "length_scale", 1.0)
            chosen["length_scale"] = usual / words["speed"]
        self._speech = _pieces(self._engine.shared.stream(words["text"], **chosen))
        return {"rate": int(self._engine.shared.rate)}, None

    def _next(self, _: Mapping[str, Any], __: Array | None) -> tuple[dict[str, Any], Array | None]:
        assert self._speech is not None
        piece = next(self._speech, None)
        if piece is None:
            self._speech = None
        return {"done": piece is None}, piece

    def _reset(self, _: Mapping[str, Any], __: Array | None) -> tuple[dict[str, Any], None]:
        close = getattr(self._stream, "close", None)
        if close is not None:
            close()
        self._parts, self._audio, self._at = [], None, 0
        self._tracker, self._known = None, []
        self._stream = self._resampler = self._speech = None
        return {}, None


def _pieces(sentences: Iterator[Audio]) -> Iterator[Array]:
    for sentence in sentences:
        size = int(_PIECE_SECONDS * sentence.rate)
        for at in range(0, len(sentence.samples), size):
            samples = np.clip(sentence.samples[at : at + size], -1.0, 1.0)
            yield np.round(samples * 32767).astype(np.int16)
