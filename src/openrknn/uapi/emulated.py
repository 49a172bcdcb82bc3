"""Emulated kernels: how a program knows that it uses one, and how long jobs may take there."""

from __future__ import annotations

import os

__all__ = ["TIME_SCALE", "VARIABLE", "time_scale"]

VARIABLE = "OPENRKNN_EMULATED"
"""Names the folder of a running emulated device to programs."""
TIME_SCALE = 60.0
"""How many times longer than on a board a job may take before the emulated driver stops it."""


def time_scale() -> float:
    """What time limits of drivers are multiplied by in this process."""
    return TIME_SCALE if os.environ.get(VARIABLE) else 1.0
