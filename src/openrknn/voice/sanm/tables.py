"""A set of the two families, opened: its encoder in buckets, its tokens, and what the CPU computes with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openrknn.errors import RknnError
from openrknn.numerics import MASKED
from openrknn.numpyfiles import NpzFile
from openrknn.runtime.session import Session
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.sanm.frontend import FBANK, Array, Frontend, positions
from openrknn.voice.sets import VoiceSet
from openrknn.voice.steps import shape_sets
from openrknn.voice.transducer import read_tokens

_LARGEST_TABLE = 1 << 26


class Tables:
    """Mean and deviation of the bands; SenseVoice has rows for language, events and writing style besides."""

    def __init__(self, voice: VoiceSet) -> None:
        path = voice.file("tables")
        try:
            file = NpzFile(path, largest_bytes=_LARGEST_TABLE)
            self.arrays = {name: np.asarray(file.read(name), np.float32) for name in file.names}
            mean, scale = self.arrays["mean"], self.arrays["scale"]
        except (RknnError, OSError, KeyError, ValueError, TypeError) as error:
            raise VoiceSetError(f"{path}: broken tables of {voice.name!r}: {error}; make the set again") from error
        window, shift = (whole(voice, name) for name in ("window", "shift"))
        if mean.shape != (FBANK.bands * window,) or scale.shape != mean.shape:
            raise VoiceSetError(f"{path}: mean and scale are {mean.shape} and {scale.shape}; make the set again")
        self.frontend = Frontend(mean, scale, window, shift)
        self.tokens = read_tokens(voice.file("tokens"))


class Buckets:
    """An encoder for several lengths: what is shorter is filled up and masked."""

    def __init__(self, voice: VoiceSet, session: Session, width: int) -> None:
        self.session = session
        try:
            shapes = [entry["frames"] for entry in shape_sets(session)]
            self.sizes = sorted(shape[1] for shape in shapes)
            if any(shape[2] != width for shape in shapes):
                raise VoiceSetError(f"{voice.folder}: its encoder takes {shapes[0][2]} numbers a vector, not {width}")
        except (KeyError, IndexError) as error:
            raise VoiceSetError(f"{voice.folder}: its encoder is none of this family: {error} is missing") from error
        self._places = positions(self.sizes[-1], width)
        self._factor = np.float32(1 / np.sqrt(whole(voice, "width")))

    def run(self, vectors: Array) -> tuple[Mapping[str, Array], int]:
        """What the encoder makes of them, and the size of the bucket."""
        count = len(vectors)
        size = next((one for one in self.sizes if one >= count), None)
        if size is None:
            raise VoiceSetError(f"{count} vectors of sound at once; this set takes {self.sizes[-1]}")
        # The model multiplies by the root of its width before it adds places; its first norm takes that out again, and
        # without it fp16 is exact enough.
        filled = self._places[:size] * self._factor
        filled[:count] += vectors
        return run_in(self.session, {"frames": filled[None], **masks(count, size)}), size


def run_in(session: Session, given: dict[str, Array]) -> dict[str, Array]:
    """One run of the graph that has these shapes."""
    session.set_shapes({name: value.shape for name, value in given.items()})
    return {name: np.asarray(value, np.float32) for name, value in session.run(given).items()}


def masks(count: int, size: int, prefix: str = "") -> dict[str, Array]:
    """What hides the filling: added to scores, and multiplied with rows."""
    seen = np.arange(size) < count
    hidden = np.where(seen, 0, -MASKED).astype(np.float32)
    return {f"{prefix}mask": hidden[None, None, None], f"{prefix}keep": seen.astype(np.float32)[None, :, None]}


def whole(voice: VoiceSet, name: str) -> int:
    """An option of the set that is a number."""
    value = voice.options.get(name)
    if type(value) is not int or not 1 <= value <= 100_000:
        raise VoiceSetError(f"{voice.folder}: its {name!r} should be a number from 1 to 100000, not {value!r:.60}")
    return value
