"""RK3576, a convolution whose CNA is set to fp16 x int4 and whose CORE is set to int8.

A board runs it: CNA widens the weights and CORE multiplies the bytes (`npu.blocks.core.convolve_bytes`). Only products
with one row are known, and their sums only as they are: with every stage of the DPU off. The channels are those that
CORE delivers, twice those of CNA; DATA_CUBE_CHANNEL plays no part. Source: the board logs of gahingwoo/linux-rk3576-npu
(docs/hardware/ledgers.md).
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.rk3562 import decode_named
from openrknn.chip.task_registers import Registers
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import Precision
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu

__all__ = ["configure_core", "with_sums_of_bytes"]

_INPUTS = 32
"""What the array takes at a time."""


def configure_core(registers: Registers, convolution: task_cna.Config) -> task_core.Config:
    """Read CORE's registers; they agree with CNA's but for the case above."""
    if not _multiplies_bytes(registers):
        return decode_named.read_core(registers.named("CORE"), convolution)
    core, source = registers.named("CORE"), convolution
    read = decode_named.read_core(core, replace(source, precision=Precision.INT8, weight_precision=Precision.INT8))
    channels = core("DATAOUT_SIZE_1", "dataout_channel")
    pixels = source.height * source.width * source.kernel_height * source.kernel_width
    is_whole = not source.packed_channels and source.weight_channels % _INPUTS == 0 and channels <= 2 * source.kernels
    if pixels != 1 or not is_whole or read.shift:
        raise UnknownModeError(
            "CORE is set to int8 and CNA to fp16 x int4: what boards do is known for one row of a product, with "
            f"inputs in whole groups of {_INPUTS} and at most two channels for each kernel; set "
            "MISC_CFG.proc_precision to FP16",
            register="MISC_CFG",
        )
    return replace(read, window_sums=False, byte_channels=channels)


def with_sums_of_bytes(registers: Registers, config: task_dpu.Config) -> task_dpu.Config:
    """The DPU behind such a convolution: 32 bits of every sum, as they are; any other DPU as it is."""
    if config.flying or not _multiplies_bytes(registers):
        return config
    channels = registers.named("CORE")("DATAOUT_SIZE_1", "dataout_channel")
    written = registers.named("DPU")("WDMA_SIZE_0", "orig_channel")
    if written != channels:
        raise ExecutionError(
            f"CORE delivers {channels} channels, the write DMA takes {written}: how many a board writes is a matter of "
            "time",
            register="WDMA_SIZE_0",
        )
    out = config.out
    stages = (config.correction, config.bias, config.norm, config.element_wise)
    is_plain = (out.scale, out.shift, out.offset, out.minus_exponent) == (1, 0, 0, 0)
    formats = (config.precision, out.precision)
    if stages != (None,) * 4 or not is_plain or config.reduction or formats != (Precision.FP16, Precision.FP32):
        raise UnknownModeError(
            "CORE is set to int8 and CNA to fp16 x int4: known only with all stages of the DPU off and FP16 -> FP32",
            register="DATA_FORMAT",
        )
    return replace(
        config, precision=Precision.INT8, in_precision=Precision.INT8, channels=channels, real_channels=channels,
        out=replace(out, precision=Precision.INT32),
    )  # fmt: skip


def _multiplies_bytes(registers: Registers) -> bool:
    con1, misc = registers.named("CNA").fields("CONV_CON1"), registers.named("CORE").fields("MISC_CFG")
    said = (*(con1[f"{name}_precision"] for name in ("in", "proc", "weight")), misc["proc_precision"])
    is_dense = not con1["dw_en"] and not misc["dw_en"]
    return is_dense and said == (Precision.FP16, Precision.FP16, Precision.INT4, Precision.INT8)
