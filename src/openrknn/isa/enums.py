"""The codes that registers hold, each in one place. Evidence letters as in `openrknn.isa.evidence`."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from openrknn.isa.rounding import Rounding

__all__ = [
    "AluAlgorithm",
    "ArgbInput",
    "ChannelReduction",
    "CombineUse",
    "ConvMode",
    "CoreSplit",
    "EwAlgorithm",
    "EwOperation",
    "EwPart",
    "LutTable",
    "MacArray",
    "OperandKinds",
    "OperandMode",
    "OutputMode",
    "PixelBits",
    "PoolingMethod",
    "Precision",
    "Regroup",
    "RegroupCount",
    "Rounding",
    "ShortAlgorithm",
    "SurfaceSeries",
    "TransposeLanes",
]


class Precision(IntEnum):
    """Number formats of CNA, CORE, DPU and the RDMA blocks. [T; all but TF32 also E]"""

    INT8 = 0
    INT16 = 1
    FP16 = 2
    BF16 = 3
    INT32 = 4
    FP32 = 5
    INT4 = 6
    TF32 = 7
    """CNA and CORE only."""


class PixelBits(IntEnum):
    """Size of one element, where a register wants a size and not a number format. [T E]"""

    BITS4 = 0
    BITS8 = 1
    BITS16 = 2
    BITS32 = 3


class ConvMode(IntEnum):
    """Kinds of convolution. [T E]"""

    DIRECT = 0
    DEPTHWISE = 3


class ArgbInput(IntEnum):
    """Packed image input: pixels of one to four channels without padding. [T E]"""

    OFF = 0
    CHANNELS1 = 8
    CHANNELS2 = 9
    CHANNELS3 = 10
    CHANNELS4 = 11

    @property
    def channels(self) -> int:
        """Channels per pixel, 0 when off."""
        return self - 7 if self else 0


class CoreSplit(IntEnum):
    """How the cores share one convolution. Rows or output channels, over two or three cores. [E]"""

    NONE = 0
    ROWS2 = 1
    ROWS3 = 2
    KERNELS2 = 4
    KERNELS3 = 5


class MacArray(IntEnum):
    """Shape of the MAC array when cores work as one. Streams always say 32x32. [T]"""

    SHAPE32X32 = 0
    SHAPE64X32 = 1
    SHAPE96X32 = 2
    SHAPE32X64 = 4
    SHAPE32X96 = 5


class SurfaceSeries(IntEnum):
    """How many surfaces follow one another in the CNA's reading order. [T]"""

    ONE = 0
    ONE_TOO = 1
    TWO = 2
    FOUR = 3


class OutputMode(IntFlag):
    """Where the DPU's result goes. [T; MEMORY alone E]"""

    PPU = 1
    MEMORY = 2


class RegroupCount(IntEnum):
    """Which atoms of the result are kept. Streams keep all. [T]"""

    ALL = 0
    ONE_OF_2 = 1
    ONE_OF_4 = 2
    ONE_OF_8 = 3


class Regroup(IntEnum):
    """What happens to the atoms between the stages and the write DMA, on RK3562, RK3576 and RV1103/06. [I]"""

    NONE = 0
    PACKED = 1
    """Packed output that keeps a part of each atom."""
    LANES8 = 2
    """Lane transpose of 8-bit lanes."""
    ATOMS = 3
    """The atoms are not regrouped: atom transpose."""
    LANES16 = 6
    """Lane transpose of 16-bit lanes."""


class TransposeLanes(IntEnum):
    """Width of the lanes in a lane transpose. [T E]"""

    BITS8 = 0
    BITS16 = 1


class ChannelReduction(IntFlag):
    """Reduction over all channels of a pixel. Only all three together were seen. [T; 7 E]"""

    ENABLE = 1
    MAXIMUM = 2
    VALUE_ONLY = 4


class AluAlgorithm(IntEnum):
    """What the adder of the BS and BN stages does. [T; ADD E]"""

    NONE = 0
    """Written where the adder is bypassed."""
    ADD = 2
    MINUS = 4


class EwAlgorithm(IntEnum):
    """What the ALU of the EW stage does with x and its operand e. [T; MAX, ADD, DIV, MINUS E]"""

    MAX = 0
    MIN = 1
    ADD = 2
    DIV = 3
    """x / e"""
    MINUS = 4
    """x - e"""
    ABS = 5
    NEG = 6
    FLOOR = 7
    CEIL = 8
    NONE = 15
    """Written by RK3576 streams where the ALU is bypassed."""


class ShortAlgorithm(IntEnum):
    """The two-bit form of the algorithms on RK3566/68. [ADD and DIV inferred; the others by likeness with NVDLA]"""

    MAX = 0
    MIN = 1
    ADD = 2
    DIV = 3
    """EW only."""


class EwOperation(IntEnum):
    """Which half of the EW stage works. [T E]"""

    ALU = 0
    MUL = 1


class EwPart(IntEnum):
    """Which part of the EW stage works, on the chips that divide by a part of its own. [I]"""

    ALU = 0
    MUL = 1
    DIV = 2


class OperandKinds(IntFlag):
    """Kinds of per-channel operands that BRDMA or NRDMA reads, in their order in memory. [T E]"""

    ALU = 1
    """32 bits per channel."""
    CPEND = 2
    """16 bits per channel; BS only."""
    MUL = 4
    """16 bits per channel."""
    TRT = 8
    """Shift per channel; never seen."""


class OperandMode(IntEnum):
    """Which pixel or channel an element-wise operand belongs to. [T; the first two E]"""

    PER_CHANNEL = 0
    PER_PIXEL = 1
    PER_CHANNEL_BY_PIXEL = 2


class CombineUse(IntFlag):
    """MRDMA and ERDMA read one tensor together: even surfaces by the one, odd ones by the other. [T E]"""

    ENABLE = 1
    MAIN = 2
    """The result is the main data (value 3: fp32 and int32 inputs)."""
    OPERAND = 4
    """The result is the EW operand (value 5: convolution plus add)."""


class LutTable(IntEnum):
    """The two lookup tables of the EW stage. [T E]"""

    LE = 0
    LO = 1


class PoolingMethod(IntEnum):
    """What the PPU does with a window. [T; AVERAGE and MAX E]"""

    AVERAGE = 0
    MAX = 1
    MIN = 2
