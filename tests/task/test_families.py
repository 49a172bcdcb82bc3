"""What the compiler asks of a chip is what the software NPU sees of its registers, on every family.

Poolings. Registers of maxima do not hold the pad value: it is the lowest number there.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openrknn.chip.decoders import family_of
from openrknn.chip.task_registers import Registers
from openrknn.chips import CHIPS
from openrknn.compiler.targets import TARGETS
from openrknn.isa import Precision
from openrknn.isa.enums import PoolingMethod
from openrknn.task import ppu
from openrknn.task.kinds import Pooling
from openrknn.task.place import Address

LOWEST = {Precision.INT8: -128, Precision.FP16: 0xFBFF}
SIDES = st.integers(1, 8000)
SMALL = st.integers(1, 7)


@st.composite
def poolings(draw: st.DrawFn, atom: int) -> ppu.Config[Address]:
    atoms = st.integers(1, 5000).map(lambda number: number * atom)
    addresses = st.integers(0, (1 << 27) - 1).map(lambda number: number * atom)
    width, method = draw(SIDES), draw(st.sampled_from([PoolingMethod.AVERAGE, PoolingMethod.MAX]))
    precision = draw(st.sampled_from([Precision.INT8, Precision.FP16]))
    has_pad = method is PoolingMethod.AVERAGE and precision is Precision.INT8
    return ppu.Config(
        method=method, precision=precision, source_address=draw(addresses), source_line_bytes=draw(atoms),
        source_surface_bytes=draw(atoms), target_address=draw(addresses),
        target_line_bytes=(width + draw(st.integers(0, 8000))) * atom, target_surface_bytes=draw(atoms),
        channels=draw(st.integers(1, 8192)), height=draw(SIDES), width=draw(SIDES), out_height=draw(SIDES),
        out_width=width, kernel_height=draw(SMALL), kernel_width=draw(SMALL), stride_y=draw(SMALL),
        stride_x=draw(SMALL), pad_top=draw(st.integers(0, 7)), pad_left=draw(st.integers(0, 7)),
        pad_value=draw(st.integers(-128, 127)) if has_pad else 0,
        reciprocal_width=draw(st.integers(0, (1 << 17) - 1)), reciprocal_height=draw(st.integers(0, (1 << 17) - 1)),
        atom_bytes=atom, pad_right=draw(st.integers(0, 7)), pad_bottom=draw(st.integers(0, 7)),
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"rk3588"}))
@given(st.data())
@settings(max_examples=10, deadline=None)
def test_a_pooling_comes_back_from_its_registers(name: str, data: st.DataObject) -> None:
    target, chip = TARGETS[name], CHIPS[name]
    config = data.draw(poolings(chip.atom_bytes))
    blocks, registers = target.encode(Pooling(config))
    values = {}
    for path, fields in registers.items():
        assert path.partition(".")[0] in blocks
        register = target.registers.find(path)
        values[register.offset] = register.encode({name: int(value) for name, value in fields.items()})  # type: ignore[arg-type]
    seen = config
    if config.method is PoolingMethod.MAX:
        seen = replace(config, pad_value=LOWEST[config.precision])
    assert family_of(chip).pooling(Registers(values, chip, target.registers)) == seen
