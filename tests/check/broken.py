"""Models that are broken in one place, made from small goldens of the repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.parts import Kind, Quantization, Tensor
from openrknn.container.save import save


def flipped(source: Path, target: Path, tensor: str, *, at: int = 0, bit: int = 0) -> Path:
    """A copy in which one bit of a constant is another one."""
    content = bytearray(source.read_bytes())
    found = load(source).graphs[0].tensor_named(tensor)
    assert found is not None
    assert found.data is not None
    start = bytes(content).find(bytes(found.data))
    assert start >= 0, "the data of the tensor lie in the file as they are"
    content[start + at] ^= 1 << bit
    target.write_bytes(content)
    return target


def rescaled(source: Path, target: Path, tensor: str, factor: float) -> Path:
    """A copy that gives one tensor another scale, as a ruined calibration does."""
    model = load(source)
    graph = model.graphs[0]
    tensors = tuple(_scaled(entry, factor) if entry.name == tensor else entry for entry in graph.tensors)
    save(replace(model, graphs=(replace(graph, tensors=tensors), *model.graphs[1:])), target)
    return target


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    old = tensor.quantization
    assert old is not None
    scales = tuple(scale * factor for scale in old.scale)
    return replace(tensor, quantization=Quantization(scales, old.zero_point, old.axis))


def constants(model: Model) -> list[str]:
    """The constants that have data."""
    others = (Kind.COMMANDS, Kind.TASKS)
    return [
        tensor.name
        for tensor in model.graphs[0].tensors
        if tensor.data and not tensor.kind.is_activation and tensor.kind not in others
    ]
