"""Boards with RK3576 and RV1126B."""

from __future__ import annotations

from openrknn.chip.board import JOB_SECONDS, ZOO, Board, TreeNode, relative
from openrknn.chip.rk3576.facts import CHIPS

__all__ = ["BOARDS", "NODES"]

_RK3576 = Board(
    800_000_000, bytes_per_second=11.7e9, task_seconds=1.14e-6, submit_seconds=JOB_SECONDS, table_rate=8,
    low=0.87, high=1.16, mean_error=0.070, figures=21, source=ZOO,
)  # fmt: skip
BOARDS = {"rk3576": _RK3576, "rv1126b": relative(_RK3576, CHIPS[1], "rates of RK3576")}
NODES = {"rk3576": TreeNode("27700000.npu", "rk3576", "rockchip,rk3576-rknpu", 800_000)}
