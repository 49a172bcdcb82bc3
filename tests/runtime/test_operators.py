"""Operators of the CPU against ONNX's reference evaluator: the slow version that defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators import ABSENT, OPERATORS, SEVERAL
from openrknn.runtime.operators.unary import UNARY
from tests.runtime.cases import Array

OPSET = 17
"""The last one with the axes of reductions as attributes; 18 has them as an input."""
RENAMED = {"exSoftmax13": "Softmax"}


def reference(name: str, inputs: Sequence[Array], attributes: dict[str, Any], opset: int = OPSET) -> Array:
    """What ONNX says."""
    names = [f"x{number}" for number in range(len(inputs))]
    types = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}
    node = helper.make_node(RENAMED.get(name, name), names, ["y"], **attributes)
    given = [
        helper.make_tensor_value_info(label, types[array.dtype], array.shape)
        for label, array in zip(names, inputs, strict=True)
    ]
    graph = helper.make_graph([node], "one", given, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    (result,) = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    return np.asarray(result)


def check(name: str, inputs: Sequence[Array], attributes: dict[str, Any], opset: int = OPSET) -> None:
    wanted = reference(name, inputs, attributes, opset)
    ours = OPERATORS[name].compute(list(inputs), attributes, wanted.shape)
    assert ours.shape == wanted.shape
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


def numbers(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_functions_of_one_number(name: str) -> None:
    values = numbers((2, 3, 4))
    if name in {"Log", "Sqrt"}:
        values = np.abs(values) + np.float32(0.1)
    elif name in {"Acos", "Asin", "Atanh"}:
        values = np.tanh(values)
    elif name == "Acosh":
        values = 1 + np.abs(values)
    elif name == "Not":
        assert OPERATORS[name].compute([values > 0], {}, values.shape).tolist() == (values <= 0).tolist()
        return
    check(name, [values], {})


def test_infinities_do_not_warn() -> None:
    far = np.array([0, 1000], np.float32)
    assert OPERATORS["Log"].compute([far], {}, (2,))[0] == -np.inf
    assert OPERATORS["Exp"].compute([far], {}, (2,))[1] == np.inf


@given(st.permutations(range(4)))
def test_transpose(perm: list[int]) -> None:
    check("Transpose", [numbers((2, 3, 4, 5))], {"perm": perm})


def test_transpose_without_a_permutation_turns_the_axes_around() -> None:
    check("Transpose", [numbers((2, 3, 4))], {})


@pytest.mark.parametrize("shape", [(6, 20), (1, 120), (2, -1, 4)])
def test_reshape(shape: tuple[int, ...]) -> None:
    check("Reshape", [numbers((2, 3, 4, 5)), np.array(shape, np.int64)], {})


def test_flatten_squeeze_and_unsqueeze() -> None:
    check("Flatten", [numbers((2, 3, 4))], {"axis": 2})
    check("Squeeze", [numbers((2, 1, 4)), np.array([1], np.int64)], {})
    check("Unsqueeze", [numbers((2, 4)), np.array([0, 3], np.int64)], {})


@given(st.integers(-3, 2))
def test_concat(axis: int) -> None:
    shapes = [[2, 3, 4] for _ in range(3)]
    for number, shape in enumerate(shapes):
        shape[axis] += number
    check("Concat", [numbers(shape, number) for number, shape in enumerate(shapes)], {"axis": axis})


@pytest.mark.parametrize("axis", [1, -1, 0])
def test_softmax(axis: int) -> None:
    check("exSoftmax13", [100 * numbers((2, 5, 3))], {"axis": axis})
    check("exSoftmax13", [numbers((2, 5, 3))], {})


@pytest.mark.parametrize("axis", [2, 1, 0])
def test_softmax_of_older_opsets_flattens_the_axes_behind(axis: int) -> None:
    """ONNX's own reference has only the newer meaning."""
    values = numbers((2, 5, 3))
    rows = values.reshape(int(np.prod(values.shape[:axis])), -1)
    wanted = reference("exSoftmax13", [rows], {"axis": -1}).reshape(values.shape)
    ours = OPERATORS["Softmax"].compute([values], {"axis": axis} if axis != 1 else {}, values.shape)
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin", "ReduceMean"])
@pytest.mark.parametrize("axes", [(2, 3), (1,), (-1, 0), None])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(name: str, axes: tuple[int, ...] | None, keepdims: int) -> None:
    attributes = {"keepdims": keepdims} if axes is None else {"axes": list(axes), "keepdims": keepdims}
    check(name, [numbers((2, 3, 4, 5))], attributes)
    if axes is not None:
        check(name, [numbers((2, 3, 4, 5)), np.array(axes, np.int64)], {"keepdims": keepdims}, opset=18)


