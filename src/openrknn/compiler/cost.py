"""What a model costs on a board: of any file from its streams (`cost_of`), of a linked program without decoding it."""

from __future__ import annotations

from openrknn.compiler.formats import ceil_div
from openrknn.compiler.link import Linked
from openrknn.compiler.program import Program, Task
from openrknn.compiler.targets import Target
from openrknn.cost import Cost, Kind, OperatorCost, Shape, Work, board_of, operator_cost, work_of
from openrknn.isa import TAIL_WORDS, WORD_BYTES
from openrknn.isa.enums import ArgbInput, CombineUse, ConvMode, OperandMode, PixelBits, Precision
from openrknn.npu.blocks.formats import element_bytes
from openrknn.npu.blocks.rdma import operand_bytes
from openrknn.runtime.cost import cost_of

__all__ = ["Cost", "OperatorCost", "cost_of", "linked_costs", "shape_of", "work_of_task"]

_FIRST_LIST = {1: 0, 2: 1, 3: 3}


def linked_costs(program: Program, linked: Linked) -> dict[int, Cost]:
    """Number of cores -> the same numbers as `cost_of` finds in the written file."""
    # Files of RK3576 have lists for three cores as those of RK3588 do; the chip has two.
    counts = [count for count in _FIRST_LIST if count <= program.target.chip.cores]
    return {count: _cost(program, linked, count) for count in counts if _FIRST_LIST[count] < len(linked.lists)}


def _cost(program: Program, linked: Linked, cores: int) -> Cost:
    first, chip = _FIRST_LIST[cores], program.target.chip
    found: dict[int, list[list[Work]]] = {}
    for core, entries in enumerate(linked.lists[first : first + cores]):
        for entry in entries:
            parts = found.setdefault(entry.step, [[] for _ in range(cores)])
            parts[core].append(work_of_task(entry.task, program.target, (entry.amount + TAIL_WORDS) * WORD_BYTES))
    operators = []
    submits, begins = 0, True
    for number, step in enumerate(program.steps):
        if step.is_cpu:
            begins = True
        elif number in found:
            loads = bool(linked.table_tasks.get(number))
            jobs = int(loads or begins or cores > 1)  # cores that share work get a job per operator
            submits += jobs
            begins = loads
            index = number + len(program.inputs)
            operators.append(operator_cost(index, step.type, step.name, found[number], chip, submits=jobs))
    return Cost(tuple(operators), submits, board_of(chip), sum(step.is_cpu for step in program.steps))


_OPERAND_WIDTHS = {int(bits): element_bytes(bits) for bits in (PixelBits.BITS8, PixelBits.BITS16, PixelBits.BITS32)}
_WIDTHS = {int(precision): element_bytes(precision)
           for precision in (Precision.INT8, Precision.INT16, Precision.FP16, Precision.BF16, Precision.INT32,
                             Precision.FP32)}  # fmt: skip


def work_of_task(task: Task, target: Target, command_bytes: int = 0) -> Work:
    """What one task gives the chip to do."""
    return work_of(shape_of(task, target)._replace(command_bytes=command_bytes), target.chip)


def shape_of(task: Task, target: Target) -> Shape:
    """Of one task; loading a table costs its commands only."""
    if task.table is not None:
        return Shape(Kind.TABLE_LOAD)
    if "PPU" in task.blocks:
        return _pooling(task, target)
    if "CNA" in task.blocks:
        return _convolution(task, target)
    return _flying(task, target)


def _flying(task: Task, target: Target) -> Shape:
    rows, columns = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", "height"), _number(
        task, "DPU_RDMA.RDMA_DATA_CUBE_WIDTH", "width"
    )
    mode, source = task.registers["DPU_RDMA.RDMA_FEATURE_MODE_CFG"], task.registers["DPU_RDMA.RDMA_SRC_DMA_CFG"]
    channels = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", "channel")
    each = _atoms(channels, _WIDTHS[_value(mode["in_precision"])], target)
    pixels = rows * columns * _value(source["kernel_width"]) * _value(source["kernel_height"])
    return Shape(
        Kind.FLYING, pixels, channels=_channels(task), uses_table=_uses_table(task),
        feature_bytes=0 if mode.get("mrdma_disable") else each * rows * columns, operand_bytes=_operands(task),
        written_bytes=_written(task, pixels, target),
    )  # fmt: skip


