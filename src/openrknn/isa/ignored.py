"""What boards are recorded to ignore: undeclared bits, words without a target, stages that were not configured.

A program that a board runs with the right answer shows that whatever else it writes does not change the answer. Each
row is based on such a run and holds for its chips only. What is not in this table may change a result, and stops a run.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from openrknn.backports import StrEnum

__all__ = ["IGNORED", "Ignored", "Kind", "ignored_bits", "ignored_rule"]


class Kind(StrEnum):
    """What is ignored."""

    BITS = "bits"
    """Bits of a register."""
    WORD = "word"
    """Every word for a target that no block has."""
    REGISTER = "register"
    """A whole register that the table does not have."""
    UNWRITTEN = "unwritten"
    """What was never written since the reset: a stage lets everything pass, counters are those of the cube."""
    IDLE = "idle"
    """Registers of a block that the task does not start."""


class Ignored(NamedTuple):
    """One fact."""

    family: str
    kind: Kind
    place: str
    """BLOCK.REGISTER, or the target of a word."""
    bits: int
    run: str
    """The recorded run that shows it: whose program, on which board."""


_PI = "allbilly/rk3588 {} on an Orange Pi 5 (RK3588)"


def _pi(kind: Kind, place: str, bits: int, *programs: str) -> Ignored:
    return Ignored("rk3588", kind, place, bits, _PI.format(", ".join(programs)))


IGNORED: tuple[Ignored, ...] = (
    _pi(Kind.BITS, "CNA.CONV_CON2", 0x0000_4000, "gemm", "conv_gemm"),
    _pi(Kind.BITS, "CNA.DMA_CON2", 0xF000_0000, "conv_gemm", "conv_tiles"),
    _pi(Kind.BITS, "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL", 0x0007_0000, "simple_add"),
    _pi(Kind.BITS, "PPU.DST_SURF_STRIDE", 0x0000_000F, "pool"),
    _pi(Kind.REGISTER, "0x8001 0x7038", 0xFFFF_FFFF, "pool"),
    _pi(Kind.WORD, "0x0001", 0xFFFF_FFFF, "gemm", "conv_tiles", "gemm_int8", "gemm_int16"),
    _pi(Kind.IDLE, "DPU_RDMA", 0xFFFF_FFFF, "conv_tiles"),
    _pi(Kind.UNWRITTEN, "DPU.BS_CFG", 0xFFFF_FFFF, "simple_add", "elementwise"),
    _pi(Kind.UNWRITTEN, "DPU.BN_CFG", 0xFFFF_FFFF, "simple_add", "elementwise"),
    _pi(Kind.UNWRITTEN, "DPU.WDMA_SIZE_1", 0xFFFF_FFFF, "elementwise"),
)


@cache
def ignored_rule(family: str, kind: Kind, place: str) -> Ignored | None:
    """The row for a place on chips of a family, None where no board has shown it."""
    found = (row for row in IGNORED if (row.family, row.kind, row.place) == (family, kind, place))
    return next(found, None)


def ignored_bits(family: str, place: str) -> int:
    """The bits of a register that boards ignore."""
    rule = ignored_rule(family, Kind.BITS, place)
    return 0 if rule is None else rule.bits
