"""Models in parts, as the server sees them: the model's own types, open dimensions, and how large both can get."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openrknn.container.bundle import Bundle, Plan
from openrknn.container.bundle import Port as BundlePort
from openrknn.errors import UnsupportedError
from openrknn.runtime.parted.types import DTYPES
from openrknn.serve.datatypes import datatype_of
from openrknn.serve.plane.signature import Port, Signature

__all__ = ["signature_of"]

_OPEN_ELEMENTS = 1 << 22
"""Of all inputs, or outputs, whose size nothing bounds: 16 MiB of floats. What is larger is refused, not cut."""


def signature_of(bundle: Bundle) -> Signature:
    """What a model in parts takes and gives."""
    is_any = any(not plan.shapes for plan in bundle.plans)
    is_open = is_any and any(not isinstance(size, int) for port in bundle.inputs for size in port.shape)
    return Signature(
        [_port(port) for port in bundle.inputs],
        [_port(port) for port in bundle.outputs],
        [_shapes(bundle, plan) for plan in bundle.plans],
        answer_elements=max(_answer(bundle, plan) for plan in bundle.plans),
        is_parted=True,
        open_elements=_OPEN_ELEMENTS if is_open else 0,
    )


def _port(port: BundlePort) -> Port:
    kind = DTYPES.get(port.type)
    if kind is None:
        raise UnsupportedError(f"{port.name!r} is {port.type}; the server takes and gives tensors of numbers")
    sizes = tuple(size if isinstance(size, int) and size >= 0 else -1 for size in port.shape)
    return Port(port.name, datatype_of(np.dtype(kind)), sizes)


def _shapes(bundle: Bundle, plan: Plan) -> dict[str, tuple[int, ...]]:
    """Of every input; what a plan leaves open is 1, which is what the warm-up tries."""
    return {
        port.name: plan.shapes.get(port.name) or tuple(size if isinstance(size, int) else 1 for size in port.shape)
        for port in bundle.inputs
    }


def _answer(bundle: Bundle, plan: Plan) -> int:
    """Elements of all outputs; names of open dimensions mean what they mean in the inputs."""
    known: dict[str, int] = {}
    for port in bundle.inputs:
        for name, size in zip(port.shape, plan.shapes.get(port.name, ()), strict=False):
            if isinstance(name, str):
                known[name] = size
    total, is_open = 0, False
    for port in bundle.outputs:
        sizes = [_size(size, known) for size in port.shape]
        is_open |= any(size is None for size in sizes)
        total += math.prod(size for size in sizes if size is not None) if None not in sizes else 0
    return total + (_OPEN_ELEMENTS if is_open else 0)


def _size(size: int | str | None, known: Mapping[str, int]) -> int | None:
    return size if isinstance(size, int) else known.get(size) if size is not None else None
