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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from openrknn.backports import file_digest
from openrknn.closing import Closing
from openrknn.voice.audio import Audio, Samples
from openrknn.voice.errors import PhonemeError, VoiceSetError
from openrknn.voice.piper.config import PiperConfig, read_config
from openrknn.voice.piper.engine import Scales, open_engine
from openrknn.voice.piper.phonemes import ids_of, phonemes_of, pieces
from openrknn.voice.sets import FILE, VoiceSet, home, open_set

_LOG = logging.getLogger(__name__)
_VERSION = 1
"""Of the sets that are made of a voice file: another number, and they are made again."""


class Speaker(Closing):
    """A voice that is ready to speak. A context manager; calls from several threads follow each other."""

    def __init__(
        self, voice: str | Path | VoiceSet, device: str = "auto", *, target: str = "",
        config: str | Path | None = None, exact: bool = False,
    ) -> None:  # fmt: skip
        """`voice`: a set, or Piper's VOICE.onnx with VOICE.onnx.json beside it (or `config`), compiled on first use.

        `target`: the chip that is compiled for; empty: the one of this board, else RK3588. `exact`: of a VOICE.onnx,
        the text encoder runs in float on the CPU, so that fp16 moves no duration (one of a thousand, by a frame).
        """
        if not isinstance(voice, VoiceSet) and Path(voice).suffix == ".onnx":
            voice = _compiled(Path(voice), Path(config) if config else None, target or _chip_here(), exact=exact)
        self.set = open_set(voice, "speaker")
        if self.set.family != "piper":
            raise VoiceSetError(f"{self.set.folder}: a speaker of the family {self.set.family!r}; 'piper' is known")
        self.config: PiperConfig = read_config(self.set.file("config"))
        if self.config.rate != self.set.rate:
            raise VoiceSetError(
                f"{self.set.folder}: voice.json has a rate of {self.set.rate}, and the voice's config one of "
                f"{self.config.rate}; make the set again with `openrknn voice get`"
            )
        self.rate: int = self.set.rate
        self.speakers: Mapping[str, int] = dict(self.config.speakers)
        self.engine = open_engine(self.set, device)
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of the networks."""
        with self._lock:
            self.engine.close()

    def __call__(
        self, text: str, *, speaker: str | int | None = None, length_scale: float | None = None,
        noise_scale: float | None = None, noise_w: float | None = None, seed: int | None = None,
        pause: float = 0.2, normalise: bool = True,
    ) -> Audio:  # fmt: skip
        """All of the text; see `stream`."""
        parts = list(
            self.stream(
                text, speaker=speaker, length_scale=length_scale, noise_scale=noise_scale, noise_w=noise_w, seed=seed,
                pause=pause, normalise=normalise,
            )
        )  # fmt: skip
        return Audio(np.concatenate([part.samples for part in parts]), self.rate)

    def stream(
        self, text: str, *, speaker: str | int | None = None, length_scale: float | None = None,
        noise_scale: float | None = None, noise_w: float | None = None, seed: int | None = None,
        pause: float = 0.2, normalise: bool = True, by: str = "sentence",
    ) -> Iterator[Audio]:  # fmt: skip
        """A sentence at a time, each but the first after a pause of so many seconds.

        `seed`: the same number, text and voice make the same sound. `normalise`: each sentence's loudest sample is 1,
        as Piper does it. `by="window"`: pieces of a sentence as they are ready, as loud as the model makes them.
        """
        if by not in ("sentence", "window"):
            raise ValueError(f"by={by!r}: a stream comes by 'sentence' or by 'window'")
        if not 0 <= pause <= 60:
            raise ValueError(f"a pause of {pause} seconds; 0 to 60 can be")
        scales = Scales(
            _scale("noise_scale", noise_scale, self.config.noise_scale),
            _scale("length_scale", length_scale, self.config.length_scale, 0.05),
            _scale("noise_w", noise_w, self.config.noise_w),
        )
        number = self.speaker_number(speaker)
        # Errors come when the stream is made, not when it is first read.
        plan = [
            ids_of(piece, self.config)
            for sentence in phonemes_of(text, self.config)
            for piece in pieces(sentence, self.config, self.engine.longest)
        ]
        if not plan:
            raise PhonemeError(f"there is nothing to say in {text!r:.60}")
        windows: Iterable[Iterable[Samples]] = self._windows(plan, scales, number, seed)
        if by == "sentence":
            windows = ([_levelled(np.concatenate(list(sentence)), normalise)] for sentence in windows)
        return self._spoken(windows, np.zeros(round(pause * self.rate), np.float32))

    def _windows(
        self, plan: list[list[int]], scales: Scales, speaker: int, seed: int | None
    ) -> Iterator[Iterable[Samples]]:  # fmt: skip
        """The windows of each sentence. Each has chance of its own, so that a sentence is the same behind others."""
        roots = np.random.SeedSequence(seed).spawn(len(plan))
        for ids, root in zip(plan, roots, strict=True):
            yield self._locked(self.engine.speak(ids, scales, speaker, np.random.default_rng(root)))

    def _locked(self, windows: Iterator[Samples]) -> Iterator[Samples]:
        """One window at a time: a stream that is read slowly keeps nobody waiting."""
        while True:
            with self._lock:
                samples = next(windows, None)
            if samples is None:
                return
            yield samples

    def _spoken(self, sentences: Iterable[Iterable[Samples]], silence: Samples) -> Iterator[Audio]:
        for index, windows in enumerate(sentences):
            before = silence if index else silence[:0]
            for samples in windows:
                yield Audio(np.clip(np.concatenate([before, samples]), -1.0, 1.0), self.rate)
                before = before[:0]

    def speaker_number(self, speaker: str | int | None) -> int:
        """The number of a speaker by name or number; the voice's own default without."""
        count = self.config.speaker_count
        if speaker is None:
            return self.config.default_speaker
        if isinstance(speaker, str) and speaker in self.speakers:
            return self.speakers[speaker]
        number = int(speaker) if isinstance(speaker, int) or speaker.isdecimal() else -1
        if not 0 <= number < count:
            names = ", ".join(list(self.speakers)[:12]) or "it has no names"
            raise VoiceSetError(
                f"speaker {speaker!r} is not one of the voice {self.set.name!r}, which has {count} (0 to {count - 1}): "
                f"{names}{', ...' if len(self.speakers) > 12 else ''}"
            )
        return number


def _scale(name: str, given: float | None, default: float, least: float = 0.0) -> float:
    value = default if given is None else float(given)
    if not least <= value <= 20:
        raise ValueError(f"{name} {value}: a number of {least:g} to 20 is needed; the voice's own is {default:g}")
    return value


def _levelled(samples: Samples, normalise: bool) -> Samples:
    loudest = float(np.abs(samples).max(initial=0.0))
    if normalise and loudest > 1e-8:
        samples = samples / np.float32(loudest)
    return samples


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
