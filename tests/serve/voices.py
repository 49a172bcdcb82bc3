"""Voices that need no models: what they hear and say can be counted.

The transcriber hears loudness: a second at 0.3 is the word "three". The speaker hums: 0.1 s a letter, louder for the
second speaker. The wake word is heard wherever it is louder than 0.8.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import threading
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio import Audio
from openrknn.voice.errors import UnknownSpeakerError
from openrknn.voice.listener import ListenOptions
from openrknn.voice.results import Detection, Segment, Word
from openrknn.voice.segments import Rules

WORDS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
CRASH, HANG = "crash", "hang"
Samples = npt.NDArray[Any]


def say(*digits: int, rate: int = 16000) -> Samples:
    """A recording in which the transcriber hears these words: tones of 200 Hz."""
    tone = np.where(np.arange(rate) * 400 // rate % 2, -1.0, 1.0)
    return np.concatenate([tone * digit / 10 for digit in digits]).astype(np.float32)


def pcm(samples: Samples) -> bytes:
    return np.round(samples * 32767).astype("<i2").tobytes()


def wav(*digits: int, rate: int = 16000) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm(say(*digits, rate=rate)))
    return stream.getvalue()


class _Stream:
    warnings = ()

    def __init__(self, partial: float, options: ListenOptions, rules: Rules) -> None:
        self._options, self._rules = options, rules
        self.language = "de" if options.language == "auto" else options.language
        self._samples = np.zeros(0, np.float32)
        self._index, self._partial, self._told = 0, partial, 0.0

    def feed(self, samples: Samples) -> list[Segment]:
        if len(samples) and samples[0] < -0.99:
            ctypes.string_at(0)  # as a decoder of somebody else's would
        self._samples = np.concatenate([self._samples, samples])
        found = []
        while len(self._samples) >= 16000:
            found.append(self._segment(self._samples[:16000], is_final=True))
            self._samples = self._samples[16000:]
            self._index += 1
        if 0 < self._partial <= len(self._samples) / 16000:
            found.append(self._segment(self._samples, is_final=False))
        return [one for one in found if one.text]

    def _segment(self, samples: Samples, *, is_final: bool) -> Segment:
        loud = float(np.median(np.abs(samples)))
        if loud < self._rules.threshold * 0.18:
            loud = 0.0  # too quiet to be speech
        number = min(10, round(10 * loud))
        text = WORDS[number]
        if text and self.language in {"de", "fr"}:
            text = "eins" if self._options.task == "transcribe" else f"{text} in English"
        if "drei" in self._options.prompt + self._options.hotwords:
            text = text.replace("three", "drei")  # the spelling that was asked for
        start, end = float(self._index), self._index + len(samples) / 16000
        words = (Word(start + 0.25, end, f" {text}", 0.5),) if self._options.words else ()
        return Segment(
            self._index, start, end, text, is_final, 0.5, (number,), words, self.language, math.log(0.5), 0.25,
            self._options.temperatures[0], (math.log(0.5), -0.1),
        )  # fmt: skip

    def finish(self) -> list[Segment]:
        samples, self._samples = self._samples, self._samples[:0]
        last = [self._segment(samples, is_final=True)] if len(samples) > 1600 else []
        return [one for one in last if one.text]


class FakeTranscriber:
    rate, language = 16000, "en"

    def warm_up(self) -> None:
        pass

    def stream(
        self, *, partial: float = 0.25, options: ListenOptions | None = None, rules: Rules | None = None
    ) -> _Stream:  # fmt: skip
        return _Stream(partial, options or ListenOptions(), rules or Rules())


class FakePolyglot(FakeTranscriber):
    """One that knows three languages, translates, and tells times of words and how sure it is. A set that is called
    "polyglot" is one."""

    languages, tasks = ("en", "de", "fr"), ("transcribe", "translate")
    has_words = has_logs = True

    def token_bytes(self, token: int) -> bytes:
        return f" {WORDS[token]}".encode()


class FakeSpeaker:
    rate = 22050
    speakers: ClassVar = {"low": 0, "loud": 1}

    def stream(
        self, text: str, *, speaker: str | int | None = None, length_scale: float | None = None
    ) -> Iterator[Audio]:  # fmt: skip
        if isinstance(speaker, int):
            raise UnknownSpeakerError(f"speaker {speaker} is not one of this voice")
        for sentence in text.split("."):
            word = sentence.strip()
            if word == HANG:
                threading.Event().wait()
            if word:
                size = int(len(word) * self.rate * 0.1 * (length_scale or 1.0))
                yield Audio(np.full(size, 0.5 if speaker == "loud" else 0.25, np.float32), self.rate)


class FakeWake:
    def __init__(self) -> None:
        self.time = 0.0

    def reset(self) -> None:
        self.time = 0.0

    def feed(self, samples: Samples) -> list[Detection]:
        start, self.time = self.time, self.time + len(samples) / 16000
        loud = np.flatnonzero(np.abs(samples) > 0.8)
        return [Detection("hey_tester", start + float(loud[0]) / 16000, 0.9)] if len(loud) else []


class FakeEmbedding:
    """Two voices: up to half the loudness, and above."""

    def __call__(self, sound: Samples, rate: int | None = None) -> Samples:
        assert rate in (16000, None)
        loud = float(np.median(np.abs(sound)))
        return np.array([1.0, 0.0] if loud < 0.5 else [0.0, 1.0], np.float32)


def open_fake(where: str, kind: str, device: str) -> Any:
    """For `Server(open_voice=...)`; a worker finds it by its name."""
    assert device == "auto"
    if kind == "embedding":
        return FakeEmbedding()
    assert Path(where, "voice.json").is_file()
    if Path(where).name == "polyglot":
        return FakePolyglot()
    return {"transcriber": FakeTranscriber, "speaker": FakeSpeaker, "wake": FakeWake}[kind]()


def make_sets(folder: Path, *names: str) -> list[str]:
    """Sets that say what they are and hold nothing."""
    made = []
    kinds = (("transcriber", 16000), ("speaker", 22050), ("wake", 16000))
    for name, (kind, rate) in zip(names or ("ears", "mouth", "hey"), kinds, strict=False):
        (folder / name).mkdir()
        words = {"format": 1, "name": name, "family": "fake", "kind": kind, "rate": rate, "licence": "MIT"}
        (folder / name / "voice.json").write_text(json.dumps(words))
        made.append(str(folder / name))
    return made
