"""What boards do in a second: one row per NPU, with the source and the error of every number.

Two constants of each board, bytes per second and the start of a task, are fitted to the published figures in
`benchmarks/estimate/facts.csv` by least squares on the relative error; `docs/estimate.md` shows every figure beside the
prediction, and a test fits again and compares. The others:

- clocks: the highest of each NPU, as `openrknn.chips` has them. RK3576's figures fit the step of 800 MHz (mean error
  8 %) better than its highest one of 950 (14 %), so that is what they are taken to be;
- table: RK3588 by a board's per-layer table (16 channels of 480 x 480 in 3.9 ms: 32 lanes, 2 a cycle); the halved
  arrays of RK3566 and RK3562 half of it, RK3576 as fast as its DPU: the steps that fit the figures best;
- DPU: 8 a cycle, which is what the vendor's runtime counts (4 cycles for 32 kernels, however small the kernel);
- jobs: a fit of 14 networks on RK3588 (3.3 us); in the figures at hand it cannot be told from the start of tasks;
- memory of several cores: additions and copies of 3.7 to 11 MB on one and three cores of an RK3588 (945 and 573 us,
  2002 and 1283 us).

Of some chips nobody has published a figure of a whole network. They have rates of their nearest relative, so that
cycles can be compared, and no time: `is_fitted` is False.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from openrknn.chips import CHIPS, Chip

__all__ = ["BOARDS", "Board", "board_of"]


@dataclass(frozen=True, slots=True)
class Board:
    """The rates of one NPU on a board with the memory that such boards have."""

    hertz: int
    """The NPU's clock at which the figures were taken."""
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


def _highest(chip: str) -> int:
    return CHIPS[chip].clocks[-1]


_ZOO = "airockchip/rknn_model_zoo, README of 2.3.2"
_JOB_SECONDS = 3.3e-6
_RK3588 = Board(
    _highest("rk3588"), bytes_per_second=10.3e9, task_seconds=3.53e-6, submit_seconds=_JOB_SECONDS, table_rate=2,
    low=0.89, high=1.08, mean_error=0.045, figures=20, source=_ZOO,
)  # fmt: skip
_RK3566 = Board(
    _highest("rk3566"), bytes_per_second=4.41e9, task_seconds=6.97e-6, submit_seconds=_JOB_SECONDS, table_rate=1,
    memory_cores=1, low=0.88, high=1.28, mean_error=0.053, figures=16, source=_ZOO,
)  # fmt: skip
_RK3562 = Board(
    _highest("rk3562"), bytes_per_second=5.71e9, task_seconds=5.65e-6, submit_seconds=_JOB_SECONDS, table_rate=1,
    memory_cores=1, low=0.93, high=1.10, mean_error=0.050, figures=21, source=_ZOO,
)  # fmt: skip
_RK3576 = Board(
    800_000_000, bytes_per_second=11.7e9, task_seconds=1.14e-6, submit_seconds=_JOB_SECONDS, table_rate=8,
    low=0.87, high=1.16, mean_error=0.070, figures=21, source=_ZOO,
)  # fmt: skip


def _relative(board: Board, chip: str, source: str) -> Board:
    return replace(board, hertz=_highest(chip), source=source, figures=0, low=None, high=None, mean_error=None)


_RV1126B = _relative(_RK3576, "rv1126b", "rates of RK3576")
_RV1106 = _relative(_RK3562, "rv1106", "rates of RK3562 at 500 MHz")
# A convolution task takes at least 12.2 us on a board (dnhkng/open-rknpu, docs/performance.md).
_RV1103 = replace(_relative(_RK3562, "rv1103", "rates of RK3562 at 420 MHz"), task_seconds=12.2e-6)

BOARDS: Mapping[str, Board] = MappingProxyType({
    "rk3588": _RK3588, "rk3576": _RK3576, "rk3566": _RK3566, "rk3568": _RK3566, "rk3562": _RK3562,
    "rv1126b": _RV1126B, "rv1106": _RV1106, "rv1103": _RV1103, "rv1106b": _RV1106, "rv1103b": _RV1103,
})  # fmt: skip
"""By the name of the chip."""


def board_of(chip: Chip) -> Board:
    """The row of a chip."""
    return BOARDS[chip.name]
