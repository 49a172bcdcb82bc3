"""`Speaker`: text in, a voice out.

with Speaker("en_US-lessac-medium.onnx") as speak:
    write_wav("hello.wav", speak("Hello, world."))
    for piece in speak.stream("First this. Then that."):
        play(piece.samples)
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openrknn.backports import file_digest
from openrknn.chips import chip_named
from openrknn.closing import Closing
from openrknn.voice.audio import Audio, Samples, resample
from openrknn.voice.audio.loudness import at_loudness
from openrknn.voice.errors import PhonemeError, UnknownSpeakerError, VoiceSetError
from openrknn.voice.kokoro.speaking import KokoroVoice
from openrknn.voice.matcha.speaking import MatchaVoice
from openrknn.voice.piper.config import read_config
from openrknn.voice.piper.speaking import PiperVoice
from openrknn.voice.sets import FILE, VoiceSet, home, open_set
from openrknn.voice.talkers import Said, Scales, Talker
from openrknn.voice.text import Break, Utterance, is_ssml, normalised, parse_ssml

_LOG = logging.getLogger(__name__)
_VERSION = 2
"""Of the sets that are made of a voice file: another number, and they are made again."""


FAMILIES: dict[str, Callable[[VoiceSet, str], Talker]] = {
    "piper": PiperVoice, "kokoro": KokoroVoice, "matcha": MatchaVoice,
}  # fmt: skip
"""Family of a set -> what opens it."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A sentence and how it is said; without one, the silence at the end."""

    said: Said | None
    scales: Scales
    speaker: int
    pause: float
    """Seconds of silence before it."""
    volume: float = 0.0
    pitch: float = 0.0


