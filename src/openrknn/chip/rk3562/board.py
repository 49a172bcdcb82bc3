"""Boards with RK3562."""

from __future__ import annotations

from openrknn.chip.board import JOB_SECONDS, ZOO, Board, TreeNode
from openrknn.chip.rk3562.facts import CHIPS

__all__ = ["BOARDS", "NODES"]

BOARDS = {"rk3562": Board(
    CHIPS[0].clocks[-1], bytes_per_second=5.66e9, task_seconds=5.55e-6, submit_seconds=JOB_SECONDS, table_rate=1,
    memory_cores=1, stream_bytes_per_second=6.7e9, stream_all_bytes_per_second=6.7e9,
    stream_source="airockchip/rknn-llm 1.3.0: Qwen2 0.5B in int8, 13.6 tokens a second, everything included",
    low=0.92, high=1.10, mean_error=0.049, figures=21, source=ZOO,
)}  # fmt: skip
NODES = {"rk3562": TreeNode("ff300000.npu", "rk3562", "rockchip,rk3562-rknpu", 850_000)}
