"""`MatchaVoice`: phonemes by espeak-ng, a mel spectrogram by flow matching, sound by a vocoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.piper.config import BOS, EOS, PAD, PiperConfig
from openrknn.voice.piper.phonemes import sentences_of
from openrknn.voice.products.graph import Floats, ProductGraph
from openrknn.voice.sets import VoiceSet
from openrknn.voice.talkers import Said, Scales

LONGEST = 1000
"""Numbers of one sentence."""
_LARGEST = 1 << 20


class MatchaVoice:
    """A set of the family `matcha`: two graphs of any length, one after the other."""

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self.rate = voice.rate
        self.speakers: dict[str, int] = {}
        self.speaker_count = 1
        self.default_speaker = 0
        self.default_scales = Scales(0.667, 1.0, 0.0)
        self.has_noise = True
        self.config = config_of(voice)
        self._stack = ExitStack()
        try:
            self.acoustic = self._stack.enter_context(ProductGraph(voice.file("acoustic"), device))
            self.vocoder = self._stack.enter_context(ProductGraph(voice.file("vocoder"), device))
        except BaseException:
            self._stack.close()
            raise

    @property
    def times(self) -> Mapping[str, float]:
        """Seconds on the CPU and on the NPU of both graphs since it was opened."""
        graphs = {"acoustic": self.acoustic, "vocoder": self.vocoder}
        return {f"{name} {where}": took for name, graph in graphs.items() for where, took in graph.times.items()}

    def language(self, speaker: int) -> str:
        """The voice of espeak-ng."""
        return self.config.espeak_voice

    def said(self, text: str, speaker: int, language: str = "") -> list[Said]:
        """Sentences and their numbers; `language`: a voice of espeak-ng for words of another language."""
        return sentences_of(text, self.config, LONGEST, language)

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator,
        noise: Sequence[Floats] = (),
    ) -> Iterator[Floats]:  # fmt: skip
        """One piece. `noise` is for comparisons with other programs."""
        feed: dict[str, NDArray[Any]] = {
            "x": np.asarray([list(ids)], np.int64), "x_length": np.array([len(ids)], np.int64),
            "noise_scale": np.array([scales.noise], np.float32), "length_scale": np.array([scales.length], np.float32),
        }  # fmt: skip
        wanted = {name: feed[name] for name in self.acoustic.plan.inputs}
        mel = next(iter(self.acoustic.run(wanted, random=random, noise=noise).values()))
        sound = self.vocoder.run({self.vocoder.plan.inputs[0]: mel}, random=random)
        yield np.asarray(next(iter(sound.values())), np.float32).reshape(-1)

    def close(self) -> None:
        """Let go of the networks."""
        self._stack.close()


def config_of(voice: VoiceSet) -> PiperConfig:
    """The tokens, with a pad behind each as in Piper's voices."""
    ids = read_tokens(voice.file("tokens"))
    espeak = voice.options.get("espeak")
    if not isinstance(espeak, str) or not espeak or len(espeak) > 40:
        raise VoiceSetError(f"{voice.folder}: the option 'espeak' is missing; make the set again")
    return PiperConfig(voice.rate, espeak, ids, 0)


def read_tokens(path: Path) -> dict[str, tuple[int, ...]]:
    """`tokens.txt`: a symbol and its number on each line; the symbol may be a space."""
    if path.stat().st_size > _LARGEST:
        raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; this is no list of tokens")
    found: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        symbol, _, value = line.rpartition(" ")
        if not line.strip():
            continue
        if not value.isdecimal() or int(value) >= 1 << 20:
            raise VoiceSetError(f"{path}, line {number}: a symbol and its number are needed, not {line!r:.40}")
        found[symbol or " "] = (int(value),)
    absent = [mark for mark in (PAD, BOS, EOS) if mark not in found]
    if absent:
        raise VoiceSetError(f"{path}: has no {', '.join(map(repr, absent))} (pad, beginning, end of a sentence)")
    return found
