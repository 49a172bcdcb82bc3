"""The register map of RK3576 ("RKNPU f2") and RV1126B ("RKNPU f3"), as far as it is known.

RK3562's map with sizes stored minus one, operands and shifts of BS and BN described by a second tensor
("..._BScfgTensor"), lookup tables with four ranges, and two-core tasks that are marked in the enable word and in
CONV_CON3. Lists for one core are stored twice, once per core, and differ in where they use CBUF.
"""

from __future__ import annotations

from openrknn.isa import common
from openrknn.isa.common import unknown
from openrknn.isa.enums import OperandKinds, Precision
from openrknn.isa.fields import Address, Atoms, Choice, Flag, Mask, Size, Unsigned
from openrknn.isa.registers import Register
from openrknn.isa.rk3562 import RK3562
from openrknn.isa.rk3588 import RK3588

__all__ = ["RK3576"]


class EnableMask(common.EnableMask, evidence="I"):
    """Starts blocks."""

    together = Flag(24, "Set in tasks that two cores run together. Not in the task record's mask.")


# ---------------------------------------------------------------- CNA


class ConvCon2(Register, offset=0x1010, name="CONV_CON2", evidence="?"):
    """0xfff on RK3576, 0x3fff on RV1126B, in every stream."""

    grains = Unsigned(13, 0, "Unknown.")


class ConvCon3(Register, offset=0x1014, name="CONV_CON3", evidence="I"):
    """Strides, and the sharing between cores."""

    conv_x_stride = Unsigned(2, 0, "Stride in x.")
    conv_y_stride = Unsigned(5, 3, "Stride in y.")
    deconv_x_stride = Size(10, 8, "Stride of a transposed convolution in x.")
    deconv_y_stride = Size(13, 11, "Stride of a transposed convolution in y.")
    cores = Size(30, 28, "Cores that share the convolution.")


class WeightSize2(Register, offset=0x1024, name="WEIGHT_SIZE2", evidence="I"):
    """Shape of the kernels."""

    weight_kernels = Size(13, 0, "Output channels; 1 for a depthwise convolution.")
    weight_height = Size(20, 16, "Kernel rows.")
    weight_width = Size(28, 24, "Kernel columns.")


class DataSize1(Register, offset=0x1028, name="DATA_SIZE1", evidence="I"):
    """Channels of the input."""

    datain_channel_real = Size(13, 0, "Channels that carry data.")
    datain_pixels = Unsigned(31, 16, "Input pixels: rows times columns.", evidence="I?")


class DataSize0(Register, offset=0x102C, name="DATA_SIZE0", evidence="I"):
    """Size of the input of this task."""

    datain_height = Size(10, 0, "Input rows.")
    datain_width = Size(26, 16, "Input columns.")


class DataSize2(Register, offset=0x1030, name="DATA_SIZE2", evidence="I"):
    """Width of the output."""

    dataout_width = Size(10, 0, "Output columns.")
    weights = Unsigned(31, 17, "Something about the weights.", evidence="?")


class DataSize3(Register, offset=0x1034, name="DATA_SIZE3", evidence="I"):
    """Pixels of the output."""

    dataout_atomics = Size(21, 0, "Output pixels.")


class CbufEntries(Register, offset=0x103C, name="CBUF_ENTRIES", evidence="I?"):
    """Entries of one row again, and where in CBUF something starts; the second core's list has other numbers."""

    start = Unsigned(15, 0, "Unknown.", evidence="?")
    data_entries = Unsigned(31, 16, "Entries of one row.")


class FcDataSize0(Register, offset=0x1078, name="FC_DATA_SIZE0", evidence="I"):
    """Size of what the DMA fetches."""

    dma_height = Size(10, 0, "Rows.")
    dma_width = Size(29, 16, "Columns.")


class FcDataSize1(Register, offset=0x107C, name="FC_DATA_SIZE1", evidence="I"):
    """Channels that the DMA fetches."""

    dma_channel = Size(15, 0, "Channels.")


CNA = RK3562.block("CNA").derive(
    *(ConvCon2, ConvCon3, WeightSize2, DataSize1, DataSize0, DataSize2, DataSize3, FcDataSize0, FcDataSize1),
    CbufEntries,
    *unknown(0x109C),
)

# ---------------------------------------------------------------- CORE


class MiscCfg(Register, offset=0x3018, name="MISC_CFG", evidence="I"):
    """What the array computes."""

    qd_en = Flag(0, "Also deliver the window sums of the input.")
    dw_en = Flag(1, "Depthwise.")
    dw_too = Flag(3, "Set in depthwise convolutions.", evidence="?")
    image = Flag(7, "Set for image input.")
    proc_precision = Choice(10, 8, Precision, "Number format.")
    always = Flag(28, "Set in every stream.", evidence="?")


CORE = RK3562.block("CORE").derive(MiscCfg)

# ---------------------------------------------------------------- DPU


