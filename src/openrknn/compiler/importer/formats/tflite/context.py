"""The ONNX graph that is being written, and where each tensor of the TFLite model is in it.

TFLite's pictures are [N, H, W, C], those of ONNX and of the NPU [N, C, H, W]. A value with four dimensions is kept in
the order in which it was made, and turned only when something needs the other one: a whole network stays as the NPU
has it, and what is left are a few transpositions around Reshapes.

Values are always real numbers here. A quantised tensor is followed by QuantizeLinear and DequantizeLinear with the
scale of the file, which is what the compiler keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError, UnsupportedOperatorError
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.formats.tflite.schema import Array, Operator, Subgraph, Tensor

TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
_PICTURE = 4
_EIGHT_BITS = (np.int8, np.uint8)
_ACTIVATIONS = {1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
_TANH = 4


def channel_axis(axis: int) -> int:
    """Where a dimension of [N, H, W, C] is in [N, C, H, W]."""
    return TO_NCHW.index(axis)


class Context:
    """One subgraph on its way to ONNX."""

    write: Callable[[Context, Subgraph], None]
    """Writes all operators of a subgraph; set by who has the rules."""

    def __init__(self, graph: Subgraph, name: str, *, keeps_scales: bool, subgraphs: Sequence[Subgraph] = ()) -> None:
        self.onnx = onnx_package()
        self.graph = graph
        self.name = name
        self.keeps_scales = keeps_scales
        self.subgraphs = subgraphs
        self.depth = 0
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.tensors = graph.tensors
        self._places: dict[tuple[int, bool], str] = {}
        self._names: set[str] = set()
        self._constants: dict[tuple[int, bool], str] = {}
        self._op: Operator | None = None

    # -- what the file says ----------------------------------------------------------------------------------------

    def tensor(self, index: int) -> Tensor:
        """The tensor, if it can be read."""
        found = self.tensors[index]
        if found.problem:
            raise UnsupportedOperatorError(f"{self.name}: tensor {found.name!r} cannot be used: {found.problem}")
        return found

    def shape(self, index: int) -> tuple[int, ...]:
        """Its shape in TFLite's order."""
        return self.tensor(index).shape

    def rank(self, index: int) -> int:
        """How many dimensions it has."""
        return len(self.tensor(index).shape)

    def constant(self, index: int) -> Array | None:
        """Numbers as they are stored; nothing for what is computed."""
        return None if index < 0 or (index, False) in self._places else self.tensor(index).data

    def known(self, op: Operator, number: int) -> Array:
        """An operand that has to be a constant."""
        found = self.constant(self.operand(op, number))
        if found is None:
            raise self.unsupported(op, f"operand {number} is computed; it has to be a constant")
        return found

    def numbers(self, op: Operator, number: int) -> list[int]:
        """A constant operand as integers."""
        return [int(entry) for entry in self.known(op, number).reshape(-1)]

    def real(self, index: int) -> Array | None:
        """A constant as real numbers: what integers with a scale stand for."""
        data = self.constant(index)
        tensor = self.tensor(index)
        if data is None:
            return None
        if not tensor.is_quantised:
            return data.astype(np.float32) if data.dtype in (np.float16, np.float64) else data
        size = [1] * data.ndim
        if tensor.scale.size > 1:
            size[tensor.axis] = tensor.scale.size
        scale, zero = tensor.scale.reshape(size or ()), tensor.zero.reshape(size or ())
        return ((data.astype(np.int64) - zero) * scale.astype(np.float64)).astype(np.float32)

    def operand(self, op: Operator, number: int) -> int:
        """Index of an operand that has to be there."""
        if number >= len(op.inputs) or op.inputs[number] < 0:
            raise ModelError(f"{self.name}: {op.place} has no operand {number}; the file is damaged")
        return op.inputs[number]

    def optional(self, op: Operator, number: int) -> int:
        """Index of an operand, -1 if it was left out."""
        return op.inputs[number] if number < len(op.inputs) else -1

    def unsupported(self, op: Operator, why: str) -> UnsupportedOperatorError:
        """An error that names the operator and says where to cut the model."""
        computed = [index for index in op.inputs if index >= 0 and self.constant(index) is None]
        before = self.tensors[computed[0]].name if computed else ""
        made = ", ".join(repr(self.tensors[index].name) for index in op.outputs)
        cut = f"cut the model before it (--outputs {before}) and do the rest yourself" if before else "export it again"
        names = [self.tensors[index].name for index in op.outputs]
        return UnsupportedOperatorError(f"{self.name}: {op.place}, which makes {made}: {why}; {cut}", operators=names)

    # -- writing ---------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        """A name that nothing has yet."""
        found, number = name, 0
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        return found

    def new(self, array: Any, name: str = "constant") -> str:
        """A constant that the file does not have as it is."""
        label = self.fresh(name)
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(array, order="C"), label))
        return label

    def node(self, kind: str, inputs: Sequence[str], *, name: str = "", **attributes: Any) -> str:
        """One operator with one result."""
        return self.many(kind, inputs, 1, name=name, **attributes)[0]

    def many(self, kind: str, inputs: Sequence[str], count: int, *, name: str = "", **attributes: Any) -> list[str]:
        """One operator with several results."""
        made = self.tensors[self._op.outputs[0]].name if self._op is not None and self._op.outputs else kind
        outputs = [self.fresh(name or f"{made}/{kind}") for _ in range(count)]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), outputs, name=outputs[0], **attributes))
        return outputs

    def transpose(self, value: str, order: Sequence[int], name: str = "") -> str:
        """A Transpose."""
        return self.node("Transpose", [value], name=name, perm=list(order))

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """A Reshape to a constant shape."""
        return self.node("Reshape", [value, self.new(np.array(shape, np.int64), "shape")])

    def value(self, index: int, *, nchw: bool = False, rank: int = 0) -> str:
        """The value's name in ONNX, with the channels where they are wanted and leading ones up to `rank`."""
        shape = self.shape(index)
        real = self.real(index)
        wide = max(rank, len(shape))
        if real is not None:
            return self._constant_value(index, real, nchw=nchw and wide == _PICTURE, rank=wide)
        if len(shape) < wide:
            found = self.reshape(self._place(index, nchw=False), (*([1] * (wide - len(shape))), *shape))
            return self.transpose(found, TO_NCHW) if nchw and wide == _PICTURE else found
        return self._place(index, nchw=nchw and len(shape) == _PICTURE)

    def _constant_value(self, index: int, real: Array, *, nchw: bool, rank: int) -> str:
        key = (index * 16 + rank, nchw)
        if key not in self._constants:
            array = real.reshape((1,) * (rank - real.ndim) + real.shape)
            self._constants[key] = self.new(array.transpose(TO_NCHW) if nchw else array, self.tensors[index].name)
        return self._constants[key]

    def _place(self, index: int, *, nchw: bool) -> str:
        key = (index, nchw)
        if key not in self._places:
            other = self._places.get((index, not nchw))
            if other is None:
                tensor = self.tensors[index]
                if tensor.is_variable:
                    return self.new(np.zeros(tensor.shape, np.float32), tensor.name)
                raise ModelError(f"{self.name}: tensor {tensor.name!r} is read before anything makes it; it is damaged")
            suffix = "nchw" if nchw else "nhwc"
            order = TO_NCHW if nchw else TO_NHWC
            self._places[key] = self.transpose(other, order, f"{self.tensors[index].name}/{suffix}")
        return self._places[key]

    def is_nchw(self, *indices: int) -> bool:
        """Whether one of these values is there with its channels in front."""
        return any((index, True) in self._places for index in indices)

    def nchw_of(self, op: Operator) -> bool:
        """Whether an operator that works in any order should work with the channels in front."""
        wide = max((self.rank(index) for index in (*op.inputs, *op.outputs) if index >= 0), default=0)
        return wide == _PICTURE and self.is_nchw(*op.inputs)

    def activated(self, value: str, code: int, op: Operator) -> str:
        """The activation that is part of an operator."""
        if not code:
            return value
        if code == _TANH:
            return self.node("Tanh", [value])
        if code not in _ACTIVATIONS:
            raise self.unsupported(op, f"its activation has code {code}")
        low, high = _ACTIVATIONS[code]
        return self.clip(value, low, high)

    def clip(self, value: str, low: float, high: float | None) -> str:
        """Relu, or Clip."""
        if low == 0.0 and high is None:
            return self.node("Relu", [value])
        bounds = [self.new(np.float32(bound), "bound") if bound is not None else "" for bound in (low, high)]
        return self.node("Clip", [value, *bounds])

    # -- results ---------------------------------------------------------------------------------------------------

    def put(self, op: Operator, value: str, *, nchw: bool = False, number: int = 0) -> None:
        """This is what the operator makes."""
        if number >= len(op.outputs):
            raise ModelError(f"{self.name}: {op.place} has {len(op.outputs)} results; the file is damaged")
        index = op.outputs[number]
        if any((index, side) in self._places for side in (False, True)):
            raise ModelError(f"{self.name}: tensor {self.tensors[index].name!r} is made twice; the file is damaged")
        is_turned = nchw and self.rank(index) == _PICTURE
        self._places[index, is_turned] = self.quantised(value, self.tensor(index), nchw=is_turned)

    def quantised(self, value: str, tensor: Tensor, *, nchw: bool = False) -> str:
        """The value in the steps that the file states; of 16 bits, between the ends of its range."""
        if not self.keeps_scales and tensor.is_quantised and tensor.dtype == np.int16 and tensor.scale.size == 1:
            ends = np.iinfo(tensor.dtype)
            low, high = (float(tensor.scale[0]) * (end - int(tensor.zero[0])) for end in (ends.min, ends.max))
            return self.clip(value, low, high)
        if not (self.keeps_scales and tensor.is_quantised and tensor.dtype in _EIGHT_BITS):
            return value
        if tensor.scale.size > 1:
            raise ModelError(f"{self.name}: tensor {tensor.name!r} has {tensor.scale.size} scales, and is no constant")
        ends = np.iinfo(tensor.dtype)
        if not ends.min <= int(tensor.zero[0]) <= ends.max or not tensor.scale[0] > 0:
            raise ModelError(f"{self.name}: tensor {tensor.name!r} has scale {tensor.scale[0]}, zero {tensor.zero[0]}")
        steps = [
            self.new(np.float32(tensor.scale[0]), f"{tensor.name}/scale"),
            self.new(np.array(int(tensor.zero[0]), tensor.dtype), f"{tensor.name}/zero"),
        ]
        stored = self.node("QuantizeLinear", [value, *steps], name=f"{tensor.name}/stored")
        return self.node("DequantizeLinear", [stored, *steps], name=f"{tensor.name}{'/nchw' if nchw else '/real'}")

    def weights(self, index: int, order: Sequence[int], shape: Sequence[int], axis: int) -> str:
        """Weights turned and reshaped; integers stay integers, with their scales along `axis` of the result."""
        tensor, data = self.tensor(index), self.constant(index)
        if data is None:
            return self.reshape(self.transpose(self.value(index), order), shape)
        turned = data.transpose(order).reshape(shape)
        if not (tensor.is_quantised and self.keeps_scales and tensor.dtype in _EIGHT_BITS):
            real = self.real(index)
            assert real is not None
            return self.new(real.transpose(order).reshape(shape), tensor.name)
        return self.stored(turned, tensor, axis)

    def stored(self, numbers: Array, tensor: Tensor, axis: int) -> str:
        """DequantizeLinear over constants."""
        single = tensor.scale.size == 1
        scale, zero = tensor.scale.astype(np.float32), tensor.zero.astype(tensor.dtype)
        # A scale of 0 is a channel of zeros, whatever its scale is.
        scale = np.where(scale > 0, scale, np.float32(1.0))
        operands = [
            self.new(numbers, tensor.name),
            self.new(scale[0] if single else scale, f"{tensor.name}/scale"),
            self.new(zero[0] if single else zero, f"{tensor.name}/zero"),
        ]
        extra = {} if single else {"axis": axis}
        return self.node("DequantizeLinear", operands, name=f"{tensor.name}/real", **extra)

    def bias(self, index: int, count: int) -> list[str]:
        """A bias as an operand, if there is one."""
        if index < 0:
            return []
        tensor, data = self.tensor(index), self.constant(index)
        if data is None:
            return [self.value(index)]
        if tensor.is_quantised and self.keeps_scales and tensor.dtype == np.int32 and data.size == count:
            return [self.stored(data.reshape(-1), tensor, 0)]
        real = self.real(index)
        assert real is not None
        return [self.new(real.reshape(-1).astype(np.float32), tensor.name)]

    def begin(self, op: Operator) -> None:
        """The next nodes belong to this operator."""
        self._op = op

    def reserve(self, names: Sequence[str]) -> None:
        """Names of the model's ends: nothing else gets them."""
        self._names.update(names)

    def inside(self, graph: Subgraph) -> Context:
        """A graph inside this one; its names are distinct from those outside."""
        made = Context(graph, self.name, keeps_scales=self.keeps_scales, subgraphs=self.subgraphs)
        made.write, made.depth, made._names = self.write, self.depth + 1, self._names
        return made

    def name_value(self, index: int, name: str) -> None:
        """A value that comes from outside, as it is."""
        self._places[index, False] = name

    def type_of(self, tensor: Tensor) -> int:
        """ONNX's type: what stands for real numbers is float."""
        if tensor.is_quantised or np.dtype(tensor.dtype).kind == "f":
            return int(self.onnx.TensorProto.FLOAT)
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)))

    def start(self, index: int, name: str, *, nchw: bool) -> None:
        """A value that is there from the beginning."""
        self._places[index, nchw] = self.quantised(name, self.tensor(index), nchw=nchw)


Rule = Callable[[Context, Operator], None]
