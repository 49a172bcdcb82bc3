"""Why some cases are further from the simulator than one would like: each cause of tests/runtime/test_fidelity, proved.

A proof takes the simulator's answer and shows that it follows from what the cause says: a float where the NPU has an
int8, a tie that goes the other way, a whole-number offset that is not there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from openrknn import numerics
from openrknn.analysis.weights.arrays import weight_array
from openrknn.analysis.weights.channels import quantization_of
from openrknn.analysis.weights.use import WeightReader
from openrknn.container.model import TensorSpec
from openrknn.container.parts import Quantization
from openrknn.isa import Precision
from openrknn.runtime.session import Session
from tests.runtime.cases import GOLDENS, Array, answers, as_stored, distances

EQUAL = 0.99


def with_stored_weights(name: str, session: Session) -> onnx.ModelProto:
    """The source of a golden with the weights that the file holds: quantized, and back to real numbers."""
    source = onnx.load(GOLDENS / f"{name}.onnx")
    reader = WeightReader(session.model, session.model.graphs[0])
    for operator in session.model.operators:
        use = reader.use(operator)
        quantization = quantization_of(reader, operator, use) if use is not None else None
        if use is None or quantization is None or quantization.axis is None:
            continue
        stored = weight_array(reader, use.tensor, use)
        real = numerics.dequantize(stored, quantization.scale, quantization.zero_point, axis=quantization.axis)
        for entry in source.graph.initializer:
            if entry.name == use.tensor.name:
                entry.CopyFrom(numpy_helper.from_array(real, entry.name))
    return source


def rounded(spec: TensorSpec, values: Array) -> Array:
    """To int8 and back, as the simulator does at each border between operators that it sees."""
    stored = as_stored(spec, values)
    assert spec.quantization is not None
    return numerics.dequantize(stored, spec.quantization.scale[0], spec.quantization.zero_point[0])


def steps(quantization: Quantization | None, values: Array) -> Array:
    """Real numbers as stored integers."""
    assert quantization is not None
    return numerics.quantize(values, quantization.scale[0], quantization.zero_point[0], np.int8)


def test_average_pool_differs_at_ties_only() -> None:
    """Input and output have the same scale, so the exact result is (sum of four) / 4: a tie if the rest is 2."""
    inputs, (theirs,) = answers(GOLDENS / "average_pool_rk3588_i8.rknn")
    with Session(GOLDENS / "average_pool_rk3588_i8.rknn") as session:
        source, target = session.inputs[0].quantization, session.outputs[0].quantization
        assert source is not None
        assert source == target
        stored = as_stored(session.inputs[0], inputs[0])
        ours = session.run(stored, outputs="raw")["y"]
    exact = stored.astype(int) - source.zero_point[0]
    sums = exact.reshape(1, 16, 4, 2, 4, 2).sum((3, 5))
    differs = ours != steps(target, theirs)
    assert differs.any()
    assert np.all(sums[differs] % 4 == 2)


def test_bilinear_differs_at_ties_only() -> None:
    """Twice the size with half-pixel centres: weights of 9, 3, 3 and 1 sixteenths; a tie if the rest is 8."""
    inputs, (theirs,) = answers(GOLDENS / "bilinear_rk3588_i8.rknn")
    with Session(GOLDENS / "bilinear_rk3588_i8.rknn") as session:
        source, target = session.inputs[0].quantization, session.outputs[0].quantization
        assert source is not None
        assert source == target
        stored = as_stored(session.inputs[0], inputs[0])
        ours = session.run(stored, outputs="raw")["y"]
    exact = np.pad(stored.astype(int) - source.zero_point[0], [(0, 0), (0, 0), (1, 1), (1, 1)], mode="edge")
    for axis in (2, 3):
        near, low, high = (np.take(exact, range(first, first + 4), axis) for first in (1, 0, 2))
        exact = np.stack([3 * near + low, 3 * near + high], axis + 1).reshape(
            *exact.shape[:axis], 8, *exact.shape[axis + 1 :]
        )
    differs = ours != steps(target, theirs)
    assert differs.any()
    assert np.all(exact[differs] % 16 == 8)


def test_the_simulator_keeps_a_convolution_before_an_addition_in_float() -> None:
    inputs, (theirs,) = answers(GOLDENS / "two_inputs_rk3588_i8.rknn")
    with Session(GOLDENS / "two_inputs_rk3588_i8.rknn") as session:
        source = with_stored_weights("two_inputs", session)
        fed = {spec.name: rounded(spec, array) for spec, array in zip(session.inputs, inputs, strict=True)}
        (float_chain,) = ReferenceEvaluator(source).run(None, fed)
        target = session.outputs[0].quantization
        assert (steps(target, np.asarray(float_chain)) == steps(target, theirs)).mean() >= EQUAL
        ours = session.run(inputs, outputs="raw")["y"]
        assert (ours == steps(target, theirs)).mean() < EQUAL


def test_rv1106b_stores_what_the_simulator_keeps_in_float_before_a_table() -> None:
    """Its lookup table cannot follow a convolution in one task: the convolution becomes int8 first."""
    inputs, (theirs,) = answers(GOLDENS / "silu_rv1106b_i8.rknn")
    with Session(GOLDENS / "silu_rv1106b_i8.rknn") as session:
        source = with_stored_weights("silu", session)
        (float_chain,) = ReferenceEvaluator(source).run(None, {"x": rounded(session.inputs[0], inputs[0])})
        target = session.outputs[0].quantization
        assert (steps(target, np.asarray(float_chain)) == steps(target, theirs)).mean() >= 0.98
        middle = session.model.operators[1].outputs[0].quantization
        assert middle is not None
        source.graph.output.append(helper.make_empty_tensor_value_info("conv0"))
        _, convolved = ReferenceEvaluator(source).run(None, {"x": rounded(session.inputs[0], inputs[0])})
        stored = numerics.dequantize(steps(middle, np.asarray(convolved)), middle.scale[0], middle.zero_point[0])
        ours = session.run(inputs, outputs="raw")["y"]
    assert (steps(target, stored / (1 + np.exp(-stored))) == ours).mean() >= 0.98


def test_a_few_steps_of_one_output_reach_many_elements_of_the_next() -> None:
    """From the simulator's own first output, quantized, follows its second one; and so it does for ours."""
    inputs, (early, late) = answers(GOLDENS / "two_outputs_rk3588_i8.rknn")
    with Session(GOLDENS / "two_outputs_rk3588_i8.rknn") as session:
        ours = session.run(inputs)
        relu = session.model.operators[2].outputs[0].quantization
        assert relu is not None
        targets = {spec.name: spec.quantization for spec in session.outputs}
        source = with_stored_weights("two_outputs", session)

    def follows(first: Array, second: Array) -> float:
        middle = numerics.dequantize(steps(relu, np.maximum(first, 0)), relu.scale[0], relu.zero_point[0])
        node = next(node for node in source.graph.node if list(node.output) == ["conv2"])
        graph = helper.make_graph(
            [node], "second", [helper.make_tensor_value_info("relu1", onnx.TensorProto.FLOAT, middle.shape)],
            [helper.make_empty_tensor_value_info("conv2")], list(source.graph.initializer),
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=source.opset_import)
        (result,) = ReferenceEvaluator(model).run(None, {"relu1": middle})
        return float((steps(targets["late"], np.asarray(result)) == steps(targets["late"], second)).mean())

    assert follows(early, late) == 1
    assert follows(ours["early"], ours["late"]) >= EQUAL
    assert (steps(targets["early"], early) != steps(targets["early"], ours["early"])).sum() == 3


