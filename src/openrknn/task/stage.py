"""BS and BN, the first two stages of the DPU: an addend, a multiplier, two shifts, a clamp."""

from __future__ import annotations

from openrknn.records import dataclass

__all__ = ["Clamp", "Scaling", "Stage"]


@dataclass(frozen=True, slots=True)
class Clamp:
    """max(x, lower), and min(x, upper) if there is an upper end; `lower` is 0 but on chips whose clamps are pairs."""

    upper: float | None
    lower: float | None = 0
    below: float | None = None
    """What values under `lower` become, if that is not `lower` itself."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """A multiplication; `operand` None means per channel from memory."""

    operand: float | None
    shift: int
    shift_negative: int
    negative_only: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """BS or BN in natural units; parts that are bypassed are None."""

    addend: float | None
    """A number, or None: per channel from memory (if `adds`)."""
    adds: bool
    subtracts: bool
    scaling: Scaling | None
    clamp: Clamp | None
    is_float: bool
    adds_first: bool = False
    """BN of RK3562, RK3576 and RV1103/06 adds before it multiplies, as BS does."""
    takes_larger: bool = False
    """The larger of x and a in place of their sum: Max with a constant per channel on RK3566 and RV1103/06."""
