"""The structures of the C ABI, declared once: ctypes takes its fields from the text that C compiles.

    python -m openrknn.nativelib.structures > native/structures.h

The header is checked in; the compiler checks the place of every field in it against what ctypes makes of the same text.
"""

from __future__ import annotations

import ctypes
import enum
import sys
from ctypes import c_int32, c_int64, c_void_p
from typing import Any, ClassVar

from openrknn.errors import UnsupportedError
from openrknn.nativelib.declared import Declared, header, parsed

__all__ = [
    "Arrangement",
    "Chain",
    "ChainFlags",
    "Clamp",
    "ClampKinds",
    "Convolution",
    "Cube",
    "Dpu",
    "ElementWise",
    "Flying",
    "Kind",
    "Lookup",
    "Map",
    "Move",
    "Picking",
    "Pixels",
    "Pooling",
    "Product",
    "Reduction",
    "Stage",
    "StepStructure",
    "Target",
    "declare",
]


class Kind(enum.IntEnum):
    """The kinds of steps."""

    CONVOLUTION = 1
    FLYING = 2
    MAP = 3
    MOVE = 4
    REDUCTION = 5
    POOLING = 6


class ChainFlags(enum.IntFlag):
    """What a chain does; native/openrknn.h tells the formulas."""

    CHAIN = 1 << 0
    SCALE = 1 << 1
    NORM = 1 << 2
    NORM_FUSED = 1 << 3
    MIDDLE_CLAMP = 1 << 4
    TABLE = 1 << 5
    ADD = 1 << 6
    MULTIPLY = 1 << 7
    MAX = 1 << 8
    MIN = 1 << 9
    ROUND_OPERAND = 1 << 10
    LAST_CLAMP = 1 << 11
    OUT_FUSED = 1 << 12
    SINGLE = 1 << 13
    SINGLE_CLAMP = 1 << 14
    SINGLE_WHOLE = 1 << 15
    SINGLE_NORM = 1 << 16
    SINGLE_WIDE = 1 << 17


class ClampKinds(enum.IntFlag):
    """Which numbers of a clamp count."""

    LOWER = 1
    UPPER = 2
    BELOW = 4


class StepStructure(Declared):
    """A step; `kind` comes first in each."""

    KIND: ClassVar[Kind]


class Cube(Declared):
    """Atoms in memory: surface s begins at base[s % 2] + (s / 2) * surface[s % 2]."""

    C_FIELDS = """\
    uint8_t *base[2];
    int64_t surface[2], line[2];
"""
    _fields_ = parsed(C_FIELDS)


class Target(Declared):
    """The write DMA: atom e of the group, at position t of the group's walk (t = group * pixels + pixel)."""

    C_FIELDS = """\
    uint8_t *base;
    int64_t line, atom_step, group_step;
    int32_t per_pixel, width, height;
    int32_t pixels; /* of the grid that is written, in one surface */
    int32_t atoms; /* of one pixel that are written */
    int32_t packed; /* bytes kept of each atom, stored back to back; 0: whole atoms at their places */
"""
    _fields_ = parsed(C_FIELDS)


class Clamp(Declared):
    """The clamp of a stage; `kinds` tells which of the numbers count."""

    C_FIELDS = """\
    int32_t kinds, lower, below, upper;
    float lower_float, below_float, upper_float;
    int32_t unused;
"""
    _fields_ = parsed(C_FIELDS)


class Stage(Declared):
    """BS or BN. Operands per channel are int32 or float, and are there for a multiple of 16 channels."""

    C_FIELDS = """\
    const void *addends; /* NULL: nothing is added */
    const void *factors; /* NULL: nothing is multiplied */
    int32_t subtracts, shift, shift_negative, negative_only;
    int32_t multiplies_first; /* BN */
    int32_t unused;
    openrknn_clamp clamp;
"""
    _fields_ = parsed(C_FIELDS)


