"""The machine: register groups, strictness, errors that name the culprit, cores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from openrknn import isa
from openrknn.chip.decoders import family_of
from openrknn.chip.watch import Watcher
from openrknn.chips import CHIPS
from openrknn.errors import (
    AccessError,
    ExecutionError,
    RknnError,
    UndeclaredBitsError,
    UnknownModeError,
    UnreadRegisterError,
    UnsupportedError,
)
from openrknn.isa import Register
from openrknn.isa.common import SPointer
from openrknn.npu import Machine, TaskRef
from openrknn.npu.state import Groups
from tests.container.places import GOLDENS, golden
from tests.npu.loaded import load

R = TypeVar("R", bound=Register)
RK3588 = [
    path
    for path in GOLDENS
    if "_rk3588_" in path.stem and not any(word in path.stem for word in ("mini", "no_weights", "batch"))
]


@pytest.mark.parametrize("path", RK3588, ids=lambda path: path.stem)
def test_every_golden_executes_strictly(path: Path) -> None:
    """No unread register, no undeclared bit, no access outside; and the result does not depend on who ran before."""
    loaded = load(path)
    program = loaded.program()
    before = loaded.internal.data.copy()
    program.run()
    first = loaded.internal.data.copy()
    assert not np.array_equal(before, first)
    loaded.internal.data[...] = before
    program.run()
    assert np.array_equal(loaded.internal.data, first)


@pytest.mark.parametrize("path", RK3588, ids=lambda path: path.stem)
def test_two_and_three_cores_give_the_same_bytes(path: Path) -> None:
    results = []
    for cores in (1, 2, 3):
        loaded = load(path)
        if cores > 1 and not loaded.tasks(cores):
            continue
        loaded.program(cores).run()
        graph = loaded.model.graphs[0]
        results.append(
            [
                bytes(loaded.internal.data[graph.tensors[index].offset :][: graph.tensors[index].size_bytes])
                for index in graph.outputs
            ]
        )
    assert all(result == results[0] for result in results)


def test_unread_registers_are_loud() -> None:
    """DDMA does nothing in a task: a write to it is read by nobody."""
    loaded = load(golden("conv_rk3588_i8"))
    index, words = loaded.command(0, isa.cna.ConvCon2.offset)
    words[index] = np.uint64(isa.Command(isa.Target.PPU, isa.ppu.MiscCtrl.offset, 3).word)
    with pytest.raises(UnreadRegisterError) as caught:
        loaded.program()
    assert caught.value.register == "PPU.MISC_CTRL"
    assert caught.value.task == 0


def test_undeclared_bits_are_loud() -> None:
    loaded = load(golden("conv_rk3588_i8"))
    loaded.set_register(0, isa.cna.PadCon0.offset, 0x8000_0000)
    with pytest.raises(UndeclaredBitsError, match="0x80000000"):
        loaded.program()


def test_bits_that_no_board_is_known_to_ignore_stop_tolerant_runs_too() -> None:
    loaded = load(golden("conv_rk3588_i8"), strict=False)
    loaded.set_register(0, isa.cna.PadCon0.offset, 0x8000_0000)
    with pytest.raises(UndeclaredBitsError, match=r"0x80000000.*open an issue.*openrknn verify.*PAD_CON0"):
        loaded.program()


def test_unknown_registers_are_loud() -> None:
    loaded = load(golden("conv_rk3588_i8"))
    index, words = loaded.command(0, isa.cna.ConvCon2.offset)
    words[index] = np.uint64(isa.Command(isa.Target.CNA, 0x1FFC, 1).word)
    with pytest.raises(UnknownModeError, match="0x1ffc"):
        loaded.program()


@pytest.mark.parametrize(
    ("register", "what"),
    [
        (isa.cna.FeatureDataAddr, "CNA"),
        (isa.cna.DcompAddr0, "weights"),
        (isa.dpu.DstBaseAddr, "DPU write"),
        (isa.dpu_rdma.BsBaseAddr, "operands"),
    ],
)
def test_access_outside_memory_is_a_fault(register: type[isa.Register], what: str) -> None:
    loaded = load(golden("conv_rk3588_i8"))
    loaded.set_register(0, register.offset, 0xE000_0000)
    before = loaded.internal.data.copy()
    with pytest.raises(AccessError, match=what) as caught:
        loaded.program().run()
    assert caught.value.address is not None
    assert np.array_equal(loaded.internal.data, before)


def test_too_few_buffer_entries_are_an_error() -> None:
    loaded = load(golden("conv_rk3588_i8"))
    loaded.set_register(0, isa.cna.CbufCon1.offset, 1)
    with pytest.raises(ExecutionError, match="overlap"):
        loaded.program()


def test_unused_features_are_unknown_modes() -> None:
    loaded = load(golden("conv_rk3588_i8"))
    loaded.set_register(0, isa.cna.DcompCtrl.offset, 3)
    with pytest.raises(UnknownModeError, match="DCOMP_CTRL"):
        loaded.program()


def test_other_chips_are_refused_with_a_pointer() -> None:
    newer = replace(CHIPS["rk3588"], title="RK3688", family="rk3688")
    with pytest.raises(UnsupportedError, match=r"does not implement RK3688 yet; it implements .*RV1103B"):
        family_of(newer)


def test_groups_flip_only_enabled_blocks() -> None:
    groups = Groups(isa.RK3588)
    dpu, cna = isa.RK3588.block("DPU"), isa.RK3588.block("CNA")
    groups.write(dpu, 0x4010, 1)
    groups.write(cna, 0x100C, 2)
    groups.flip([dpu])
    groups.write(dpu, 0x4010, 3)
    assert groups.current([dpu, cna]) == {0x4010: 3, 0x100C: 2}
    groups.flip([dpu])
    assert groups.current([dpu])[0x4010] == 1


def test_pointer_clear_goes_back_to_group_zero() -> None:
    groups = Groups(isa.RK3588)
    dpu = isa.RK3588.block("DPU")
    groups.write(dpu, 0x4010, 1)
    groups.flip([dpu])
    groups.set_pointer(dpu, SPointer.of(pointer_pp_clear=True, executer_pp_clear=True))
    assert groups.current([dpu])[0x4010] == 1
    groups.flip([dpu])
    assert groups.current([dpu])[0x4010] == 1


def test_a_core_goes_back_to_a_saved_state() -> None:
    """A stream that builds on what was there before is decoded again from the same state."""
    loaded = load(golden("silu_rk3588_i8"))
    machine, tasks = loaded.machine, loaded.tasks()[0]
    empty = machine.save(0)
    first = [vars(step) for step in machine.prepare([tasks]).steps]
    full = machine.save(0)
    assert full != empty
    machine.restore(0, empty)
    assert machine.save(0) == empty
    again = [vars(step) for step in machine.prepare([tasks]).steps]
    assert machine.save(0) == full
    assert len(first) == len(again)
    for old, new in zip(first, again, strict=True):
        assert {name: repr(value) for name, value in old.items()} == {name: repr(value) for name, value in new.items()}


def test_a_watcher_hears_of_reads_writes_and_errors() -> None:
    class Notes(Watcher):
        def __init__(self) -> None:
            self.read_names: set[str] = set()
            self.written: set[str] = set()
            self.errors: list[str] = []

        def wrote(self, register: type[Register]) -> None:
            self.written.add(register.name)

        def read(self, value: R) -> R:
            self.read_names.add(value.name)
            return value

        def failed(self, error: RknnError, task: TaskRef) -> bool:
            self.errors.append(f"{task.number}: {error}")
            return True

    loaded, notes = load(golden("conv_rk3588_i8")), Notes()
    loaded.set_register(0, 0x1060, 1)  # CNA.FC_CON0: of a feature that nobody has seen in use
    Machine(loaded.model.chip, loaded.memory, watcher=notes).prepare(loaded.tasks())
    assert {"CONV_CON1", "DATA_SIZE0"} <= notes.read_names <= notes.written
    assert len(notes.errors) == 1