def _convolution(task: Task, target: Target) -> Shape:
    conv, kernel = task.registers["CNA.CONV_CON1"], task.registers["CNA.WEIGHT_SIZE2"]
    size, width = _WIDTHS[_value(conv["in_precision"])], _WIDTHS[_value(conv["proc_precision"])]
    picture = ArgbInput(_value(conv.get("argb_in", 0))).channels
    depthwise = _value(conv.get("conv_mode", 0)) == ConvMode.DEPTHWISE
    kernels, taps = _value(kernel["weight_kernels"]), _value(kernel["weight_height"]) * _value(kernel["weight_width"])
    inputs = _number(task, "CNA.WEIGHT_SIZE1", "weight_bytes_per_kernel") // (width * max(taps, 1))
    pixels, read = _number(task, "CNA.DATA_SIZE3", "dataout_atomics"), (
        _number(task, "CNA.DATA_SIZE0", "datain_height") * _number(task, "CNA.DATA_SIZE0", "datain_width")
    )
    each = picture * size if picture else _atoms(_number(task, "CNA.DATA_SIZE1", "datain_channel"), size, target)
    reused = _number(task, "CNA.CBUF_CON0", "weight_reuse")
    return Shape(
        Kind.DEPTHWISE if depthwise else Kind.PICTURE if picture else Kind.CONVOLUTION, pixels, taps, picture or inputs,
        kernels, width, _channels(task), _uses_table(task), feature_bytes=read * each,
        weight_bytes=0 if reused else _number(task, "CNA.WEIGHT_SIZE0", "weight_bytes"), operand_bytes=_operands(task),
        written_bytes=_written(task, pixels, target),
    )  # fmt: skip


def _pooling(task: Task, target: Target) -> Shape:
    size = _WIDTHS[_number(task, "PPU.DATA_FORMAT", "proc_precision")]
    atoms = _atoms(_number(task, "PPU.DATA_CUBE_IN_CHANNEL", "cube_in_channel"), size, target)
    read, pixels = (
        _number(task, f"PPU.DATA_CUBE_{end}_HEIGHT", f"cube_{end.lower()}_height")
        * _number(task, f"PPU.DATA_CUBE_{end}_WIDTH", f"cube_{end.lower()}_width")
        for end in ("IN", "OUT")
    )
    taps = sum(_number(task, "PPU.POOLING_KERNEL_CFG", f"kernel_{side}") for side in ("height", "width"))
    return Shape(Kind.POOLING, pixels, taps, feature_bytes=atoms * read, written_bytes=atoms * pixels)


def _operands(task: Task) -> int:
    """Per channel, and the second operand."""
    if "DPU_RDMA" not in task.blocks:
        return 0
    channels = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", "channel")
    kinds = (_number(task, "DPU_RDMA.RDMA_BRDMA_CFG", "brdma_data_use"),
             _number(task, "DPU_RDMA.RDMA_NRDMA_CFG", "nrdma_data_use"))  # fmt: skip
    read = channels * sum(map(operand_bytes, kinds))
    config = task.registers["DPU_RDMA.RDMA_ERDMA_CFG"]
    combine = _number(task, "DPU_RDMA.RDMA_FEATURE_MODE_CFG", "comb_use")
    if config.get("erdma_disable") or combine & CombineUse.MAIN:
        return read
    pixels = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", "height") * _number(
        task, "DPU_RDMA.RDMA_DATA_CUBE_WIDTH", "width"
    )
    if _value(config.get("erdma_data_mode", 0)) == OperandMode.PER_CHANNEL:
        pixels = 1
    return read + _channels(task) * _OPERAND_WIDTHS[_value(config.get("erdma_data_size", 0))] * pixels


def _uses_table(task: Task) -> bool:
    stage = task.registers.get("DPU.EW_CFG", {})
    return stage.get("ew_bypass") == 0 and stage.get("ew_lut_bypass") == 0


def _channels(task: Task) -> int:
    return _number(task, "DPU.DATA_CUBE_CHANNEL", "channel")


def _written(task: Task, pixels: int, target: Target) -> int:
    size = _WIDTHS[_number(task, "DPU.DATA_FORMAT", "out_precision")]
    if _number(task, "DPU.DATA_CUBE_HEIGHT", "minmax_ctl"):
        return size * pixels
    return _atoms(_number(task, "DPU.DATA_CUBE_CHANNEL", "orig_channel"), size, target) * pixels


def _atoms(channels: int, size: int, target: Target) -> int:
    """Bytes of one pixel."""
    return ceil_div(channels * size, target.atom_bytes) * target.atom_bytes


def _number(task: Task, register: str, name: str) -> int:
    return _value(task.registers.get(register, {}).get(name, 0))


def _value(value: object) -> int:
    return int(value) if isinstance(value, int) else 0