class Lookup(Declared):
    """The two lookup tables, 513 entries each."""

    C_FIELDS = """\
    const int64_t *entries; /* NULL: no lookup */
    const int16_t *shorts; /* the same entries, or NULL: they do not fit into 16 bits */
    int64_t le_start, lo_start, lo_end;
    int32_t le_select, lo_select, below_scale, below_shift, above_scale, above_shift;
"""
    _fields_ = parsed(C_FIELDS)


class ElementWise(Declared):
    """EW."""

    C_FIELDS = """\
    openrknn_lookup lookup;
    openrknn_cube operand; /* per channel: base[0] */
    int32_t operation;
    int32_t operand_kind; /* 0 constant, 1 per channel, 2 a tensor, 3 one for all channels of a pixel, packed */
    int32_t operand_format, constant;
    float constant_float;
    int32_t negative_only, shift, shift_negative, converts, convert_add_first, convert_offset, convert_scale;
    int32_t convert_shift;
    int32_t convert_away; /* ties go away from zero */
    openrknn_clamp clamp;
"""
    _fields_ = parsed(C_FIELDS)


class Chain(Declared):
    """An integer program of the DPU in double precision; openrknn.h has the formulas."""

    C_FIELDS = """\
    int32_t flags, byte_low, byte_high, table_shift;
    const int32_t *addends;
    const double *scales;
    double norm_scale, norm_addend, norm_fused, middle_low, middle_high;
    const uint32_t *table;
    int32_t table_low, table_high;
    double operand_scale, operand_addend, last_low, last_high, out_scale, out_addend, out_fused;
    int32_t sum_limit; /* SINGLE: see openrknn.h */
    float operand_before, operand_after;
    int32_t byte_table_low, byte_table_last, unused;
    const uint8_t *byte_table;
"""
    _fields_ = parsed(C_FIELDS)


class Dpu(Declared):
    """The DPU from the zero-point correction to the write DMA."""

    C_FIELDS = """\
    openrknn_chain chain;
    openrknn_stage bias;
    openrknn_stage norm;
    openrknn_element_wise element_wise;
    openrknn_target target;
    uint8_t padding[64]; /* what the channels from real_channels on are set to: 64 bytes of the pattern */
    int32_t width; /* pixels of one row of the grid that is computed */
    int32_t channels, real_channels, is_float;
    int32_t format; /* of the output */
    int32_t scale, shift, offset, add_first, ties_away;
    float factor; /* what is written as floating point is multiplied by this */
    int32_t truncate, truncate_away;
    int32_t halves; /* atoms in memory have 8 bytes, of the convolution's input too; needs a chain */
"""
    _fields_ = parsed(C_FIELDS)


class Convolution(StepStructure):
    """CNA, CORE and DPU."""

    KIND = Kind.CONVOLUTION
    C_FIELDS = """\
    int32_t kind;
    int32_t kernels; /* the set that the step was prepared for */
    const uint8_t *source;
    int64_t surface, line;
    int32_t height, width;
    int32_t picture; /* channels of a packed picture; 0 for feature maps */
    int32_t channels; /* that have data and weights */
    int32_t format; /* that the kernels compute in */
    int32_t source_format, weight_format; /* in memory: the same, or INT4 (features of INT8), INT4 or INT8 (weights) */
    int32_t pads[2]; /* int8: of even and odd channels; otherwise a bit pattern */
    int32_t pad_top, pad_left, out_height, out_width, kernel_height, kernel_width, stride_y, stride_x;
    int32_t dilation_y, dilation_x, spread_y, spread_x, depthwise, weight_channels, weight_kernels;
    int32_t kernel_group; /* how the weights are grouped in memory */
    int32_t input_group, depthwise_group;
    int32_t fresh_weights; /* other steps write the weights: pack them each time */
    int32_t copies_first; /* the result overlaps the input: nothing may be written before all is read */
    const int8_t *converter; /* NULL, or 16 tables of 256: channel c is converted by table c % 16 */
    const uint8_t *weights;
    const int32_t *corrections; /* per output channel: what is added to each weight */
    uint8_t *packed; /* room for openrknn_packed_bytes */
    openrknn_dpu dpu;
"""
    _fields_ = parsed(C_FIELDS)


