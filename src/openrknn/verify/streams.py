"""Single tasks for RK3588, written with our own register commands.

Registers that a task does not write keep what an earlier program left in them, so each task writes all of its blocks'
registers: the ones named here, and zeros for the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openrknn import isa
from openrknn.chip.rk3588 import cna, core, dpu, dpu_lut, dpu_rdma, dpu_stages, ppu, ppu_rdma
from openrknn.chips import CHIPS
from openrknn.isa import Block, Precision, Register
from openrknn.isa.enums import ArgbInput, LutTable, OperandMode, OutputMode, PixelBits, PoolingMethod
from openrknn.isa.words import TAIL_WORDS, amounts_word, link_word, tail_of, tail_words

ELEMENT_WISE, CONVOLUTION, POOLING = 0x18, 0x1D, 0x60
"""Enable masks."""
_READ_ONLY = {"S_STATUS", "RDMA_S_STATUS", "OPERATION_ENABLE", "RDMA_OPERATION_ENABLE", "CLK_GATE", "MAC_GATING"}
_PING_PONG, _CLEARED = 0x0E, 0x30
"""S_POINTER: the register groups take turns; both pointers at the first group, where they stay."""
_POINTERS = {dpu.SPointer.offset, dpu_rdma.SPointer.offset}
_CHIP = CHIPS["rk3588"]
_ATOM_CHANNELS = _CHIP.atom_bytes
_KERNELS = _CHIP.weight_group[0]


def stream(blocks: Sequence[str], registers: Iterable[Register], enable: int) -> list[int]:
    """The words of a task: every register of the blocks, then the four closing words."""
    given = {register.offset: register for register in registers}
    words = []
    for name in blocks:
        block = isa.RK3588.block(name)
        words += [_word(block, register, given) for register in block.registers if _is_written(register)]
    return [*words, *tail_words(enable)]


def _is_written(register: type[Register]) -> bool:
    return register.name not in _READ_ONLY and not register.name.startswith("LUT_ACCESS")


def _word(block: Block, register: type[Register], given: dict[int, Register]) -> int:
    if register.name.endswith("S_POINTER"):
        return isa.Command(int(block.target or 0), register.offset, _PING_PONG).word
    return block.command(given.get(register.offset, register(register.reset))).word


def _writer(target: int, width: int, height: int, channels: int, atoms: int) -> list[Register]:
    """The DPU's geometry: `atoms` per pixel and channel group."""
    return [
        dpu.DstBaseAddr.of(dst_base_addr=target),
        dpu.DstSurfStride.of(dst_surf_stride=width * height),
        dpu.DataCubeWidth.of(width=width),
        dpu.DataCubeHeight.of(height=height),
        dpu.DataCubeNotchAddr(0),
        dpu.DataCubeChannel.of(channel=channels, orig_channel=channels),
        dpu.WdmaSize0.of(channel_wdma=channels),
        dpu.WdmaSize1.of(width_wdma=width, height_wdma=height),
        dpu.SurfaceAdd.of(surf_add=atoms * width * height),
    ]


def _idle_stages() -> list[Register]:
    """BS, BN and EW switched off, and an output converter that changes nothing."""
    return [
        dpu_stages.BsCfg.of(bs_bypass=True, bs_alu_bypass=True, bs_mul_bypass=True, bs_relu_bypass=True),
        dpu_stages.BnCfg.of(bn_bypass=True, bn_alu_bypass=True, bn_mul_bypass=True, bn_relu_bypass=True),
        dpu_stages.EwCfg.of(
            ew_bypass=True, ew_op_bypass=True, ew_lut_bypass=True, ew_op_cvt_bypass=True, ew_relu_bypass=True
        ),
        dpu_stages.EwCvtScaleValue.of(ew_op_cvt_scale=1),
        dpu_stages.OutCvtScale.of(out_cvt_scale=1),
    ]


def element_wise(source: int, target: int, width: int, *changes: Register) -> list[int]:
    """int8, 16 channels, one row: from memory through the DPU to memory; `changes` replace registers."""
    registers: list[Register] = [
        dpu.FeatureModeCfg.of(flying_mode=True, output_mode=OutputMode.MEMORY, burst_len=16),
        dpu_stages.BsOwCfg.of(od_bypass=True, size_e_0=1, size_e_1=1, size_e_2=1),
        *_writer(target, width, 1, _ATOM_CHANNELS, 1),
        *_idle_stages(),
        dpu_rdma.DataCubeWidth.of(width=width),
        dpu_rdma.DataCubeHeight.of(height=1),
        dpu_rdma.DataCubeChannel.of(channel=_ATOM_CHANNELS),
        dpu_rdma.SrcBaseAddr.of(src_base_addr=source),
        dpu_rdma.ErdmaCfg.of(erdma_disable=True),
        dpu_rdma.FeatureModeCfg.of(flying_mode=True, burst_len=16),
        dpu_rdma.SrcDmaCfg.of(kernel_width=1, kernel_height=1, kernel_stride_width=1, kernel_stride_height=1),
        dpu_rdma.Weight.of(m_weight=1, b_weight=1, n_weight=1, e_weight=1),
        *changes,
    ]
    return stream(("DPU", "DPU_RDMA"), registers, ELEMENT_WISE)