class FeatureModeCfg(Register, offset=0x400C, name="FEATURE_MODE_CFG", evidence="I"):
    """Where data come from and go to."""

    flying_mode = Flag(0, "0: data come from CORE; 1: from memory.")
    output_mode = Unsigned(2, 1, "2 in every stream: to memory.")
    depthwise = Unsigned(4, 3, "1 after a depthwise convolution.")
    nonalign = Flag(25, "Packed output.")
    rgp_type = Unsigned(29, 26, "What packed output keeps of each atom.")
    from_core = Flag(30, "Set where flying_mode is clear.", evidence="?")


class DataCubeHeight(Register, offset=0x4024, name="DATA_CUBE_HEIGHT", evidence="I"):
    """Height of the data."""

    height = Size(12, 0, "Rows.")
    reduction = Unsigned(31, 16, "0x25 in a maximum over channels.", evidence="?")


class BsOwCfg(Register, offset=0x4050, name="BS_OW_CFG", evidence="I"):
    """Zero-point correction of the weights, atoms per pixel."""

    size_e_0 = Size(3, 0, "Atoms per pixel and channel group.")
    size_e_1 = Size(7, 4, "The same number again.")
    size_e_2 = Size(11, 8, "The same number again, or 1.")
    size_e_3 = Size(15, 12, "The same number again.")
    ow_src = Flag(16, "Operand per channel from BRDMA.")
    od_bypass = Flag(17, "No correction.")


class BnCfg(Register, offset=0x4060, name="BN_CFG", evidence="I"):
    """BN, the second stage."""

    bn_bypass = Flag(0, "Skip the stage.")
    bn_alu_bypass = Flag(1, "Skip the addition.", evidence="I?")


class WdmaSize0(Register, offset=0x4030, name="WDMA_SIZE_0", evidence="I?"):
    """Channels of the write DMA."""

    group = Unsigned(15, 0, "Something about the channel group: 0x710, 0xf00 ...", evidence="?")
    orig_channel = Size(31, 16, "Channels that carry data.")


class SurfaceAdd(Register, offset=0x40B8, name="SURFACE_ADD", evidence="I"):
    """Step of counter g of the write DMA; large numbers stand for negative ones."""

    surf_add = Atoms(31, 0, "Atoms.")


DPU = RK3562.block("DPU").derive(
    *(FeatureModeCfg, DataCubeHeight, BsOwCfg, BnCfg, WdmaSize0, SurfaceAdd),
    *unknown(0x4040, 0x4044, 0x4054, 0x4064, 0x4068, 0x4080, 0x40D0),
    *unknown(*range(0x4110, 0x4124, 4), *range(0x4130, 0x4198, 4)),
    remove=["BS_MUL_CFG", "EW_CVT_OFFSET_VALUE", "LUT_LE_SLOPE_SHIFT", "LUT_LO_SLOPE_SCALE", "LUT_LO_SLOPE_SHIFT"],
)

# ---------------------------------------------------------------- DPU_RDMA


class BrdmaCfg(Register, offset=0x501C, name="RDMA_BRDMA_CFG", evidence="I"):
    """Operands of BS."""

    config_use = Unsigned(4, 1, "Use of the configuration tensor.", evidence="?")
    brdma_data_use = Mask(11, 8, OperandKinds, "Kinds to read per channel.")


class BsConfigAddr(Register, offset=0x5024, name="RDMA_BS_CONFIG_ADDR", evidence="I"):
    """Where the configuration tensor of BS is ("..._BScfgTensor"). Relocated by the loader."""

    bs_config_addr = Address(31, 0, "Address.")


class NrdmaCfg(Register, offset=0x5028, name="RDMA_NRDMA_CFG", evidence="I?"):
    """Operands of BN."""

    config_use = Unsigned(4, 1, "Use of the configuration tensor.", evidence="?")
    nrdma_data_use = Mask(11, 8, OperandKinds, "Kinds to read per channel.")


class BnConfigAddr(Register, offset=0x5030, name="RDMA_BN_CONFIG_ADDR", evidence="I"):
    """Where the configuration tensor of BN is. Relocated by the loader."""

    bn_config_addr = Address(31, 0, "Address.")


class RdmaFeatureModeCfg(Register, offset=0x5044, name="RDMA_FEATURE_MODE_CFG", evidence="I"):
    """Main data and number formats."""

    flying_mode = Flag(0, "Main data come from memory.")
    depthwise = Unsigned(2, 1, "1 after a depthwise convolution.")
    mrdma_fp16tofp32_en = Flag(3, "Widen fp16 to fp32; also set in integer copies.", evidence="I?")
    mrdma_disable = Flag(4, "No main data.")
    proc_precision = Choice(7, 5, Precision, "Number format of the arithmetic.")
    in_precision = Choice(17, 15, Precision, "Number format of the input.")
    from_core = Flag(30, "Set in convolutions.", evidence="?")


DPU_RDMA = RK3562.block("DPU_RDMA").derive(BrdmaCfg, BsConfigAddr, NrdmaCfg, BnConfigAddr, RdmaFeatureModeCfg)

RK3576 = RK3562.derive(
    "rk3576",
    ("rk3576", "rv1126b"),
    RK3588.block("ENABLE").derive(EnableMask),
    *(CNA, CORE, DPU, DPU_RDMA, RK3588.block("DDMA")),
    text=__doc__,
)