class Flying(StepStructure):
    """DPU_RDMA and DPU."""

    KIND = Kind.FLYING
    C_FIELDS = """\
    int32_t kind, kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    openrknn_cube source;
    int32_t format; /* of the source */
    int32_t surfaces, height, width;
    openrknn_dpu dpu;
"""
    _fields_ = parsed(C_FIELDS)


class Map(StepStructure):
    """int8 to int8 through a table of 256 entries, or a copy of atoms."""

    KIND = Kind.MAP
    C_FIELDS = """\
    int32_t kind, kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    openrknn_cube source;
    int32_t height, width;
    const int8_t *table; /* by value + 128; NULL: a copy */
    int32_t last_lanes; /* bytes of the last atom that come from the source; the others from padding */
    int32_t unused;
    uint8_t padding[16];
    openrknn_target target;
"""
    _fields_ = parsed(C_FIELDS)


class Move(StepStructure):
    """Atoms change places."""

    KIND = Kind.MOVE
    C_FIELDS = """\
    int32_t kind, kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    openrknn_cube source;
    int32_t surfaces, height, width;
    int32_t lanes; /* 8 or 16: runs of so many pixels and lanes change places; 0: no; -1: repeat */
    int32_t repeat_x, repeat_y;
    openrknn_target target;
"""
    _fields_ = parsed(C_FIELDS)


class Reduction(StepStructure):
    """The largest or smallest channel of each pixel."""

    KIND = Kind.REDUCTION
    C_FIELDS = """\
    int32_t kind, kernels;
    openrknn_cube source;
    int32_t format, channels, height, width, largest, unused;
    uint8_t *target;
"""
    _fields_ = parsed(C_FIELDS)


class Pooling(StepStructure):
    """PPU."""

    KIND = Kind.POOLING
    C_FIELDS = """\
    int32_t kind, kernels;
    const uint8_t *snapshot; /* the result overlaps these bytes of the source: they are copied first; or NULL */
    int64_t snapshot_bytes;
    const uint8_t *source;
    int64_t source_line, source_surface;
    uint8_t *target;
    int64_t target_line, target_surface;
    int32_t surfaces, format;
    int32_t method; /* 0 average, 1 maximum, 2 minimum */
    int32_t height, width, out_height, out_width, kernel_height, kernel_width, stride_y, stride_x, pad_top;
    int32_t pad_left;
    float factor;
    int64_t pad_value;
    int64_t reciprocal; /* of the window's area, times 2^32 */
"""
    _fields_ = parsed(C_FIELDS)


class Arrangement(Declared):
    """A feature map [N, C1, H, W, C2] as a plain [N, C, H, W]."""

    C_FIELDS = """\
    const void *source;
    void *target;
    int64_t source_batch; /* bytes from batch to batch, surface to surface, line to line */
    int64_t source_surface, source_line;
    int32_t batches, channels, height, width;
    int32_t atom; /* C2 */
    int32_t format; /* of the source */
    int32_t to_float; /* 1: (number - zero_point) * scale, and 16-bit floats widened; 0: as they are */
    int32_t zero_point;
    float scale;
    int32_t unused;
"""
    _fields_ = parsed(C_FIELDS)


class Product(Declared):
    """C [m, n] = A [m, k] * B [k, n], and where the matrices are. A group is numbers of a row that lie together."""

    C_FIELDS = """\
    int32_t kernels, m, k, n;
    int32_t a_format; /* INT8, INT4 or FP16: the same sums as of the NPU, int32 or float32 */
    int32_t b_format; /* an integer A takes integers; FP16 takes all */
    const uint8_t *a;
    int64_t a_row, a_group; /* bytes from row to row, and from group to group */
    int32_t a_width; /* numbers of a group */
    int32_t tile_columns, tile_rows; /* of B [n / tile_columns, k / tile_rows, tile_columns, tile_rows] */
    int32_t segment; /* so many rows of B are such an array, and the next follow behind it; 0: all */
    const uint8_t *b;
    int64_t b_column; /* not 0: B is [n, k], with so many bytes from column to column, and has no tiles */
    const int32_t *zeros; /* of the columns of an integer B beside a float A, or NULL */
    uint8_t *c;
    int64_t c_row, c_group;
    int32_t c_width;
    int32_t b_span; /* rows of a block of columns of B, where k is a part of them; 0: k, or a segment */
    int32_t unused;
"""
    _fields_ = parsed(C_FIELDS)


