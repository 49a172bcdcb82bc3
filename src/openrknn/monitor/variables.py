"""Variables that tell a program which NPU it was given: written for containers, read when a device is opened.

They stand here, below both sides, so that the program that hands NPUs out needs nothing of the one that computes.
"""

from __future__ import annotations

__all__ = ["MASK_VARIABLE", "NPU_VARIABLE"]

NPU_VARIABLE = "OPENRKNN_NPU"
"""What "auto" means in this process, as chosen by the container image."""
MASK_VARIABLE = "OPENRKNN_CORE_MASK"
"""The cores that this process was given: 1, 2, 4, 3 or 7 on RK3588. Obeyed, not enforced."""
