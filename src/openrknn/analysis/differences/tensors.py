"""Tensors by name: which are there, and what is said about them."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.differences.difference import Difference, Section, Value, changes, only_in_one
from openrknn.container.edit import rename_tensors
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Quantization, Tensor
from openrknn.errors import BadTextError


def quantization_facts(quantization: Quantization | None) -> dict[str, Value]:
    """Scale and zero point as plain values."""
    if quantization is None:
        return {"scale": None, "zero point": None}
    scale, zero = quantization.scale, quantization.zero_point
    return {
        "scale": scale[0] if len(scale) == 1 else list(scale),
        "zero point": zero[0] if len(zero) == 1 else list(zero),
    }


def renamed(first: Model, second: Model) -> dict[str, str]:
    """Tensors that stand in the same place and differ in their name alone."""
    names: dict[str, str] = {}
    known = [{tensor.name for graph in model.graphs for tensor in graph.tensors} for model in (first, second)]
    for one, other in zip(first.graphs, second.graphs, strict=False):
        for before, after in zip(one.tensors, other.tensors, strict=False):
            if before.name in known[1] or after.name in known[0] or not before.name or not after.name:
                continue
            if (before.kind, before.dtype, before.shape) == (after.kind, after.dtype, after.shape):
                names[before.name] = after.name
    try:
        rename_tensors(first, names, check_names=False)
    except (ValueError, BadTextError):
        return {}
    return names


def compare_tensors(one: Graph, other: Graph, *, same_layouts: bool = True) -> Iterator[Difference]:
    """What differs between tensors of the same name, and which names only one side has.

    Without `same_layouts` (other chips) it is left out how tensors lie in memory.
    """
    ones = {tensor.name: tensor for tensor in one.tensors if tensor.name}
    others = {tensor.name: tensor for tensor in other.tensors if tensor.name}
    for name in (*ones, *(name for name in others if name not in ones)):
        subject = f"tensor {name!r}"
        if name not in ones or name not in others:
            yield only_in_one(Section.TENSORS, subject, name in ones)
        else:
            before, after = _tensor(ones[name]), _tensor(others[name])
            if same_layouts:
                before |= _memory(ones[name])
                after |= _memory(others[name])
            yield from changes(Section.TENSORS, subject, before, after)
    moved = sum(ones[name].offset != others[name].offset for name in ones if name in others)
    if moved:
        words = f"{moved} {'tensor is' if moved == 1 else 'tensors are'} at another place in internal memory"
        yield Difference(Section.MEMORY, "", "offsets", 0, moved, words)


def _tensor(tensor: Tensor) -> dict[str, Value]:
    return {
        "kind": tensor.kind.name.lower(),
        "type": tensor.dtype.label,
        "layout": tensor.layout.label,
        "shape": list(tensor.shape),
        **quantization_facts(tensor.quantization),
        "calibrated minimum": list(tensor.minimum),
        "calibrated maximum": list(tensor.maximum),
        "compressed": bool(tensor.compressed),
    }


def _memory(tensor: Tensor) -> dict[str, Value]:
    return {
        "native shape": list(tensor.native_shape),
        "allocated bytes": tensor.size_bytes,
        "pixel alignment": tensor.pixel_alignment,
        "row alignment": tensor.row_alignment,
        "memory class": tensor.memory_class,
    }
