"""Boards with RV1106 and RV1103."""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.board import TreeNode, relative
from openrknn.chip.rk3562.board import BOARDS as RK3562
from openrknn.chip.rv1106.facts import CHIPS

__all__ = ["BOARDS", "NODES"]

_RV1103 = relative(RK3562["rk3562"], CHIPS[1], "rates of RK3562 at 420 MHz")
BOARDS = {
    "rv1106": relative(RK3562["rk3562"], CHIPS[0], "rates of RK3562 at 500 MHz"),
    # A convolution task takes at least 12.2 us on a board (dnhkng/open-rknpu, docs/performance.md).
    "rv1103": replace(_RV1103, task_seconds=12.2e-6),
}
NODES: dict[str, TreeNode] = {}
"""No description of one is known."""
