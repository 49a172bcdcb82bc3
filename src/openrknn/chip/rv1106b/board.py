"""Boards with RV1106B and RV1103B: those of RV1106 and RV1103."""

from __future__ import annotations

from openrknn.chip.rv1106 import board as rv1106

__all__ = ["BOARDS", "NODES"]

BOARDS = {"rv1106b": rv1106.BOARDS["rv1106"], "rv1103b": rv1106.BOARDS["rv1103"]}
NODES = rv1106.NODES
