"""Registers of tasks in natural values: what lowering writes, what targets translate, what emit encodes."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CONVOLUTION", "ELEMENTWISE", "POOLING", "Place", "Registers"]

CONVOLUTION = ("CNA", "CORE", "DPU", "DPU_RDMA")
ELEMENTWISE = ("DPU", "DPU_RDMA")
POOLING = ("PPU", "PPU_RDMA")


class Place(NamedTuple):
    """An address that the loader fills in: so many bytes into a tensor."""

    tensor: str
    offset: int = 0
    data: bytes | None = None
    """Operands that a chip reads from memory, which `translate` makes: the file gets a tensor of these bytes."""


Registers = dict[str, dict[str, int | Place]]
"""BLOCK.REGISTER -> fields in natural values; what is not mentioned is 0."""
