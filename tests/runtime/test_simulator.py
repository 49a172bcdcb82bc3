"""The vendor's simulator, modelled: with these rules its tensors follow from each other, number for number.

1. Weights are round(w / s) * s with the exact scale s = (largest - smallest) / 255 of the kernel. The file holds
   round(w / s + zero point), another integer on a tie, and multiplies by a fraction of 15 bits, up to 7e-5 off.
2. Biases are whole multiples of the input's scale times the weight's. What lies between two rounded tensors is floating
   point.
3. Tensors are rounded where the file stores them, with one exception: of a sum of two convolutions the file stores the
   first one and adds the second from the accumulator; the simulator rounds the second one, to a range of its own.

So a difference between the NPU and the simulator is a multiplier, the other summand, or a tie: docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from openrknn import numerics
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader
from openrknn.container.parts import Quantization
from openrknn.runtime.session import Session
from tests.runtime.cases import GOLDENS, Array, answers
from tests.runtime.test_causes import steps

FIRST, SECOND = "conv4", "conv5"
"""The summands of the block."""
NAME = "projection_rk3588_i8"


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(GOLDENS / f"{NAME}.rknn", device="software")


@pytest.fixture(scope="module")
def seen() -> dict[str, Array]:
    """What the simulator's own analysis shows."""
    with np.load(GOLDENS / "layers" / f"{NAME}.npz") as layers:
        return {name: layers[name] for name in layers.files}


def as_simulated(session: Session) -> tuple[onnx.ModelProto, float]:
    """Rules 1 and 2 in the source, and how far the multipliers of the file are from its scales."""
    known, source = quantizations(session), onnx.load(GOLDENS / "projection.onnx")
    real = {item.name: numpy_helper.to_array(item) for item in source.graph.initializer}
    makers = {str(node.input[1]): node for node in source.graph.node if node.op_type == "Conv"}
    reader = WeightReader(session.model, session.model.graphs[0])
    changed: dict[str, Array] = {}
    furthest = 0.0
    for operator in session.model.operators:
        use = reader.use(operator)
        quantization = quantization_of(reader, operator, use) if use is not None else None
        if use is None or quantization is None or quantization.axis != 0:
            continue
        node, weights = makers[use.tensor.name], real[use.tensor.name]
        flat = weights.reshape(len(weights), -1)
        scale = (np.maximum(flat.max(1), 0) - np.minimum(flat.min(1), 0)) / np.float32(255)
        furthest = max(furthest, float(np.abs(np.asarray(quantization.scale) / scale - 1).max()))
        wide = scale.reshape(-1, 1, 1, 1)
        before, bias = str(node.input[0]), str(node.input[2])
        unit = scale * np.float32(known[before].scale[0])
        changed[use.tensor.name] = np.rint(weights / wide) * wide
        changed[bias] = np.rint(real[bias] / unit) * unit
    assert len(changed) == 2 * len(makers)
    for item in source.graph.initializer:
        item.CopyFrom(numpy_helper.from_array(changed[item.name], item.name))
    return source, furthest


def one(source: onnx.ModelProto, node: onnx.NodeProto, values: dict[str, Array]) -> Array:
    """One node in floating point."""
    inputs = {name: values[name].astype(np.float32) for name in node.input if name in values}
    infos = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape) for name, array in inputs.items()]
    graph = helper.make_graph(
        [node], "one", infos, [helper.make_empty_tensor_value_info(node.output[0])], list(source.graph.initializer)
    )
    model = helper.make_model(graph, opset_imports=source.opset_import)
    (result,) = ReferenceEvaluator(model).run(None, inputs)
    return np.asarray(result)


def quantizations(session: Session) -> dict[str, Quantization]:
    """Of the tensors that the file stores."""
    graph = session.model.graphs[0]
    outputs = {tensor.name: tensor for operator in session.model.operators for tensor in operator.outputs}
    outputs |= {graph.tensors[index].name: graph.tensors[index] for index in graph.inputs}
    return {name: tensor.quantization for name, tensor in outputs.items() if tensor.quantization is not None}


def rounded(quantization: Quantization, values: Array) -> Array:
    return numerics.dequantize(steps(quantization, values), quantization.scale[0], quantization.zero_point[0])


def run(source: onnx.ModelProto, x: Array, stored: Callable[[str, Array], Array]) -> Array:
    """All nodes, each result as `stored` leaves it."""
    values = {"x": stored("x", x)}
    for node in source.graph.node:
        values[node.output[0]] = stored(node.output[0], one(source, node, values))
    return values["y"]


def to_own_range(values: Array, seen: Array) -> Array:
    """Rounded to the steps, and held in the range, that the simulator's numbers show."""
    levels = np.unique(seen).astype(np.float64)
    number = np.rint(levels / np.median(np.diff(levels)))
    step = (levels @ number) / (number @ number)
    return np.asarray(np.clip(np.rint(values / step), number[0], number[-1]) * step)


def test_each_tensor_of_the_simulator_follows_from_those_before_it(session: Session, seen: dict[str, Array]) -> None:
    source, furthest = as_simulated(session)
    assert 1e-6 < furthest < 1e-4
    known = quantizations(session)
    values = seen | {"x": seen["x_int8"]}
    for node in source.graph.node:
        name = node.output[0]
        found = one(source, node, values)
        values.setdefault(name, found)
        if name not in seen:
            continue
        if name == SECOND:
            np.testing.assert_allclose(to_own_range(found, seen[name]), seen[name], atol=2e-5, rtol=1e-5)
        elif name in known and name != FIRST:
            assert np.array_equal(steps(known[name], found), steps(known[name], seen[name])), name
        else:
            np.testing.assert_allclose(found, seen[name], atol=2e-5, rtol=1e-5)


def test_the_file_stores_one_summand_and_the_simulator_the_other(session: Session, seen: dict[str, Array]) -> None:
    known = quantizations(session)
    assert FIRST in known
    assert SECOND not in known
    assert len(np.unique(seen[FIRST])) == seen[FIRST].size
    assert len(np.unique(seen[SECOND])) <= 256


def test_both_answers_follow_from_their_rule_and_not_from_the_others(session: Session, seen: dict[str, Array]) -> None:
    (x,), (theirs,) = answers(GOLDENS / f"{NAME}.rknn")
    ours = session.run(x)["y"]
    source, _ = as_simulated(session)
    known = quantizations(session)

    def as_the_file(name: str, values: Array) -> Array:
        return rounded(known[name], values) if name in known else values

    def as_the_simulator(name: str, values: Array) -> Array:
        if name == SECOND:
            return to_own_range(values, seen[SECOND])
        return values if name == FIRST else as_the_file(name, values)

    def equal(first: Array, second: Array) -> float:
        return float((steps(known["y"], first) == steps(known["y"], second)).mean())

    by_file, by_simulator = (run(source, x, rule) for rule in (as_the_file, as_the_simulator))
    assert equal(by_simulator, theirs) == 1
    assert equal(by_file, theirs) < 0.7
    assert equal(ours, theirs) < 0.7
    assert equal(by_file, ours) > 0.8  # several integer steps where this model rounds once
