"""Damaged files that still load: a session refuses them with an error of ours, or runs."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.parts import Normalization, Quantization
from openrknn.errors import RknnError, UnsupportedError
from openrknn.runtime.session import Session
from tests.container.mutate import mutated
from tests.runtime.cases import golden

NAMES = ["residual_rk3588_i8", "cpu_sin_rk3588_i8", "two_inputs_rk3588_i8", "dynamic_rk3588_i8", "cpu_argmax_rk3588_i8"]
ROUNDS = 60


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_gives_a_named_error_or_runs(name: str) -> None:
    rng = random.Random(name)
    clean = golden(name).read_bytes()
    for _ in range(ROUNDS):
        try:
            with Session(mutated(clean, rng)) as session:
                session.run({spec.name: np.zeros(spec.shape, np.uint8) for spec in session.inputs})
        except RknnError:
            pass


def changed_graph(model: Model, **fields: Any) -> Model:
    return dataclasses.replace(model, graphs=(dataclasses.replace(model.graphs[0], **fields),))


def changed_node(model: Model, kind: str, **fields: Any) -> Model:
    nodes = (dataclasses.replace(node, **fields) if node.type == kind else node for node in model.graphs[0].nodes)
    return changed_graph(model, nodes=tuple(nodes))


def changed_tensor(model: Model, name: str, **fields: Any) -> Model:
    tensors = model.graphs[0].tensors
    return changed_graph(
        model, tensors=tuple(dataclasses.replace(one, **fields) if one.name == name else one for one in tensors)
    )


def run(model: Model) -> None:
    with Session(model) as session:
        session.run({spec.name: np.zeros(spec.shape, np.uint8) for spec in session.inputs})


# Each of these was found by the test above, in a long run.


@pytest.mark.parametrize("axis", [11_730_945, {"a": 1}])
def test_an_attribute_that_does_not_fit(axis: object) -> None:
    model = changed_node(load(golden("cpu_argmax_rk3588_i8")), "ArgMax", attributes={"axis": axis})
    with pytest.raises(UnsupportedError, match="ArgMax 'ArgMax:argmax2' cannot be computed"):
        run(model)


@pytest.mark.parametrize("shape", [(17409, 8, 8, 8), (1, 16, 8), (1, 300, 8, 8)])
def test_a_shape_that_is_not_what_lies_in_memory(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedError, match="tensor 'y'"):
        run(changed_tensor(load(golden("cpu_sin_rk3588_i8")), "y", shape=shape))


def test_an_output_of_another_size_than_its_input() -> None:
    model = load(golden("cpu_sin_rk3588_i8"))
    with pytest.raises(UnsupportedError, match="Sin 'Sin:sin1' cannot be computed"):
        run(changed_tensor(model, "sin1", shape=(1, 5, 8, 8)))


def test_a_mean_that_is_missing() -> None:
    model = load(golden("cpu_sin_rk3588_i8"))
    empty = (Normalization((), (1.0,), (0, 1, 2, 3)),)
    with pytest.raises(UnsupportedError, match="0 means and 1 stds are not four each"):
        run(changed_graph(model, normalizations=empty))


@pytest.mark.parametrize(("std", "scale"), [(3e38, 3e38), (1e-45, 1e-45), (0.0, 1.0)])
def test_a_std_that_makes_no_converter(std: float, scale: float) -> None:
    model = load(golden("residual_rk3588_i8"))
    odd = changed_graph(model, normalizations=(Normalization((0.0,) * 4, (std,) * 4, (0, 1, 2, 3)),))
    with pytest.raises(UnsupportedError, match="no converter"):
        run(changed_tensor(odd, "image", quantization=Quantization((scale,), (0,))))
