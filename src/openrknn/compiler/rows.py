"""What the page shows of each operator and task, as plain numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openrknn.distance import EQUAL_DB, measure
from openrknn.task.kinds import Convolution, Pooling

if TYPE_CHECKING:
    from openrknn.compiler.program import Step, Task
    from openrknn.compiler.result import Compiled
    from openrknn.cost import OperatorCost

__all__ = ["Row", "TaskRow", "own_noise", "rows_of"]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task."""

    blocks: str
    made: str
    """Channels x rows x columns that it writes."""
    keeps_weights: bool
    read_bytes: int
    written_bytes: int
    cycles: int
    bound: str
    registers: int
    """That it sets to something else than 0."""


@dataclass(slots=True)
class Row:
    """One operator of the file."""

    number: int
    type: str
    name: str
    is_cpu: bool
    format: str
    sources: list[str]
    shape: str
    tasks: list[TaskRow] = field(default_factory=list)
    tiles: str = ""
    cores: int = 1
    read_bytes: int = 0
    written_bytes: int = 0
    cycles: int = 0
    bound: str = ""
    """What most of its time is spent on."""
    macs: int = 0
    weights_db: float | None = None
    output_db: float | None = None
    own_noise: float = 0.0
    """Noise that it adds itself, relative to the signal (`own_noise`)."""
    is_depthwise: bool = False

    @property
    def kind(self) -> str:
        """What decides its colour."""
        if self.is_cpu:
            return "cpu"
        if self.type.startswith("Conv"):
            return "deep" if self.is_depthwise else "conv"
        return "pool" if "Pool" in self.type else "other"


def rows_of(compiled: Compiled) -> list[Row]:
    """In execution order."""
    program = compiled.lowering.program
    costs = _costs(compiled)
    noise = _noise(compiled)
    rows = []
    for number, step in enumerate(program.steps):
        tensors = program.tensors
        source, target = (tensors[names[0]].dtype.label for names in (step.inputs, step.outputs))
        row = Row(
            number, step.type, step.name.partition(":")[2] or step.name, step.is_cpu,
            f"{source} to {target}" if step.type == "exDataConvert" else target,
            list(dict.fromkeys(step.fused)), "×".join(map(str, tensors[step.outputs[0]].shape)),
        )  # fmt: skip
        row.weights_db = compiled.lowering.errors.get(row.name)
        row.output_db = noise.get(step.outputs[0])
        if row.output_db is not None:
            row.own_noise = own_noise(row.output_db, [noise[name] for name in step.inputs if name in noise])
        cost = costs.get(number)
        if cost is not None:
            row.cores = max(step.shares, default=1)
            row.read_bytes, row.written_bytes, row.cycles = cost.read_bytes, cost.written_bytes, cost.cycles
            row.macs, row.bound = cost.macs, str(cost.bound)
            row.tasks = [_task(task, compiled) for task in step.tasks]
            row.is_depthwise = any(
                isinstance(task.work, Convolution) and task.work.source.depthwise for task in step.tasks
            )
            row.tiles = _tiles(step, tensors[step.outputs[0]].cube)
        rows.append(row)
    return rows


def own_noise(output_db: float, input_dbs: Iterable[float]) -> float:
    """The part of an output's noise that the operator itself adds, relative to the signal.

        noise(out) = noise(in) + own,  noise = 10 ** (-dB / 10)

    The worst input counts: noise of several inputs rarely adds up in one place. Never below 0: an activation or a mean
    can take noise away.
    """
    before = max((10 ** (-decibels / 10) for decibels in input_dbs), default=0.0)
    return max(0.0, float(10 ** (-output_db / 10) - before))


