"""Moonshine: raw sound, no spectrogram; an encoder in buckets of lengths and a decoder with a cache.

Sound is brought to the next larger bucket. The stem (first convolution, tanh, and a norm over the whole recording) is
computed here in float for exactly the sound that is there; behind it the padding is masked, so a bucket's length
changes nothing about the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.errors import FormatError, RknnError
from openrknn.numerics import MASKED
from openrknn.numpyfiles import NpzFile
from openrknn.runtime.decoder import Decoder
from openrknn.voice.audio.sound import Samples
from openrknn.voice.decoding import most_tokens, search
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.listener import Heard, ListenOptions
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import open_net, shape_sets
from openrknn.voice.tokens import Tokenizer

Array = npt.NDArray[np.float32]
_WINDOW, _STRIDE = 127, 64
_LARGEST_TABLE = 1 << 28
_EPSILON = 1e-5
_SHORTEST = 0.1
"""Seconds. Shorter sound is completed with silence: the convolutions need at least one whole window of windows."""


def stem_frames(samples: int) -> int:
    """How many frames the stem makes of so many samples."""
    return (samples - _WINDOW) // _STRIDE + 1


def states(frames: int) -> int:
    """How many states the encoder makes of so many frames."""
    return ((frames - 7) // 3 + 1 - 3) // 2 + 1


class Stem:
    """The first convolution, tanh and GroupNorm of one group, in float."""

    def __init__(self, kernel: Array, scale: Array, shift: Array) -> None:
        """`kernel` is [window, width]."""
        self.kernel, self.scale, self.shift = kernel, scale, shift

    def __call__(self, samples: Samples) -> Array:
        """Frames [width, frames]."""
        windows = np.lib.stride_tricks.sliding_window_view(samples, _WINDOW)[::_STRIDE]
        frames = np.ascontiguousarray(windows) @ self.kernel
        np.tanh(frames, out=frames)
        frames -= frames.mean()
        spread = np.sqrt(np.square(frames).mean() + np.float32(_EPSILON))
        frames *= self.scale / spread
        frames += self.shift
        return np.ascontiguousarray(frames.T)


class Tables:
    """What the CPU computes with: the stem's weights."""

    def __init__(self, voice: VoiceSet) -> None:
        path = voice.file("tables")
        try:
            file = NpzFile(path, largest_bytes=_LARGEST_TABLE)
            found = {name: file.read(name) for name in file.names}
            floats = {name: np.asarray(found[name], np.float32) for name in found}
            self.stem = Stem(floats["kernel"], floats["scale"], floats["shift"])
        except (RknnError, OSError, KeyError, ValueError, TypeError) as error:
            raise VoiceSetError(f"{path}: broken tables of {voice.name!r}: {error}; make the set again") from error
        width = self.stem.kernel.shape[-1]
        shapes = (self.stem.scale.shape, self.stem.shift.shape)
        if self.stem.kernel.shape != (_WINDOW, width) or any(shape != (width,) for shape in shapes):
            raise VoiceSetError(f"{path}: tables of other shapes than Moonshine's")


class CachedDecoder:
    """The decoder as the search takes it; its cache stays on the device."""

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def hear(self, cross: Mapping[str, Array], states_: int, tokens: int) -> None:
        """Take the keys and values of a piece of sound; the first `states_` of their rows are sound."""
        self.decoder.start({name: rows[:, :, :states_] for name, rows in cross.items()}, tokens=tokens)

    def begin(self, beams: int) -> None:
        """At the beginning of a text."""
        if beams != self.decoder.beams:
            self.decoder.beams = beams
        self.decoder.reset()

    def step(self, tokens: Sequence[int]) -> Array:
        """One token for every beam."""
        return self.decoder.step(list(tokens))

    def reorder(self, order: Sequence[int]) -> None:
        """Beam n goes on where beam `order[n]` was."""
        self.decoder.reorder(order)