@pytest.mark.parametrize("axes", [(2, 3), (0,)])
def test_sum(axes: tuple[int, ...]) -> None:
    check("ReduceSum", [numbers((2, 3, 4, 5)), np.array(axes, np.int64)], {"keepdims": 1})


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
def test_where_the_extreme_is(name: str, axis: int, keepdims: int, last: int) -> None:
    coarse = np.rint(2 * numbers((4, 5, 6)))  # with many equal values
    check(name, [coarse], {"axis": axis, "keepdims": keepdims, "select_last_index": last})


pool_sizes = st.integers(1, 3)


@settings(deadline=None)
@given(
    kernel=st.tuples(pool_sizes, pool_sizes),
    strides=st.tuples(pool_sizes, pool_sizes),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    include=st.booleans(),
)
def test_average_pool(
    kernel: tuple[int, int], strides: tuple[int, int], pads: tuple[int, int, int, int], include: bool
) -> None:
    pads = tuple(min(pad, size - 1) for pad, size in zip(pads, (*kernel, *kernel), strict=True))  # type: ignore[assignment]
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "count_include_pad": int(include)}
    check("AveragePool", [numbers((2, 3, 7, 8))], attributes)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_average_pool_that_pads_by_itself(mode: str) -> None:
    attributes = {"kernel_shape": [2, 4], "strides": [2, 1], "auto_pad": mode}
    check("AveragePool", [numbers((1, 2, 7, 8))], attributes)


def test_average_pool_that_rounds_up_does_not_count_what_it_adds() -> None:
    """By hand: 1 x 5 by windows of 2 with a stride of 2 and ceil_mode; the third window holds only the last element."""
    line = np.array([1, 2, 3, 4, 5], np.float32).reshape(1, 1, 1, 5)
    attributes = {"kernel_shape": [1, 2], "strides": [1, 2], "ceil_mode": 1}
    ours = OPERATORS["AveragePool"].compute([line], attributes, (1, 1, 1, 3))
    assert ours.ravel().tolist() == [1.5, 3.5, 5.0]


def test_average_pools_that_are_not_there_are_named() -> None:
    pool = OPERATORS["AveragePool"].compute
    with pytest.raises(UnsupportedError, match="strides"):
        pool([numbers((1, 1, 4, 4))], {"kernel_shape": [2, 2], "strides": [0, 2]}, (1, 1, 2, 2))
    with pytest.raises(UnsupportedError, match="kernel of 2 dimensions on 3"):
        pool([numbers((1, 1, 4))], {"kernel_shape": [2, 2]}, (1, 1, 3))


@pytest.mark.parametrize("shapes", [((4, 3), (3, 5)), ((2, 1, 4, 3), (2, 6, 3, 5))])
def test_matrices(shapes: tuple[tuple[int, ...], ...]) -> None:
    check("MatMul", [numbers(shapes[0]), numbers(shapes[1], 1)], {})


def test_the_compilers_own_activations() -> None:
    """What they are follows from the graphs that the converter puts them in place of."""
    values = numbers((2, 6, 3))
    sigmoid = 1 / (1 + np.exp(-values))
    phi = 0.5 * (1 + reference("Erf", [values / np.float32(2**0.5)], {}))
    own = {
        "exSwish": values * sigmoid,
        "Swish": values * sigmoid,
        "exGelu": values * phi,
        "exMish": reference("Mish", [values], {}, 18),
        "exHardSwish": reference("HardSwish", [values], {}),
        "exGlu": (values * np.roll(sigmoid, 3, axis=1))[:, :3],
    }
    for name, wanted in own.items():
        ours = OPERATORS[name].compute([values], {"axis": 1} if name == "exGlu" else {}, wanted.shape)
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("mode", ["layer", "rms", "l2"])
def test_the_compilers_own_normalisation(mode: str) -> None:
    values = numbers((1, 8, 2, 3)).astype(np.float64)
    mean, square = values.mean(axis=1, keepdims=True), np.square(values)
    wanted = {
        "layer": (values - mean) / np.sqrt(values.var(axis=1, keepdims=True) + 1e-5),
        "rms": values / np.sqrt(square.mean(axis=1, keepdims=True) + 1e-5),
        "l2": values / np.sqrt(square.sum(axis=1, keepdims=True)),
    }[mode]
    ours = OPERATORS["exNorm"].compute([values], {"mode": mode, "axes": [1], "eps": 1e-5}, values.shape)
    np.testing.assert_allclose(ours, wanted, rtol=1e-6)
    scale = np.arange(8.0).reshape(1, 8, 1, 1)
    scaled = OPERATORS["exNorm"].compute([values, scale], {"mode": mode, "axes": [1], "eps": 1e-5}, values.shape)
    np.testing.assert_allclose(scaled, wanted * scale, rtol=1e-6)


