"""decode(encode(task)) == task on every family: what the compiler asks of a chip is what the software NPU sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.chip.decode_task import decode_task
from openrknn.chip.target import Target
from openrknn.chip.task_registers import Registers
from openrknn.chips import CHIPS
from openrknn.compiler import compile_model
from openrknn.compiler.targets import TARGETS
from openrknn.npu.memory import Buffer, Memory
from openrknn.task.kinds import Pooling, Work
from openrknn.task.place import Address, Place, with_places
from tests.task.strategies import Kind, convolutions, elementwises, poolings

GOLDENS = Path(__file__).parent.parent / "goldens"
NAMES = ("activations", "deconv", "group_conv", "image", "nearest", "residual", "length")
OPERANDS, ROOM = 0x7000_0000, 64


class Loaded:
    """Tables that a task before has loaded."""

    def __init__(self, task: Work) -> None:
        self._table = None if isinstance(task, Pooling) or not task.dpu.element_wise else task.dpu.element_wise.table

    def snapshot(self) -> npt.NDArray[np.int64]:
        assert self._table is not None
        return self._table.entries


def registers_of(target: Target, task: Work) -> tuple[tuple[str, ...], dict[int, int], Memory]:
    """The words of a task by offset, and the operands that the encoder puts into memory."""
    blocks, encoded = target.encode(task)
    values, memory = {}, Memory()
    for path, entries in encoded.items():
        assert path.partition(".")[0] in blocks
        register, made = target.registers.find(path), {}
        for name, value in entries.items():
            made[name] = _stored(value, memory) if isinstance(value, Place) else int(value)
        values[register.offset] = register.encode(made)
    return blocks, values, memory


def _stored(place: Place, memory: Memory) -> int:
    assert place.data is not None
    address = OPERANDS + ROOM * len(list(memory))
    memory.add(Buffer(address, np.frombuffer(place.data, np.uint8).copy()))
    return address


def decoded(target: Target, task: Work) -> Work:
    """What comes back from the words of a task."""
    blocks, values, memory = registers_of(target, task)
    registers = Registers(values, CHIPS[target.name], target.registers, memory=memory)
    return decode_task(registers, blocks, Loaded(task))


def differences(left: Any, right: Any, path: str = "task") -> Iterator[str]:
    """Fields that are not equal; arrays are compared by what is in them."""
    if is_dataclass(left) and type(left) is type(right):
        for entry in fields(left):
            yield from differences(getattr(left, entry.name), getattr(right, entry.name), f"{path}.{entry.name}")
    elif isinstance(left, np.ndarray):
        if not np.array_equal(left, right):
            yield path
    elif left != right:
        yield f"{path}: {left!r} became {right!r}"


@pytest.mark.parametrize("name", sorted(TARGETS))
@pytest.mark.parametrize("kind", ["pooling", "elementwise", "convolution", "depthwise"])
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_a_task_comes_back_from_its_registers(name: str, kind: str, data: st.DataObject) -> None:
    family = Kind(name)
    strategy: Any = {
        "pooling": poolings(family), "elementwise": elementwises(family),
        "convolution": convolutions(family, depthwise=False), "depthwise": convolutions(family, depthwise=True),
    }[kind]  # fmt: skip
    task = data.draw(strategy)
    assert list(differences(task, decoded(TARGETS[name], task))) == []


@cache
def compiled(name: str, chip: str, *, quantised: bool) -> list[Work]:
    """The tasks of a compiled golden, with numbers for addresses."""
    import onnx

    model = onnx.load(GOLDENS / f"{name}.onnx")
    options: dict[str, Any] = {"fp16": True}
    if quantised:
        random = np.random.default_rng(1)
        feed = {
            entry.name: random.normal(0, 1, [dim.dim_value for dim in entry.type.tensor_type.shape.dim])
            for entry in model.graph.input
        }
        options = {"calibration": [feed], "method": "minmax", "adaptive_rounding": False}
    made = compile_model(model, chip, check=False, **options)

    def address(place: Place) -> Address:
        return 16 * (len(place.tensor) << 16) + place.offset

    return [with_places(task.work, address) for step in made.lowering.program.steps for task in step.tasks]


COMPILED = [
    (name, chip, form)
    for name in NAMES
    for chip in ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106")
    for form in (["fp16"] if TARGETS[chip].has_fp16 else []) + (["int8"] if name != "length" else [])
]
"""`length` is an fp16 model."""


@pytest.mark.parametrize(("name", "chip", "form"), COMPILED)
def test_what_the_compiler_makes(name: str, chip: str, form: str) -> None:
    """Lowering leaves open what chips differ in; decoded, a task says it, and encodes to the same words."""
    target = TARGETS[chip]
    names = {register.offset: register.name for block in target.registers.blocks for register in block.registers}
    for task in compiled(name, chip, quantised=form == "int8"):
        first, second = registers_of(target, task), registers_of(target, decoded(target, task))
        assert first[0] == second[0]
        pairs = {at: (first[1].get(at), second[1].get(at)) for at in first[1].keys() | second[1].keys()}
        assert {names[at]: pair for at, pair in pairs.items() if pair[0] != pair[1]} == {}
        assert [bytes(entry.data) for entry in first[2]] == [bytes(entry.data) for entry in second[2]]
