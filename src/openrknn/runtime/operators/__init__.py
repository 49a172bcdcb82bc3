"""Operators that the compiler left to the CPU. One table, one small file per family.

A `CpuOperator` computes on real numbers: its inputs were dequantized, its result will be quantized. Operators that only
move values (`moves`) work on the stored integers where input and output have the same scale, which gives the same
result sooner.

    OPERATORS["Exp"].compute([x], {}, x.shape)

The names and attributes are those of ONNX; names with "ex" in front are the compiler's own variants.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from openrknn.runtime.operators.arguments import arg_max, arg_min
from openrknn.runtime.operators.average_pool import average_pool
from openrknn.runtime.operators.concat import concat
from openrknn.runtime.operators.interface import CpuOperator
from openrknn.runtime.operators.matmul import matmul
from openrknn.runtime.operators.reduce import reduce_max, reduce_mean, reduce_min, reduce_sum
from openrknn.runtime.operators.reshape import reshape
from openrknn.runtime.operators.softmax import softmax
from openrknn.runtime.operators.transpose import transpose
from openrknn.runtime.operators.unary import UNARY

__all__ = ["OPERATORS", "CpuOperator"]

OPERATORS: Mapping[str, CpuOperator] = MappingProxyType(
    {
        "ArgMax": CpuOperator(arg_max),
        "ArgMin": CpuOperator(arg_min),
        "AveragePool": CpuOperator(average_pool),
        "Concat": CpuOperator(concat, moves=True),
        "Flatten": CpuOperator(reshape, moves=True),
        "MatMul": CpuOperator(matmul),
        "ReduceMax": CpuOperator(reduce_max, moves=True),
        "ReduceMean": CpuOperator(reduce_mean),
        "ReduceMin": CpuOperator(reduce_min, moves=True),
        "ReduceSum": CpuOperator(reduce_sum),
        "Reshape": CpuOperator(reshape, moves=True),
        "Softmax": CpuOperator(softmax),
        "Squeeze": CpuOperator(reshape, moves=True),
        "Transpose": CpuOperator(transpose, moves=True),
        "Unsqueeze": CpuOperator(reshape, moves=True),
        "exSoftmax13": CpuOperator(softmax),
        **{name: CpuOperator(compute) for name, compute in UNARY.items()},
    }
)
"""Operator type -> how to compute it."""