def rest_of_element_wise(*changes: Register) -> list[int]:
    """A task that writes these registers of the DPU alone; the others have to be there."""
    block = isa.RK3588.block("DPU")
    return [*(block.command(register).word for register in changes), *tail_words(ELEMENT_WISE)]


def without_ping_pong(words: list[int]) -> list[int]:
    """The task, written to the first group of registers only."""

    def changed(word: int) -> int:
        command = isa.Command.decode(word)
        return isa.Command(command.target, command.offset, _CLEARED).word if command.offset in _POINTERS else word

    return [changed(word) for word in words]


def leading_to(words: list[int], address: int, amount: int) -> list[int]:
    """The task, linked to a next one of its job: the address of its commands, and how many are in its body."""
    tail = tail_of(words)._replace(base=link_word(address), amounts=amounts_word(isa.RK3588.fetch_amount(amount)))
    return [*words[:-TAIL_WORDS], *tail]


def table_load(place: int, tables: Sequence[Sequence[int]]) -> list[int]:
    """Both lookup tables, as compilers load them: beside an atom that is copied onto itself."""
    words = element_wise(place, place, 1)
    block = isa.RK3588.block("DPU")
    loads = []
    for table, entries in zip(LutTable, tables, strict=True):
        loads.append(block.command(dpu_lut.LutAccessCfg.of(lut_table_id=table, lut_access_type=True)).word)
        loads += [block.command(dpu_lut.LutAccessData.of(lut_access_data=entry)).word for entry in entries]
    return [*words[:-TAIL_WORDS], *loads, *words[-TAIL_WORDS:]]


LOOKUP: tuple[Register, ...] = (
    dpu_stages.EwCfg.of(ew_op_bypass=True, ew_op_cvt_bypass=True, ew_relu_bypass=True),
    dpu_lut.LutCfg.of(lut_lo_le_mux=2, lut_oflow_priority=LutTable.LO, lut_hybrid_priority=LutTable.LO),
    dpu_lut.LutInfo.of(lut_le_index_select=5, lut_lo_index_select=5),
    dpu_lut.LutLeStart.of(lut_le_start=-16384),
    dpu_lut.LutLoEnd.of(lut_lo_end=16384),
)
"""Changes that make an element-wise task one that looks its numbers up, in the domain that compilers use."""


OPERAND: tuple[Register, ...] = (
    dpu_rdma.ErdmaCfg.of(erdma_data_size=PixelBits.BITS8, erdma_data_mode=OperandMode.PER_PIXEL),
)
"""Changes that give an element-wise task an operand of int8 per pixel and channel."""


