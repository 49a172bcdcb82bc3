"""Moonshine's encoder in mixed precision: which of its layers are int8, and the sound that their ranges are seen on.

int8 is the first product of the perceptron (fc1) in some of the encoder's layers. More of it in int8 (fc1 of all of
them, fc2, the projections, the two convolutions) changed more than 2 % of the words that float hears.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.onnxgraph import makers_of
from openrknn.voice.audio import Samples, read_audio, resample
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine_weights import Array
from openrknn.voice.moonshine import Stem, padded, stem_frames

_LAYERS = (1, 2, 4)
"""Layers of Moonshine tiny whose fc1 adds the least noise in int8: alone 41 to 43 dB to float, the others 37 to 40."""

_LONGEST = 10.0
"""Seconds. Longer buckets take the ranges of the shorter ones: a layer's numbers do not depend on the length, and all
values of the float model over 30 s would take gigabytes."""
_PIECES = 12
"""Pieces of sound over all buckets."""
_FILLED = (0.7, 1.0, 0.85)
"""How much of its bucket a piece fills, in turn: the mask is an input, too, and has to be seen at work."""
_MOST_SECONDS = 120.0
"""Of one recording."""
_LEAST = 1e-6
"""A channel that is never larger is as good as empty."""
_CHOSEN = ("MatMul", "Conv", "Add", "Mul", "Softmax")
"""Operators that would be int8 if they were not named."""


def sounds_of(folder: Path, rate: int, advice: str) -> list[Samples]:
    """The recordings (WAV) in a folder, at the model's rate; without any, the error gives `advice`."""
    found = []
    for path in sorted(one for one in folder.rglob("*") if one.suffix.lower() == ".wav" and one.is_file()):
        audio = read_audio(path)
        samples = resample(audio.samples[: round(_MOST_SECONDS * audio.rate)], audio.rate, rate)
        if len(samples) >= rate // 2 and np.abs(samples).max() > 0:
            found.append(samples)
    if not found:
        raise VoiceSetError(f"{folder}: no recording (.wav) of speech that is half a second or longer; {advice}")
    return found


def calibration(stem: Stem, sounds: Sequence[Samples], buckets: Sequence[float], rate: int) -> list[dict[str, Array]]:
    """Inputs of the encoder: pieces of the sounds, in turn for each bucket that is not too long."""
    sizes = [round(seconds * rate) for seconds in buckets if seconds <= _LONGEST] or [round(buckets[0] * rate)]
    pieces = [_Pieces(sound) for sound in sounds]
    feeds = []
    for number in range(max(_PIECES, len(sizes))):
        size = sizes[number % len(sizes)]
        samples = pieces[number % len(pieces)].take(int(size * _FILLED[number % len(_FILLED)]))
        frames, mask = padded(stem(samples), stem_frames(size))
        feeds.append({"frames": frames, "mask": mask})
    return feeds


class _Pieces:
    """A recording that is taken piece by piece, and again from its beginning."""

    def __init__(self, samples: Samples) -> None:
        self._samples, self._at = samples, 0

    def take(self, size: int) -> Samples:
        """The next `size` samples, or all if there are fewer."""
        if self._at + size > len(self._samples):
            self._at = 0
        piece = self._samples[self._at : self._at + size]
        self._at += size
        return piece


def levelled(graph: Any, feeds: Sequence[dict[str, Array]]) -> None:
    """Make the channels that int8 sees alike, in place: what the norm before fc1 is divided by, fc1's weights get.

    int8 has one scale for all channels, and some are eight times as large as the mean. Each gets the geometric mean of
    its own size and of its weights'; in float nothing changes. (3 dB, where it was measured.)
    """
    from onnx import numpy_helper

    from openrknn.compiler.float_model import FloatModel

    constants = {entry.name: entry for entry in graph.graph.initializer}
    makers = makers_of(graph.graph.node)
    products = [node for node in graph.graph.node if node.op_type == "MatMul" and _is_int8(node.name)]
    reach: dict[str, Array] = {}
    model = FloatModel(graph, [node.input[0] for node in products])
    for feed in feeds:
        for name, values in model.run(feed):
            if name not in feed:
                reach[name] = np.maximum(reach.get(name, np.float32(0)), np.abs(values[0]).max(axis=0))
    for node in products:
        norm, weights = (constants[name] for name in (makers[node.input[0]].input[1], node.input[1]))
        matrix = numpy_helper.to_array(weights)
        size = np.maximum(reach[node.input[0]], _LEAST) / np.maximum(np.abs(matrix).max(axis=1), _LEAST)
        factor = np.sqrt(size / np.exp(np.log(size).mean())).astype(np.float32)
        norm.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(norm) / factor, norm.name))
        weights.CopyFrom(numpy_helper.from_array(matrix * factor[:, None], weights.name))


def fp16_layers(graph: Any) -> list[str]:
    """Names of what stays in fp16: everything but those fc1 and their bias."""
    return [node.name for node in graph.graph.node if node.op_type in _CHOSEN and not _is_int8(node.name)]


def _is_int8(name: str) -> bool:
    return name.startswith(tuple(f"{layer}.mlp.fc1." for layer in _LAYERS))