IMAGES = [f"image_{chip}_i8" for chip in ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106", "rv1106b")]


@pytest.mark.parametrize("name", IMAGES)
def test_the_whole_number_offset_of_the_converter_is_the_cause(name: str) -> None:
    """The same picture, quantized exactly and fed as int8, passes by the converter and is above the bar."""
    inputs, outputs = answers(GOLDENS / f"{name}.rknn")
    with Session(GOLDENS / f"{name}.rknn") as session:
        (found,) = distances(session, as_stored(session.inputs[0], inputs[0]), outputs).values()
        assert found.equal >= EQUAL
        assert found.within_one == 1


def test_softmax_follows_the_hardwares_exponential() -> None:
    """int16(x * 1477 + 15300.6), read as the bits of an fp16, is the exponential of the command stream.

    From it our result follows to 1 %; from the true exponential the simulator's does.
    """
    inputs, (theirs,) = answers(GOLDENS / "softmax_rk3588_fp.rknn")
    with Session(GOLDENS / "softmax_rk3588_fp.rknn") as session:
        ours = session.run(inputs)["y"]
    below = (inputs[0] - inputs[0].max(1, keepdims=True)).astype(np.float16).astype(np.float32)
    trick = np.maximum(np.rint(below * np.float32(1477) + np.float32(15300.62)), 0).astype(np.int16).view(np.float16)
    for result, grown in ((ours, trick.astype(np.float32)), (theirs, np.exp(below))):
        wanted = grown / grown.sum(1, keepdims=True)
        np.testing.assert_allclose(result, wanted, rtol=0.01, atol=1e-5)


def test_the_zero_point_of_rv1106s_matrix_product_is_added_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its converter has one form, x * scale + offset; the product needs (x + offset) * scale, as on the other chips.

    The stream holds -zero point * 2^shift. For RV1106B, whose converter has the same form, it is -zero point * scale,
    and the product is exact.
    """
    from openrknn.chip.rv1106 import decode as rv1106
    from openrknn.chip.task_registers import NamedRegisters
    from openrknn.task import cna

    path = GOLDENS / "matmul_rv1106_i8.rknn"
    inputs, outputs = answers(path)
    read = rv1106._converter

    def as_on_the_others(registers: NamedRegisters, precision: Precision) -> cna.Converter | None:
        converter = read(registers, precision)
        return replace(converter, add_first=True) if converter and not registers("CONV_CON1", "argb_in") else converter

    monkeypatch.setattr(rv1106, "_converter", as_on_the_others)
    with Session(path) as session:
        (found,) = distances(session, inputs, outputs).values()
    assert found.equal == 1
