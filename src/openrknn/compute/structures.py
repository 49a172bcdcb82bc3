"""The structures of the C ABI, field by field as in native/openrknn.h, and the functions that take them."""

from __future__ import annotations

import ctypes
import enum
from ctypes import c_double, c_float, c_int32, c_int64, c_void_p
from typing import Any, ClassVar

from openrknn.errors import UnsupportedError

__all__ = [
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
    "Pooling",
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


class ClampKinds(enum.IntFlag):
    """Which numbers of a clamp count."""

    LOWER = 1
    UPPER = 2
    BELOW = 4


def _fields(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


class _Checked(ctypes.Structure):
    """A structure whose numbers fit: ctypes itself drops the upper bits of what is too large."""

    _LIMITS: ClassVar[dict[str, int]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        bits = {c_int32: 31, c_int64: 63}
        cls._LIMITS = {name: 1 << bits[kind] for name, kind in getattr(cls, "_fields_", ()) if kind in bits}

    def __setattr__(self, name: str, value: Any) -> None:
        limit = self._LIMITS.get(name)
        if limit is not None and not -limit <= value < limit:
            raise OverflowError(f"{name} = {value} does not fit into a {type(self).__name__} of the native library")
        super().__setattr__(name, value)


class Cube(_Checked):
    """Atoms in memory; odd and even surfaces may lie apart."""

    _fields_ = (("base", c_void_p * 2), ("surface", c_int64 * 2), ("line", c_int64 * 2))


class Target(_Checked):
    """The write DMA."""

    _fields_ = (
        ("base", c_void_p),
        *_fields(c_int64, "line atom_step group_step"),
        *_fields(c_int32, "per_pixel width height pixels atoms packed"),
    )


class Clamp(_Checked):
    """The clamp of a stage; `kinds` tells which of the numbers count."""

    _fields_ = (
        *_fields(c_int32, "kinds lower below upper"),
        *_fields(c_float, "lower_float below_float upper_float"),
        ("unused", c_int32),
    )


class Stage(_Checked):
    """BS or BN."""

    _fields_ = (
        *_fields(c_void_p, "addends factors"),
        *_fields(c_int32, "subtracts shift shift_negative negative_only multiplies_first unused"),
        ("clamp", Clamp),
    )


class Lookup(_Checked):
    """The two lookup tables."""

    _fields_ = (
        ("entries", c_void_p),
        *_fields(c_int64, "le_start lo_start lo_end"),
        *_fields(c_int32, "le_select lo_select below_scale below_shift above_scale above_shift"),
    )


class ElementWise(_Checked):
    """EW."""

    _fields_ = (
        ("lookup", Lookup),
        ("operand", Cube),
        *_fields(c_int32, "operation operand_kind operand_format constant"),
        ("constant_float", c_float),
        *_fields(c_int32, "negative_only shift shift_negative converts convert_add_first convert_offset"),
        *_fields(c_int32, "convert_scale convert_shift convert_away"),
        ("clamp", Clamp),
    )


class Chain(_Checked):
    """An integer program of the DPU in double precision."""

    _fields_ = (
        *_fields(c_int32, "flags byte_low byte_high table_shift"),
        *_fields(c_void_p, "addends scales"),
        *_fields(c_double, "norm_scale norm_addend norm_fused middle_low middle_high"),
        ("table", c_void_p),
        *_fields(c_int32, "table_low table_high"),
        *_fields(c_double, "operand_scale operand_addend last_low last_high out_scale out_addend out_fused"),
    )


class Dpu(_Checked):
    """The DPU from the zero-point correction to the write DMA."""

    _fields_ = (
        ("chain", Chain),
        ("bias", Stage),
        ("norm", Stage),
        ("element_wise", ElementWise),
        ("target", Target),
        ("padding", ctypes.c_uint8 * 64),
        *_fields(c_int32, "width channels real_channels is_float format scale shift offset add_first ties_away"),
        ("factor", c_float),
        *_fields(c_int32, "truncate truncate_away halves"),
    )


class StepStructure(_Checked):
    """A step; `kind` comes first in each."""

    KIND: ClassVar[Kind]


class Convolution(StepStructure):
    """CNA, CORE and DPU."""

    KIND = Kind.CONVOLUTION
    _fields_ = (
        *_fields(c_int32, "kind kernels"),
        ("source", c_void_p),
        *_fields(c_int64, "surface line"),
        *_fields(c_int32, "height width picture channels format"),
        ("pads", c_int32 * 2),
        *_fields(c_int32, "pad_top pad_left out_height out_width kernel_height kernel_width stride_y stride_x"),
        *_fields(c_int32, "dilation_y dilation_x spread_y spread_x depthwise weight_channels weight_kernels"),
        *_fields(c_int32, "kernel_group input_group depthwise_group fresh_weights copies_first"),
        *_fields(c_void_p, "converter weights corrections packed"),
        ("dpu", Dpu),
    )


class Flying(StepStructure):
    """DPU_RDMA and DPU."""

    KIND = Kind.FLYING
    _fields_ = (
        *_fields(c_int32, "kind kernels"),
        ("snapshot", c_void_p),
        ("snapshot_bytes", c_int64),
        ("source", Cube),
        *_fields(c_int32, "format surfaces height width"),
        ("dpu", Dpu),
    )


class Map(StepStructure):
    """int8 to int8 by a table, or a copy."""

    KIND = Kind.MAP
    _fields_ = (
        *_fields(c_int32, "kind kernels"),
        ("snapshot", c_void_p),
        ("snapshot_bytes", c_int64),
        ("source", Cube),
        *_fields(c_int32, "height width"),
        ("table", c_void_p),
        *_fields(c_int32, "last_lanes unused"),
        ("padding", ctypes.c_uint8 * 16),
        ("target", Target),
    )


class Move(StepStructure):
    """Atoms change places."""

    KIND = Kind.MOVE
    _fields_ = (
        *_fields(c_int32, "kind kernels"),
        ("snapshot", c_void_p),
        ("snapshot_bytes", c_int64),
        ("source", Cube),
        *_fields(c_int32, "surfaces height width lanes repeat_x repeat_y"),
        ("target", Target),
    )


class Reduction(StepStructure):
    """The largest or smallest channel of each pixel."""

    KIND = Kind.REDUCTION
    _fields_ = (
        *_fields(c_int32, "kind kernels"),
        ("source", Cube),
        *_fields(c_int32, "format channels height width largest unused"),
        ("target", c_void_p),
    )


class Pooling(StepStructure):
    """PPU."""

    KIND = Kind.POOLING
    _fields_ = (
        *_fields(c_int32, "kind kernels"),
        ("snapshot", c_void_p),
        ("snapshot_bytes", c_int64),
        ("source", c_void_p),
        *_fields(c_int64, "source_line source_surface"),
        ("target", c_void_p),
        *_fields(c_int64, "target_line target_surface"),
        *_fields(c_int32, "surfaces format method height width out_height out_width kernel_height kernel_width"),
        *_fields(c_int32, "stride_y stride_x pad_top pad_left"),
        ("factor", c_float),
        *_fields(c_int64, "pad_value reciprocal"),
    )


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "openrknn_structure_bytes": (c_int32, (c_int32,)),
    "openrknn_cpu_features": (ctypes.c_uint32, ()),
    "openrknn_kernels_available": (ctypes.c_uint32, ()),
    "openrknn_packed_bytes": (c_int64, (ctypes.POINTER(Convolution),)),
    "openrknn_pack": (None, (ctypes.POINTER(Convolution),)),
    "openrknn_set_threads": (None, (c_int32,)),
    "openrknn_threads": (c_int32, ()),
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
