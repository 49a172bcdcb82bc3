"""Boards with RK3588."""

from __future__ import annotations

from openrknn.chip.board import JOB_SECONDS, ZOO, Board, TreeNode
from openrknn.chip.rk3588.facts import CHIPS

__all__ = ["BOARDS", "NODES"]

BOARDS = {"rk3588": Board(
    CHIPS[0].clocks[-1], bytes_per_second=10.15e9, task_seconds=3.47e-6, submit_seconds=JOB_SECONDS, table_rate=2,
    low=0.88, high=1.11, mean_error=0.047, figures=20, source=ZOO,
    stream_bytes_per_second=22e9, stream_all_bytes_per_second=28.5e9,
    stream_source="ork-driver on a Rock 5B: int8 products of one row, chained, on one and three cores",
    open_submit_seconds=90e-6, open_source="ork-driver on a Rock 5B: 80 to 100 us a job",
)}  # fmt: skip
NODES = {"rk3588": TreeNode(
    "fdab0000.npu", "rk3588", "rockchip,rk3588-rknpu", 800_000, ("fdab0000.npu", "fdac0000.npu", "fdad0000.npu"),
    "rockchip,rk3588-rknn-core",
)}  # fmt: skip
