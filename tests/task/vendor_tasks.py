"""Tasks of the vendor's files: register by register, and as encoders would write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from openrknn.chip.decode_task import decode_task
from openrknn.chip.task_registers import Registers
from openrknn.compiler.targets import TARGETS
from openrknn.errors import RknnError, UnwrittenTableError
from openrknn.isa.enums import OperandKinds
from openrknn.isa.errors import IsaError
from openrknn.npu.machine import Machine
from openrknn.npu.memory import Memory
from openrknn.task.kinds import Work
from openrknn.task.lut import Tables
from openrknn.task.place import Place
from tests.npu.chip_models import place

TARGET_OF = {"rk3588": "rk3588", "rk3566": "rk3566", "rk3562": "rk3562", "rk3576": "rk3576", "rv1106": "rv1106"}
"""Family -> the target that encodes for it."""
NEVER = ("S_STATUS", "OPERATION_ENABLE", "S_POINTER", "CLK_GATE", "MAC_GATING", "LUT_ACCESS_DATA", "LUT_ACCESS_CFG")
"""The kernel's, or words of tables, or which register group works."""


@dataclass(frozen=True)
class Seen:
    """One task of a file."""

    chip: str
    family: str
    blocks: frozenset[str]
    work: Work | None
    differences: dict[str, tuple[int, int]]
    """BLOCK.REGISTER.field -> (the file's, the encoder's)."""
    refusal: str = ""


def tasks_of(path: Path) -> Iterator[Seen]:
    """The tasks of a file's one-core list; those that load tables are left out."""
    found: list[tuple[frozenset[str], Registers, Any]] = []
    original = Machine._configure

    def configure(
        self: Machine, names: set[str], registers: Registers, working: Any, *more: Any, **options: Any
    ) -> Any:
        if not options["loads_table"]:
            found.append((frozenset(names), registers, _entries(working.tables)))
        return original(self, names, registers, working, *more, **options)

    placed = place(path)
    with patch.object(Machine, "_configure", configure):
        placed.program()
    for names, registers, entries in found:
        yield seen(names, registers, placed.memory, entries)


def _operands(data: bytes, kinds: int) -> list[bytes]:
    """What counts of an operand tensor; the vendor leaves whatever was in memory behind it."""
    found, at = [], 0
    for kind in (OperandKinds.ALU, OperandKinds.CPEND, OperandKinds.MUL, OperandKinds.TRT):
        if kinds & kind:
            found.append(data[at : at + (4 if kind is OperandKinds.ALU else 2)])
            at += 32 if kind is OperandKinds.ALU else 16
    return found


def _entries(tables: Tables) -> Any:
    try:
        return tables.snapshot()
    except UnwrittenTableError:
        return None


class Loaded:
    """Tables as they were."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries

    def snapshot(self) -> Any:
        return self._entries


def seen(names: frozenset[str], registers: Registers, memory: Memory, entries: Any) -> Seen:
    """Decode, encode, compare."""
    chip = registers.chip
    about = chip.name, chip.family, names
    target = TARGETS.get(chip.name) or TARGETS[TARGET_OF[chip.family]]
    try:
        work = decode_task(registers, names, Loaded(entries))
        _, encoded = target.encode(work)
        values = {}
        for path, fields in encoded.items():
            register = target.registers.find(path)
            values[register.offset] = register.encode(
                {name: 0 if isinstance(value, Place) else int(value) for name, value in fields.items()}
            )
    except (RknnError, IsaError, KeyError, AttributeError, ValueError, OverflowError) as error:
        return Seen(*about, None, {}, f"{type(error).__name__}: {error}")
    found: dict[str, tuple[int, int]] = {}
    for block in target.registers.blocks:
        if block.name not in names:
            continue
        for register in block.registers:
            if register.name.removeprefix("RDMA_") in NEVER or register.offset not in registers._values:
                continue
            theirs = register.read(registers._values).values()
            ours = register.read({register.offset: values.get(register.offset, 0)}).values()
            for name, value in theirs.items():
                path = f"{block.name}.{register.name}"
                made = encoded.get(path, {}).get(name, 0)
                if isinstance(made, Place):
                    stored = memory.view(value, len(made.data or b""), path).tobytes()
                    kinds = int(encoded[f"DPU_RDMA.RDMA_{path[14]}RDMA_CFG"]["config_use"])  # type: ignore[arg-type]
                    if _operands(stored, kinds) != _operands(made.data or b"", kinds):
                        found[f"{path}.{name}"] = (0, 0)
                elif int(value) != int(ours[name]):
                    found[f"{path}.{name}"] = (int(value), int(ours[name]))
    return Seen(*about, work, found)
