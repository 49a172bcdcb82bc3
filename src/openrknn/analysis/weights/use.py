"""Which weights an operator uses, and what its commands say about them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from openrknn.analysis.weights.registers import CONVOLUTIONS, Bits, Convolution
from openrknn.container.compressed import as_loaded, may_be_compressed
from openrknn.container.model import Model, Operator
from openrknn.container.parts import DataType, Graph, Kind, Layout, Task, Tensor
from openrknn.errors import UnsupportedError
from openrknn.layout.operands import Operands, Use, unpack_byte_operands, unpack_operands

__all__ = ["Form", "WeightReader", "WeightUse", "field_value", "tensor_data"]

_RANK = 4


class Form(StrEnum):
    """What the dimensions of a weight tensor mean."""

    DIRECT = "direct"
    """[O, I, H, W]"""
    DEPTHWISE = "depthwise"
    """[1, C, H, W] in the file, [C, 1, H, W] in ONNX."""
    TRANSPOSED = "transposed"
    """[I, O, H, W], as ONNX has it; in memory the kernels are turned by 180 degrees."""


@dataclass(frozen=True, slots=True)
class WeightUse:
    """The weights of one operator and what the operator's commands do with them."""

    tensor: Tensor
    """With the type that the commands read, where the file does not tell it."""
    form: Form
    operands: Tensor | None
    """The tensor with bias, zero points and multipliers."""
    use: Use
    """What is in it."""
    registers: Mapping[int, int]
    """Register -> value, of the first task with these weights."""
    addresses: Mapping[int, str]
    """Register -> tensor whose address it gets."""

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return self.tensor.shape[0 if self.form is Form.DIRECT else 1]

    @property
    def axis(self) -> int:
        """Where they are in the ONNX order of the weights."""
        return 1 if self.form is Form.TRANSPOSED else 0


def tensor_data(model: Model, tensor: Tensor) -> memoryview:
    """The bytes of a constant; graphs of dynamic shapes share those of graph 0."""
    data = tensor.data
    if data is not None and not data:
        shared = model.graphs[0].tensor_named(tensor.name)
        data = shared.data if shared is not None else None
    if not data:
        raise UnsupportedError(f"{tensor.name!r} has no data in this file (its weights were removed)")
    return data


class WeightReader:
    """Reads the weights of one graph; the index of relocations is made once."""

    def __init__(self, model: Model, graph: Graph) -> None:
        self.model = model
        self.graph = graph
        self.facts: Convolution = CONVOLUTIONS[model.chip.family]

    @cached_property
    def _tensors(self) -> Mapping[str, Tensor]:
        return {tensor.name: tensor for tensor in self.graph.tensors if tensor.name}

    @cached_property
    def _relocated(self) -> Mapping[int, str]:
        """Command -> tensor whose address goes into it."""
        return {
            command: group.tensor
            for group in self.graph.relocations
            for _, command in struct.iter_unpack("<iI", group.entries)
        }

    def use(self, operator: Operator) -> WeightUse | None:
        """The weights of an operator, if it has some that the network brought along."""
        named = {
            tensor.name
            for tensor in operator.inputs
            if tensor.kind is Kind.WEIGHT
            and (tensor.layout is Layout.O1I1HWI2O2 or may_be_compressed(tensor))
            and len(tensor.shape) == _RANK
        }
        if not named:
            return None
        for task in operator.tasks:
            registers, addresses = self._look(task)
            name = addresses.get(self.facts.weight_address)
            if name in named:
                tensor = as_loaded(self.model.chip, self._tensors[name], registers)
                return self._weight_use(operator, tensor, registers, addresses)
        return None

    def _look(self, task: Task) -> tuple[dict[int, int], dict[int, str]]:
        registers: dict[int, int] = {}
        addresses: dict[int, str] = {}
        for command, word in enumerate(self.graph.task_words(task, tail=False), start=task.first_command):
            register = word & 0xFFFF
            registers[register] = (word >> 16) & 0xFFFFFFFF
            if command in self._relocated:
                addresses[register] = self._relocated[command]
        return registers, addresses

    def _weight_use(
        self, operator: Operator, tensor: Tensor, registers: Mapping[int, int], addresses: Mapping[int, str]
    ) -> WeightUse:
        operands = self._tensors.get(addresses.get(self.facts.operand_address, ""))
        written = operands is not None and self.facts.operand_use.register in registers
        code = field_value(registers, self.facts.operand_use) if written else 0
        kinds = (Use.BIAS, Use.ZERO_POINT, Use.MULTIPLIER)
        use = Use(sum(kind.value for kind, bit in zip(kinds, self.facts.use_bits, strict=True) if code & bit))
        return WeightUse(tensor, _form(operator, tensor), operands, use, registers, addresses)

    def operands(self, use: WeightUse) -> Operands:
        """Bias, zero points and multipliers as far as the stream holds them; the bias of float models is float."""
        if use.operands is None or use.operands.dtype not in {DataType.INT32, DataType.INT16}:
            return Operands(None, None, None)
        data = tensor_data(self.model, use.operands)
        if self.facts.byte_zero_points and Use.ZERO_POINT in use.use:
            return unpack_byte_operands(data, use.channels)
        return unpack_operands(data, use.channels, self.facts.operand_group, use.use)

    def inlines_zero_points(self, use: WeightUse) -> bool:
        """Whether zero points stand between the weights."""
        return (
            bool(self.facts.inline_zero_points)
            and use.form is Form.DEPTHWISE
            and use.tensor.dtype is DataType.INT8
            and use.use == Use.BIAS | Use.MULTIPLIER
        )

    def configuration(self, use: WeightUse, register: int | None, size: int, what: str) -> memoryview:
        """The tensor whose address goes into `register`, at least `size` bytes long."""
        tensor = self._tensors.get(use.addresses.get(register or 0, ""))
        data = tensor_data(self.model, tensor) if tensor is not None else memoryview(b"")
        if len(data) < size:
            raise UnsupportedError(f"the {what} tensor of {use.tensor.name!r} is missing or too short")
        return data


def _form(operator: Operator, tensor: Tensor) -> Form:
    if "ConvTranspose" in operator.type:
        return Form.TRANSPOSED
    outputs = operator.outputs[0].shape if operator.outputs else ()
    is_depthwise = tensor.shape[0] == 1 < tensor.shape[1] and len(outputs) > 1 and outputs[1] == tensor.shape[1]
    return Form.DEPTHWISE if is_depthwise else Form.DIRECT


def field_value(registers: Mapping[int, int], bits: Bits) -> int:
    """The field of a register, or `UnsupportedError` if the task does not write it."""
    if bits.register not in registers:
        raise UnsupportedError(f"the task does not write register {bits.register:#06x}")
    return (registers[bits.register] >> bits.low) & ((1 << bits.width) - 1)
