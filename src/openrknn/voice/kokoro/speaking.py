"""`KokoroVoice`: text to symbols, a style and a speed; one graph whose products the NPU computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.kokoro.symbols import LANGUAGES, LONGEST, RATE, ids_of, named, pieces, sentences_of
from openrknn.voice.products.graph import Floats, ProductGraph
from openrknn.voice.sets import VoiceSet
from openrknn.voice.talkers import Said, Scales


class KokoroVoice:
    """A set of the family `kokoro`: all its speakers, each with a style for every length."""

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        names = voice.options.get("speakers")
        if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
            raise VoiceSetError(f"{voice.folder}: the names of its speakers are missing; make the set again")
        self.rate = RATE
        self.speakers: dict[str, int] = {name: number for number, name in enumerate(names)}
        self.speaker_count = len(names)
        self.default_speaker = self.speakers.get("af_heart", 0)
        self.default_scales = Scales(0.0, 1.0, 0.0)
        self.has_noise = False
        path = voice.file("styles")
        try:
            self._styles = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise VoiceSetError(f"{path}: cannot be read: {error}; make the set again") from error
        if self._styles.ndim != 3 or len(self._styles) != len(names) or self._styles.dtype != np.float32:
            raise VoiceSetError(f"{path}: should hold styles [speakers, lengths, numbers]; make the set again")
        self.graph = ProductGraph(voice.file("plan"), device)

    @property
    def times(self) -> dict[str, float]:
        """Seconds on the CPU and on the NPU since it was opened."""
        return self.graph.times

    def language(self, speaker: int) -> str:
        """The voice of espeak-ng for a speaker."""
        return LANGUAGES[named(list(self.speakers)[speaker])]

    def said(self, text: str, speaker: int, language: str = "") -> list[Said]:
        """Sentences and their numbers; `language`: words of another language that Kokoro knows."""
        letter = named(list(self.speakers)[speaker])
        if language:
            letter = next((one for one, voice in LANGUAGES.items() if voice and voice.startswith(language)), letter)
        return [
            Said(piece, tuple(ids_of(piece)))
            for sentence in sentences_of(text, letter)
            for piece in pieces(sentence, LONGEST)
        ]

    def feed(self, ids: Sequence[int], scales: Scales, speaker: int) -> dict[str, npt.NDArray[Any]]:
        """The inputs of the graph."""
        styles = self._styles[speaker]
        style = np.array(styles[min(max(len(ids) - 2, 0), len(styles) - 1)], np.float32)
        speed = np.array([1 / scales.length], np.float32)
        values: dict[str, npt.NDArray[Any]] = {
            "ids": np.asarray([list(ids)], np.int64),
            "style": style[None],
            "speed": speed,
        }
        names = {"input_ids": "ids", "tokens": "ids"}
        return {name: values[names.get(name, name)] for name in self.graph.plan.inputs}

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator
    ) -> Iterator[Floats]:  # fmt: skip
        """One piece: its normalisations look at the whole sentence."""
        made = self.graph.run(self.feed(ids, scales, speaker), random=random)
        yield np.asarray(next(iter(made.values())), np.float32).reshape(-1)

    def close(self) -> None:
        """Let go of the networks."""
        self.graph.close()
