"""Which of Whisper's products are int8, and the ranges of what they read: seen, and measured, on recordings.

What a group of products costs is the divergence of the decoder's distributions from float's, on the text that the float
model hears in the recordings. All groups are measured alone; those that cost least for their weights are int8, as long
as their costs together stay below a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.quantise.ranges import Range, quantization_for
from openrknn.compiler.quantise.weights import quantize_weights
from openrknn.llm.quantise.measure import log_softmax
from openrknn.voice.audio import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint
from openrknn.voice.make.whisper.floats import FloatSteps, heard, text_feed, text_graph
from openrknn.voice.make.whisper.folds import folded
from openrknn.voice.make.whisper.graphs import encoder_graph, room_of
from openrknn.voice.whisper.model import HOP, mel_of
from openrknn.voice.whisper.vocabulary import Vocabulary

BOUND = 0.0003
"""Nats for a token. The word error rate of whisper-tiny grew with the divergence: 11.6 % at 0.0021, 26 % at 0.0046."""
_WINDOWS = 4
"""Pieces of recordings that are measured on, at even distances in all of them."""
LANGUAGES = 3
"""Languages of the recordings at least: with ranges of English alone, whisper-tiny hears other words in the others."""
_SIDES = ("encoder", "decoder")

Progress = Callable[[str, int, int], None]


class Group(NamedTuple):
    """Products that read the same numbers, by the names of their nodes."""

    side: str
    products: tuple[str, ...]
    weights: int


@dataclass(frozen=True)
class Mixed:
    """A checkpoint with factors folded in, and the ranges of its int8 products by the names of their nodes."""

    weights: Checkpoint
    ranges: dict[str, dict[str, Range]]
    """Of encoder and decoder."""
    losses: dict[str, float]
    """The first product of each group -> what all of it costs alone, in nats for a token."""
    loss: float
    """Of all that was chosen, together."""


def choose(
    weights: Checkpoint, pieces: Sequence[bytes], sounds: Sequence[Samples], *, multilingual: bool,
    bound: float | None = None, progress: Progress = lambda *_: None,
) -> Mixed:  # fmt: skip
    """Fold, see ranges, measure every group alone, and take what the bound (`BOUND`) has room for."""
    bound = BOUND if bound is None else bound
    trial = _Trial.of(weights, Vocabulary(pieces, multilingual=multilingual), windows(sounds, weights))
    if multilingual and len(trial.languages) < LANGUAGES:
        raise VoiceSetError(
            f"the recordings for mixed precision are in {', '.join(sorted(trial.languages))}: their ranges are too "
            f"small for other languages; `--calibrate FOLDER` with recordings in {LANGUAGES} or more"
        )
    read = {name: pair for side in _SIDES for name, pair in trial.read(side).items()}
    made, ranges = folded(weights, {_place(name): _own(weights, name, pair) for name, pair in read.items()})
    trial.use(made)
    for name, (low, high) in read.items():
        ranges.setdefault(_place(name), (float(low.min()), float(high.max())))
    groups = [group for side in _SIDES for group in trial.groups(side)]
    losses = {}
    for number, group in enumerate(groups):
        progress("measuring int8", number, len(groups))
        losses[group] = trial.loss({group.side: {name: ranges[_place(name)] for name in group.products}})
    chosen, spent = list[Group](), 0.0
    for group in sorted(groups, key=lambda one: losses[one] / one.weights):
        if spent + losses[group] <= bound:
            chosen.append(group)
            spent += losses[group]
    loss = bound + 1
    while chosen:
        picked = {
            side: {name: ranges[_place(name)] for group in chosen if group.side == side for name in group.products}
            for side in _SIDES
        }
        loss = trial.loss(picked)
        if loss <= bound:
            break
        chosen.remove(max(chosen, key=lambda one: losses[one]))
    else:
        picked, loss = {side: {} for side in _SIDES}, 0.0
    return Mixed(made, picked, {group.products[0]: cost for group, cost in losses.items()}, loss)


def windows(sounds: Sequence[Samples], weights: Checkpoint) -> list[Array]:
    """Spectra [1, bands, frames] of pieces of the recordings; what is shorter than a window ends in silence."""
    size = 2 * weights.frames * HOP
    cut = [sound[at : at + size] for sound in sounds for at in range(0, len(sound), size)]
    found = []
    for number in range(min(_WINDOWS, len(cut))):
        samples = cut[number * len(cut) // min(_WINDOWS, len(cut))]
        mel = np.zeros((1, weights.mels, 2 * weights.frames), np.float32)
        given = mel_of(samples, weights.mels)[:, : mel.shape[2]]
        mel[0, :, : given.shape[1]] = given
        found.append(mel)
    return found


def with_int8(model: Any, ranges: Mapping[str, Range]) -> Any:
    """The float model as its products will be: inputs and weights of those with a range are rounded."""
    import onnx
    from onnx import helper, numpy_helper

    made = onnx.ModelProto()
    made.CopyFrom(model)
    constants = {entry.name: entry for entry in made.graph.initializer}
    nodes, known = [], dict[tuple[str, Range], str]()
    for node in made.graph.node:
        if node.name in ranges:
            matrix = numpy_helper.to_array(constants[node.input[1]])
            real = quantize_weights(np.ascontiguousarray(matrix.T, np.float64)).real.T.astype(np.float32)
            constants[node.input[1]].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(real), node.input[1]))
            key = node.input[0], ranges[node.name]
            if key not in known:
                known[key] = stored = f"{node.name}.rounded"
                numbers = quantization_for(*key[1])
                scale = numpy_helper.from_array(np.array(numbers.scale, np.float32), f"{stored}.scale")
                zero = numpy_helper.from_array(np.array(numbers.zero_point, np.int8), f"{stored}.zero")
                made.graph.initializer.extend([scale, zero])
                nodes += [
                    helper.make_node("QuantizeLinear", [key[0], scale.name, zero.name], [f"{stored}.int8"]),
                    helper.make_node("DequantizeLinear", [f"{stored}.int8", scale.name, zero.name], [stored]),
                ]
            node.input[0] = known[key]
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del made.graph.node[:]
    made.graph.node.extend(kept)
    return made


@dataclass
class _Trial:
    """Windows with the text that float hears in them, and the graphs of a checkpoint."""

    weights: Checkpoint
    mels: list[Array]
    texts: list[list[int]]
    languages: set[str]
    """That float detects."""
    states: list[dict[str, Array]]
    graphs: dict[str, Any] = field(default_factory=dict)
    wanted: list[npt.NDArray[np.float64]] = field(default_factory=list)
    """Logarithms of float's probabilities."""

    @classmethod
    def of(cls, weights: Checkpoint, vocabulary: Vocabulary, mels: list[Array]) -> _Trial:
        graph = encoder_graph(weights)
        model, steps = FloatModel(graph, _outputs(graph), fuses=True), FloatSteps(weights)
        states = [_run(model, {"mel": mel}) for mel in mels]
        texts = [heard(steps, vocabulary, one, weights.context // 2) for one in states]
        languages = {code for text in texts for code, token in vocabulary.languages.items() if token in text[:2]}
        made = cls(weights, mels, texts, languages, states)
        made.use(weights)
        return made

    def use(self, weights: Checkpoint) -> None:
        """Another checkpoint of the same model."""
        self.weights = weights
        tokens = max(len(text) for text in self.texts)
        self.graphs = {"encoder": encoder_graph(weights), "decoder": text_graph(weights, tokens)}
        self.states = list(self._states({}))
        self.wanted = [log_softmax(rows) for rows in self._logits(self.states, {})]

    def groups(self, side: str) -> list[Group]:
        """By what they read."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name, (source, size) in _products(self.graphs[side]).items():
            found.setdefault(source, []).append((name, size))
        return [Group(side, tuple(name for name, _ in rows), sum(size for _, size in rows)) for rows in found.values()]

    def read(self, side: str) -> dict[str, tuple[Array, Array]]:
        """Product -> the smallest and the largest number of each channel that it reads."""
        graph = self.graphs[side]
        sources = {name: source for name, (source, _) in _products(graph).items()}
        model = FloatModel(graph, sorted(set(sources.values())))
        found: dict[str, tuple[Array, Array]] = {}
        for number, mel in enumerate(self.mels):
            text = self.texts[number]
            is_text = side == "decoder"
            feed = text_feed(graph, self.weights, self.states[number], text) if is_text else {"mel": mel}
            for name, values in _run(model, feed).items():
                rows = values.reshape(-1, values.shape[-1])[: len(text) if is_text else None]
                low, high = rows.min(axis=0), rows.max(axis=0)
                before = found.get(name, (low, high))
                found[name] = np.minimum(before[0], low), np.maximum(before[1], high)
        return {name: found[source] for name, source in sources.items()}

    def loss(self, ranges: Mapping[str, Mapping[str, Range]]) -> float:
        """Mean divergence from float, in nats for a token, with these products in int8."""
        states = self._states(ranges["encoder"]) if ranges.get("encoder") else iter(self.states)
        found = []
        for wanted, rows in zip(self.wanted, self._logits(states, ranges.get("decoder", {})), strict=True):
            found.append((np.exp(wanted) * (wanted - log_softmax(rows))).sum(axis=1))
        return float(np.concatenate(found).mean())

    def _states(self, ranges: Mapping[str, Range]) -> Iterator[dict[str, Array]]:
        graph = self.graphs["encoder"]
        model = FloatModel(with_int8(graph, ranges), _outputs(graph), fuses=True)
        return (_run(model, {"mel": mel}) for mel in self.mels)

    def _logits(self, states: Any, ranges: Mapping[str, Range]) -> Iterator[Array]:
        graph = self.graphs["decoder"]
        model = FloatModel(with_int8(graph, ranges), ["logits"], fuses=True)
        for text, one in zip(self.texts, states, strict=True):
            rows = _run(model, text_feed(graph, self.weights, one, text))["logits"]
            yield rows[0, :, 0, : len(text)].T


def _run(model: FloatModel, feed: dict[str, Array]) -> dict[str, Array]:
    return {name: value for name, value in model.run(feed) if name not in feed}


def _outputs(graph: Any) -> list[str]:
    return [entry.name for entry in graph.graph.output]


def _products(graph: Any) -> dict[str, tuple[str, int]]:
    """Products with weights -> what they read, and how many weights they have."""
    sizes = {entry.name: int(np.prod(entry.dims)) for entry in graph.graph.initializer}
    return {node.name: (node.input[0], sizes[node.input[1]]) for node in graph.graph.node
            if node.op_type == "MatMul" and node.input[1] in sizes}  # fmt: skip


def _place(name: str) -> str:
    """The weights of a node."""
    return name.removesuffix(".product")


def _is_roomy(name: str) -> bool:
    """Whether it reads heads of the decoder, which are filled up to whole groups of channels."""
    return name.startswith("decoder.") and name.endswith("attn.out.product")


def _own(weights: Checkpoint, name: str, pair: tuple[Array, Array]) -> tuple[Array, Array]:
    """Without the channels that fill heads up."""
    if not _is_roomy(name):
        return pair
    heads = weights.head_count("decoder")
    low, high = (
        one.reshape(heads, room_of(weights))[:, : weights.width("decoder") // heads].reshape(-1) for one in pair
    )
    return low, high
