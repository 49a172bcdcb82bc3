"""Wake words: openWakeWord's nets over a stream.

Every 80 ms: eight frames of mel bands, an embedding of the last 76 frames, and for each word a score of the last
embeddings (16 for most words: 1.3 s). All products are the NPU's.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.runtime.session import Session
from openrknn.voice.audio import Samples
from openrknn.voice.errors import AudioError, VoiceSetError
from openrknn.voice.input_audio import samples_of
from openrknn.voice.results import Detection
from openrknn.voice.sets import VoiceSet, installed, open_set
from openrknn.voice.steps import open_net

STEP = 1280
"""Samples between two scores: 80 ms."""
_FRAME, _HOP, _FRAMES, _BANDS = 512, 160, 8, 32
_NEEDED = STEP + 480
"""Samples that eight frames need: those of the window are 400, in frames of 512."""
_ROWS = 76
_LATE = 4
"""Rows of mel bands that are newer than the window: windows begin at multiples of 8, as in training."""
_SILENT = -100.0
"""Decibels of nothing, as the front end has them."""
_LARGEST_POWER = 60_000.0
_LARGEST_FP16 = 60_000.0
_SCALE = 32768.0
"""The front end was made for 16-bit integers."""


class Wake(Closing):
    """Waits for wake words.

    with Wake(["hey_jarvis"]) as wake:
        for block in blocks("mic"):
            for heard in wake.feed(block):
                print(heard.word, heard.time, heard.score)
    """

    rate = 16_000

    def __init__(
        self, words: str | Path | VoiceSet | Sequence[str | Path | VoiceSet] | None = None, device: str = "auto",
        threshold: float = 0.5, *, pause: float = 2.0,
    ) -> None:  # fmt: skip
        """`words`: sets, their folders or names; None: all that are installed. After a word was heard it is not heard
        again for `pause` seconds."""
        if not 0 < threshold <= 1 or not pause >= 0:
            raise AudioError(f"threshold {threshold} should be over 0 and at most 1, pause {pause} 0 seconds or more")
        asked = [words] if isinstance(words, str | Path | VoiceSet) else words
        sets = installed("wake") if asked is None else [open_set(word, "wake") for word in asked]
        if not sets:
            raise VoiceSetError("no wake word to wait for; make one with `openrknn voice get hey_jarvis`")
        self.threshold, self.pause = threshold, pause
        self._lock = threading.Lock()
        self._fronts: dict[str, _Front] = {}
        self._words: list[_Word] = []
        try:
            for one in sets:
                key = _digest(one.file("mel")) + _digest(one.file("embedding"))
                if key not in self._fronts:
                    self._fronts[key] = _Front(one, device)
                self._words.append(_Word(one, device, key))
            self._begin()
        except BaseException:
            self.close()
            raise

    @property
    def words(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(word.name for word in self._words)

    @property
    def scores(self) -> dict[str, float]:
        """The last one of each word, 0 to 1."""
        return {word.name: word.score for word in self._words}

    def feed(self, samples: npt.ArrayLike) -> list[Detection]:
        """The next samples at 16 kHz, any number of them; the words that were heard."""
        found = []
        for time, scores in self.activations(samples):
            for word in self._words:
                if scores[word.name] >= self.threshold and time - word.heard >= self.pause:
                    word.heard = time
                    found.append(Detection(word.name, time, scores[word.name]))
        return found

    def activations(self, samples: npt.ArrayLike) -> list[tuple[float, dict[str, float]]]:
        """`feed`, with all scores: (seconds of sound so far, word -> score), one for each 80 ms."""
        block = samples_of(samples)
        with self._lock:
            return self._feed(block)

    def reset(self) -> None:
        """For the next recording."""
        with self._lock:
            self._begin()

    def close(self) -> None:
        """Give all nets back."""
        with self._lock:
            for front in self._fronts.values():
                front.close()
            for word in self._words:
                word.net.close()

    def _begin(self) -> None:
        # As if silence came before.
        self._held: Samples = np.zeros(STEP, np.float32)
        self._steps = 0
        for front in self._fronts.values():
            front.reset()
        for word in self._words:
            word.reset(self._fronts[word.front].silence)

    def _feed(self, block: Samples) -> list[tuple[float, dict[str, float]]]:
        held = np.concatenate([self._held, block])
        found = []
        while len(held) >= _NEEDED:
            fresh = {key: front.step(held[:_NEEDED]) for key, front in self._fronts.items()}
            held = held[STEP:]
            self._held = held
            for word in self._words:
                word.step(fresh[word.front])
            time = (self._steps * STEP + _NEEDED - STEP) / self.rate
            self._steps += 1
            found.append((time, self.scores))
        self._held = held.copy()
        return found


class _Front(Closing):
    """From samples to embeddings."""

    def __init__(self, voice: VoiceSet, device: str) -> None:
        self._mel = open_net(voice, "mel", device)
        try:
            self._embedding = open_net(voice, "embedding", device)
            try:
                self._check(voice)
                self.reset()
                self.silence = self._embed()
            except BaseException:
                self._embedding.close()
                raise
        except BaseException:
            self._mel.close()
            raise

    def _check(self, voice: VoiceSet) -> None:
        sizes = [
            (port.name, math.prod(port.shape))
            for net in (self._mel, self._embedding)
            for port in (*net.inputs, *net.outputs)
        ]
        wanted = [_FRAME * _FRAMES, _BANDS * _FRAMES, _ROWS * _BANDS]
        if len(sizes) != 4 or [size for _, size in sizes[:3]] != wanted:
            raise VoiceSetError(f"{voice.folder}: {voice.name!r} has no front end of openWakeWord, but {sizes}")
        self._names = [name for name, _ in sizes]

    def reset(self) -> None:
        self._rows = np.full((_ROWS + _LATE, _BANDS), _SILENT / 10 + 2, np.float32)

    def step(self, samples: Samples) -> Samples:
        """The embedding after the next 1280 samples."""
        self._rows = np.concatenate([self._rows[_FRAMES:], _decibels(*self._powers(samples)) / 10 + 2])
        return self._embed()

    def _powers(self, samples: Samples) -> tuple[npt.NDArray[np.float64], float]:
        """[8, 32] powers of mel bands, and by how much they are too large.

        What a band holds is at most 512 times the energy of its frame, by Parseval's theorem. The sound is made as loud
        as that allows: what is 80 dB below the loudest band, where the front end stops to look, is a number of fp16.
        """
        frames = np.lib.stride_tricks.sliding_window_view(samples, _FRAME)[::_HOP][:_FRAMES].astype(np.float64)
        energy, peak = float((frames**2).sum(axis=1).max()), float(np.abs(frames).max())
        if not energy > 0:
            return np.zeros((_FRAMES, _BANDS)), 1.0
        most = min(math.sqrt(_LARGEST_POWER / (_FRAME * energy)), _LARGEST_FP16 / peak)
        gain = 2.0 ** math.floor(math.log2(most))
        given = np.ascontiguousarray((frames * gain).T, np.float32)
        made = self._mel.run({self._names[0]: given.reshape(1, _FRAME, 1, _FRAMES)}, layout="nchw")[self._names[1]]
        return np.asarray(made, np.float64).reshape(_BANDS, _FRAMES).T, (gain / _SCALE) ** 2

    def _embed(self) -> Samples:
        found = self._embedding.run({self._names[2]: self._rows[:_ROWS].reshape(1, _ROWS, _BANDS, 1)})
        return np.asarray(found[self._names[3]], np.float32).reshape(-1)

    def close(self) -> None:
        self._mel.close()
        self._embedding.close()


def _decibels(powers: npt.NDArray[np.float64], gain: float) -> Samples:
    """At least -100 dB, and at most 80 dB below the loudest of the eight frames."""
    made: npt.NDArray[np.float64] = 10 * np.log10(np.maximum(powers / gain, 10 ** (_SILENT / 10)))
    return np.asarray(np.maximum(made, made.max() - 80), np.float32)


class _Word:
    """The net of one word."""

    def __init__(self, voice: VoiceSet, device: str, front: str) -> None:
        self.name, self.front = voice.name, front
        self.net: Session = open_net(voice, "word", device)
        verify = voice.options.get("verify")
        if verify is not None and not isinstance(verify, int | float):
            self.net.close()
            raise VoiceSetError(f"{voice.folder}: 'verify' should be a number, not {verify!r:.60}")
        self._verify: float | None = verify
        self._port = self.net.inputs[0]
        self._outputs = [port.name for port in self.net.outputs]
        self._where = f"{voice.folder}: the net of {voice.name!r}"
        if len(self.net.inputs) != 1 or any(math.prod(port.shape) != 1 for port in self.net.outputs):
            self.net.close()
            raise VoiceSetError(f"{self._where} should take embeddings and give scores")

    def reset(self, silence: Samples) -> None:
        count = math.prod(self._port.shape) // len(silence)
        if count < 1 or count * len(silence) != math.prod(self._port.shape):
            raise VoiceSetError(f"{self._where} takes {self._port.shape}: not embeddings of {len(silence)} numbers")
        self._seen = np.tile(silence, (count, 1))
        self.score, self.heard = 0.0, -math.inf

    def step(self, embedding: Samples) -> None:
        self._seen = np.concatenate([self._seen[1:], embedding[None]])
        found = self.net.run({self._port.name: self._seen.reshape(tuple(self._port.shape))})
        scores = [float(found[name].reshape(-1)[0]) for name in self._outputs]
        # Where the first net says yes, the second one decides.
        is_asked = self._verify is not None and len(scores) > 1 and scores[0] >= self._verify
        self.score = scores[1] if is_asked else scores[0]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
