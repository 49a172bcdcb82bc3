"""The weights of a Moonshine, whatever an exporter or optimizer made of the graph around them.

The graphs are rebuilt (`moonshine_graphs`), so only numbers and their places are taken: a product's place is in the
name of what it gives (`.../layers.3/self_attn/q_proj/MatMul_output_0`), a norm's in the name of its weights. Weights
may be plain, behind DequantizeLinear, inside ONNX Runtime's own products of integers, or computed from constants by
the operators in `_FOLDED` (Moonshine base of moonshine-cpp: integers through Cast, times a scale, plus an offset).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.onnxgraph import makers_of, readers_of
from openrknn.voice.errors import VoiceSetError

Array = npt.NDArray[np.float32]
_PLACE = re.compile(
    r"layers\.(\d+)/(self_attn|encoder_attn|mlp)/(q_proj|k_proj|v_proj|o_proj|dense|fc1|fc2|up_proj|down_proj)/"
)
_RENAMED = {"dense": "o_proj", "up_proj": "fc1", "down_proj": "fc2"}
"""Names of the model's first exports -> those of Hugging Face's, which are used here."""
_INTEGER = {"MatMulIntegerToFloat": (1, 3, 5), "DynamicQuantizeMatMul": (1, 2, 3)}
"""ONNX Runtime's own products -> which inputs are weights, their scale and their zero point."""

_STORED = "_quantized"
"""What ONNX Runtime puts behind the name of weights that it made integers of."""

_FOLDED: dict[str, Callable[..., Array]] = {"Mul": np.multiply, "Add": np.add, "Sub": np.subtract}
_DEEPEST = 8
"""Operators between a constant and the product that reads it."""


@dataclass(frozen=True)
class Weights:
    """By place, such as "0.self_attn.q_proj" ([in, out]), "0.input_layernorm", "conv2.weight", "norm", "embed"."""

    arrays: dict[str, Array]
    layers: int
    heads: int
    name: str

    def __getitem__(self, place: str) -> Array:
        try:
            return self.arrays[place]
        except KeyError:
            raise VoiceSetError(
                f"{self.name}: this is no Moonshine that is understood: {place!r} is not there"
            ) from None

    @property
    def width(self) -> int:
        """Channels of the states between layers."""
        return len(self["0.input_layernorm"])


class ExportedGraph:
    """All nodes and constants of a model, those of its branches too."""

    def __init__(self, model: Any, name: str) -> None:
        from onnx import numpy_helper

        self._array = numpy_helper.to_array
        self.name = name
        self.constants: dict[str, Any] = {}
        self.nodes: list[Any] = []
        self._collect(model.graph, 0)
        self.makers = makers_of(self.nodes)
        self._readers = readers_of(self.nodes)
        self.inputs = {entry.name: entry for entry in model.graph.input}

    def _collect(self, graph: Any, depth: int) -> None:
        if depth > 4:
            raise VoiceSetError(f"{self.name}: branches within branches within branches; no speech model has them")
        self.constants.update({entry.name: entry for entry in graph.initializer})
        for node in graph.node:
            self.nodes.append(node)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    self._collect(attribute.g, depth + 1)
                elif node.op_type == "Constant" and attribute.name == "value":
                    self.constants[node.output[0]] = attribute.t

    def constant(self, name: str) -> Array | None:
        """A constant as floats, taken out of integers where it has to be."""
        if name in self.constants:
            return np.asarray(self._array(self.constants[name]))
        if (found := self._folded(name)) is not None:
            return found
        if f"{name}{_STORED}" in self.constants:
            return self._unpacked(name)
        return None

    def _unpacked(self, name: str) -> Array | None:
        """Weights that are stored as integers under another name: what the graph computes from them alone."""
        found, value = f"{name}{_STORED}", None
        for _ in range(_DEEPEST):
            behind = [node.output[0] for node in self._readers.get(found, ()) if node.op_type != "Transpose"]
            further = self._folded(behind[0]) if behind else None
            if further is None:
                break
            found, value = behind[0], further
        return self.dequantized(f"{name}{_STORED}", f"{name}_scale", f"{name}_zero_point") if value is None else value

    def _folded(self, name: str, depth: int = 0) -> Array | None:
        """A value that is computed from constants only, or None."""
        maker = self.makers.get(name)
        if name in self.constants:
            return np.asarray(self._array(self.constants[name]), np.float32)
        if maker is None or depth > _DEEPEST:
            return None
        if maker.op_type == "DequantizeLinear":
            return self.dequantized(*maker.input)
        if maker.op_type not in ("Cast", "Transpose", *_FOLDED):
            return None
        parts = [self._folded(entry, depth + 1) for entry in maker.input]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            return None
        if maker.op_type == "Transpose":
            axes = [list(one.ints) for one in maker.attribute if one.name == "perm"]
            return np.ascontiguousarray(known[0].transpose(axes[0] if axes else None))
        return np.asarray(_FOLDED[maker.op_type](*known), np.float32) if len(known) > 1 else known[0]

    def dequantized(self, values: str, scale: str, zero: str = "") -> Array | None:
        """(values - zero) * scale; both belong to the columns if they are several."""
        if values not in self.constants or scale not in self.constants:
            return None
        numbers = np.asarray(self._array(self.constants[values]), np.float32)
        if zero in self.constants:
            numbers = numbers - np.asarray(self._array(self.constants[zero]), np.float32)
        return np.asarray(numbers * np.asarray(self._array(self.constants[scale]), np.float32), np.float32)

    def products(self) -> Iterator[tuple[str, Array]]:
        """(what it gives, weights) of every product with constant weights; behind it, the sum with its bias."""
        sums = {name: node.output[0] for node in self.nodes if node.op_type == "Add" for name in node.input if name}
        for node in self.nodes:
            found = None
            if node.op_type == "MatMul":
                found = self.constant(node.input[1])
            elif node.op_type == "MatMulInteger":
                found = self.constant(node.input[1].removesuffix(_STORED))
            elif node.op_type in _INTEGER and len(node.input) > max(_INTEGER[node.op_type][:2]):
                places = _INTEGER[node.op_type]
                found = self.dequantized(*(node.input[at] if at < len(node.input) else "" for at in places))
            if found is not None and found.ndim == 2:
                given = node.output[0]
                yield (given if _PLACE.search(given) or given == "logits" else sums.get(given, given)), found


