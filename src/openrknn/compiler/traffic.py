"""What a lowered task moves and multiplies, from its registers in natural values: no stream has to be decoded for it.

The rules are those of `openrknn.npu.traffic`, which counts in decoded streams of any file; tests hold the two together.
"""

from __future__ import annotations

import math

from openrknn.compiler.formats import ceil_div
from openrknn.compiler.program import Task
from openrknn.compiler.targets import RK3588, Target
from openrknn.isa.enums import ArgbInput, CombineUse, OperandMode, PixelBits, Precision
from openrknn.npu.formats import element_bytes
from openrknn.npu.traffic import OPERAND_BYTES, Traffic

__all__ = ["traffic_of"]

_OPERAND_WIDTHS = {int(bits): element_bytes(bits) for bits in (PixelBits.BITS8, PixelBits.BITS16, PixelBits.BITS32)}
_WIDTHS = {int(precision): element_bytes(precision)
           for precision in (Precision.INT8, Precision.INT16, Precision.FP16, Precision.BF16, Precision.INT32,
                             Precision.FP32)}  # fmt: skip


def traffic_of(task: Task, target: Target = RK3588) -> Traffic:
    """Of one task; loading a table costs its commands only."""
    if task.table is not None:
        return Traffic()
    if "PPU" in task.blocks:
        return _pooling(task, target)
    if "CNA" in task.blocks:
        return _convolution(task, target)
    rows, columns = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", "height"), _number(
        task, "DPU_RDMA.RDMA_DATA_CUBE_WIDTH", "width"
    )
    mode = task.registers["DPU_RDMA.RDMA_FEATURE_MODE_CFG"]
    size = _WIDTHS[_value(mode["in_precision"])]
    channels = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", "channel")
    read = 0 if mode.get("mrdma_disable") else _atoms(channels, size, target) * rows * columns
    source = task.registers["DPU_RDMA.RDMA_SRC_DMA_CFG"]
    pixels = rows * columns * _value(source["kernel_width"]) * _value(source["kernel_height"])
    return Traffic.of(read + _operands(task), _written(task, pixels, target))


def _convolution(task: Task, target: Target) -> Traffic:
    conv = task.registers["CNA.CONV_CON1"]
    size = _WIDTHS[_value(conv["in_precision"])]
    pixels = _number(task, "CNA.DATA_SIZE0", "datain_height") * _number(task, "CNA.DATA_SIZE0", "datain_width")
    packed = _value(conv.get("argb_in", 0))
    if packed:
        read = pixels * ArgbInput(packed).channels * size
    else:
        read = pixels * _atoms(_number(task, "CNA.DATA_SIZE1", "datain_channel"), size, target)
    weights = _number(task, "CNA.WEIGHT_SIZE0", "weight_bytes")
    if not _number(task, "CNA.CBUF_CON0", "weight_reuse"):
        read += weights
    width = _WIDTHS[_value(conv["proc_precision"])]
    made = _number(task, "CNA.DATA_SIZE3", "dataout_atomics")
    # Depthwise weights are one kernel: all their numbers meet each pixel once.
    macs = made * weights // width
    if packed:
        kernel = task.registers["CNA.WEIGHT_SIZE2"]
        sizes = [_value(kernel[f"weight_{name}"]) for name in ("kernels", "height", "width")]
        macs = made * math.prod(sizes) * ArgbInput(packed).channels
    return Traffic.of(read + _operands(task), _written(task, made, target), macs, width, target.array_macs)


def _pooling(task: Task, target: Target) -> Traffic:
    size = _WIDTHS[_number(task, "PPU.DATA_FORMAT", "proc_precision")]
    atoms = _atoms(_number(task, "PPU.DATA_CUBE_IN_CHANNEL", "cube_in_channel"), size, target)
    read, written = (
        atoms * _number(task, f"PPU.DATA_CUBE_{end}_HEIGHT", f"cube_{end.lower()}_height")
        * _number(task, f"PPU.DATA_CUBE_{end}_WIDTH", f"cube_{end.lower()}_width")
        for end in ("IN", "OUT")
    )  # fmt: skip
    return Traffic.of(read, written)


def _operands(task: Task) -> int:
    """Per channel, and the second operand."""
    if "DPU_RDMA" not in task.blocks:
        return 0
    channels = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", "channel")
    kinds = (_number(task, "DPU_RDMA.RDMA_BRDMA_CFG", "brdma_data_use"),
             _number(task, "DPU_RDMA.RDMA_NRDMA_CFG", "nrdma_data_use"))  # fmt: skip
    read = sum(size * channels for kind in kinds for bit, size in OPERAND_BYTES.items() if kind & bit)
    config = task.registers["DPU_RDMA.RDMA_ERDMA_CFG"]
    combine = _number(task, "DPU_RDMA.RDMA_FEATURE_MODE_CFG", "comb_use")
    if config.get("erdma_disable") or combine & CombineUse.MAIN:
        return read
    pixels = _number(task, "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT", "height") * _number(
        task, "DPU_RDMA.RDMA_DATA_CUBE_WIDTH", "width"
    )
    if _value(config.get("erdma_data_mode", 0)) == OperandMode.PER_CHANNEL:
        pixels = 1
    each = _OPERAND_WIDTHS[_value(config.get("erdma_data_size", 0))]
    return read + _number(task, "DPU.DATA_CUBE_CHANNEL", "channel") * each * pixels


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
