"""Models with the answers of the vendor's simulator, and how far we are from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openrknn import numerics
from openrknn.container.model import Model, TensorSpec
from openrknn.device import DeviceBuffer
from openrknn.distance import measure
from openrknn.runtime.engine import LocalEngine
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
SHARED = Path(__file__).resolve().parents[3] / "shared"
"""More models than the repository can hold; they lie beside it on the machines that have them."""
CORPUS = SHARED / "corpus"
MODELS = SHARED / "models"

Array = npt.NDArray[Any]


def shared_case(path: Path) -> Path:
    """The model, or a skip that says what is not here."""
    if not path.exists():
        pytest.skip(f"the shared corpus is not on this machine ({path.name})")
    return path


def answers(model: Path) -> tuple[list[Array], list[Array]]:
    """Inputs and the simulator's outputs."""
    with np.load(model.with_suffix(".npz")) as stored:
        names = sorted(stored, key=lambda name: (name[0], int(name[1:] or 0)))
        return [stored[name] for name in names if name[0] == "x"], [stored[name] for name in names if name[0] == "o"]


@dataclass(frozen=True)
class Distance:
    """How far an output is from the simulator's."""

    equal: float
    """int8: share of equal elements."""
    within_one: float
    """int8: share of elements at most one step away."""
    close: float
    """Floats: share of elements within 2 ulp, 1 % or 2 ulp of the largest value."""
    cosine: float

    def __str__(self) -> str:
        return (
            f"equal {100 * self.equal:.2f} %, within one {100 * self.within_one:.3f} %, "
            f"close {100 * self.close:.2f} %, cosine {self.cosine:.6f}"
        )


def distance(spec: TensorSpec, ours: Array, theirs: Array) -> Distance:
    """Compare an output, as float32, with the simulator's. Its last (size mod 4) elements are garbage: left out."""
    count = theirs.size - theirs.size % 4 if theirs.size >= 4 else theirs.size
    ours, theirs = (array.ravel()[:count].astype(np.float64) for array in (ours, theirs))
    cosine = measure(ours, theirs).cosine or 0.0
    if spec.quantization is not None:
        steps = np.abs(np.rint((ours - theirs) / spec.quantization.scale[0]))
        return Distance(float((steps == 0).mean()), float((steps <= 1).mean()), 1.0, cosine)
    error = np.abs(ours - theirs)
    ulp = np.spacing(np.abs(theirs).astype(np.float16)).astype(np.float64)
    largest = float(np.spacing(np.float16(np.abs(theirs).max())))
    close = (error <= 2 * ulp) | (error <= 0.01 * np.abs(theirs)) | (error <= 2 * largest)
    return Distance(1.0, 1.0, float(close.mean()), cosine)


def distances(session: Session, inputs: object, outputs: list[Array]) -> dict[str, Distance]:
    """Run and compare every output."""
    return compare(session, session.run(inputs), outputs)


def compare(session: Session, results: dict[str, Array], outputs: list[Array]) -> dict[str, Distance]:
    """Compare every output of a run."""
    return {
        spec.name: distance(spec, results[spec.name], theirs)
        for spec, theirs in zip(session.outputs, outputs, strict=True)
    }


def as_stored(spec: TensorSpec, array: Array) -> Array:
    """Quantized as the simulator does it: round(x / scale) + zero point, pictures normalized exactly."""
    if spec.quantization is None:
        return array
    values = array.astype(np.float64)
    if spec.is_image and spec.normalization is not None:
        channels = spec.shape[-1]
        mean, std = np.array(spec.normalization.mean[:channels]), np.array(spec.normalization.std[:channels])
        if array.shape == spec.shape:
            values = (values - mean) / std
        else:
            values = (values - mean[:, None, None]) / std[:, None, None]
    kind: type[Any] = {"int8": np.int8, "int16": np.int16}[spec.dtype]
    stored: Array = numerics.quantize(values, spec.quantization.scale[0], spec.quantization.zero_point[0], kind)
    return stored


def golden(name: str) -> Path:
    return GOLDENS / f"{name}.rknn"


def same(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> bool:
    return list(ours) == list(theirs) and all(np.array_equal(ours[name], theirs[name]) for name in ours)


def renamed(model: Model, old: str, new: str) -> Model:
    """The model with operators of another type."""
    graph = model.graphs[0]
    nodes = tuple(dataclasses.replace(node, type=new) if node.type == old else node for node in graph.nodes)
    return dataclasses.replace(model, graphs=(dataclasses.replace(graph, nodes=nodes),))


def program_of(session: Session) -> Program:
    """What a session on the software NPU runs."""
    assert isinstance(session._program, Program)
    return session._program


def internal_of(session: Session) -> DeviceBuffer:
    """The memory between its operators."""
    assert isinstance(session._engine, LocalEngine)
    assert session._engine._internal is not None
    return session._engine._internal
