"""Operators that the compiler left to the CPU. One table, one small file per family.

A `CpuOperator` computes on real numbers: its inputs were dequantized, its result will be quantized. Operators that only
move values (`moves`) work on the stored integers where input and output have the same scale, which gives the same
result sooner. `SeveralOutputs` are the same with a list of results.

    OPERATORS["Exp"].compute([x], {}, x.shape)

The names and attributes are those of ONNX; names with "ex" in front are the compiler's own variants. What each means
there was worked out from small models that its converter built for the CPU (`op_target`), and from what its simulator
says of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.runtime.operators.interface import ABSENT, CpuOperator, SeveralOutputs
    from openrknn.runtime.operators.table import OPERATORS, SEVERAL

__all__ = ["ABSENT", "OPERATORS", "SEVERAL", "CpuOperator", "SeveralOutputs"]

__getattr__, __dir__ = lazy_names(
    __name__, {"interface": "ABSENT CpuOperator SeveralOutputs", "table": "OPERATORS SEVERAL"}
)