class Speaker(Closing):
    """A voice that is ready to speak. A context manager; calls from several threads follow each other."""

    def __init__(
        self, voice: str | Path | VoiceSet, device: str = "auto", *, target: str = "",
        config: str | Path | None = None, exact: bool = True,
    ) -> None:  # fmt: skip
        """`voice`: a set, or Piper's VOICE.onnx with VOICE.onnx.json beside it (or `config`), compiled on first use.

        `target`: the chip that is compiled for; empty: the one of this board, else RK3588. `exact`: of a VOICE.onnx,
        the text encoder runs in float on the CPU. Without it the NPU computes that, too, in fp16: the durations and the
        fine structure of the sound differ from those of the float model, which is measured and hardly heard.
        """
        if not isinstance(voice, VoiceSet) and Path(voice).suffix == ".onnx":
            voice = _compiled(Path(voice), Path(config) if config else None, target or _chip_here(), exact=exact)
            config, target, exact = None, "", True
        self.set = open_set(voice, "speaker")
        if config or not exact or (target and chip_named(target).name != self.set.target):
            raise VoiceSetError(
                f"{self.set.folder}: this set is compiled, for {self.set.target}; another chip, config or text encoder "
                "needs the VOICE.onnx itself"
            )
        opens = FAMILIES.get(self.set.family)
        if opens is None:
            raise VoiceSetError(
                f"{self.set.folder}: a speaker of the family {self.set.family!r}; {', '.join(FAMILIES)} are known"
            )
        self.talker: Talker = opens(self.set, device)
        self.rate: int = self.talker.rate
        self.speakers: Mapping[str, int] = dict(self.talker.speakers)
        self._lock = threading.RLock()

    @property
    def length_scale(self) -> float:
        """What 1 is in the voice's own numbers: larger is slower."""
        return self.talker.default_scales.length

    @property
    def times(self) -> Mapping[str, float]:
        """Seconds of each stage since the voice was opened."""
        return self.talker.times

    def close(self) -> None:
        """Let go of the networks."""
        with self._lock:
            self.talker.close()

    def __call__(
        self, text: str, *, speaker: str | int | None = None, length_scale: float | None = None,
        noise_scale: float | None = None, noise_w: float | None = None, seed: int | None = None,
        pause: float = 0.2, normalise: bool = True, loudness: float | None = None, as_written: bool = False,
    ) -> Audio:  # fmt: skip
        """All of the text; see `stream`."""
        parts = list(
            self.stream(
                text, speaker=speaker, length_scale=length_scale, noise_scale=noise_scale, noise_w=noise_w, seed=seed,
                pause=pause, normalise=normalise, loudness=loudness, as_written=as_written,
            )
        )  # fmt: skip
        return Audio(np.concatenate([part.samples for part in parts]), self.rate)

    def stream(
        self, text: str, *, speaker: str | int | None = None, length_scale: float | None = None,
        noise_scale: float | None = None, noise_w: float | None = None, seed: int | None = None,
        pause: float = 0.2, normalise: bool = True, by: str = "sentence", loudness: float | None = None,
        as_written: bool = False,
    ) -> Iterator[Audio]:  # fmt: skip
        """A sentence at a time, each but the first after a pause of so many seconds.

        A text that begins with `<speak` is SSML. Numbers, dates, money and abbreviations are said in words where the
        language has rules (English, German); `as_written`: nothing is changed. `seed`: the same number, text and voice
        make the same sound. `normalise`: each sentence's loudest sample is 1, as Piper does it; `loudness`: so many
        LUFS instead. `by="window"`: pieces of a sentence as they are ready, as loud as the model makes them.
        """
        if by not in ("sentence", "window"):
            raise ValueError(f"by={by!r}: a stream comes by 'sentence' or by 'window'")
        if by == "window" and loudness is not None:
            raise ValueError("loudness is measured over a sentence; a stream by 'window' has none yet")
        if loudness is not None and not -60 <= loudness <= 0:
            raise ValueError(f"a loudness of {loudness} LUFS; -60 to 0 can be, and -16 is usual")
        if seed is not None and seed < 0:
            raise ValueError(f"a seed of {seed}; a whole number from 0 on is needed")
        if not 0 <= pause <= 60:
            raise ValueError(f"a pause of {pause} seconds; 0 to 60 can be")
        scales = self._scales(noise_scale, length_scale, noise_w)
        # Errors come when the stream is made, not when it is first read.
        plan = self._plan(text, speaker, scales, pause, as_written=as_written)
        if not plan:
            raise PhonemeError(f"there is nothing to say in {text!r:.60}")
        return self._spoken(plan, seed, _Level(normalise, loudness) if by == "sentence" else None)

    def said(self, text: str, *, speaker: str | int | None = None, as_written: bool = False) -> list[Said]:
        """What would be said: phonemes and numbers of each sentence."""
        plan = self._plan(text, speaker, self.talker.default_scales, 0.0, as_written=as_written)
        return [piece.said for piece in plan if piece.said]

    def _scales(self, noise: float | None, length: float | None, noise_w: float | None) -> Scales:
        usual = self.talker.default_scales
        if not self.talker.has_noise and not (noise is None and noise_w is None):
            raise ValueError(f"the voice {self.set.name!r} draws no noise: noise_scale and noise_w are Piper's")
        return Scales(
            _scale("noise_scale", noise, usual.noise), _scale("length_scale", length, usual.length, 0.05),
            _scale("noise_w", noise_w, usual.noise_w),
        )  # fmt: skip

    def _plan(
        self, text: str, speaker: str | int | None, scales: Scales, pause: float, *, as_written: bool
    ) -> list[_Piece]:  # fmt: skip
        parts: list[Utterance | Break] = [*parse_ssml(text)] if is_ssml(text) else [Utterance(text)]
        found: list[_Piece] = []
        silence, is_continued = 0.0, False
        for part in parts:
            if isinstance(part, Break):
                silence, is_continued = silence + part.seconds, True
                continue
            number = self.speaker_number(part.voice or speaker)
            language = part.language.lower() or self.talker.language(number)
            words = part.text if as_written else normalised(part.text, language)
            length = scales.length / part.rate * 2 ** (part.pitch / 12)
            for said in self.talker.said(words, number, part.language.lower()):
                # A break replaces the pause between sentences, and parts of one sentence follow each other at once.
                before = silence if is_continued else pause
                found.append(
                    _Piece(said, Scales(scales.noise, length, scales.noise_w), number, before if found else silence,
                           part.volume, part.pitch)
                )  # fmt: skip
                silence, is_continued = 0.0, False
            is_continued = not part.text.rstrip().endswith((".", "!", "?")) and not part.text.endswith("\n\n")
        if found and silence:
            found.append(_Piece(None, scales, found[-1].speaker, silence))
        return found

    def _spoken(self, plan: list[_Piece], seed: int | None, level: _Level | None) -> Iterator[Audio]:
        """Each piece has chance of its own, so that a sentence is the same behind others."""
        roots = np.random.SeedSequence(seed).spawn(len(plan))
        for piece, root in zip(plan, roots, strict=True):
            before = np.zeros(round(piece.pause * self.rate), np.float32)
            if piece.said is None:
                yield Audio(before, self.rate)
                continue
            random = np.random.default_rng(root)
            windows: Iterable[Samples] = self._locked(
                self.talker.speak(piece.said.ids, piece.scales, piece.speaker, random)
            )
            if level is not None or piece.pitch:
                whole = np.concatenate(list(windows))
                if piece.pitch:
                    # Said slower, and played faster: as long as before, and higher.
                    whole = resample(whole, round(self.rate * 2 ** (piece.pitch / 12)), self.rate)
                windows = [whole if level is None else level.of(whole, self.rate)]
            gain = np.float32(10 ** (piece.volume / 20))
            for samples in windows:
                yield Audio(np.clip(np.concatenate([before, samples * gain]), -1.0, 1.0), self.rate)
                before = before[:0]

    def _locked(self, windows: Iterator[Samples]) -> Iterator[Samples]:
        """One window at a time: a slow reader does not block others."""
        while True:
            with self._lock:
                samples = next(windows, None)
            if samples is None:
                return
            yield samples

    def speaker_number(self, speaker: str | int | None) -> int:
        """The number of a speaker by name or number; the voice's own default without."""
        count = self.talker.speaker_count
        if speaker is None:
            return self.talker.default_speaker
        if isinstance(speaker, str) and speaker in self.speakers:
            return self.speakers[speaker]
        number = int(speaker) if isinstance(speaker, int) or speaker.isdecimal() else -1
        if not 0 <= number < count:
            names = ", ".join(list(self.speakers)[:12]) or "it has no names"
            raise UnknownSpeakerError(
                f"speaker {speaker!r} is not one of the voice {self.set.name!r}, which has {count} (0 to {count - 1}): "
                f"{names}{', ...' if len(self.speakers) > 12 else ''}"
            )
        return number


