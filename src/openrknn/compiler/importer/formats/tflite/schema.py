"""What is written in a `.tflite` file: tensors, operators and subgraphs, with every index checked.

The schema (version 3) is public; slots are counted as it declares them. Constants are views into the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tflite import sparse
from openrknn.container.flatbuffer import Buffer, Table

Array = np.ndarray[Any, Any]

_TYPES: dict[int, Any] = {
    0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 6: np.bool_, 7: np.int16, 9: np.int8,
    10: np.float64, 12: np.uint64, 15: np.uint32, 16: np.uint16,
}  # fmt: skip
_INT4 = 17
_OTHER_TYPES = {5: "STRING", 8: "COMPLEX64", 11: "COMPLEX128", 13: "RESOURCE", 14: "VARIANT", 18: "BFLOAT16"}
_CUSTOM, _FIRST_WIDE_CODE = 32, 127
_MOST_DIMENSIONS = 8
_MOST_ELEMENTS = 2**31
_ITEM_COST = 32

_NAMES = (
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE",
    "EMBEDDING_LOOKUP", "FLOOR", "FULLY_CONNECTED", "HASHTABLE_LOOKUP", "L2_NORMALIZATION", "L2_POOL_2D",
    "LOCAL_RESPONSE_NORMALIZATION", "LOGISTIC", "LSH_PROJECTION", "LSTM", "MAX_POOL_2D", "MUL", "RELU", "RELU_N1_TO_1",
    "RELU6", "RESHAPE", "RESIZE_BILINEAR", "RNN", "SOFTMAX", "SPACE_TO_DEPTH", "SVDF", "TANH", "CONCAT_EMBEDDINGS",
    "SKIP_GRAM", "CALL", "CUSTOM", "EMBEDDING_LOOKUP_SPARSE", "PAD", "UNIDIRECTIONAL_SEQUENCE_RNN", "GATHER",
    "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "TRANSPOSE", "MEAN", "SUB", "DIV", "SQUEEZE",
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "STRIDED_SLICE", "BIDIRECTIONAL_SEQUENCE_RNN", "EXP", "TOPK_V2", "SPLIT",
    "LOG_SOFTMAX", "DELEGATE", "BIDIRECTIONAL_SEQUENCE_LSTM", "CAST", "PRELU", "MAXIMUM", "ARG_MAX", "MINIMUM", "LESS",
    "NEG", "PADV2", "GREATER", "GREATER_EQUAL", "LESS_EQUAL", "SELECT", "SLICE", "SIN", "TRANSPOSE_CONV",
    "SPARSE_TO_DENSE", "TILE", "EXPAND_DIMS", "EQUAL", "NOT_EQUAL", "LOG", "SUM", "SQRT", "RSQRT", "SHAPE", "POW",
    "ARG_MIN", "FAKE_QUANT", "REDUCE_PROD", "REDUCE_MAX", "PACK", "LOGICAL_OR", "ONE_HOT", "LOGICAL_AND",
    "LOGICAL_NOT", "UNPACK", "REDUCE_MIN", "FLOOR_DIV", "REDUCE_ANY", "SQUARE", "ZEROS_LIKE", "FILL", "FLOOR_MOD",
    "RANGE", "RESIZE_NEAREST_NEIGHBOR", "LEAKY_RELU", "SQUARED_DIFFERENCE", "MIRROR_PAD", "ABS", "SPLIT_V", "UNIQUE",
    "CEIL", "REVERSE_V2", "ADD_N", "GATHER_ND", "COS", "WHERE", "RANK", "ELU", "REVERSE_SEQUENCE", "MATRIX_DIAG",
    "QUANTIZE", "MATRIX_SET_DIAG", "ROUND", "HARD_SWISH", "IF", "WHILE", "NON_MAX_SUPPRESSION_V4",
    "NON_MAX_SUPPRESSION_V5", "SCATTER_ND", "SELECT_V2", "DENSIFY", "SEGMENT_SUM", "BATCH_MATMUL",
    "PLACEHOLDER_FOR_GREATER_OP_CODES", "CUMSUM", "CALL_ONCE", "BROADCAST_TO", "RFFT2D", "CONV_3D", "IMAG", "REAL",
    "COMPLEX_ABS", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "REDUCE_ALL",
    "CONV_3D_TRANSPOSE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "BROADCAST_ARGS", "RANDOM_STANDARD_NORMAL",
    "BUCKETIZE", "RANDOM_UNIFORM", "MULTINOMIAL", "GELU", "DYNAMIC_UPDATE_SLICE", "RELU_0_TO_1",
    "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "ATAN2", "UNSORTED_SEGMENT_MIN", "SIGN",
    "BITCAST", "BITWISE_XOR", "RIGHT_SHIFT",
)  # fmt: skip
"""Builtin operators by their codes."""


class Options:
    """The options of an operator; slots that are absent have the schema's defaults."""

    def __init__(self, table: Table | None) -> None:
        self._table = table

    def number(self, slot: int, default: int = 0) -> int:
        """A 32-bit integer."""
        return default if self._table is None else self._table.i32(slot, default)

    def small(self, slot: int, default: int = 0) -> int:
        """A byte: an enumeration or a truth."""
        return default if self._table is None else self._table.u8(slot, default)

    def real(self, slot: int) -> float:
        """A float."""
        return 0.0 if self._table is None else self._table.f32(slot)

    def numbers(self, slot: int) -> list[int]:
        """A vector of 32-bit integers."""
        return [] if self._table is None else [int(entry) for entry in self._table.i32s(slot, cost=_ITEM_COST)]


