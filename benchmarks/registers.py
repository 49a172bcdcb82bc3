#!/usr/bin/env python3
"""Our registers beside the vendor's, of the same graphs: which share of them is equal?

    python benchmarks/registers.py CORPUS FOLDER [FOLDER ...] [--only NAME ...] [--show N]

CORPUS has NAME.onnx, the FOLDERs NAME_CHIP_{i8,fp}.rknn as the vendor's toolkit made them. Each graph is compiled for
the chip of the file, with the calibration data of the vendor's build. Tasks that write the same tensor are compared in
their order, register by register as the block sees it (what a task does not write is still there from an earlier one);
addresses count as equal if both are of the same tensor and place. A tensor that the two write with different numbers of
tasks, or with other blocks, is not compared: our choice of tasks is another.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import openrknn
from openrknn import isa
from openrknn.compiler import compile_model
from openrknn.errors import RknnError
from openrknn.isa.words import Target, parts_of
from openrknn.npu.state import Groups

SEEDS = (100, 101, 102)
WITHOUT = {"S_POINTER", "RDMA_S_POINTER", "LUT_ACCESS_CFG", "LUT_ACCESS_DATA"}
"""How registers are written, and what a table holds."""
TARGETS = ("DPU.DST_BASE_ADDR", "PPU.DST_BASE_ADDR", "DPU.DST_ADDR")


@dataclass
class Task:
    """One start of some blocks."""

    blocks: frozenset[str]
    values: dict[str, int]
    """BLOCK.REGISTER -> 32 bits."""
    places: dict[str, tuple[str, int]]
    """BLOCK.REGISTER -> tensor and bytes into it."""

    @property
    def target(self) -> str:
        return next((self.places[name][0] for name in TARGETS if name in self.places), "")


@dataclass
class Count:
    """Of one chip and number format."""

    equal: int = 0
    of: int = 0
    tasks: int = 0
    skipped: int = 0
    different: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)


def tasks_of(model: Any) -> Iterator[Task]:
    """The list for one core, without tasks that load tables or convert outputs."""
    graph, registers = model.graphs[0], isa.map_for(model.chip)
    groups = Groups(registers)
    located = {entry.command: (group.tensor, entry.addend) for group in graph.relocations for entry in group}
    places: dict[tuple[str, int, int], tuple[str, int]] = {}
    starts = [start for start in graph.list_starts if start]
    for number, task in enumerate(graph.tasks):
        if starts and number >= min(starts):
            return
        words = np.array(graph.task_words(task), np.uint64)
        for at, (target, offset, value) in enumerate(parts_of(words)):
            if target == Target.ENABLE:
                blocks = groups.enabled(value)
                if graph.nodes[task.op_index].type != "OutputOperator" and task.amount < 1000:
                    yield _seen(groups, blocks, places)
                groups.flip(blocks)
                continue
            found = registers.lookup(target, offset)
            if found is None or found[0].enable_bit is None:
                continue
            block = found[0]
            if offset & 0xFFF == 4:
                groups.set_pointer(block, isa.common.SPointer(value))
                continue
            groups.write(block, offset, value)
            key = (block.name, groups.save().pointers[block.name], offset)
            places.pop(key, None)
            if task.first_command + at in located:
                places[key] = located[task.first_command + at]


def _seen(groups: Groups, blocks: list[Any], places: dict[tuple[str, int, int], tuple[str, int]]) -> Task:
    values, held, pointers = groups.current(blocks), {}, groups.save().pointers
    named = {}
    for block in blocks:
        for register in block.registers:
            if register.offset in values and register.name not in WITHOUT:
                name = f"{block.name}.{register.name}"
                named[name] = values[register.offset]
                place = places.get((block.name, pointers[block.name], register.offset))
                if place is not None:
                    held[name] = place
    return Task(frozenset(block.name for block in blocks), named, held)


def compare(ours: Any, theirs: Any, count: Count, name: str) -> None:
    """Add what two models have in common."""
    by_target: list[dict[str, list[Task]]] = []
    for model in (ours, theirs):
        found: dict[str, list[Task]] = defaultdict(list)
        for task in tasks_of(model):
            found[task.target].append(task)
        by_target.append(found)
    for target, tasks in by_target[1].items():
        mine = by_target[0].get(target, [])
        if [task.blocks for task in mine] != [task.blocks for task in tasks]:
            count.skipped += len(tasks)
            continue
        for left, right in zip(mine, tasks, strict=True):
            count.tasks += 1
            _registers(left, right, count, name)


def _registers(left: Task, right: Task, count: Count, name: str) -> None:
    for register, value in right.values.items():
        count.of += 1
        both = (left.places.get(register), right.places.get(register))
        if None not in both:
            # Constants have other names; of activations the place matters too.
            same = both[0] is not None and both[1] is not None and (
                both[0] == both[1] or register.startswith(("CNA.DCOMP", "DPU_RDMA.RDMA_B")))  # fmt: skip
        else:
            same = left.values.get(register, 0) == value
        count.equal += same
        if not same:
            count.different[register] += 1
            mine = f"{left.values.get(register, 0):#x} {both[0] or ''}"
            count.first.setdefault(register, f"{name}: {mine}, vendor {value:#x} {both[1] or ''}")


def data_for(proto: Any, seed: int) -> tuple[Any, ...]:
    """As the vendor's builds of the corpus were calibrated."""
    random = np.random.default_rng(seed)
    shapes = [[dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in proto.graph.input]
    return tuple(random.normal(0, 1, shape).astype(np.float32) for shape in shapes)


def main() -> int:
    """Everything, then a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--show", type=int, default=12, help="registers that differ most often")
    asked = parser.parse_args()
    counts: dict[str, Count] = defaultdict(Count)
    for folder in asked.folders:
        for path in sorted(folder.glob("*_r[kv]*_*.rknn")):
            stem, _, kind = path.stem.rsplit("_", 2)
            sources = [root / f"{stem}.onnx" for root in (asked.corpus, folder)]
            source = next((entry for entry in sources if entry.exists()), None)
            if source is None or kind not in {"i8", "fp"} or (asked.only and stem not in asked.only):
                continue
            theirs, proto = openrknn.load(path), onnx.load(source)
            data = [data_for(proto, seed) for seed in SEEDS] if kind == "i8" else None
            try:
                ours = compile_model(proto, theirs.chip.name, calibration=data)
            except RknnError as error:
                print(f"{path.name}: {error}")
                continue
            compare(ours.model, theirs, counts[f"{theirs.chip.name} {kind}"], path.stem)
    for label, count in counts.items():
        share = 100 * count.equal / max(count.of, 1)
        print(f"{label}: {count.equal} of {count.of} registers are equal, {share:.1f} %, in {count.tasks} tasks; "
              f"{count.skipped} tasks of the vendor's are cut otherwise")  # fmt: skip
        for register, number in count.different.most_common(asked.show):
            print(f"    {number:5d} {register:36s} {count.first[register]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
