"""Boards with RK3562."""

from __future__ import annotations

from openrknn.chip.board import JOB_SECONDS, ZOO, Board, TreeNode
from openrknn.chip.rk3562.facts import CHIPS

__all__ = ["BOARDS", "NODES"]

BOARDS = {"rk3562": Board(
    CHIPS[0].clocks[-1], bytes_per_second=5.71e9, task_seconds=5.65e-6, submit_seconds=JOB_SECONDS, table_rate=1,
    memory_cores=1, low=0.93, high=1.10, mean_error=0.050, figures=21, source=ZOO,
)}  # fmt: skip
NODES = {"rk3562": TreeNode("ff300000.npu", "rk3562", "rockchip,rk3562-rknpu", 850_000)}