@dataclass(slots=True)
class Tensor:
    """One tensor of a subgraph."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    data: Array | None = None
    """A constant, as it is stored."""
    scale: Array = field(default_factory=lambda: np.zeros(0))
    zero: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    axis: int = 0
    """Dimension of the scales, where there are several."""
    is_variable: bool = False
    is_open: bool = False
    """Whether the file says that a dimension may have any size; `shape` has 1 for it."""
    problem: str = ""
    """Why it cannot be read; said when something needs it."""

    @property
    def is_quantised(self) -> bool:
        """Whether its integers stand for real numbers."""
        return bool(self.scale.size) and np.dtype(self.dtype).kind in "iu"


@dataclass(slots=True)
class Operator:
    """One operator; -1 stands for an operand that is left out."""

    kind: str
    inputs: list[int]
    outputs: list[int]
    options: Options
    custom: bytes
    place: str
    """For messages: its name and number."""


@dataclass(slots=True)
class Subgraph:
    """Tensors, and operators in the order in which they run."""

    name: str
    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    operators: list[Operator]


@dataclass(slots=True)
class Model:
    """All subgraphs; the first is the model."""

    subgraphs: list[Subgraph]
    description: str


def parse(data: bytes, name: str) -> Model:
    """Read and check everything but what operators mean."""
    root = Buffer(memoryview(data), 0, name).root(b"TFL3")
    if root.u32(0) != 3:
        raise ModelError(f"{name} has version {root.u32(0)} of the schema; version 3 is read")
    kinds = [_kind(entry) for entry in root.tables(1)]
    buffers = [_bytes(entry, data, name) for entry in root.tables(4)]
    subgraphs = [_subgraph(entry, kinds, buffers, name) for entry in root.tables(2)]
    if not subgraphs:
        raise ModelError(f"{name} has no subgraph: there is nothing to compute; export it again")
    return Model(subgraphs, root.text(3))


def _kind(code: Table) -> str:
    number = max(code.u8(0), code.i32(3))
    if number == _CUSTOM:
        return f"CUSTOM:{code.text(1) or '?'}"
    return _NAMES[number] if number < len(_NAMES) and number != _FIRST_WIDE_CODE else f"BUILTIN_{number}"


def _bytes(entry: Table, data: bytes, name: str) -> memoryview:
    """Data in the table, or (files beyond 2 GB) behind it."""
    start, size = entry.u64(1), entry.u64(2)
    if start > 1:
        if start + size > len(data):
            raise ModelError(f"{name}: a buffer needs {size} bytes at {start:#x}, the file has {len(data):#x}")
        return memoryview(data)[start : start + size]
    return entry.u8s(0)


def _subgraph(entry: Table, kinds: list[str], buffers: list[memoryview], name: str) -> Subgraph:
    tensors = [_tensor(table, number, buffers, name) for number, table in enumerate(entry.tables(0))]

    def indices(values: memoryview, what: str, lowest: int = 0) -> list[int]:
        found = [int(value) for value in values]
        wrong = next((value for value in found if not lowest <= value < len(tensors)), None)
        if wrong is not None:
            raise ModelError(f"{name}: {what} names tensor {wrong}, there are {len(tensors)}; the file is damaged")
        return found

    operators = []
    for number, table in enumerate(entry.tables(3)):
        code = table.u32(0)
        if code >= len(kinds):
            raise ModelError(f"{name}: operator {number} has code {code}, there are {len(kinds)}; the file is damaged")
        place = f"{kinds[code]} (operator {number})"
        operators.append(
            Operator(
                kinds[code],
                indices(table.i32s(1, cost=_ITEM_COST), place, -1),
                indices(table.i32s(2, cost=_ITEM_COST), place),
                Options(table.table(4)),
                bytes(table.u8s(5)),
                place,
            )
        )
    inputs = indices(entry.i32s(1, cost=_ITEM_COST), "the list of inputs")
    outputs = indices(entry.i32s(2, cost=_ITEM_COST), "the list of outputs")
    return Subgraph(entry.text(4), tensors, inputs, outputs, operators)


def _tensor(entry: Table, number: int, buffers: list[memoryview], name: str) -> Tensor:
    label = entry.text(3) or f"tensor_{number}"
    shape = tuple(int(size) for size in entry.i32s(0, cost=_ITEM_COST))
    if len(shape) > _MOST_DIMENSIONS or any(size < 0 for size in shape) or math.prod(shape) > _MOST_ELEMENTS:
        raise ModelError(f"{name}: tensor {label!r} has the shape {list(shape)}; the file is damaged")
    code = entry.u8(1)
    dtype = np.int8 if code == _INT4 else _TYPES.get(code, np.float32)
    made = Tensor(label, shape, dtype, is_variable=bool(entry.u8(5)))
    made.is_open = any(size < 0 for size in entry.i32s(7, cost=_ITEM_COST))
    if code not in _TYPES and code != _INT4:
        made.problem = f"its type is {_OTHER_TYPES.get(code, code)}"
    buffer = entry.u32(2)
    if buffer >= max(len(buffers), 1):
        raise ModelError(f"{name}: tensor {label!r} is in buffer {buffer}, there are {len(buffers)}; it is damaged")
    if 0 in shape and not made.problem:  # as good as a constant: there is nothing in it
        made.data = np.zeros(shape, dtype)
    elif buffer and len(buffers[buffer]) and not made.problem:
        made.data = _constant(made, buffers[buffer], code == _INT4, name, entry.table(6))
    _quantisation(made, entry.table(4), name)
    return made


def _constant(tensor: Tensor, stored: memoryview, is_int4: bool, name: str, sparsity: Table | None) -> Array:
    count = math.prod(tensor.shape)
    if is_int4:  # two in a byte, the low half first
        pairs = np.frombuffer(stored, np.int8)
        numbers = np.stack([(pairs << 4).astype(np.int8) >> 4, pairs >> 4], axis=1).reshape(-1)[:count]
    else:
        size = np.dtype(tensor.dtype).itemsize
        numbers = np.frombuffer(stored[: len(stored) // size * size], tensor.dtype)
    if sparsity is not None and not is_int4:
        return sparse.dense(numbers, tensor.shape, sparsity, f"{name}: tensor {tensor.name!r}")
    if numbers.size != count:
        raise ModelError(
            f"{name}: tensor {tensor.name!r} of shape {list(tensor.shape)} has {numbers.size} numbers; it is damaged"
        )
    return numbers.reshape(tensor.shape)


def _quantisation(tensor: Tensor, entry: Table | None, name: str) -> None:
    if entry is None:
        return
    scale = np.array(entry.f32s(2, cost=_ITEM_COST), np.float32)
    zero = np.array(entry.i64s(3, cost=_ITEM_COST), np.int64)
    axis = entry.i32(6)
    if not scale.size:
        return
    if not (np.isfinite(scale).all() and (scale >= 0).all()) or np.abs(zero).max(initial=0) >= 2**31:
        raise ModelError(f"{name}: tensor {tensor.name!r} has scales or zero points that no quantizer writes")
    if len(tensor.shape) == 1:  # a bias: some converters write the dimension of its filters
        axis = 0
    if scale.size > 1 and not (0 <= axis < len(tensor.shape) and tensor.shape[axis] == scale.size):
        raise ModelError(f"{name}: tensor {tensor.name!r} of shape {list(tensor.shape)} has {scale.size} scales")
    if zero.size not in {0, 1, scale.size}:
        raise ModelError(f"{name}: tensor {tensor.name!r} has {scale.size} scales and {zero.size} zero points")
    tensor.scale = scale
    tensor.zero = np.broadcast_to(zero if zero.size else np.zeros(1, np.int64), scale.shape).copy()
    tensor.axis = axis
