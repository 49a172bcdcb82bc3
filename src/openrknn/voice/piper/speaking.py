"""`PiperVoice`: a set of the family `piper`, for `Speaker`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.piper.config import PiperConfig, read_config
from openrknn.voice.piper.engine import Floats, open_engine
from openrknn.voice.piper.phonemes import sentences_of
from openrknn.voice.sets import VoiceSet
from openrknn.voice.talkers import Said, Scales


class PiperVoice:
    """Config, phonemes and the stages of the graph."""

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self.config: PiperConfig = read_config(voice.file("config"))
        if self.config.rate != voice.rate:
            raise VoiceSetError(
                f"{voice.folder}: voice.json has a rate of {voice.rate}, and the voice's config one of "
                f"{self.config.rate}; make the set again with `openrknn voice get`"
            )
        self.rate = self.config.rate
        self.speakers = dict(self.config.speakers)
        self.speaker_count = self.config.speaker_count
        self.default_speaker = self.config.default_speaker
        self.default_scales = Scales(self.config.noise_scale, self.config.length_scale, self.config.noise_w)
        self.has_noise = True
        self.engine = open_engine(voice, device)

    @property
    def times(self) -> Mapping[str, float]:
        """Seconds of each stage since it was opened."""
        found: Mapping[str, float] = getattr(self.engine, "times", {})
        return found

    def language(self, speaker: int) -> str:
        """The voice of espeak-ng, the same for all speakers."""
        return self.config.espeak_voice

    def said(self, text: str, speaker: int, language: str = "") -> list[Said]:
        """Sentences and their numbers; `language`: a voice of espeak-ng for words of another language."""
        return sentences_of(text, self.config, self.engine.longest, language)

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator
    ) -> Iterator[Floats]:  # fmt: skip
        """Pieces of sound, in order."""
        return self.engine.speak(ids, scales, speaker, random)

    def close(self) -> None:
        """Let go of the networks."""
        self.engine.close()
