"""The weights of an exported SenseVoice or Paraformer, by the places that the names in the graph give them.

Graphs of exporters compute masks, shapes and positions from lengths that are not known before; the nets for the NPU
are built by `graphs`, so only numbers are taken. A place is in the name of what an operator gives:
`/encoder/encoders.3/self_attn/linear_out/MatMul_output_0`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.container.onnxdata import check_onnx_file
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine_weights import ExportedGraph
from openrknn.voice.sanm.frontend import Array

_HEADS = 4
"""Of all models that FunASR has published; taken where the graph does not say it."""
_TOPS = ("encoder", "predictor", "decoder", "ctc_lo", "embed")
_MOST_LINKS = 8


@dataclass(frozen=True)
class Weights:
    """`arrays`: by place, matrices [in, out]. `facts`: the metadata."""

    arrays: Mapping[str, Array]
    facts: Mapping[str, str]
    heads: int
    scalars: Mapping[str, float]
    name: str

    def __getitem__(self, place: str) -> Array:
        try:
            return self.arrays[place]
        except KeyError:
            raise VoiceSetError(
                f"{self.name}: {place!r} is not among its weights; SenseVoice and Paraformer as FunASR and sherpa-onnx "
                "export them are understood"
            ) from None

    def count(self, before: str) -> int:
        """How many layers are called `before`0, `before`1 and so on."""
        pattern = re.compile(re.escape(before) + r"(\d+)\.")
        found = {int(match[1]) for place in self.arrays if (match := pattern.match(place))}
        if found and sorted(found) != list(range(len(found))):
            raise VoiceSetError(f"{self.name}: layers {before}* are missing; only {sorted(found)} are there")
        return len(found)

    @property
    def width(self) -> int:
        """Channels between layers."""
        return int(self["encoder.after_norm.weight"].shape[0])

    def numbers(self, key: str) -> Array:
        """A list in the metadata."""
        try:
            return np.array([float(one) for one in self.facts[key].split(",")], np.float32)
        except (KeyError, ValueError):
            raise VoiceSetError(
                f"{self.name}: no list {key!r} in its metadata; sherpa-onnx's exporter adds it"
            ) from None

    def number(self, key: str, usual: int | None = None) -> int:
        """A whole number in the metadata."""
        value = self.facts.get(key, "" if usual is None else str(usual))
        if not re.fullmatch(r"\d{1,6}", value):
            raise VoiceSetError(f"{self.name}: no number {key!r} in its metadata ({value!r:.40})")
        return int(value)


def read_weights(path: Path) -> Weights:
    """Of `model.onnx` or `model.int8.onnx`."""
    import onnx

    try:
        check_onnx_file(path)
        model = onnx.load(str(path))
    except Exception as error:  # protobuf's own classes differ between its versions
        raise VoiceSetError(f"{path}: not an ONNX model: {error}") from error
    graph = _Graph(model, path.name)
    arrays = graph.arrays()
    facts = {one.key: one.value for one in model.metadata_props}
    return Weights(arrays, facts, graph.heads(arrays), graph.scalars(), path.name)


class _Graph(ExportedGraph):
    def value(self, name: str) -> Array | None:
        """A constant, also behind Identity (exporters write equal weights once)."""
        for _ in range(_MOST_LINKS):
            if (found := self.constant(name)) is not None:
                return found
            maker = self.makers.get(name)
            if maker is None or maker.op_type not in ("Identity", "Cast"):
                return None
            name = maker.input[0]
        return None

    def arrays(self) -> dict[str, Array]:
        made: dict[str, Array] = {}
        for given, matrix in self.products():
            made.setdefault(f"{place_of(self._inner(given))}.weight", np.asarray(matrix, np.float32))
        for node in self.nodes:
            if node.op_type in ("Add", "Mul"):
                self._vector(node, made)
            elif node.op_type in ("Conv", "LayerNormalization"):
                place = place_of(node.output[0])
                for name, part in zip(node.input[1:], ("weight", "bias"), strict=False):
                    if (found := self.value(name)) is not None:
                        made[f"{place}.{part}"] = np.asarray(found, np.float32)
            elif node.op_type == "Gather" and (found := self.value(node.input[0])) is not None and found.ndim == 2:
                made.setdefault(f"{place_of(node.output[0])}.weight", np.asarray(found, np.float32))
        return made

    def _inner(self, given: str) -> str:
        """An output of the whole model has a name of its own; what it is made of has a place."""
        maker = self.makers.get(given)
        if "/" in given or maker is None:
            return given
        return next((name for name in maker.input if "/" in name), given)

    def _vector(self, node: Any, made: dict[str, Array]) -> None:
        """A bias, or one half of a norm: times its weight, plus its bias."""
        for name in node.input:
            found = self.value(name)
            if found is None or found.ndim != 1 or found.dtype.kind != "f":
                continue
            place = place_of(self._inner(node.output[0]))
            part = "weight" if node.op_type == "Mul" and place.rpartition(".")[2].endswith(_NORMS) else "bias"
            if node.op_type == "Mul" and part == "bias":
                continue
            made.setdefault(f"{place}.{part}", np.asarray(found, np.float32))

    def heads(self, arrays: Mapping[str, Array]) -> int:
        """From the factor before the scores, one over the root of a head's width."""
        width = len(arrays.get("encoder.after_norm.weight", ()))
        for node in self.nodes:
            if node.op_type == "Mul" and node.output and place_of(node.output[0]).endswith("self_attn") and width:
                for name in node.input:
                    found = self.value(name)
                    if found is not None and found.size == 1 and 0 < float(found.reshape(-1)[0]) < 1:
                        heads = round(width * float(found.reshape(-1)[0]) ** 2)
                        return heads if heads and width % heads == 0 else _HEADS
        return _HEADS

    def scalars(self) -> dict[str, float]:
        """Single numbers that the predictor multiplies with, by operator."""
        found: dict[str, float] = {}
        for node in self.nodes:
            if node.op_type == "Mul" and place_of(node.output[0]) == "predictor":
                for name in node.input:
                    value = self.value(name)
                    if value is not None and value.size == 1:
                        found[node.output[0]] = float(value.reshape(-1)[0])
        return found


_NORMS = ("norm", "norm1", "norm2", "norm3", "after_norm", "tp_norm")


def place_of(given: str) -> str:
    """`/decoder/decoders/decoders.0/norm1/Add_1_output_0` -> `decoder.decoders.0.norm1`."""
    parts = [part for part in given.split("/") if part][:-1]
    kept = [
        part for at, part in enumerate(parts) if not (at + 1 < len(parts) and parts[at + 1].rpartition(".")[0] == part)
    ]
    top = next((at for at, part in enumerate(kept) if part in _TOPS), 0)
    return ".".join(kept[top:])
