"""What boards do in a second: one row per NPU, with the source and the error of every number.

The rows are in the folder of each family, `openrknn.chip.<family>.board`.

Two constants of each board, bytes per second and the start of a task, are fitted to the published figures in
`benchmarks/estimate/facts.csv` by least squares on the relative error; `docs/estimate.md` shows every figure beside the
prediction, and a test fits again and compares. The others:

- clocks: the highest of each NPU, as `openrknn.chips` has them. RK3576's figures fit the step of 800 MHz (mean error
  8 %) better than its highest one of 950 (14 %), so that is what they are taken to be;
- table: RK3588 by a board's per-layer table (16 channels of 480 x 480 in 3.9 ms: 32 lanes, 2 a cycle); the halved
  arrays of RK3566 and RK3562 half of it, RK3576 as fast as its DPU: the steps that fit the figures best;
- DPU: 8 a cycle, which is what the vendor's runtime counts (4 cycles for 32 kernels, however small the kernel);
- jobs: a fit of 14 networks on RK3588 (3.3 us); in the figures at hand it cannot be told from the start of tasks. They
  are the vendor's runtime on the vendor's kernel driver. Open drivers wait longer: ork-driver measured 80 to 100 us on
  the same kernel driver, from one submit to the next. Estimates assume the vendor's and give the other one beside it;
- weights that stream past a few pixels: ork-driver's products of one row on RK3588, 22 GB/s on one core and 28.5 on
  three; `docs/estimate.md` has the arithmetic. RK3562 by the vendor's language model;
- memory of several cores: additions and copies of 3.7 to 11 MB on one and three cores of an RK3588 (945 and 573 us,
  2002 and 1283 us).

For some chips no timing of a whole network is published. They have rates of their nearest relative, so that
cycles can be compared, and no time: `is_fitted` is False.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from openrknn.chip import FAMILIES
from openrknn.chip.board import Board
from openrknn.chips import CHIPS, Chip

__all__ = ["BOARDS", "Board", "board_of"]

_ROWS = [import_module(f"openrknn.chip.{family}.board").BOARDS for family in FAMILIES]
BOARDS: Mapping[str, Board] = MappingProxyType({name: rows[name] for name in CHIPS for rows in _ROWS if name in rows})
"""By the name of the chip."""


def board_of(chip: Chip) -> Board:
    """The row of a chip."""
    return BOARDS[chip.name]
