"""A set of Moonshine: encoder and decoder for all buckets, tables and tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.container.onnxdata import check_onnx_file
from openrknn.onnxgraph import makers_of
from openrknn.voice.audio import Samples
from openrknn.voice.decoding import most_tokens
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine_graphs import GROUP, decoder_graph, encoder_graph, filled_rows
from openrknn.voice.make.moonshine_weights import Array, Weights, decoder_weights, encoder_weights
from openrknn.voice.make.nets import find_below
from openrknn.voice.make.recordings import sounds_of
from openrknn.voice.moonshine import Stem, padded, states, stem_frames
from openrknn.voice.sets import VoiceSet, write_set
from openrknn.voice.tokens import read_pieces, write_pieces

PRECISIONS = ("fp16", "mixed")
WHY = (
    "All of it in int8 would hear other words: there is fp16, and mixed, which has the first product of the "
    "perceptron in some of the encoder's layers in int8, and the rest in fp16"
)

BUCKETS = (1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30)
"""Seconds of sound that the encoder has graphs for."""
_STEPS = (2, 4, 6, 10, 15, 30)
"""Seconds that the decoder has graphs for: fewer, as they differ only in how much sound they see, which costs less."""
_RATE = 16_000
_LEVELS = 256
_MOST_MARKS = 768
_POSITIONS = 194
"""As many tokens as Moonshine was trained for."""


def make(
    source: Path,
    folder: Path,
    target: str = "rk3588",
    *,
    name: str = "moonshine-tiny",
    origin: str = "",
    precision: str = "fp16",
    progress: Callable[[str, int, int], None] | None = None,
    buckets: Sequence[float] = BUCKETS,
    licence: str = "MIT",
    calibrate: Path | None = None,
) -> VoiceSet:
    """From a folder with `encoder_model`, `decoder_model_merged` (.ort or .onnx) and `tokenizer.bin`.

    `precision="mixed"`: fc1 of some of the encoder's layers in int8, with the ranges that it has on the recordings in
    `calibrate`, or on those that lie beside the models.
    """
    if precision not in PRECISIONS:
        raise VoiceSetError(f"{name}: no precision {precision!r}. {WHY}")
    sounds = []
    if precision == "mixed":
        sounds = sounds_of(calibrate or source, _RATE)
    report = progress or (lambda *_: None)
    steps = 4
    report("reading weights", 0, steps)
    decoder = _decoder(source)
    where = find_below(source, "encoder_model.ort", "encoder_model.onnx", "*moonshine*encoder*.onnx")
    encoder = encoder_weights(_read(where), where.name, decoder.heads)
    tokens = find_below(source, "tokenizer.bin", "*tokenizer*.bin")
    report("tables", 1, steps)
    _tables(folder / "tables.npz", encoder)
    write_pieces(folder / "tokens.bin", _pieces(tokens, len(decoder["embed"])))
    report("compiling the encoder", 2, steps)
    times = [stem_frames(round(seconds * _RATE)) for seconds in buckets]
    width = encoder.width
    shapes: dict[str, list[tuple[int, ...]]] = {
        "frames": [(1, width, time) for time in times],
        "mask": [(1, 1, 1, states(time)) for time in times],
    }
    graph = encoder_graph(encoder, decoder, times[-1])
    chosen: dict[str, Any] = {"fp16": True}
    if sounds:
        stem = Stem(_kernel(encoder), encoder["groupnorm.weight"], encoder["groupnorm.bias"])
        feeds = calibration(stem, sounds, buckets, _RATE)
        levelled(graph, feeds)
        chosen = {"calibration": feeds, "fp16_layers": fp16_layers(graph), "method": "mse", "adaptive_rounding": False}
    _compile(graph, folder / "encoder.rknn", target, shapes, chosen)
    report("compiling the decoder", 3, steps)
    seconds = [one for one in buckets if one in _STEPS or one == buckets[-1]]
    sizes = [(states(stem_frames(round(one * _RATE))), min(_POSITIONS, most_tokens(one) + 2)) for one in seconds]
    (folder / "decoder.rknnz").write_bytes(_decoder_file(decoder, target, sizes))
    report("done", steps, steps)
    made = VoiceSet(
        folder, name, "moonshine", "transcriber", _RATE, "en", target, licence, origin or source.name,
        files={"encoder": "encoder.rknn", "decoder": "decoder.rknnz", "tables": "tables.npz", "tokens": "tokens.bin"},
        options={"buckets": list(buckets), "precision": precision},
    )  # fmt: skip
    write_set(made)
    return made


def _pieces(path: Path, words: int) -> list[bytes]:
    """Of all words that the decoder knows: some files end before the marks, which are never said."""
    pieces = read_pieces(path)
    missing = words - len(pieces)
    if missing > _MOST_MARKS:
        raise VoiceSetError(f"{path}: {len(pieces)} pieces for {words} words; this is the tokenizer of another model")
    return [*pieces, *(f"<<ST_{number}>>".encode() for number in range(missing))]


def _decoder(source: Path) -> Weights:
    """From the merged decoder, or from the two halves that it is merged from."""
    try:
        path = find_below(source, "decoder_model_merged.ort", "decoder_model_merged.onnx")
    except VoiceSetError:
        first = find_below(source, "*decoder_first.onnx", "decoder_model.onnx")
        step = find_below(source, "*decoder_step.onnx", "decoder_with_past_model.onnx")
        early, late = _read(first), _read(step)
        # The first step has all weights; the later ones say how many heads there are.
        early.graph.input.extend(entry for entry in late.graph.input if entry.name.startswith("past_key_values"))
        return decoder_weights(early, first.name)
    return decoder_weights(_read(path), path.name)


def _read(path: Path) -> Any:
    """As ONNX, whichever way it is stored."""
    if path.suffix == ".ort":
        from openrknn.compiler.importer.formats import ort

        return ort.read(path)
    import onnx

    try:
        check_onnx_file(path)
        return onnx.load(str(path))
    except Exception as error:  # protobuf's own classes differ between its versions
        raise VoiceSetError(f"{path}: not an ONNX model: {error}") from error


def _tables(path: Path, encoder: Weights) -> None:
    """What the CPU computes the stem with."""
    scale, shift = encoder["groupnorm.weight"], encoder["groupnorm.bias"]
    np.savez(path, kernel=_kernel(encoder), scale=scale, shift=shift)


def _kernel(encoder: Weights) -> Array:
    return np.ascontiguousarray(encoder["conv1.weight"][:, 0].T)


def _decoder_file(decoder: Weights, target: str, sizes: Sequence[tuple[int, int]]) -> bytes:
    """The decoder with its tables, one graph for each (states, tokens); all of them share the weights."""
    from openrknn.compiler.sequence.make import pack_decoder
    from openrknn.compiler.sequence.rewrite import Step
    from openrknn.compiler.sequence.tables import Table

    rows = [tuple(-(-size // GROUP) * GROUP for size in pair) for pair in sizes]
    parts = [f"{layer}.{part}" for layer in range(decoder.layers) for part in ("key", "value")]
    cos, sin = filled_rows(decoder, max(tokens for _, tokens in rows))
    place = (1, cos.shape[1], 1, 1)
    step = Step(
        decoder_graph(decoder),
        {"token": _embedding(decoder["embed"], (1, decoder.width, 1, 1)), "cos": Table.of("position", place, cos),
         "sin": Table.of("position", place, sin)},
        {f"cache.{part}": f"new.{part}" for part in parts},
        tuple(f"cross.{part}" for part in parts),
        {f"{kind}.{part}": 3 for kind in ("cache", "cross") for part in parts},
    )  # fmt: skip
    opened = {entry.name: [dim.dim_param or int(dim.dim_value) for dim in entry.type.tensor_type.shape.dim]
              for entry in step.model.graph.input}  # fmt: skip
    names = [{"time": time, "capacity": tokens} for time, tokens in rows]
    shapes: dict[str, list[tuple[int, ...]]] = {
        name: [tuple(known.get(str(size), size) for size in shape) for known in names]
        for name, shape in opened.items()
        if any(isinstance(size, str) for size in shape)
    }
    return pack_decoder(
        step, target, capacity=min(_POSITIONS, max(tokens for _, tokens in rows)),
        frames=max(time for time, _ in rows), fp16=True, cores=1, shapes=shapes,
    )  # fmt: skip


def _embedding(rows: Array, shape: tuple[int, ...]) -> Any:
    """Rows of 256 levels at the same distance (the package's models) are kept as bytes, others as fp16."""
    from openrknn.compiler.sequence.tables import Table

    levels = np.unique(rows)
    step = float(np.diff(levels).min()) if 1 < len(levels) <= _LEVELS else 0.0
    if step:
        numbers = np.rint((rows - levels[0]) / np.float32(step))
        zero = int(np.rint(-levels[0] / step))
        scale = np.array([step], np.float32)
        is_even = np.allclose((numbers - zero) * scale, rows, atol=step / 64)
        if numbers.max() < _LEVELS and abs(zero) < _LEVELS and is_even:
            return Table("token", shape, numbers.astype(np.uint8), scale, zero)
    return Table.of("token", shape, rows)


def _compile(
    graph: Any, to: Path, target: str, shapes: dict[str, list[tuple[int, ...]]], chosen: dict[str, Any]
) -> None:
    from openrknn.compiler import compile_onnx
    from openrknn.container.save import save

    save(compile_onnx(graph, target, cores=1, shapes=shapes, **chosen), to)


# Moonshine's encoder in mixed precision: which of its layers are int8, and the sound that their ranges are seen on.
#
# int8 is the first product of the perceptron (fc1) in some of the encoder's layers. More of it in int8 (fc1 of all of
# them, fc2, the projections, the two convolutions) changed more than 2 % of the words that float hears.

_LAYERS = (1, 2, 4)
"""Layers of Moonshine tiny whose fc1 adds the least noise in int8: alone 41 to 43 dB to float, the others 37 to 40."""

_LONGEST = 10.0
"""Seconds. Longer buckets take the ranges of the shorter ones: a layer's numbers do not depend on the length, and all
values of the float model over 30 s would take gigabytes."""
_PIECES = 12
"""Pieces of sound over all buckets."""
_FILLED = (0.7, 1.0, 0.85)
"""How much of its bucket a piece fills, in turn: the mask is an input, too, and has to be seen at work."""
_LEAST = 1e-6
"""A channel that is never larger is as good as empty."""
_CHOSEN = ("MatMul", "Conv", "Add", "Mul", "Softmax")
"""Operators that would be int8 if they were not named."""


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
