"""decode(encode(task)) == task: what the compiler asks for is what the software NPU sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.chip.rk3588.decode_task import decode_convolution, decode_elementwise, decode_pooling
from openrknn.chip.rk3588.encode import encode
from openrknn.chip.rk3588.registers import RK3588
from openrknn.chip.task_registers import Registers
from openrknn.chips import CHIPS
from openrknn.compiler import compile_model
from openrknn.isa import Precision
from openrknn.isa.enums import ChannelReduction, CombineUse, EwAlgorithm, OperandKinds, OperandMode, PoolingMethod
from openrknn.numerics import Rounding
from openrknn.task import dpu, ew, lut, out_cvt, ppu, rdma, write
from openrknn.task.formats import ATOM_BYTES, is_float
from openrknn.task.kinds import Convolution, Elementwise, Pooling, Work
from openrknn.task.place import Address, Place, with_places
from openrknn.task.stage import Clamp, Scaling, Stage

GOLDENS = Path(__file__).parent.parent / "goldens"
ADDRESSES = st.integers(0, (1 << 28) - 1).map(lambda number: number * 16)
SIDES = st.integers(1, 8000)
NAMES = ("activations", "average_pool", "conv", "deconv", "group_conv", "image", "nearest", "residual", "length")


class Loaded:
    """Tables that a task before has loaded."""

    def __init__(self, task: Work) -> None:
        self._table = None if isinstance(task, Pooling) or not task.dpu.element_wise else task.dpu.element_wise.table

    def snapshot(self) -> npt.NDArray[np.int64]:
        assert self._table is not None
        return self._table.entries


def decoded(task: Work) -> Work:
    """What comes back from the words of a task."""
    values = {}
    for path, entries in encode(task)[1].items():
        register = RK3588.find(path)
        values[register.offset] = register.encode({name: int(value) for name, value in entries.items()})  # type: ignore[arg-type]
    registers = Registers(values, CHIPS["rk3588"], RK3588)
    if isinstance(task, Pooling):
        return decode_pooling(registers)
    if isinstance(task, Elementwise):
        return decode_elementwise(registers, Loaded(task))
    return decode_convolution(registers, Loaded(task), reads=task.reader is not None)


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


@cache
def tasks_of(name: str, *, quantised: bool) -> list[Work]:
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
    made = compile_model(model, "rk3588", check=False, **options)
    return [
        with_places(task.work, lambda place: 16 * (len(place.tensor) << 16) + place.offset)
        for step in made.lowering.program.steps
        for task in step.tasks
    ]


def stored_as_on_the_chip(task: Work) -> Work:
    """How weights are grouped is the chip's, and tasks of the compiler leave it open."""
    if not isinstance(task, Convolution):
        return task
    size = 1 if task.source.weight_precision is Precision.INT8 else 2
    return replace(task, source=replace(task.source, kernel_group=32 // size, depthwise_group=64 // size))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quantised", [False, True], ids=["fp16", "int8"])
def test_compiled(name: str, quantised: bool) -> None:
    if quantised and name == "length":
        pytest.skip("this golden is fp16")
    tasks = tasks_of(name, quantised=quantised)
    assert tasks
    for task in tasks:
        expected = stored_as_on_the_chip(task)
        assert list(differences(expected, decoded(expected))) == []


@st.composite
def poolings(draw: st.DrawFn) -> ppu.Config[Address]:
    width, atoms = draw(SIDES), st.integers(1, 5000).map(lambda number: number * ATOM_BYTES)
    return ppu.Config(
        method=draw(st.sampled_from(PoolingMethod)), precision=draw(st.sampled_from([Precision.INT8, Precision.FP16])),
        source_address=draw(ADDRESSES), source_line_bytes=draw(atoms), source_surface_bytes=draw(atoms),
        target_address=draw(ADDRESSES), target_line_bytes=(width + draw(st.integers(0, 8000))) * ATOM_BYTES,
        target_surface_bytes=draw(atoms), channels=draw(st.integers(1, 8192)), height=draw(SIDES), width=draw(SIDES),
        out_height=draw(SIDES), out_width=width, kernel_height=draw(st.integers(1, 16)),
        kernel_width=draw(st.integers(1, 16)), stride_y=draw(st.integers(1, 16)), stride_x=draw(st.integers(1, 16)),
        pad_top=draw(st.integers(0, 7)), pad_left=draw(st.integers(0, 7)), pad_value=draw(st.integers(-128, 127)),
        reciprocal_width=draw(st.integers(0, (1 << 17) - 1)), reciprocal_height=draw(st.integers(0, (1 << 17) - 1)),
        pad_right=draw(st.integers(0, 7)), pad_bottom=draw(st.integers(0, 7)),
    )  # fmt: skip


@given(poolings())
@settings(max_examples=50, deadline=None)
def test_pooling(config: ppu.Config[Address]) -> None:
    assert list(differences(Pooling(config), decoded(Pooling(config)))) == []


def numbers(precision: Precision, width: int) -> st.SearchStrategy[float]:
    """Operands that a register of so many bits holds."""
    if is_float(precision):
        return st.floats(-60000, 60000, width=width)  # type: ignore[arg-type]
    return st.integers(-(1 << width - 1), (1 << width - 1) - 1)


@st.composite
def stages(draw: st.DrawFn, precision: Precision) -> Stage | None:
    if draw(st.booleans()):
        return None
    adds = draw(st.booleans())
    scaling = Scaling(draw(st.none() | numbers(precision, 16)), draw(st.integers(0, 31)), draw(st.integers(0, 31)),
                      draw(st.booleans()))  # fmt: skip
    upper = draw(st.none() | numbers(precision, 32))
    return Stage(
        addend=draw(st.none() | numbers(precision, 32)) if adds else 0, adds=adds,
        subtracts=adds and draw(st.booleans()), scaling=draw(st.none() | st.just(scaling)),
        clamp=draw(st.none() | st.just(Clamp(upper))), is_float=is_float(precision),
    )  # fmt: skip


@st.composite
def element_wises(draw: st.DrawFn, precision: Precision) -> ew.Config | None:
    kind = draw(st.sampled_from(["none", "table", "operation", "both"]))
    if kind == "none":
        return None
    start, end = draw(st.integers(-30000, -1)), draw(st.integers(1, 30000))
    slope = lut.Slope(draw(st.integers(-30000, 30000)), draw(st.integers(0, 31)))
    entries = np.arange(2 * lut.ENTRIES).reshape(2, -1)
    table = lut.Config(entries, start, draw(st.integers(start, end)), end, 5, 5, slope, slope)
    converter = ew.Converter(draw(st.booleans()), draw(st.integers(-999, 999)), draw(st.integers(-30000, 30000)),
                             draw(st.integers(0, 31)), Rounding.EVEN)  # fmt: skip
    multiplies = draw(st.booleans())
    algorithm = EwAlgorithm.MAX if multiplies else draw(st.sampled_from([EwAlgorithm.ADD, EwAlgorithm.MINUS]))
    operation = ew.Operation(multiplies, algorithm, None, None if is_float(precision) else converter, False, 0, 0)
    return ew.Config(table if kind != "operation" else None, operation if kind != "table" else None,
                     draw(st.none() | st.just(Clamp(None))))  # fmt: skip


@st.composite
def elementwises(draw: st.DrawFn) -> Elementwise[Address]:
    precision = draw(st.sampled_from([Precision.INT8, Precision.FP16]))
    columns, rows, gap = draw(st.integers(1, 90)), draw(st.integers(1, 90)), draw(st.integers(0, 9))
    line = (columns + gap) * ATOM_BYTES
    surface = rows * line + draw(st.integers(0, 99)) * ATOM_BYTES
    channels = draw(st.integers(1, 512)) * 16
    element_wise = draw(element_wises(precision))
    walk: rdma.Walk[Address] = rdma.Walk(draw(ADDRESSES), line, surface)
    operand = None
    if element_wise is not None and element_wise.operation is not None:
        operand = rdma.Operand(OperandMode.PER_PIXEL, 2 if is_float(precision) else 1, walk, surface)
    return Elementwise(
        dpu.Config(
            flying=True, precision=precision, in_precision=precision, channels=channels,
            real_channels=draw(st.integers(1, channels)), pad_bits=draw(st.integers(0, 0xFFFF)),
            reduction=ChannelReduction(0),
            correction=None, bias=draw(stages(precision)), norm=draw(stages(precision)), element_wise=element_wise,
            out=out_cvt.Config(precision, 1 if is_float(precision) else draw(st.integers(-30000, 30000)),
                               draw(st.integers(0, 31)), draw(st.integers(-128, 127)), False,
                               draw(st.sampled_from(Rounding)), draw(st.integers(0, 31))),
            write=write.Config(draw(ADDRESSES), draw(st.integers(1, 8)), columns, rows, line, surface, 2 * surface,
                               None, draw(st.booleans()), None),
        ),
        rdma.Config(
            width=columns, height=rows, channels=channels, precision=precision, proc_precision=precision, main=walk,
            bias_kinds=OperandKinds(0), bias_address=0, norm_kinds=draw(st.sampled_from([OperandKinds(0)])),
            norm_address=0, operand=operand, combine=CombineUse(0), repeat_x=1, repeat_y=1, repeats=False,
        ),
        is_narrow=is_float(precision) and draw(st.booleans()), is_first=draw(st.booleans()),
    )  # fmt: skip


@given(elementwises())
@settings(max_examples=80, deadline=None)
def test_elementwise(task: Elementwise[Address]) -> None:
    assert list(differences(task, decoded(task))) == []


@given(poolings())
@settings(max_examples=5, deadline=None)
def test_places_change_and_nothing_else(config: ppu.Config[Address]) -> None:
    task = Pooling(replace(config, source_address=Place("a", 16)))
    moved = with_places(task, lambda place: Place("b", place.offset + 16))
    assert moved == Pooling(replace(config, source_address=Place("b", 32)))
    assert with_places(moved, lambda place: place) is moved