class Moonshine(Closing):
    """A set of the family, opened."""

    least_confidence = 0.5
    """Speech that it understands has 0.6 and more, other languages and a crowd of voices 0.2 to 0.5 (docs/voice.md)."""
    has_beams = True

    def __init__(self, voice: VoiceSet, device: str = "auto") -> None:
        self.rate = voice.rate
        self._tables = Tables(voice)
        self._tokenizer = Tokenizer.read(voice.file("tokens"))
        self._encoder = open_net(voice, "encoder", device)
        try:
            self._decoder = CachedDecoder(_open_decoder(voice, device))
        except BaseException:
            self._encoder.close()
            raise
        try:
            self._buckets = sorted(entry["frames"][2] for entry in shape_sets(self._encoder))
        except (KeyError, IndexError) as error:
            self.close()
            raise VoiceSetError(f"{voice.folder}: its nets are no Moonshine's: {error} is missing") from error
        words = self._decoder.decoder.vocabulary
        if len(self._tokenizer) < words:
            self.close()
            raise VoiceSetError(
                f"{voice.file('tokens')}: {len(self._tokenizer)} pieces for {words} words; make it again"
            )
        self._most = self._decoder.decoder.file.capacity
        self.longest = ((self._buckets[-1] - 1) * _STRIDE + _WINDOW) / self.rate

    def encode(self, samples: Samples) -> tuple[dict[str, Array], int]:
        """Keys and values of the cross attention, and how many of their rows are sound."""
        least = int(_SHORTEST * self.rate)
        if len(samples) < least:
            samples = np.concatenate([samples, np.zeros(least - len(samples), np.float32)])
        frames = self._tables.stem(samples)
        count = frames.shape[1]
        bucket = next((size for size in self._buckets if size >= count), None)
        if bucket is None:
            raise VoiceSetError(f"{len(samples) / self.rate:.1f} s at once; this set takes {self.longest:.1f} s")
        filled, mask = padded(frames, bucket)
        self._encoder.set_shapes({"frames": filled.shape, "mask": mask.shape})
        return self._encoder.run({"frames": filled, "mask": mask}), states(count)

    def hear(self, samples: Samples, options: ListenOptions = ListenOptions()) -> Heard:  # noqa: B008 - frozen
        """The text of one piece of sound."""
        cross, count = self.encode(samples)
        most = min(most_tokens(len(samples) / self.rate), self._most - 1)
        self._decoder.hear(cross, count, most + 1)
        found = search(self._decoder, most, options.beam)
        return Heard(self._tokenizer.text(found.tokens), found.tokens, found.confidence, logs=found.logs)

    def token_bytes(self, token: int) -> bytes:
        """The text of one token."""
        return self._tokenizer.bytes_of(token)

    def logits(self, samples: Samples, tokens: Sequence[int]) -> Array:
        """What the model says after each of these tokens, [tokens, words]: for comparisons with other runtimes."""
        cross, count = self.encode(samples)
        self._decoder.hear(cross, count, len(tokens))
        self._decoder.begin(1)
        return np.concatenate([self._decoder.step([token]) for token in tokens])

    def close(self) -> None:
        """Give the nets back."""
        self._encoder.close()
        self._decoder.decoder.close()


def padded(frames: Array, size: int) -> tuple[Array, Array]:
    """The encoder's inputs: frames of the stem filled up to `size`, and the mask that hides the filling."""
    count = frames.shape[1]
    filled = np.zeros((1, frames.shape[0], size), np.float32)
    filled[0, :, :count] = frames
    mask = np.where(np.arange(states(size)) < states(count), 0, -MASKED).astype(np.float32)
    return filled, mask[None, None, None]


def _open_decoder(voice: VoiceSet, device: str) -> Decoder:
    path = voice.file("decoder")
    try:
        return Decoder(path, device)
    except (FormatError, OSError) as error:
        raise VoiceSetError(f"{path}: {error}; make the set {voice.name!r} again (openrknn voice get)") from error
