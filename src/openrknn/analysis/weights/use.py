"""Which weights an operator uses, and what its commands say about them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from openrknn.backports import StrEnum
from openrknn.chip.maps import map_for
from openrknn.chip.weight_scales import OPERAND_USE, OPERANDS, FieldPlace, weight_scales
from openrknn.container.compressed import as_loaded, may_be_compressed
from openrknn.container.model import Model, Operator
from openrknn.container.parts import DataType, Graph, Kind, Layout, Task, Tensor
from openrknn.errors import UnsupportedError
from openrknn.isa import Command
from openrknn.isa.enums import OperandKinds
from openrknn.layout.operands import Operands, Use, unpack_byte_operands, unpack_operands

_RANK = 4
_KINDS = {
    Use.BIAS: ("alu", OperandKinds.ALU),
    Use.ZERO_POINT: ("cpend", OperandKinds.CPEND),
    Use.MULTIPLIER: ("mul", OperandKinds.MUL),
}


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
        self.facts = weight_scales(model.chip.family)
        self._map = map_for(model.chip)

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
            name = addresses.get(self._map.find(self.facts.weight_address).offset)
            if name in named:
                tensor = as_loaded(self.model.chip, self._tensors[name], registers)
                return self._weight_use(operator, tensor, registers, addresses)
        return None

    def _look(self, task: Task) -> tuple[dict[int, int], dict[int, str]]:
        registers: dict[int, int] = {}
        addresses: dict[int, str] = {}
        for command, word in enumerate(self.graph.task_words(task, tail=False), start=task.first_command):
            _, register, registers[register] = Command.decode(word)
            if command in self._relocated:
                addresses[register] = self._relocated[command]
        return registers, addresses

    def _weight_use(
        self, operator: Operator, tensor: Tensor, registers: Mapping[int, int], addresses: Mapping[int, str]
    ) -> WeightUse:
        operands = self._tensors.get(addresses.get(self._map.find(OPERANDS).offset, ""))
        use = Use(0) if operands is None else self._operand_use(registers)
        return WeightUse(tensor, _form(operator, tensor), operands, use, registers, addresses)

    def _operand_use(self, registers: Mapping[int, int]) -> Use:
        """One field with a bit for each kind, or a flag for each kind."""
        register = self._map.find(OPERAND_USE)
        values = register(registers.get(register.offset, 0)).values()
        kinds = values.get("brdma_data_use")
        found = (kind for kind, (flag, bit) in _KINDS.items() if (values[flag] if kinds is None else kinds & bit))
        return Use(sum(kind.value for kind in found))

    def field(self, use: WeightUse, place: FieldPlace) -> int:
        """A field that the task with the weights writes, or `UnsupportedError` if it does not."""
        register = self._map.find(place.register)
        if register.offset not in use.registers:
            raise UnsupportedError(f"the task does not write {place.register}")
        return int(register(use.registers[register.offset]).values()[place.field])

    def is_set(self, use: WeightUse, name: str, *fields: str) -> bool:
        """Whether one of these fields (without names: any bit) of a register is not 0; never written counts as 0."""
        block, _, register_name = name.partition(".")
        register = self._map.block(block).by_name.get(register_name)
        value = use.registers.get(register.offset, 0) if register is not None else 0
        return bool(value) and (not fields or register is None or any(register(value).values()[it] for it in fields))

    def operands(self, use: WeightUse) -> Operands:
        """Bias, zero points and multipliers as far as the stream holds them; the bias of float models is float."""
        if use.operands is None or use.operands.dtype not in {DataType.INT32, DataType.INT16}:
            return Operands(None, None, None)
        data = tensor_data(self.model, use.operands)
        if self.facts.byte_zero_points and Use.ZERO_POINT in use.use:
            return unpack_byte_operands(data, use.channels)
        return unpack_operands(data, use.channels, self.model.chip.bias_group, use.use)

    def inlines_zero_points(self, use: WeightUse) -> bool:
        """Whether zero points stand between the weights."""
        return (
            bool(self.model.chip.inline_zero_points)
            and use.form is Form.DEPTHWISE
            and use.tensor.dtype is DataType.INT8
            and use.use == Use.BIAS | Use.MULTIPLIER
        )

    def configuration(self, use: WeightUse, register: str | None, size: int, what: str) -> memoryview:
        """The tensor whose address goes into `register`, at least `size` bytes long."""
        tensor = self._tensors.get(self._addressed(use, register))
        data = tensor_data(self.model, tensor) if tensor is not None else memoryview(b"")
        if len(data) < size:
            raise UnsupportedError(f"the {what} tensor of {use.tensor.name!r} is missing or too short")
        return data

    def has_configuration(self, use: WeightUse, register: str | None) -> bool:
        """Whether the address of a tensor goes into `register`."""
        return bool(self._addressed(use, register))

    def _addressed(self, use: WeightUse, register: str | None) -> str:
        return "" if register is None else use.addresses.get(self._map.find(register).offset, "")


def _form(operator: Operator, tensor: Tensor) -> Form:
    if "ConvTranspose" in operator.type:
        return Form.TRANSPOSED
    outputs = operator.outputs[0].shape if operator.outputs else ()
    is_depthwise = tensor.shape[0] == 1 < tensor.shape[1] and len(outputs) > 1 and outputs[1] == tensor.shape[1]
    return Form.DEPTHWISE if is_depthwise else Form.DIRECT