def _costs(compiled: Compiled) -> dict[int, OperatorCost]:
    """Number of the step -> its cost, for all items of a batch together."""
    from openrknn.compiler.repeat import item_name

    variant, program = compiled.variants[0], compiled.lowering.program
    if variant.batch == 1:
        return {entry.index - len(program.inputs): entry for entry in variant.costs[1].operators}
    numbers = {
        item_name(step.name, item): number for number, step in enumerate(program.steps) for item in range(variant.batch)
    }
    found: dict[int, OperatorCost] = {}
    for entry in variant.costs[1].operators:
        number = numbers[entry.name]
        found[number] = found[number].plus(entry) if number in found else entry
    return found


def _task(task: Task, compiled: Compiled) -> TaskRow:
    from openrknn.compiler.cost import work_of_task
    from openrknn.cost import board_of, spent_by

    target = compiled.lowering.program.target
    board, work = board_of(target.chip), work_of_task(task, target)
    spent = spent_by(work, board)
    blocks, reuse = "PPU" if isinstance(task.work, Pooling) else "DPU", False
    if isinstance(task.work, Convolution):
        blocks, reuse = "CNA + CORE + DPU", task.work.source.reuses_weights
    registers = sum(any(fields.values()) for fields in target.encode(task.work)[1].values())
    return TaskRow(
        blocks + (f" (loads the table of {task.table.name.partition('@')[0]})" if task.table else ""),
        "×".join(map(str, _made(task))), reuse, work.read_bytes, work.written_bytes,
        round(spent.seconds * board.hertz), str(spent.bound), registers,
    )  # fmt: skip


def _made(task: Task) -> tuple[int, int, int]:
    """(channels, rows, columns)."""
    work = task.work
    if isinstance(work, Pooling):
        return work.pooling.channels, work.pooling.out_height, work.pooling.out_width
    if isinstance(work, Convolution):
        return work.dpu.real_channels, work.source.out_height, work.source.out_width
    repeats = work.reader.repeat_x if work.reader.repeats else 1
    return work.dpu.real_channels, work.reader.height, work.reader.width * repeats


def _tiles(step: Step, cube: tuple[int, int, int]) -> str:
    """How the tasks cut the result, in words."""
    parts = [_made(task) for task in step.tasks if task.table is None]
    if len(parts) <= 1:
        return "whole" if parts and all(parts[0]) else ""
    counts = Counter(parts)
    channels, rows, columns = max(counts, key=lambda part: (counts[part], part))
    cuts = []
    if rows < cube[1]:
        cuts.append(f"{rows} rows")
    if columns < cube[2]:
        cuts.append(f"{columns} columns")
    if channels < cube[0]:
        cuts.append(f"{channels} channels")
    return f"{len(parts)} × " + (" × ".join(cuts) or "one part of the sum")


def _noise(compiled: Compiled) -> dict[str, float]:
    """Value -> decibels against ONNX in float, on the first calibration input (or noise)."""
    from openrknn.analysis.accuracy.windows import windows_in
    from openrknn.compiler.float_model import FloatModel
    from openrknn.compiler.quantise.statistics import derive, names_for
    from openrknn.compiler.repeat import tensor_suffix
    from openrknn.compiler.trials import grouped, raw_inputs, trials
    from openrknn.runtime.inspector import Inspector

    number, variant, feeds = next(iter(trials(compiled, None, 1)))
    if number or compiled.model.batch_size > 1:
        return {}
    feed, graph = feeds[0], variant.graph
    wanted = dict(FloatModel(variant.source, names_for(graph)).run(feed))
    derive(graph, wanted)
    found: dict[str, float] = {}
    with Inspector(compiled.model, "software", windows=windows_in(compiled.model)) as inspector:
        inspector.feed(next(grouped([raw_inputs(compiled, feed)], variant.batch)), "nchw")
        for item in inspector.captured():
            name = item.tensor.name if variant.batch == 1 else item.tensor.name.removesuffix(tensor_suffix(0))
            reference = wanted.get(name)
            if reference is None or item.operator is None or reference.size != item.stored.size:
                continue
            found[name] = min(measure(item.real, reference).snr_db, EQUAL_DB)
    return found
