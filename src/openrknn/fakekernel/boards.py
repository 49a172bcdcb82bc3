"""What a board with each chip shows of its NPU: addresses and names. The clocks are those of `openrknn.chips`.

From device trees and kernel logs in public bug reports.
"""

from __future__ import annotations

from importlib import import_module

from openrknn.chip.board import TreeNode
from openrknn.chips import Chip

__all__ = ["TreeNode", "board_for"]


def board_for(chip: Chip) -> TreeNode:
    """The board of a chip; other chips get a generic one."""
    plain = TreeNode("ff660000.npu", chip.name, f"rockchip,{chip.name}-rknpu", 900_000)
    found = import_module(f"openrknn.chip.{chip.family}.board").NODES.get(chip.name, plain)
    assert isinstance(found, TreeNode)
    return found