HALVES: tuple[Register, ...] = (
    dpu.DataFormat.of(proc_precision=Precision.FP16, in_precision=Precision.FP16, out_precision=Precision.FP16),
    dpu.DataCubeChannel.of(channel=_ATOM_CHANNELS // 2, orig_channel=_ATOM_CHANNELS // 2),
    dpu.WdmaSize0.of(channel_wdma=_ATOM_CHANNELS // 2),
    dpu_stages.OutCvtScale.of(out_cvt_scale=1, fp32tofp16_en=True),
    dpu_rdma.DataCubeChannel.of(channel=_ATOM_CHANNELS // 2),
    dpu_rdma.FeatureModeCfg.of(
        flying_mode=True, burst_len=16, proc_precision=Precision.FP16, in_precision=Precision.FP16
    ),
)
"""Changes that make an element-wise task one of fp16: 8 channels instead of 16."""
HALF_TO_INT8: tuple[Register, ...] = (
    dpu.DataFormat.of(proc_precision=Precision.FP16, in_precision=Precision.FP16, out_precision=Precision.INT8),
    dpu_stages.OutCvtScale.of(out_cvt_scale=1),
)
"""Changes to `HALVES` that write int8."""
_HALF_KERNELS = 16
HALF_CONVOLUTION: tuple[Register, ...] = (
    cna.ConvCon1.of(in_precision=Precision.FP16, proc_precision=Precision.FP16),
    cna.DataSize1.of(datain_channel=_ATOM_CHANNELS // 2, datain_channel_real=_ATOM_CHANNELS // 2),
    cna.WeightSize0.of(weight_bytes=_HALF_KERNELS * _ATOM_CHANNELS),
    cna.WeightSize2.of(weight_kernels=_HALF_KERNELS, weight_height=1, weight_width=1),
    cna.CvtCon0.of(cvt_bypass=True),
    cna.FcDataSize1.of(dma_channel=_ATOM_CHANNELS // 2),
    core.MiscCfg.of(proc_precision=Precision.FP16),
    core.DataoutSize1.of(dataout_channel=_HALF_KERNELS),
    dpu.DataFormat.of(proc_precision=Precision.FP16, in_precision=Precision.FP16, out_precision=Precision.FP16),
    dpu.DataCubeChannel.of(channel=_HALF_KERNELS, orig_channel=_HALF_KERNELS),
    dpu.WdmaSize0.of(channel_wdma=_HALF_KERNELS),
    dpu_stages.OutCvtScale.of(out_cvt_scale=1, fp32tofp16_en=True),
    dpu_rdma.DataCubeChannel.of(channel=_HALF_KERNELS),
    dpu_rdma.FeatureModeCfg.of(
        mrdma_disable=True, burst_len=16, proc_precision=Precision.FP16, in_precision=Precision.FP16
    ),
)
"""Changes that make a convolution one of fp16: 8 channels to 16 kernels."""


def convolution(source: int, weights: int, target: int, width: int, *changes: Register) -> list[int]:
    """int8, 1 x 1, 16 channels to 32 kernels, one row; `changes` replace registers."""
    size = _KERNELS * _ATOM_CHANNELS
    registers: list[Register] = [
        cna.ConvCon2.of(feature_grains=4),
        cna.ConvCon3.of(
            conv_x_stride=1,
            conv_y_stride=1,
            deconv_x_stride=1,
            deconv_y_stride=1,
            atrous_x_dilation=1,
            atrous_y_dilation=1,
        ),
        cna.DataSize0.of(datain_height=1, datain_width=width),
        cna.DataSize1.of(datain_channel=_ATOM_CHANNELS, datain_channel_real=_ATOM_CHANNELS),
        cna.DataSize2.of(dataout_width=width),
        cna.DataSize3.of(dataout_atomics=width),
        cna.WeightSize0.of(weight_bytes=size),
        cna.WeightSize1.of(weight_bytes_per_kernel=_ATOM_CHANNELS),
        cna.WeightSize2.of(weight_kernels=_KERNELS, weight_height=1, weight_width=1),
        cna.CbufCon0.of(data_bank=1, weight_bank=_CHIP.known_cbuf.banks - 1),
        cna.CbufCon1.of(data_entries=-(-width // 4)),
        cna.CvtCon0.of(cvt_bypass=True, cvt_type=True, data_sign=True),
        *(register.of(**{f"cvt_scale{lane}": 1}) for lane, register in enumerate(_SCALES)),
        cna.FeatureDataAddr.of(feature_base_addr=source),
        cna.DmaCon0.of(data_burst_len=16, weight_burst_len=16),
        cna.DmaCon1.of(line_stride=4 * width),
        cna.DmaCon2.of(surf_stride=-3 * width),
        cna.FcDataSize0.of(dma_height=1, dma_width=width),
        cna.FcDataSize1.of(dma_channel=_ATOM_CHANNELS),
        cna.DcompAddr0.of(decompress_addr0=weights),
        core.DataoutSize0.of(dataout_width=width, dataout_height=1),
        core.DataoutSize1.of(dataout_channel=_KERNELS),
        dpu.FeatureModeCfg.of(output_mode=OutputMode.MEMORY, burst_len=16),
        dpu_stages.BsOwCfg.of(od_bypass=True, size_e_0=2, size_e_1=2, size_e_2=2),
        *_writer(target, width, 1, _KERNELS, 2),
        *_idle_stages(),
        dpu_rdma.DataCubeWidth.of(width=width),
        dpu_rdma.DataCubeHeight.of(height=1),
        dpu_rdma.DataCubeChannel.of(channel=_KERNELS),
        dpu_rdma.ErdmaCfg.of(erdma_disable=True),
        dpu_rdma.FeatureModeCfg.of(mrdma_disable=True, burst_len=16),
        dpu_rdma.SrcDmaCfg.of(kernel_width=1, kernel_height=1, kernel_stride_width=1, kernel_stride_height=1),
        dpu_rdma.Weight.of(m_weight=1, b_weight=1, n_weight=1, e_weight=1),
        *changes,
    ]
    return stream(("CNA", "CORE", "DPU", "DPU_RDMA"), registers, CONVOLUTION)


_LINE = 32
TWO_LINES: tuple[Register, ...] = (
    cna.DataSize0.of(datain_height=2, datain_width=_LINE),
    cna.DataSize2.of(dataout_width=_LINE),
    cna.CbufCon1.of(data_entries=_LINE // 4),
    cna.DmaCon1.of(line_stride=2 * _LINE),
    cna.DmaCon2.of(surf_stride=-2 * _LINE),
    cna.FcDataSize0.of(dma_height=2, dma_width=_LINE),
    core.DataoutSize0.of(dataout_width=_LINE, dataout_height=2),
    dpu.DataCubeWidth.of(width=_LINE),
    dpu.DataCubeHeight.of(height=2),
    dpu.WdmaSize1.of(width_wdma=_LINE, height_wdma=2),
    dpu_rdma.DataCubeWidth.of(width=_LINE),
    dpu_rdma.DataCubeHeight.of(height=2),
)
"""Changes to a convolution of 64 pixels: two lines of 32, with half of the usual pitch of four lines."""


def half_picture(source: int, weights: int, target: int, height: int, width: int) -> list[int]:
    """fp16, 1 x 1, a packed picture of three channels to 32 kernels, two groups of them; one bank for the picture."""
    pixels = height * width
    return convolution(
        source, weights, target, width, *HALF_CONVOLUTION,
        cna.ConvCon1.of(
            in_precision=Precision.FP16, proc_precision=Precision.FP16, argb_in=ArgbInput.CHANNELS3,
            group_line_off=True, nonalign_dma=True,
        ),
        cna.DataSize0.of(datain_height=height, datain_width=width),
        cna.DataSize1.of(datain_channel=_ATOM_CHANNELS // 2, datain_channel_real=3),
        cna.DataSize3.of(dataout_atomics=pixels),
        cna.WeightSize0.of(weight_bytes=_KERNELS * _ATOM_CHANNELS),
        cna.WeightSize2.of(weight_kernels=_KERNELS, weight_height=1, weight_width=1),
        cna.CbufCon1.of(data_entries=pixels),
        cna.DmaCon1.of(line_stride=width),
        cna.DmaCon2.of(surf_stride=pixels - width),
        cna.FcDataSize0.of(dma_height=height, dma_width=width),
        core.DataoutSize0.of(dataout_width=width, dataout_height=height),
        core.DataoutSize1.of(dataout_channel=_KERNELS),
        *_writer(target, width, height, _KERNELS, 2),
        dpu_rdma.DataCubeHeight.of(height=height),
        dpu_rdma.DataCubeChannel.of(channel=_KERNELS),
    )  # fmt: skip


_SCALES = (cna.CvtCon1, cna.CvtCon2, cna.CvtCon3, cna.CvtCon4)


def reciprocal(kernel: int) -> int:
    """2^16 divided by the side of a window."""
    return (1 << 16) // kernel


def pooling(source: int, target: int, width: int, method: PoolingMethod, kernel: int) -> list[int]:
    """int8, 16 channels, `kernel` rows: windows of kernel x kernel without padding."""
    out = width // kernel
    registers: list[Register] = [
        ppu.DataCubeInWidth.of(cube_in_width=width),
        ppu.DataCubeInHeight.of(cube_in_height=kernel),
        ppu.DataCubeInChannel.of(cube_in_channel=_ATOM_CHANNELS),
        ppu.DataCubeOutWidth.of(cube_out_width=out),
        ppu.DataCubeOutHeight.of(cube_out_height=1),
        ppu.DataCubeOutChannel.of(cube_out_channel=_ATOM_CHANNELS),
        ppu.OperationModeCfg.of(pooling_method=method, flying_mode=True),
        ppu.PoolingKernelCfg.of(
            kernel_width=kernel, kernel_height=kernel, kernel_stride_width=kernel, kernel_stride_height=kernel
        ),
        ppu.RecipKernelWidth.of(recip_kernel_width=reciprocal(kernel)),
        ppu.RecipKernelHeight.of(recip_kernel_height=reciprocal(kernel)),
        ppu.DstBaseAddr.of(dst_base_addr=target),
        ppu.DstSurfStride.of(dst_surf_stride=out),
        ppu.DataFormat.of(proc_precision=Precision.INT8, index_add=out),
        ppu.MiscCtrl.of(burst_len=4),
        ppu_rdma.CubeInWidth.of(cube_in_width=width),
        ppu_rdma.CubeInHeight.of(cube_in_height=kernel),
        ppu_rdma.CubeInChannel.of(cube_in_channel=_ATOM_CHANNELS),
        ppu_rdma.SrcBaseAddr.of(src_base_addr=source),
        ppu_rdma.SrcLineStride.of(src_line_stride=width),
        ppu_rdma.SrcSurfStride.of(src_surf_stride=width * kernel),
        ppu_rdma.DataFormat.of(in_precision=PixelBits.BITS8),
    ]
    return stream(("PPU", "PPU_RDMA"), registers, POOLING)
