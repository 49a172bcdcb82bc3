"""The operator table: for each ONNX operator what it does, who runs it and how; and the questions that others ask it.

A new operator is a row here (`functions`, `table`) and its CPU function in `openrknn.runtime.operators`. Other
modules keep no lists of operators: tests/compiler/test_operator_table.py looks for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from openrknn.compiler.operators.notes import CPU_OPERATORS, NPU_OPERATORS, Row
from openrknn.compiler.operators.row import Family, Inline, Npu, NpuFunction, Operator, Rows, Write
from openrknn.compiler.operators.table import OPERATORS

__all__ = [
    "AFFINE",
    "ARITHMETIC",
    "BROADCASTING",
    "CPU_ANY",
    "CPU_FAMILIES",
    "CPU_OPERATORS",
    "ELEMENTWISE",
    "IDENTITIES",
    "MOVES",
    "NPU_FUNCTIONS",
    "NPU_OPERATORS",
    "ONNX_ON_NPU",
    "OPEN_ENDED",
    "OPERATORS",
    "ORDERED_MOVES",
    "PRODUCTS",
    "QUANTISERS",
    "RANDOM",
    "RECURRENT",
    "SINGLE_MOVES",
    "UNARY",
    "VIEWS",
    "WRITTEN",
    "Family",
    "Inline",
    "Npu",
    "NpuFunction",
    "Operator",
    "Row",
    "Rows",
    "Write",
    "select",
]  # fmt: skip


def select(wanted: Callable[[Operator], bool]) -> frozenset[str]:
    """The names of the operators whose rows fit."""
    return frozenset(name for name, row in OPERATORS.items() if wanted(row))


def _of(*families: Family) -> frozenset[str]:
    return select(lambda row: row.family in families)


UNARY = _of(Family.UNARY)
BROADCASTING = _of(Family.BROADCAST)
ELEMENTWISE = UNARY | BROADCASTING
"""Each number by itself, operands repeated to one shape."""
IDENTITIES = _of(Family.IDENTITY)
VIEWS = _of(Family.VIEW)
MOVES = _of(Family.MOVE, Family.VIEW, Family.IDENTITY, Family.CAST)
"""What comes out is in the operands; casts count, where numbers stay what they are."""
SINGLE_MOVES = _of(Family.MOVE, Family.VIEW, Family.IDENTITY) - {"Concat", "Split"}
"""Moves from one operand to one result."""
ORDERED_MOVES = MOVES - select(lambda row: row.picks)
"""Every number comes out at most once."""
PRODUCTS = _of(Family.PRODUCT)
RECURRENT = _of(Family.RECURRENT)
QUANTISERS = _of(Family.QUANTISER)
RANDOM = _of(Family.RANDOM)
"""No two runs are alike."""

ARITHMETIC = select(lambda row: row.family is Family.BROADCAST and row.npu is Npu.TASK)
"""What the DPU does with two operands."""
AFFINE = frozenset({"Add", "Sub", "Mul", "Div"})
"""Scales and offsets, where one operand is a constant."""
ONNX_ON_NPU = select(lambda row: row.npu is not None) - QUANTISERS
"""Operators that become tasks of the NPU, or nothing at all: by name, for who looks at one alone.

tests/compiler/test_operator_names.py compiles every operator that onnx has a test of, and compares.
"""
CPU_ANY = select(lambda row: row.cpu)
CPU_FAMILIES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    title: tuple(sorted(CPU_ANY & _of(*families), key=str.lower))
    for title, families in {
        "functions of one number": (Family.UNARY,),
        "of two numbers": (Family.BROADCAST,),
        "reductions": (Family.REDUCTION,),
        "moves": (Family.MOVE, Family.FILL, Family.CAST),
        "windows": (Family.WINDOW, Family.NORM),
    }.items()
})  # fmt: skip
"""`CPU_ANY` by what people call them, for the docs."""

NPU_FUNCTIONS: Mapping[str, NpuFunction] = MappingProxyType(
    {row.function.name: row.function for row in OPERATORS.values() if row.function is not None}
)
"""Functions of the DPU by their own name."""
OPEN_ENDED = select(
    lambda row: row.function is not None and row.function.formula is not None and math.isinf(row.function.reach)
)
"""Their tables have to reach as far as their inputs, which only calibration tells."""
WRITTEN: Mapping[str, Write] = MappingProxyType(
    {row.name: row.write for row in OPERATORS.values() if row.write is not None}
)
"""Operators that the importer writes with others by their attributes alone."""
