"""Tensors that are stored inside another one, found by the tasks that write them.

A Concat that is done by address has no task: each of its inputs is written straight into the output, with the surface
stride of the output. The file has no field for that stride, only the registers have it. Reading such a tensor with
its own stride returns values of other tensors.
"""

from __future__ import annotations

from itertools import pairwise

from openrknn.analysis.lint.program import Decoded, Work, decode
from openrknn.container.model import Model
from openrknn.container.parts import Layout, Tensor
from openrknn.layout.features import FeatureLayout
from openrknn.npu.accesses import Access, accesses_of
from openrknn.npu.task import Step
from openrknn.runtime.inspector import Window

__all__ = ["windows_in"]


def windows_in(model: Model, graph: int = 0) -> dict[str, Window]:
    """By name: tensors whose tasks all write with one surface stride that is larger than the tensor's own."""
    decoded = decode(model, model.graphs[graph])
    pitches: dict[str, set[int]] = {}
    tensors: dict[str, Tensor] = {}
    for work in decoded.works:
        for step in work.steps:
            tensor = _written(decoded, work, step)
            if tensor is not None:
                tensors[tensor.name] = tensor
                pitches.setdefault(tensor.name, set()).update(_pitches(step, model.chip.atom_bytes))
    found = {}
    for name, seen in pitches.items():
        if len(seen) == 1 and (pitch := seen.pop()) > _own_pitch(tensors[name]):
            place = decoded.places[name]
            region = decoded.region_at(place)
            root = region.tensor.name if region is not None and region.tensor is not None else ""
            found[name] = Window(root, place - region.address if region is not None and root else 0, pitch)
    return found


def _writes(step: Step) -> list[Access]:
    """What the DPU writes: one access per surface."""
    return [access for access in accesses_of(step) if access.writes and access.exact and access.channels]


def _written(decoded: Decoded, work: Work, step: Step) -> Tensor | None:
    writes = _writes(step)
    if not writes:
        return None
    tensor = decoded.tensor_at(min(access.first for access in writes), work.operator.outputs)
    if tensor is None or tensor.layout is not Layout.NC1HWC2 or tensor.row_alignment or len(tensor.native_shape) != 5:
        return None
    return tensor


def _pitches(step: Step, atom: int) -> set[int]:
    """Surface strides, in atoms."""
    starts = sorted({access.address for access in _writes(step)})
    return {(second - first) // atom for first, second in pairwise(starts)}


def _own_pitch(tensor: Tensor) -> int:
    return FeatureLayout.from_native(tensor.native_shape, pixel_alignment=tensor.pixel_alignment).surface_pitch
