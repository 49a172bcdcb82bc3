"""Registers of tasks in natural values: what lowering writes, what targets translate, what emit encodes."""

from __future__ import annotations

from openrknn.chip.target import Registers
from openrknn.task.place import Place

__all__ = ["CONVOLUTION", "ELEMENTWISE", "POOLING", "Place", "Registers"]

CONVOLUTION = ("CNA", "CORE", "DPU", "DPU_RDMA")
ELEMENTWISE = ("DPU", "DPU_RDMA")
POOLING = ("PPU", "PPU_RDMA")