class Picking(Declared):
    """The cells of one stride of a detector whose best score passes."""

    C_FIELDS = """\
    const int8_t *scores; /* [classes, cells] */
    const int8_t *boxes; /* [4 * bins, cells] */
    const float *powers; /* [256]: e^(-d * scale of the boxes) */
    int64_t cells;
    int32_t classes, bins; /* bins: 2 to 64 */
    int32_t limit, unused; /* the smallest stored score that passes */
    int64_t *chosen; /* [cells]: which cells passed, in their order */
    int64_t *kinds; /* [cells]: the first class with the best score */
    int8_t *best; /* [cells]: that score */
    float *distances; /* [4, cells]: left, top, right, bottom; the first ones of each row are set */
"""
    _fields_ = parsed(C_FIELDS)


class Pixels(Declared):
    """One conversion of an image. Columns are padded to whole blocks of 16; places and rows are inside the planes."""

    C_FIELDS = """\
    const uint8_t *planes[3]; /* of each component: Y, U and V, or red, green and blue, or gray */
    int64_t strides[3];
    const int32_t *places[3]; /* [2, padded]: in a row of the plane, the left and the right neighbour */
    const int32_t *windows[3]; /* [padded / 16]: 64 bytes of the row that have all of them; -1: there are none */
    const uint8_t *lanes[3]; /* [2, padded]: places in the window */
    const int16_t *column_weights; /* [padded]: of the right neighbour, 15 fractional bits */
    const int32_t *rows; /* [2, height]: of the image, the upper and the lower neighbour */
    const int16_t *row_weights; /* [height] */
    int16_t *scratch; /* [2, 3, padded] */
    uint8_t *target;
    int64_t target_stride;
    int32_t shares[3]; /* rows of the image that one row of the plane is for */
    int32_t padded, width, height, channels; /* of the target; channels: 1, 3 or 4 */
    int32_t kind; /* 0: colours, 1: YUV, 2: brightness of colours, 3: luma, 4: gray */
    int32_t is_bgr;
    int32_t black, luma, red_v, green_u, green_v, blue_u; /* of YUV: openrknn/pixels/tables.py */
    int32_t unused;
"""
    _fields_ = parsed(C_FIELDS)


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "openrknn_structure_bytes": (c_int32, (c_int32,)),
    "openrknn_cpu_features": (ctypes.c_uint32, ()),
    "openrknn_kernels_available": (ctypes.c_uint32, ()),
    "openrknn_packed_bytes": (c_int64, (ctypes.POINTER(Convolution),)),
    "openrknn_pack_all": (c_int32, (c_void_p, c_int32)),
    "openrknn_set_threads": (None, (c_int32,)),
    "openrknn_set_sharing": (None, (c_int32, c_int32)),
    "openrknn_threads_for": (c_int32, (c_int64,)),
    "openrknn_last_parts": (c_int32, ()),
    "openrknn_threads": (c_int32, ()),
    "openrknn_multiply": (c_int32, (ctypes.POINTER(Product),)),
    "openrknn_run": (c_int32, (c_void_p, c_int32)),
    "openrknn_run_timed": (c_int32, (c_void_p, c_int32, c_void_p)),
}


def declare(library: ctypes.CDLL) -> None:
    """Tell ctypes the types of the functions, and check that both sides see the same structures."""
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    for structure in (Convolution, Flying, Map, Move, Reduction, Pooling):
        theirs = library.openrknn_structure_bytes(structure.KIND)
        if theirs != ctypes.sizeof(structure):
            raise UnsupportedError(
                f"the native library has another {structure.__name__} ({theirs} bytes, not "
                f"{ctypes.sizeof(structure)}); install openrknn again"
            )


if __name__ == "__main__":
    sys.stdout.write(header())
