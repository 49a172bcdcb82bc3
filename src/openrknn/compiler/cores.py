"""Which steps several cores share, and whether a model is worth more than one task list.

The rule: a convolution that needs no lookup table (each core has tables of its own, and only core 0 loads them) is
shared if the slowest core, meeting included, is estimated to save a microsecond. Lists for two and three cores are
written if three cores save a tenth of the model's cycles that way. Whoever asks for the lists gets every share.
"""

from __future__ import annotations

from openrknn.compiler.formats import align
from openrknn.compiler.program import Program, Step, Task
from openrknn.isa import Precision

__all__ = ["CORE_COUNTS", "choose_shares"]

CORE_COUNTS = (2, 3)
_MOST_CORES = 3
_SAVED_CYCLES = 1000
"""A microsecond: what a meeting must be worth."""
_SAVED_PART = 0.1
_MEETING_CYCLES = 15
"""The commands of the task in which cores meet."""
_MACS_PER_CYCLE = 1024
_BYTES_PER_CYCLE = 16
_COMMAND_BYTES = 130 * 8
_GROUP = 32


def choose_shares(program: Program, cores: int | None) -> None:
    """Drop the shares that are not to be written; `cores` is what the user asked for, None if nothing."""
    for step in program.steps:
        if step.table is not None or cores == 1:
            step.shares.clear()
        for count, lists in list(step.shares.items()):
            if not all(lists) or (cores is None and _saved(step, count) < _SAVED_CYCLES):
                del step.shares[count]
    if cores is None:
        whole = sum(_cycles(step.tasks) for step in program.steps)
        saved = sum(_saved(step, _MOST_CORES) for step in program.steps if _MOST_CORES in step.shares)
        if saved < whole * _SAVED_PART:
            for step in program.steps:
                step.shares.clear()


def _saved(step: Step, cores: int) -> float:
    slowest = max(_cycles(tasks) for tasks in step.shares[cores])
    return _cycles(step.tasks) - slowest - _MEETING_CYCLES


def _cycles(tasks: list[Task]) -> float:
    return sum(_task_cycles(task) for task in tasks)


def _task_cycles(task: Task) -> float:
    """The larger one of arithmetic and traffic; `cost` counts the same more exactly, in the finished file."""

    def number(register: str, name: str) -> int:
        value = task.registers.get(register, {}).get(name, 0)
        return value if isinstance(value, int) else 0

    block = "PPU" if "PPU" in task.blocks else "DPU"
    size = 1 if number(f"{block}.DATA_FORMAT", "proc_precision") == Precision.INT8 else 2
    if block == "PPU":
        parts = [("PPU.DATA_CUBE_IN_", "cube_in_"), ("PPU.DATA_CUBE_OUT_", "cube_out_")]
        pixels = [number(f"{start}WIDTH", f"{field}width") * number(f"{start}HEIGHT", f"{field}height")
                  for start, field in parts]  # fmt: skip
        return sum(pixels) * number("PPU.DATA_CUBE_IN_CHANNEL", "cube_in_channel") * size / _BYTES_PER_CYCLE
    made = number("DPU.DATA_CUBE_WIDTH", "width") * number("DPU.DATA_CUBE_HEIGHT", "height")
    channels = number("DPU.DATA_CUBE_CHANNEL", "channel")
    if "CNA" not in task.blocks:
        return (2 * made * channels * size + _COMMAND_BYTES) / _BYTES_PER_CYCLE
    kernels = number("CNA.WEIGHT_SIZE2", "weight_kernels")
    weight_bytes = number("CNA.WEIGHT_SIZE0", "weight_bytes")
    source = number("CNA.DATA_SIZE0", "datain_height") * number("CNA.DATA_SIZE0", "datain_width")
    read = source * number("CNA.DATA_SIZE1", "datain_channel") * size
    if not number("CNA.CBUF_CON0", "weight_reuse"):
        read += weight_bytes
    taps = weight_bytes // max(1, kernels) // size
    products = made * taps * (align(kernels, _GROUP // size) if kernels > 1 else 1)
    traffic = (read + made * channels * size + _COMMAND_BYTES) / _BYTES_PER_CYCLE
    return max(products * size / _MACS_PER_CYCLE, traffic)
