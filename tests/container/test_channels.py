"""Weights come out of the files as they went in: unpacked, dequantised and compared with the ONNX sources."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

import openrknn
from openrknn import numerics
from openrknn.analysis.explain import describe
from openrknn.analysis.weights.arrays import bias_array, real_bias, weight_array
from openrknn.analysis.weights.channels import quantization_of, weight_quantization
from openrknn.analysis.weights.use import Form, WeightReader, WeightUse, tensor_data
from openrknn.chip import FAMILIES
from openrknn.chip.weight_scales import FieldPlace, weight_scales
from openrknn.chips import CHIPS
from openrknn.container.model import Model, Operator
from openrknn.container.parts import DataType, Quantization
from openrknn.errors import UnsupportedError
from openrknn.isa import map_for
from openrknn.layout.weights import WeightTiles
from tests.container.places import CORPUS, GOLDENS, golden, need_corpus
from tests.onnx_file import constants

Array = npt.NDArray[Any]
_DRIFT = {DataType.INT4: 2.0**-10, DataType.INT16: 2.0**-7}
"""4-bit scales are fp16; 16-bit models count in steps of 2^-15 and scale by 1/32767, so that sums drift apart."""
_CHIP = re.compile(r"(.+?)_(?:rk|rv)\d+b?_")


class Case(NamedTuple):
    """The weights of one operator."""

    path: Path
    operator: Operator
    reader: WeightReader
    use: WeightUse

    @property
    def place(self) -> str:
        return f"{self.path.stem}, {self.operator.type} {self.use.tensor.name!r}"


@cache
def source(path: Path) -> dict[str, npt.NDArray[np.float32]]:
    """The constants of the ONNX file that a model was made from, where it is at hand."""
    match = _CHIP.match(path.name)
    network = match[1] if match else path.stem
    folders = (
        [path.parent] if path.parent.name in {"goldens", "variants"} else [path.parents[1] / "rk3588", path.parent]
    )
    for folder in folders:
        for name in (network, f"{network}_416"):
            if (folder / f"{name}.onnx").exists():
                return constants(folder / f"{name}.onnx")
    return {}


def cases(path: Path) -> Iterator[Case]:
    model = openrknn.load(path)
    for graph in model.graphs:
        reader = WeightReader(model, graph)
        for operator in model.operators_of(graph):
            use = reader.use(operator)
            if use is not None:
                yield Case(path, operator, reader, use)


def orientations(wanted: Array, shape: tuple[int, ...]) -> list[Array]:
    """The source in the shape of the file: matrices are turned by MatMul and Gemm, and a square does not show it.

    The kernel of a ConvTranspose that became a Conv (exConvTransposePad) is turned round, with its channels swapped.
    """
    if wanted.ndim == 4 and wanted.shape != shape:
        return [wanted.swapaxes(0, 1)[:, :, ::-1, ::-1]]
    if wanted.ndim != 2:
        return [wanted]
    return [matrix.reshape(shape) for matrix in (wanted, wanted.T) if matrix.shape == shape[:2]]


def excess(case: Case, stored: Array, quantization: Quantization | None, wanted: Array) -> float:
    """The largest difference, in units of what rounding explains: above 1 is wrong.

    Rounding to steps explains half a step; rounding the multiplier M and the 15-bit converters explains the rest.
    """
    if quantization is None:
        differs = (stored != wanted.astype(np.float16)) & alive(stored)
        return 2.0 * float(differs.any())
    along = [1] * stored.ndim
    along[case.use.axis] = -1
    scale, zero = np.reshape(quantization.scale, along), np.reshape(quantization.zero_point, along)
    multiplier = np.reshape(case.reader.operands(case.use).multiplier or [16384] * case.use.channels, along)
    steps = np.abs(stored.astype(np.float64) - zero)
    real = numerics.dequantize(stored, quantization.scale, quantization.zero_point, axis=quantization.axis)
    allowed = 0.502 + steps * (0.5 / np.maximum(multiplier, 1) + 2.0**-15)
    return float((np.abs(real - wanted) / scale / allowed)[alive(real)].max())


def alive(real: Array) -> npt.NDArray[np.bool_]:
    """The toolkit cuts channels that are always 0 behind their ReLU: the weights into and out of them are gone."""
    gone = real == 0
    cut = gone.all(axis=(1, 2, 3), keepdims=True) | gone.all(axis=(0, 2, 3), keepdims=True)
    return np.broadcast_to(~cut, real.shape)


def check(case: Case, tally: Counter[str]) -> None:
    """Unpack, dequantise and compare one weight tensor; `tally` counts how it went."""
    tensor = case.use.tensor
    try:
        stored = weight_array(case.reader, tensor, case.use)
        quantization = quantization_of(case.reader, case.operator, case.use)
    except UnsupportedError as problem:
        tally[str(problem).replace(repr(tensor.name), "it")] += 1
        return
    wanted = source(case.path).get(tensor.name)
    if wanted is None:
        tally["unpacked, without a source"] += 1
        return
    found = orientations(wanted, stored.shape)
    assert found, f"{case.place}: {stored.shape}, but the source has {wanted.shape}"
    assert min(excess(case, stored, quantization, one) for one in found) <= 1, case.place
    tally["equal to the source"] += 1


def check_bias(case: Case, tally: Counter[str]) -> None:
    """The bias as a real number, compared with the source where it is there."""
    use = case.use
    wanted = source(case.path).get(use.operands.name) if use.operands is not None else None
    if wanted is None:
        return
    try:
        weights = weight_array(case.reader, use.tensor, use)
        quantization = quantization_of(case.reader, case.operator, use)
    except UnsupportedError:
        return
    lives = alive(weights if quantization is None else weights - np.reshape(quantization.zero_point, _along(case)))
    kept = np.moveaxis(lives, use.axis, 0).reshape(use.channels, -1).any(axis=1)
    if quantization is None:
        np.testing.assert_array_equal(bias_array(case.reader, use)[kept], wanted.reshape(-1)[kept])  # type: ignore[index]
    else:
        real = real_bias(case.reader, case.operator, use, weights, quantization)
        assert real is not None
        inputs = case.operator.inputs[0].quantization
        step = np.asarray(quantization.scale) * (inputs.scale[0] if inputs else 1e-6)
        multiplier = np.asarray(case.reader.operands(use).multiplier or [16384])
        allowed = 0.51 * step + np.abs(real) * (_DRIFT.get(use.tensor.dtype, 2.0**-12) + 1 / np.maximum(multiplier, 1))
        if use.tensor.dtype is DataType.INT16:
            allowed += 64 * step
        assert (np.abs(real - wanted.reshape(-1)) <= allowed)[kept].all(), case.place
    tally["equal to the source"] += 1


def _along(case: Case) -> list[int]:
    return [-1 if number == case.use.axis else 1 for number in range(4)]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_golden_biases_equal_their_source(path: Path) -> None:
    tally: Counter[str] = Counter()
    for case in cases(path):
        check_bias(case, tally)
    if path.stem.startswith(("conv_", "residual_", "image_")) and "no_weights" not in path.stem:
        assert tally["equal to the source"] >= 1


def test_corpus_biases_equal_their_source() -> None:
    need_corpus()
    tally: Counter[str] = Counter()
    for path in CORPUS:
        if "yolox" not in path.name:  # multipliers down to 2 of 16384 leave nothing to compare
            for case in cases(path):
                check_bias(case, tally)
    assert tally["equal to the source"] >= 750


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_golden_weights_equal_their_source(path: Path) -> None:
    tally: Counter[str] = Counter()
    for case in cases(path):
        check(case, tally)
    known = {"equal to the source", "unpacked, without a source"}
    reasons = {reason for reason in tally if reason not in known}
    match path.stem:
        case "residual_rk3588_i8_no_weights":
            assert all("were removed" in reason for reason in reasons)
        case "activations_rk3588_i8":
            assert reasons == {"the scale of it is behind a table whose reach is not known (HardSigmoid)"}
            assert tally["equal to the source"] == 7
        case "single_rv1106b_i8":
            assert reasons == {"it: where RV1106B keeps the one zero point of its weights is not known"}
        case _:
            assert not reasons
    if path.stem.startswith(("conv_", "residual_", "image_", "dense_")) and not reasons:
        assert tally["equal to the source"] >= 1


def test_corpus_weights_equal_their_source() -> None:
    """When this was written: 925 equal, 685 without a source, 22 behind a HardSigmoid, 2 removed."""
    need_corpus()
    tally: Counter[str] = Counter()
    for path in CORPUS:
        for case in cases(path):
            check(case, tally)
    equal, other = tally.pop("equal to the source"), tally.pop("unpacked, without a source")
    assert equal >= 900
    assert equal + other >= 0.98 * (equal + other + sum(tally.values()))
    assert all("HardSigmoid" in reason or "were removed" in reason for reason in tally), tally


def test_rk3588_tiles_follow_the_rule() -> None:
    """The rule that a compiler needs says the same as the numbers in the files."""
    sizes = {DataType.INT8: 1, DataType.INT16: 2, DataType.FLOAT16: 2}
    for path in [path for path in (*GOLDENS, *CORPUS) if "_rk3588_" in path.name]:
        for case in cases(path):
            tensor = case.use.tensor
            if tensor.dtype not in sizes:
                continue
            first, second, height, width = tensor.shape
            if case.use.form is Form.DEPTHWISE:
                rule = WeightTiles.of_rk3588_depthwise(second, height, width, sizes[tensor.dtype])
            else:
                outputs, inputs = (second, first) if case.use.form is Form.TRANSPOSED else (first, second)
                rule = WeightTiles.of_rk3588((outputs, inputs, height, width), sizes[tensor.dtype])
            assert rule.shape == WeightTiles.from_native(tensor.native_shape).shape, case.place


def test_every_family_has_its_places_and_its_map_has_them() -> None:
    assert set(FAMILIES) == {chip.family for chip in CHIPS.values()}
    for family in FAMILIES:
        facts = weight_scales(family)
        for entry in dataclasses.fields(facts):
            place = getattr(facts, entry.name)
            if isinstance(place, FieldPlace):
                map_for(family).find(place.register).field(place.field)
            elif isinstance(place, str):
                map_for(family).find(place)


# ---------------------------------------------------------------------------------------------- single facts


def first_case(name: str) -> Case:
    return next(cases(golden(name)))


def test_quantization_of_one_operator() -> None:
    model = openrknn.load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    found = {operator.type: weight_quantization(model, graph, operator) for operator in model.operators}
    quantization = found.pop("Conv")
    assert quantization is not None
    assert (quantization.axis, len(quantization.scale), len(quantization.zero_point)) == (0, 12, 12)
    assert set(found.values()) == {None}


def test_float_weights_are_not_quantised() -> None:
    model = openrknn.load(golden("conv_rk3588_fp"))
    assert all(weight_quantization(model, model.graphs[0], operator) is None for operator in model.operators)


@pytest.mark.parametrize(
    "name", ["residual_rk3588_i8", "residual_rk3576_i8", "residual_rv1106_i8", "residual_rv1106b_i8"]
)
def test_depthwise_is_told_apart(name: str) -> None:
    forms = [case.use.form for case in cases(golden(name))]
    assert forms.count(Form.DEPTHWISE) == 1
    depthwise = next(case for case in cases(golden(name)) if case.use.form is Form.DEPTHWISE)
    assert weight_array(depthwise.reader, depthwise.use.tensor, depthwise.use).shape == (16, 1, 3, 3)


@pytest.mark.parametrize(
    "path", [path for path in GOLDENS if path.name.startswith("single_")], ids=lambda path: path.stem
)
def test_one_kernel_is_not_depthwise(path: Path) -> None:
    assert [case.use.form for case in cases(path)] == [Form.DIRECT]


def test_shared_weights_are_those_of_the_first_graph() -> None:
    model = openrknn.load(golden("dynamic_rk3588_i8"))
    for graph in model.graphs:
        reader = WeightReader(model, graph)
        uses = [use for operator in model.operators_of(graph) if (use := reader.use(operator))]
        assert [bytes(tensor_data(model, use.tensor)[:4]) for use in uses] == [
            bytes(model.graphs[0].tensors[use.tensor.index].data or b"")[:4] for use in uses
        ]


def changed(model: Model, index: int, **values: Any) -> Model:
    """The model with another tensor in place of tensor `index`."""
    graph = model.graphs[0]
    tensors = list(graph.tensors)
    tensors[index] = replace(tensors[index], **values)
    return replace(model, graphs=(replace(graph, tensors=tuple(tensors)),))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"native_shape": (1, 2, 3)}, "sixes"),
        ({"native_shape": (2**31 - 1, 1, 3, 3, 16, 16)}, "fewer"),
        ({"native_shape": (1, 1, 5, 5, 2, 2)}, "not in its tiles"),
        ({"shape": (2**31 - 1, 8, 3, 3)}, "not in its tiles"),
        ({"shape": (12, 8)}, "four dimensions"),
        ({"compressed": 1}, "compressed"),
        ({"dtype": DataType.STRING}, "no number"),
        ({"data": None}, "no data"),
        ({"data": memoryview(b"")}, "no data"),
    ],
)
def test_weights_that_lie_are_refused(values: dict[str, Any], words: str) -> None:
    case = first_case("conv_rk3588_i8")
    model = changed(case.reader.model, case.use.tensor.index, **values)
    reader = WeightReader(model, model.graphs[0])
    tensor = model.graphs[0].tensors[case.use.tensor.index]
    with pytest.raises(UnsupportedError, match=words) as refusal:
        weight_array(reader, tensor, replace(case.use, tensor=tensor))
    assert repr(tensor.name) in str(refusal.value)


@pytest.mark.parametrize(
    ("which", "values", "words"),
    [
        ("weight", {"shape": (2**31 - 1, 8, 3, 3)}, "fewer weights"),
        ("weight", {"shape": (1000, 8, 3, 3)}, "operands"),
        ("weight", {"dtype": DataType.UINT8}, "not known"),
        ("operands", {"data": memoryview(b"12")}, "operands"),
        ("input", {"quantization": None}, "no single positive scale"),
        ("output", {"quantization": Quantization((float("nan"),), (0,))}, "no single positive scale"),
    ],
)
def test_quantisation_that_cannot_be_told(which: str, values: dict[str, Any], words: str) -> None:
    case = first_case("conv_rk3588_i8")
    assert case.use.operands is not None
    index = {
        "weight": case.use.tensor.index,
        "operands": case.use.operands.index,
        "input": case.operator.inputs[0].index,
        "output": case.operator.outputs[0].index,
    }[which]
    model = changed(case.reader.model, index, **values)
    operator = next(one for one in model.operators if one.index == case.operator.index)
    with pytest.raises(UnsupportedError, match=words):
        weight_quantization(model, model.graphs[0], operator)


def test_the_report_says_how_weights_are_quantised() -> None:
    rows = {row.type: row for row in describe(openrknn.load(golden("conv_rk3588_i8"))).graphs[0].operators}
    found = rows["Conv"].weight_quantization
    model = openrknn.load(golden("conv_rk3588_i8"))
    wanted = weight_quantization(model, model.graphs[0], next(row for row in model.operators if row.type == "Conv"))
    assert found is not None
    assert wanted is not None
    assert (found.channels, found.smallest_scale, found.largest_scale) == (12, min(wanted.scale), max(wanted.scale))
    assert rows["InputOperator"].weight_quantization is None
