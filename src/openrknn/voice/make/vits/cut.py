"""Where a VITS graph is cut: found from what the operators do, not from their names.

    ids -> embedding -> [encoder] -> hidden, mean, logs            lengths in phonemes
    hidden, noise_w  -> [durations] -> frames of each phoneme       splines and chance: the CPU, in float
    mean and logs, repeated, + noise                                the length regulator: NumPy
    latent           -> [flow] -> z                                 lengths in frames
    z                -> [decoder] -> samples

Landmarks: `Ceil` makes the durations; the operator of chance that they do not depend on is the noise of the latent; it
is scaled by `Exp` and added to the mean; both come out of a product with the path, which `CumSum` makes of the
durations. The last operator that reads the mask of the frames is where the decoder begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.onnxgraph import OnnxGraph
from openrknn.voice.errors import VoiceSetError

_CHANCE = {"RandomNormalLike", "RandomNormal"}


class VitsError(VoiceSetError):
    """The graph is not one of VITS as Piper exports it; the message says what was looked for."""


@dataclass(frozen=True)
class Stages:
    """The four models and the tables of a voice."""

    encoder: Any
    """embedded [1, T, H], mask [1, 1, T] -> hidden [1, H, T], mean [1, C, T], logs [1, C, T]"""
    durations: Any
    """hidden, mask, scales [3], noise [1, 2, T] (where the predictor is stochastic), speaker -> frames [1, 1, T]"""
    flow: Any
    """latent [1, C, F], mask [1, 1, F], speaker [1, G] -> z [1, C, F]"""
    decoder: Any
    """z [1, C, F], speaker -> samples [1, 1, 1, F * hop]"""
    embedding: npt.NDArray[np.float32]
    speakers: npt.NDArray[np.float32] | None
    channels: int
    hop: int
    flow_reach: int
    decoder_reach: int
    is_stochastic: bool


@dataclass(frozen=True)
class _Marks:
    embedded: str
    mask: str
    hidden: str
    mean: str
    logs: str
    frames: str
    noise_w: str
    latent: str
    frame_mask: str
    z: str
    speaker: str


def cut_vits(model: Any) -> Stages:
    """Cut it, or say what was looked for and not found."""
    graph = OnnxGraph(model)
    _check_inputs(graph)
    marks, embedding, speakers = _marks(graph)
    width, channels = embedding.shape[1], _channels(graph, marks)
    phonemes = {marks.mask: ("mask", (1, 1, "phonemes"))}
    speaker: dict[str, tuple[str, tuple[int | str, ...]]] = (
        {marks.speaker: ("speaker", (1, speakers.shape[1]))} if speakers is not None else {}
    )
    encoder = _part(
        graph, "text encoder", {marks.embedded: ("embedded", (1, "phonemes", width)), **phonemes},
        {marks.hidden: "hidden", marks.mean: "mean", marks.logs: "logs"},
    )  # fmt: skip
    chance = {marks.noise_w: ("noise", (1, 2, "phonemes"))} if marks.noise_w else {}
    durations = _part(
        graph, "duration predictor",
        {marks.hidden: ("hidden", (1, width, "phonemes")), **phonemes, "scales": ("scales", (3,)), **chance, **speaker},
        {marks.frames: "frames"},
    )  # fmt: skip
    flow = _part(
        graph, "flow",
        {marks.latent: ("latent", (1, channels, "frames")), marks.frame_mask: ("mask", (1, 1, "frames")), **speaker},
        {marks.z: "z"},
    )  # fmt: skip
    decoder = _part(
        graph, "decoder", {marks.z: ("z", (1, channels, "frames")), **speaker}, {graph.outputs[0]: "samples"}
    )
    hop, decoder_reach = reach_of(OnnxGraph(decoder), "z", "samples")
    _, flow_reach = reach_of(OnnxGraph(flow), "latent", "z")
    return Stages(
        encoder, durations, flow, decoder, embedding, speakers, channels, hop, flow_reach, decoder_reach,
        bool(marks.noise_w),
    )  # fmt: skip


def _part(graph: OnnxGraph, what: str, inputs: Any, outputs: Any) -> Any:
    used = {name for number in graph.above(outputs, stop=inputs) for name in graph.nodes[number].input}
    model, loose = graph.between({name: entry for name, entry in inputs.items() if name in used}, outputs)
    if loose:
        raise VitsError(f"the {what} also depends on {', '.join(loose[:4])}, which Piper's do not; {_LOOKED}")
    return model


_LOOKED = (
    "looked for VITS as Piper exports it: inputs `input`, `input_lengths`, `scales` (and `sid`), durations by Ceil and "
    "CumSum, noise by RandomNormalLike, one output"
)


def _check_inputs(graph: OnnxGraph) -> None:
    if set(graph.inputs) - {"sid"} != {"input", "input_lengths", "scales"} or len(graph.outputs) != 1:
        raise VitsError(
            f"inputs {', '.join(list(graph.inputs)[:8]) or 'none'} and {len(graph.outputs)} outputs are not those of a "
            f"Piper voice; {_LOOKED}"
        )


def _one(found: list[Any], what: str) -> Any:
    if len(found) != 1:
        raise VitsError(f"{what}: {len(found)} found in the graph, one is needed; {_LOOKED}")
    return found[0]


def _table(graph: OnnxGraph, source: str) -> tuple[str, npt.NDArray[np.float32]] | None:
    """(The rows that are looked up by an input, the table)."""
    for number in graph.readers.get(source, ()):
        node = graph.nodes[number]
        if node.op_type == "Gather" and node.input[1] == source:
            array = graph.constant(node.input[0])
            if array is not None and array.ndim == 2:
                return node.output[0], array.astype(np.float32)
    return None


def _marks(graph: OnnxGraph) -> tuple[_Marks, npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
    table = _table(graph, "input")
    if table is None:
        raise VitsError(f"no table of phonemes that `input` looks up; {_LOOKED}")
    voices = _table(graph, "sid") if "sid" in graph.inputs else None
    ceil = _one([node for node in graph.nodes if node.op_type == "Ceil"], "durations (Ceil)")
    early = graph.above(ceil.output)
    chance = [number for number, node in enumerate(graph.nodes) if node.op_type in _CHANCE]
    late = graph.nodes[_one([number for number in chance if number not in early], "noise of the latent")]
    noise_w = [number for number in chance if number in early]
    if len(noise_w) > 1:
        raise VitsError(f"noise of the durations: {len(noise_w)} found in the graph, one at most is known; {_LOOKED}")
    latent, mean_frames, logs_frames = _latent(graph, late)
    mean, logs = _before_path(graph, mean_frames), _before_path(graph, logs_frames)
    mask = _mask(graph, ceil)
    hidden = _hidden(graph, (mean, logs), early, mask)
    frame_mask, z = _frames(graph, latent, voices[0] if voices else "")
    marks = _Marks(
        table[0], mask, hidden, mean, logs, ceil.output[0],
        graph.nodes[noise_w[0]].output[0] if noise_w else "", latent, frame_mask, z, voices[0] if voices else "",
    )  # fmt: skip
    return marks, table[1], voices[1] if voices else None


def _latent(graph: OnnxGraph, noise: Any) -> tuple[str, str, str]:
    """(latent, mean, logarithm of the deviation) of mean + noise * exp(logs) * scale."""
    name, logs = noise.output[0], ""
    for _ in range(4):
        node = graph.nodes[_one(graph.readers.get(name, []), "what reads the noise")]
        others = [other for other in node.input if other != name]
        if node.op_type == "Add" and logs:
            return node.output[0], others[0], logs
        for other in others if node.op_type == "Mul" else ():
            maker = graph.maker(other)
            if maker is not None and maker.op_type == "Exp":
                logs = maker.input[0]
        name = node.output[0]
    raise VitsError(f"mean + noise * exp(logs) * scale was not found behind the noise; {_LOOKED}")


def _before_path(graph: OnnxGraph, name: str) -> str:
    """Above the product with the path: a value in phonemes, [1, C, T]."""
    product = graph.maker(graph.up(name, lambda node: node.op_type == "Transpose"))
    if product is None or product.op_type != "MatMul":
        raise VitsError(f"{name!r} is not a product with the path of the durations; {_LOOKED}")
    early = [
        other for other in product.input
        if not any(graph.nodes[number].op_type == "Ceil" for number in graph.above([other]))
    ]  # fmt: skip
    return graph.up(_one(early, "factor of the path's product"), lambda node: node.op_type == "Transpose")


def _mask(graph: OnnxGraph, ceil: Any) -> str:
    """exp(log durations) * mask * length scale: the factor that is neither."""
    ahead, found = [ceil.input[0]], []
    while ahead:
        name = ahead.pop()
        node = graph.maker(name)
        if node is not None and node.op_type == "Mul":
            ahead.extend(node.input)
        elif node is not None and node.op_type != "Exp" and not graph.depends(name, "scales"):
            found.append(name)
    return str(_one(found, "mask of the phonemes"))


def _hidden(graph: OnnxGraph, stats: tuple[str, str], early: set[int], mask: str) -> str:
    """What the text encoder gives to the duration predictor, besides the mask."""
    encoder = graph.above(stats)
    inside = {name for number in encoder for name in graph.nodes[number].output if name != mask}
    rest = early - encoder - graph.above([mask])
    # A value whose size alone is asked for is not needed: sizes follow from the others.
    used = {
        name for number in rest if graph.nodes[number].op_type != "Shape" for name in graph.nodes[number].input
        if name in inside and graph.depends(name, "input") and not _is_size(graph, name)
    }  # fmt: skip
    return str(_one(sorted(used), "what durations are computed from"))


def _is_size(graph: OnnxGraph, name: str) -> bool:
    """Whether the value is made of shapes alone."""
    node = graph.maker(name)
    for _ in range(12):
        if node is None:
            return False
        if node.op_type == "Shape":
            return True
        node = graph.maker(node.input[0]) if node.input else None
    return False


def _frames(graph: OnnxGraph, latent: str, speaker: str) -> tuple[str, str]:
    """(The mask of the frames, what the decoder begins with)."""
    below = graph.below(latent)
    made = {name for number in below for name in graph.nodes[number].output} | {latent}
    outside = {
        name for number in below for name in graph.nodes[number].input
        if name in graph.makers and name not in made and name != speaker and graph.constant(name) is None
        and _has_data(graph, name)
    }  # fmt: skip
    mask = str(_one(sorted(outside), "mask of the frames"))
    last = max(number for number in graph.readers[mask] if number in below)
    return mask, graph.nodes[last].output[0]


def _has_data(graph: OnnxGraph, name: str) -> bool:
    return any(graph.depends(name, source) for source in ("input", "input_lengths", "scales"))


def _channels(graph: OnnxGraph, marks: _Marks) -> int:
    """Channels of the latent: what the first convolution of the decoder reads."""
    ahead = [marks.z]
    while ahead:
        for number in graph.readers.get(ahead.pop(0), ()):
            node = graph.nodes[number]
            weights = graph.constant(node.input[1]) if node.op_type == "Conv" else None
            if weights is not None:
                return int(weights.shape[1])
            ahead.extend(node.output)
    raise VitsError(f"no convolution behind the latent; {_LOOKED}")


# How far a convolutional network looks: which frames of the input one frame of the output depends on.

_FAR = 1 << 20
"""Where the frame is that is looked at: far from both ends."""


def reach_of(graph: OnnxGraph, source: str, result: str) -> tuple[int, int]:
    """(Samples of the result for each frame of the source, frames that are needed on either side)."""
    below = graph.below(source)
    order = [number for number in range(len(graph.nodes)) if number in below]
    rates: dict[str, float] = {source: 1.0}
    for number in order:
        node = graph.nodes[number]
        rate = next((rates[name] for name in node.input if name in rates), 1.0)
        if node.op_type == "ConvTranspose":
            rate *= _numbers(node, "strides", [1])[0]
        if node.op_type == "Conv":
            rate /= _numbers(node, "strides", [1])[0]
        rates.update(dict.fromkeys(node.output, rate))
    hop = rates[result]
    if hop != int(hop) or hop < 1:
        raise VoiceSetError(f"one frame makes {hop} samples; a voice makes a whole number of them")
    first = _FAR * int(hop)
    needs: dict[str, tuple[int, int]] = {result: (first, first + int(hop) - 1)}
    for number in reversed(order):
        node = graph.nodes[number]
        ranges = [needs[name] for name in node.output if name in needs]
        if not ranges or node.op_type == "Shape":
            continue
        low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
        if node.op_type in ("Conv", "ConvTranspose"):
            low, high = _through(graph, node, low, high)
            names = node.input[:1]
        else:
            names = node.input
        for name in names:
            old = needs.get(name, (low, high))
            needs[name] = min(low, old[0]), max(high, old[1])
    low, high = needs[source]
    return int(hop), max(_FAR - low, high - _FAR)


def _through(graph: OnnxGraph, node: Any, low: int, high: int) -> tuple[int, int]:
    """The range of the input that a range of the output is made of."""
    weights = graph.constant(node.input[1])
    if weights is None or weights.ndim != 3:
        raise VoiceSetError(f"{node.op_type} {node.name!r}: its weights are not a constant of three dimensions")
    span = (weights.shape[2] - 1) * _numbers(node, "dilations", [1])[0]
    stride, before = _numbers(node, "strides", [1])[0], _numbers(node, "pads", [0, 0])[0]
    if node.op_type == "Conv":
        return low * stride - before, high * stride - before + span
    return ceil((low + before - span) / stride), floor((high + before) / stride)


def _numbers(node: Any, name: str, default: list[int]) -> list[int]:
    for entry in node.attribute:
        if entry.name == name:
            return [int(value) for value in np.asarray(entry.ints)]
    return default