def test_the_compilers_own_products() -> None:
    """Tokens lie along the width, the sum goes over the channels."""
    left, right = numbers((2, 5, 1, 3)), numbers((2, 5, 1, 4), 1)
    wanted = np.einsum("nkm,nkl->nml", left[:, :, 0], right[:, :, 0])[:, :, None]
    np.testing.assert_allclose(OPERATORS["exMatMul"].compute([left, right], {}, wanted.shape), wanted, rtol=1e-5)
    q, k, v = (numbers((2, 5, 1, 4), seed) for seed in range(3))
    scores = 0.25 * np.einsum("ndi,ndj->nij", q[:, :, 0], k[:, :, 0])
    weights = reference("Softmax", [scores.astype(np.float32)], {"axis": -1})
    attention = np.einsum("nij,ndj->ndi", weights, v[:, :, 0])[:, :, None]
    ours = OPERATORS["exSDPAttention"].compute([q, k, v], {"scale": 0.25}, attention.shape)
    np.testing.assert_allclose(ours, attention, rtol=1e-5)


def test_a_range_is_as_long_as_the_file_says() -> None:
    three = [np.array(value, np.float32) for value in (1, 10, 3)]
    assert OPERATORS["Range"].compute(three, {}, (3,)).tolist() == [1, 4, 7]
    with pytest.raises(UnsupportedError, match=r"\[3\] comes out"):
        OPERATORS["Range"].compute(three, {}, (4,))


def test_the_largest_value_of_each_cell_of_a_box() -> None:
    """By hand: 4 x 4 pixels in 2 x 2 cells; the second box lies outside and is empty."""
    plane = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    boxes = np.array([[0, 0, 0, 3, 3], [0, 9, 9, 12, 12]], np.float32)
    ours = OPERATORS["MaxRoiPool"].compute([plane, boxes], {"pooled_shape": [2, 2]}, (2, 1, 2, 2))
    assert ours[0, 0].tolist() == [[5, 7], [13, 15]]
    assert not ours[1].any()


def test_a_fused_activation_and_a_norm_of_planes() -> None:
    values, weights = numbers((1, 3, 4, 4)), numbers((2, 3, 1, 1), 1)
    wanted = np.maximum(reference("Conv", [values, weights], {}), 0)
    np.testing.assert_allclose(OPERATORS["ConvRelu"].compute([values, weights], {}, wanted.shape), wanted, atol=1e-6)
    norm = np.sqrt(np.square(values).sum(axis=(2, 3), keepdims=True))
    np.testing.assert_allclose(OPERATORS["GlobalLpPool"].compute([values], {"p": 2}, norm.shape), norm, rtol=1e-6)


def test_a_state_in_whole_lanes_is_as_good_as_a_short_one() -> None:
    """The converter pads initial states to eight numbers, and gives zeros in lanes where there is no bias."""
    x, w, r = numbers((4, 1, 3)), numbers((1, 15, 3), 1), numbers((1, 15, 5), 2)
    state = numbers((1, 1, 5), 3)
    padded = np.concatenate([state, np.full((1, 1, 3), 7, np.float32)], axis=2)
    shapes = [(4, 1, 1, 5), (1, 1, 5)]
    short = SEVERAL["GRU"].compute([x, w, r, ABSENT, ABSENT, state], {}, shapes)
    long = SEVERAL["exGRU"].compute([x, w, r, np.zeros((1, 48)), ABSENT, padded], {"activations": ("",)}, shapes)
    for one, other in zip(short, long, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("pads", "extra"), [((0, 0, 0, 0), (0, 0)), ((1, 2, 0, 1), (0, 0)), ((2, 2, 1, 2), (1, 2))])
def test_a_transposed_convolution_is_a_convolution_over_padded_inputs(
    pads: tuple[int, ...], extra: tuple[int, ...]
) -> None:
    """ONNX's ConvTranspose is the witness: exConvTransposePad, then Conv with the kernel turned, gives the same."""
    random = np.random.default_rng(3)
    x, w = (random.integers(-9, 9, size).astype(np.float32) for size in ((1, 2, 4, 5), (2, 3, 3, 4)))
    strides, kernel, dilations = [3, 4], [3, 4], [2, 1]
    window = {"kernel_shape": kernel, "dilations": dilations, "pads": list(pads), "strides": strides}
    wanted = reference("ConvTranspose", [x, w], {**window, "output_padding": list(extra)})
    margins = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
    shape = (1, 2, *(size + margin for size, margin in zip(wanted.shape[2:], margins, strict=True)))
    padded = OPERATORS["exConvTransposePad"].compute([x], window, shape)
    turned = w.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    plain = {"kernel_shape": kernel, "dilations": dilations, "pads": [0] * 4, "strides": [1, 1]}
    np.testing.assert_array_equal(OPERATORS["Conv"].compute([padded, turned], plain, wanted.shape), wanted)


def test_padding_that_does_not_fit_is_refused() -> None:
    window = {"kernel_shape": [3, 3], "pads": [0] * 4, "strides": [3, 3]}
    with pytest.raises(UnsupportedError, match="does not fit"):
        OPERATORS["exConvTransposePad"].compute([np.ones((1, 1, 4, 4))], window, (1, 1, 8, 8))
