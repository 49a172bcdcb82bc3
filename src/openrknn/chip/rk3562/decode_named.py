"""What RK3562, RK3576 and RV1103/06 have in common: readers of registers that differ only in their places.

Those of CNA are in `decode_named_cna`, those of the DPU in `decode_named_dpu`.
"""

from __future__ import annotations

from openrknn import numerics
from openrknn.chip.rk3588 import decode as rk3588
from openrknn.chip.task_registers import NamedRegisters, Registers
from openrknn.errors import ExecutionError, UnknownModeError
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandKinds, OperandMode, PixelBits
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import ppu as task_ppu
from openrknn.task import rdma as task_rdma
from openrknn.task.formats import element_bits, element_bytes

__all__ = ["read_core", "read_pooling", "read_readers", "whole_channels"]

_PAD_SIGN = 1 << 18


def whole_channels(channels: int, precision: Precision, atom_bytes: int) -> int:
    """Rounded up to whole atoms."""
    lanes = atom_bytes * 8 // element_bits(precision)
    return -(-channels // lanes) * lanes


def read_core(core: NamedRegisters, convolution: task_cna.Config) -> task_core.Config:
    """CORE's registers; they must agree with CNA's."""
    misc, clip, size = core.fields("MISC_CFG"), core.fields("CLIP_TRUNCATE"), core.fields("DATAOUT_SIZE_0")
    core.waive("DATAOUT_SIZE_1")
    if misc["dw_en"] != convolution.depthwise or misc["proc_precision"] != convolution.arithmetic:
        raise ExecutionError("CORE and CNA do not agree on the kind of convolution", register="MISC_CFG")
    if (size["dataout_height"], size["dataout_width"]) != (convolution.out_height, convolution.out_width):
        raise ExecutionError("CORE and CNA do not agree on the size of the output", register="DATAOUT_SIZE_0")
    if clip.get("clip_again", 0) > 1 and clip["clip_again"] != clip["clip_truncate"]:
        raise UnknownModeError("two different numbers of bits to shift are not known", register="CLIP_TRUNCATE")
    return task_core.Config(bool(misc["qd_en"]), clip["clip_truncate"], numerics.Rounding(clip.get("round_type", 0)))


def read_readers(registers: Registers) -> task_rdma.Config:
    """DPU_RDMA's registers."""
    reader = registers.named("DPU_RDMA")
    atom = reader.chip.atom_bytes
    mode, erdma, source = (
        reader.fields(name) for name in ("RDMA_FEATURE_MODE_CFG", "RDMA_ERDMA_CFG", "RDMA_SRC_DMA_CFG")
    )
    width, size = reader("RDMA_DATA_CUBE_WIDTH", "width"), reader.fields("RDMA_DATA_CUBE_HEIGHT")
    reader.expect_zero("RDMA_PAD_CFG", "UNKNOWN_507C")
    if erdma.get("erdma_nonalign") or erdma.get("erdma_surf_mode"):
        raise UnknownModeError("packed or serial EW operands are not implemented", register="RDMA_ERDMA_CFG")
    if source["pooling_method"] or source["line_notch_addr"]:
        raise UnknownModeError("this form of reading is not implemented", register="RDMA_SRC_DMA_CFG")
    main = task_rdma.walk(
        reader("RDMA_SRC_BASE_ADDR", "src_base_addr"),
        width,
        size["height"],
        line_notch=reader("RDMA_LINE_NOTCH", "line_notch_addr"),
        surface_notch=reader("RDMA_SURF_NOTCH", "surf_notch_addr"),
        atom_bytes=atom,
    )
    operand = task_rdma.walk(
        reader("RDMA_EW_BASE_ADDR", "ew_base_addr"),
        width,
        size["height"],
        line_notch=size["ew_line_notch_addr"],
        surface_notch=reader("RDMA_EW_SURF_NOTCH", "ew_surf_notch"),
        atom_bytes=atom,
    )
    stride = reader("RDMA_EW_SURF_STRIDE", "ew_surf_stride") * atom
    return task_rdma.Config(
        width=width,
        height=size["height"],
        channels=reader("RDMA_DATA_CUBE_CHANNEL", "channel"),
        precision=Precision(mode["in_precision"]),
        proc_precision=Precision(mode["proc_precision"]),
        main=None if mode["mrdma_disable"] else main,
        bias_kinds=OperandKinds(reader("RDMA_BRDMA_CFG", "brdma_data_use")),
        bias_address=reader("RDMA_BS_BASE_ADDR", "bs_base_addr"),
        norm_kinds=OperandKinds(reader("RDMA_NRDMA_CFG", "nrdma_data_use")),
        norm_address=reader("RDMA_BN_BASE_ADDR", "bn_base_addr"),
        operand=None
        if erdma["erdma_disable"]
        else task_rdma.Operand(
            OperandMode(erdma["erdma_data_mode"]), element_bytes(PixelBits(erdma["erdma_data_size"])), operand, stride
        ),
        combine=CombineUse(mode.get("comb_use", 0)),
        repeat_x=source["kernel_width"],
        repeat_y=source["kernel_height"],
        repeats=bool(source["unpooling_en"]),
        atom_bytes=atom,
        operand_block=reader.chip.bias_group,
    )


def read_pooling(registers: Registers) -> task_ppu.Config:
    """PPU's and PPU_RDMA's registers."""
    ppu = registers.named("PPU")
    pad = ppu("PADDING_VALUE_1", "pad_value")
    ppu.waive(*(f"PADDING_VALUE_{number}" for number in range(2, 8)))
    ppu.expect_zero("UNKNOWN_6060", "UNKNOWN_6064", "UNKNOWN_6068", "UNKNOWN_606C")
    rk3588.check_pooling(registers)
    config = rk3588.read_pooling(registers, (pad & (2 * _PAD_SIGN - 1) ^ _PAD_SIGN) - _PAD_SIGN)
    if registers.named("PPU_RDMA").precision("RDMA_DATA_FORMAT", "in_precision") is not config.precision:
        raise ExecutionError("PPU and its reader do not agree on the number format", register="RDMA_DATA_FORMAT")
    return config