def encoder_weights(model: Any, name: str, heads: int) -> Weights:
    """Of `encoder_model.onnx`."""
    graph = ExportedGraph(model, name)
    arrays = _layers(graph)
    for part in ("conv1.weight", "conv2.weight", "conv2.bias", "conv3.weight", "conv3.bias"):
        if (found := graph.constant(part)) is not None:
            arrays[part] = found
    for node in graph.nodes:
        # GroupNorm of one group: exporters write InstanceNormalization and then times and plus one number a channel.
        if node.output and node.output[0].startswith("/groupnorm/") and node.op_type in ("Mul", "Add"):
            for entry in node.input:
                if (found := graph.constant(entry)) is not None and found.size > 1:
                    arrays["groupnorm.weight" if node.op_type == "Mul" else "groupnorm.bias"] = found.reshape(-1)
    return _checked(arrays, heads, name)


def decoder_weights(model: Any, name: str) -> Weights:
    """Of `decoder_model_merged.onnx`, or of a decoder's first step."""
    graph = ExportedGraph(model, name)
    arrays = _layers(graph)
    for entry in graph.constants:
        if "embed_tokens.weight" in entry:
            part = graph.constant(entry.removesuffix(_STORED))
            if part is not None and part.ndim == 2 and part.shape[0] > part.shape[1]:
                arrays["embed"] = np.asarray(part, np.float32)
    for given, found in graph.products():
        if given == "logits" or "proj_out" in given:
            arrays.setdefault("logits", found)
    if "logits" not in arrays and "embed" in arrays:
        arrays["logits"] = np.ascontiguousarray(arrays["embed"].T)
    heads = 0
    for entry, value in graph.inputs.items():
        if entry.startswith("past_key_values.0."):
            heads = value.type.tensor_type.shape.dim[1].dim_value
            break
    return _checked(arrays, heads, name)


def _layers(graph: ExportedGraph) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for given, found in graph.products():
        if match := _PLACE.search(given):
            arrays.setdefault(f"{match[1]}.{match[2]}.{_RENAMED.get(match[3], match[3])}", found)
    for entry in graph.constants:
        plain = entry.split("_merged_")[0].removeprefix("model.decoder.")
        if match := re.fullmatch(r"layers\.(\d+\.\w*layernorm)\.weight", plain):
            arrays[match[1]] = np.asarray(graph.constant(entry), np.float32)
        elif match := re.fullmatch(r"layers\.(\d+)\.mlp\.(fc1|fc2|up_proj|down_proj)\.bias", plain):
            arrays[f"{match[1]}.mlp.{_RENAMED.get(match[2], match[2])}.bias"] = np.asarray(
                graph.constant(entry), np.float32
            )
        elif plain in ("layer_norm.weight", "norm.weight"):
            arrays["norm"] = np.asarray(graph.constant(entry), np.float32)
    for node in graph.nodes:
        # The rates are repeated for each recording of a batch, or multiplied with the positions at once.
        if node.op_type in ("Expand", "MatMul") and "rotary_emb/" in node.output[0] and "rotary" not in arrays:
            turns = graph.constant(node.input[0])
            if turns is not None:
                arrays["rotary"] = np.asarray(turns, np.float32).reshape(-1)
    return arrays


def _checked(arrays: dict[str, Array], heads: int, name: str) -> Weights:
    layers = {int(place.split(".")[0]) for place in arrays if place[0].isdigit()}
    made = Weights(arrays, len(layers), heads, name)
    if not layers or layers != set(range(len(layers))):
        raise VoiceSetError(f"{name}: this is no Moonshine that is understood: no layers 0, 1, ... were found")
    if not 1 <= heads <= 64 or made.width % heads:
        raise VoiceSetError(f"{name}: {made.width} channels do not make {heads} heads")
    for place, array in arrays.items():
        if not np.isfinite(array).all():
            raise VoiceSetError(f"{name}: the weights of {place} are not finite")
    _ = [made[f"{layer}.{part}"] for layer in layers for part in ("input_layernorm", "self_attn.q_proj", "mlp.fc1")]
    return made
