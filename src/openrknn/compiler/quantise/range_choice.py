"""Why a value got its range: kept with the compiled model, for reports."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RangeChoice:
    """The range of one value, and what else was thought of."""

    value: str
    method: str
    low: float
    high: float
    seen_low: float
    """The smallest number in calibration."""
    seen_high: float
    reason: str
    snr_db: float | None = None
    """Of the outputs if this value alone were int8, estimated; None: not known."""
    whole_snr_db: float | None = None
    """A range that holds everything that was seen."""
    shared_with: tuple[str, ...] = field(default=())
    """Values that have the same scale, because operators between them only move numbers."""
