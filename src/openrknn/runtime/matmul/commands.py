"""Register commands for C [M, N] = A [M, K] * B [K, N] on RK3588: a 1 x 1 convolution.

The rows of A are pixels of a picture that is one line high, K are its channels, and the columns of B are the kernels.
A and C are stored as feature maps of M pixels, B as weights. The sums leave the DPU as they are: int32 or fp32, and
int16 where A and B have 4 bits.

Facts: the streams that the vendor's runtime 1.5.2 submits for its own matmul (`openrknn exec --trace`), register by
register; DATA_ENTRIES as every convolution of the toolkit has it. A test compares ours with the vendor's. Those of 4
bits are runtime 2.3.2's, of which ork-driver published one row of a 4 x 64 x 64 product and ran it on RK3588.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from openrknn.chip.limits import row_entries
from openrknn.chip.rk3588.registers import RK3588
from openrknn.chips import CHIPS
from openrknn.isa import NOP_WORD, assemble, fetch_amount, parse_text
from openrknn.isa.words import TAIL_WORDS, WORD_BYTES, tail_words

_CHIP = CHIPS["rk3588"]
_BANK_ENTRIES = _CHIP.cbuf_bank_entries
_DATA_BANKS = 4
_ALL_BANKS = _CHIP.known_cbuf.banks
_CNA, _CORE, _DPU = 1, 4, 8
ENABLE = _CNA | _CORE | _DPU
_STREAM_ALIGNMENT = 8

_TEXT = """
DPU.S_POINTER pointer_pp_en=1 executer_pp_en=1 pointer_pp_mode=1
CNA.CONV_CON1 conv_mode=direct in_precision={kind} proc_precision={kind} argb_in=off group_line_off={tiled}
CNA.CONV_CON2 feature_grains=1 core_split=none
CNA.CONV_CON3 conv_x_stride=1 conv_y_stride=1 deconv_x_stride=1 deconv_y_stride=1 atrous_x_dilation=1 \
atrous_y_dilation=1 nn_mode=shape32x32
CNA.DATA_SIZE0 datain_height=1 datain_width={width}
CNA.DATA_SIZE1 datain_channel={k} datain_channel_real={k}
CNA.DATA_SIZE2 dataout_width={width}
CNA.DATA_SIZE3 dataout_atomics={width} surf_mode=one
CNA.WEIGHT_SIZE0 weight_bytes={weight_bytes}
CNA.WEIGHT_SIZE1 weight_bytes_per_kernel={kernel_bytes}
CNA.WEIGHT_SIZE2 weight_kernels={n} weight_height=1 weight_width=1
CNA.CBUF_CON0 data_bank={data_banks} weight_bank={weight_banks}
CNA.CBUF_CON1 data_entries={entries}
CNA.CVT_CON0 cvt_bypass=1 cvt_type=1 round_type=ties_to_even data_sign=1
CNA.CVT_CON1 cvt_scale0=1
CNA.CVT_CON2 cvt_scale1=1
CNA.CVT_CON3 cvt_scale2=1
CNA.CVT_CON4 cvt_scale3=1
CNA.FEATURE_DATA_ADDR feature_base_addr={a:#x}
CNA.DMA_CON0 data_burst_len=16 weight_burst_len=16
CNA.DMA_CON1 line_stride={line}
CNA.DMA_CON2 surf_stride={surface}
CNA.FC_DATA_SIZE0 dma_height=1 dma_width={width}
CNA.FC_DATA_SIZE1 dma_channel={k}
CNA.DCOMP_ADDR0 decompress_addr0={b:#x}
CORE.MISC_CFG qd_en=1 proc_precision={kind}
CORE.DATAOUT_SIZE_0 dataout_width={width} dataout_height=1
CORE.DATAOUT_SIZE_1 dataout_channel={n}
CORE.CLIP_TRUNCATE round_type=ties_to_even
DPU.FEATURE_MODE_CFG output_mode=memory conv_mode=direct burst_len=16
DPU.DATA_FORMAT proc_precision={kind} in_precision={kind} out_precision={result}
DPU.DST_BASE_ADDR dst_base_addr={c:#x}
DPU.DST_SURF_STRIDE dst_surf_stride={m}
DPU.DATA_CUBE_WIDTH width={width}
DPU.DATA_CUBE_HEIGHT height=1
DPU.DATA_CUBE_NOTCH_ADDR notch_addr_0={notch} notch_addr_1={notch}
DPU.DATA_CUBE_CHANNEL channel={n} orig_channel={n}
DPU.BS_CFG bs_bypass=1 bs_alu_bypass=1 bs_mul_bypass=1 bs_relu_bypass=1 bs_alu_algo=none
DPU.BS_OW_CFG od_bypass={od} size_e_0={atoms} size_e_1={atoms} size_e_2={atoms} rgp_cnter=all
DPU.WDMA_SIZE_0 channel_wdma={n} tp_precision=bits8
DPU.WDMA_SIZE_1 width_wdma={width} height_wdma=1
DPU.BN_CFG bn_bypass=1 bn_alu_bypass=1 bn_mul_bypass=1 bn_relu_bypass=1 bn_alu_algo=none
DPU.EW_CFG ew_bypass=1 ew_op_bypass=1 ew_op_type=alu ew_lut_bypass=1 ew_op_cvt_bypass=1 ew_relu_bypass=1 \
ew_alu_algo=max edata_size=bits4 ew_data_mode=per_channel ew_cvt_round=ties_to_even
DPU.EW_CVT_SCALE_VALUE ew_op_cvt_scale=1
DPU.OUT_CVT_SCALE out_cvt_scale=1
DPU.OUT_CVT_SHIFT cvt_round=ties_to_even
DPU.SURFACE_ADD surf_add={surface_add}
"""

_ZEROS = (
    *(f"CNA.{name}" for name in ("FC_CON0", "FC_CON1", "PAD_CON0", "FC_CON2", "DCOMP_CTRL", "DCOMP_REGNUM")),
    *(f"CNA.DCOMP_AMOUNT{number}" for number in range(16)),
    "CNA.CVT_CON5", "CNA.PAD_CON1", "CORE.UNKNOWN_3030",
    *(f"DPU.{name}" for name in (
        "OFFSET_PEND", "BS_ALU_CFG", "BS_MUL_CFG", "BS_RELUX_CMP_VALUE", "BS_OW_OP", "BN_ALU_CFG", "BN_MUL_CFG",
        "BN_RELUX_CMP_VALUE", "EW_CVT_OFFSET_VALUE", "EW_RELUX_CMP_VALUE", "OUT_CVT_OFFSET", "UNKNOWN_40C4",
        "LUT_ACCESS_CFG", "LUT_ACCESS_DATA", "LUT_CFG", "LUT_INFO", "LUT_LE_START", "LUT_LE_END", "LUT_LO_START",
        "LUT_LO_END", "LUT_LE_SLOPE_SCALE", "LUT_LE_SLOPE_SHIFT", "LUT_LO_SLOPE_SCALE", "LUT_LO_SLOPE_SHIFT",
    )),
    *(f"DPU.EW_OP_VALUE_{number}" for number in range(8)),
)  # fmt: skip
"""Registers that the vendor writes as 0, so that nothing is left of the task before."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the three matrices are."""

    a: int
    b: int
    c: int


class Kind(NamedTuple):
    """Number formats of a product."""

    name: str
    """Of A and B, as registers have it."""
    bits: int
    result: str
    result_bytes: int
    has_corrections: bool
    """The vendor leaves the stage that corrects sums on. It adds 0 times the sum of the row."""
    weights: str = ""
    """Of B where it is narrower than A."""
    weight_bits: int = 0

    @property
    def weight_name(self) -> str:
        return self.weights or self.name

    @property
    def b_bits(self) -> int:
        return self.weight_bits or self.bits


KINDS = MappingProxyType({
    "fp16": Kind("fp16", 16, "fp32", 4, has_corrections=False),
    "int8": Kind("int8", 8, "int32", 4, has_corrections=True),
    "int4": Kind("int4", 4, "int16", 2, has_corrections=False),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Product:
    """A multiplication that one job can do: K and N are multiples of what the weights are grouped by."""

    m: int
    """Rows in memory."""
    k: int
    n: int
    kind: Kind

    @property
    def kernel_group(self) -> int:
        """Columns of B that lie together."""
        return 256 // self.kind.bits

    @property
    def kernel_bytes(self) -> int:
        """Of one column of B."""
        return self.k * self.kind.b_bits // 8

    def entries(self, width: int) -> int:
        """CBUF entries of 64 bytes that a row of this many pixels takes."""
        atoms = -(-self.k * self.kind.bits // 128)
        return row_entries(atoms, width, _CHIP.known_cbuf.entry_atoms)

    def tiles(self) -> Iterator[tuple[int, int]]:
        """(first row, rows) of each task: equal parts that fit into the banks for data."""
        room = _DATA_BANKS * _BANK_ENTRIES
        count = max(-(-self.entries(self.m) // room), 1)
        step = -(-self.m // count)
        for first in range(0, self.m, step):
            yield first, min(step, self.m - first)


class Body(Protocol):
    """The commands of a task for `width` rows from `first` on, on one chip."""

    def __call__(
        self, product: Product, places: Addresses, first: int, width: int, *, tiled: bool
    ) -> list[int]: ...


def body(product: Product, places: Addresses, first: int, width: int, *, tiled: bool) -> list[int]:
    """RK3588's; `tiled`: they are not all rows."""
    kind = product.kind
    atoms = product.kernel_group * kind.result_bytes // 16
    entries = product.entries(width)
    banks = max(-(-entries // _BANK_ENTRIES), 1)
    text = _TEXT.format(
        kind=kind.name,
        result=kind.result,
        width=width,
        m=product.m,
        k=product.k,
        n=product.n,
        a=places.a + first * 16,
        b=places.b,
        c=places.c + first * 16,
        kernel_bytes=product.kernel_bytes,
        weight_bytes=product.n * product.kernel_bytes,
        entries=entries,
        data_banks=banks,
        weight_banks=_ALL_BANKS - banks,
        tiled=int(tiled),
        line=product.m if tiled else 4 * width,
        surface=product.m - (width if tiled else 4 * width),
        notch=product.m - width,
        od=int(not kind.has_corrections),
        atoms=atoms,
        surface_add=atoms * product.m,
    )
    zeros = "\n".join(f"{name} 0" for name in _ZEROS)
    return assemble(parse_text(text + zeros, RK3588))


def streams(
    product: Product, places: Addresses, commands: int, of_chip: Body = body
) -> tuple[list[int], list[tuple[int, int]]]:
    """All command words, which lie at the address `commands`, and (first word, body words) of each task."""
    tiles = list(product.tiles())
    bodies = [of_chip(product, places, first, width, tiled=len(tiles) > 1) for first, width in tiles]
    length = -(-(len(bodies[0]) + TAIL_WORDS) // _STREAM_ALIGNMENT) * _STREAM_ALIGNMENT
    words: list[int] = []
    tasks = []
    for number, body in enumerate(bodies):
        tasks.append((len(words), len(body)))
        tail = tail_words(ENABLE)
        if number + 1 < len(bodies):
            follower = commands + WORD_BYTES * length * (number + 1)
            tail = tail_words(ENABLE, follower, fetch_amount(len(bodies[number + 1])))
        words += [*body, *tail]
        words += [NOP_WORD] * (length * (number + 1) - len(words))
    return words, tasks
