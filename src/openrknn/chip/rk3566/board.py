"""Boards with RK3566 and RK3568."""

from __future__ import annotations

from openrknn.chip.board import JOB_SECONDS, ZOO, Board, TreeNode
from openrknn.chip.rk3566.facts import CHIPS

__all__ = ["BOARDS", "NODES"]

_BOARD = Board(
    CHIPS[0].clocks[-1], bytes_per_second=4.41e9, task_seconds=6.97e-6, submit_seconds=JOB_SECONDS, table_rate=1,
    memory_cores=1, low=0.88, high=1.28, mean_error=0.053, figures=16, source=ZOO,
)  # fmt: skip
BOARDS = {"rk3566": _BOARD, "rk3568": _BOARD}
NODES = {
    name: TreeNode("fde40000.npu", name, "rockchip,rk3568-rknpu", 900_000) for name in ("rk3566", "rk3568")
}  # fmt: skip