@dataclass(frozen=True, slots=True)
class _Level:
    """How loud a sentence is made."""

    is_peak: bool
    loudness: float | None

    def of(self, samples: Samples, rate: int) -> Samples:
        """At the loudness that is asked for, or with a loudest sample of 1."""
        if self.loudness is not None:
            return at_loudness(samples, rate, self.loudness)
        loudest = float(np.abs(samples).max(initial=0.0))
        return samples / np.float32(loudest) if self.is_peak and loudest > 1e-8 else samples


def _scale(name: str, given: float | None, default: float, least: float = 0.0) -> float:
    value = default if given is None else float(given)
    if not least <= value <= 20:
        raise ValueError(f"{name} {value}: a number of {least:g} to 20 is needed; the voice's own is {default:g}")
    return value


def _chip_here() -> str:
    from openrknn.monitor.board import soc

    return soc(Path("/")) or "rk3588"


def _compiled(path: Path, config: Path | None, target: str, *, exact: bool) -> VoiceSet:
    """The set of a voice file, made when it is first used."""
    if not path.is_file():
        raise VoiceSetError(f"{path}: no such file; a Piper voice is VOICE.onnx with VOICE.onnx.json beside it")
    beside = config or Path(f"{path}.json")
    read_config(beside)  # what is wrong with it is said before anything is compiled
    digest = hashlib.sha256(f"{_VERSION} {target} {exact}".encode())
    for part in (path, beside):
        with part.open("rb") as file:
            digest.update(file_digest(file, "sha256"))
    folder = home() / f"{path.stem}-{digest.hexdigest()[:12]}"
    if (folder / FILE).is_file():
        return open_set(folder, "speaker")
    from openrknn.voice.make.piper import make

    _LOG.info("%s is compiled for %s, once", path.name, target)
    folder.parent.mkdir(parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix=f".{path.stem}-", dir=folder.parent))
    try:
        make(path, half, target, name=path.stem, config=beside, exact=exact)
        try:
            os.rename(half, folder)
        except OSError:
            if not (folder / FILE).is_file():  # another process was not first
                raise
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return open_set(folder, "speaker")
