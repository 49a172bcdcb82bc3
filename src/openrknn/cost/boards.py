"""What boards do in a second: one row per NPU, with the source and the error of every number.

Clock and table rate are read in manuals and per-layer tables. Bytes per second and the starts of tasks and submits are
fitted by `tools/make_estimate_docs.py` to the published figures in `benchmarks/estimate/facts.csv`, by least squares on the
relative error; `docs/estimate.md` shows every figure beside the prediction. Chips of whose board nobody has published a
figure have no row of their own: `Board.is_fitted` is False, cycles are in units of the nearest relative, and there is no
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from openrknn.chips import Chip

__all__ = ["BOARDS", "Board", "board_of"]


@dataclass(frozen=True, slots=True)
class Board:
    """The rates of one NPU on a board with the memory that such boards have."""

    hertz: int
    """The NPU's highest clock, at which the figures were taken."""
    bytes_per_second: float
    """What one core gets of the memory."""
    task_seconds: float
    """From the end of one task to the start of the next."""
    submit_seconds: float
    """From the end of one job to the start of the next: kernel, interrupt, runtime."""
    table_rate: float
    """Elements a cycle through the lookup table."""
    dpu_rate: float = 8.0
    """Elements a cycle through the DPU."""
    memory_cores: float = 1.6
    """All cores together get so many times the memory of one."""
    low: float | None = None
    """Published / predicted time: the smallest ratio over the figures, each left out of its fit."""
    high: float | None = None
    mean_error: float | None = None
    """Mean of |predicted / published - 1|, each left out of its fit."""
    figures: int = 0
    """How many published figures it was fitted to."""
    source: str = ""

    @property
    def is_fitted(self) -> bool:
        return self.figures > 0

    def shared_by(self, cores: int) -> Board:
        """What each of so many cores has when all of them work."""
        return replace(self, bytes_per_second=self.bytes_per_second * min(1.0, self.memory_cores / cores))


_ZOO = "the vendor's model zoo, README of 2.3.2"
_RK3588 = Board(
    1_000_000_000, 10.4e9, 3.7e-6, 0.0, table_rate=2, source=_ZOO,
)  # fmt: skip
_RK3566 = Board(900_000_000, 4.24e9, 7.6e-6, 0.0, table_rate=1, memory_cores=1, source=_ZOO)
_RK3562 = Board(1_000_000_000, 5.23e9, 0.0, 3.3e-6, table_rate=1, memory_cores=1, source=_ZOO)
_RK3576 = Board(950_000_000, 9.37e9, 1.2e-6, 0.0, table_rate=8, source=_ZOO)

# No board's figure: rates of the nearest relative, so that cycles can be compared, and no time. The clocks: the TOPS of the
# data sheet; RV1103's was read on a board (420 MHz, where a convolution task takes 12.2 us: dnhkng/open-rknpu).
_RV1126B = replace(_RK3576, source="none: rates of RK3576", figures=0, low=None, high=None, mean_error=None)
_RV1106 = replace(
    _RK3562, hertz=500_000_000, source="none: rates of RK3562 at 500 MHz", figures=0, low=None, high=None, mean_error=None
)
_RV1103 = replace(_RV1106, hertz=420_000_000, task_seconds=12.2e-6, source="none: rates of RK3562 at 420 MHz")

BOARDS: Mapping[str, Board] = MappingProxyType({
    "rk3588": _RK3588, "rk3576": _RK3576, "rk3566": _RK3566, "rk3568": _RK3566, "rk3562": _RK3562,
    "rv1126b": _RV1126B, "rv1106": _RV1106, "rv1103": _RV1103, "rv1106b": _RV1106, "rv1103b": _RV1103,
})  # fmt: skip
"""By the name of the chip."""


def board_of(chip: Chip) -> Board:
    """The row of a chip."""
    return BOARDS[chip.name]
