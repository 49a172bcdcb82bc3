"""Operands per channel in another number format than the stage reads.

BRDMA and NRDMA fetch addends of 32 bits, and factors of 16. A constant of the network that lies in the file as int8,
one byte a channel, is something else; so is the result of another operator.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity
from openrknn.container.parts import DataType, Kind

__all__ = ["RULE"]

_CHANGE = (
    "repeat the constant in the ONNX to the shape of the other operand, so that it is read element by element, or keep "
    "this operator in fp16 (hybrid quantization)"
)


def _check(context: Context) -> Iterator[Finding]:
    decoded = context.decoded
    if decoded is None:
        return
    told = set()
    for work, step, access in context.accesses():
        if not access.is_per_channel or not access.shape[3]:
            continue
        tensor = decoded.tensor_at(access.first, work.operator.inputs)
        if tensor is None or tensor.dtype is not DataType.INT8:
            continue
        if tensor.kind is not Kind.CPU_CONSTANT and not tensor.kind.is_activation:
            continue
        each = access.shape[3] // access.channels
        if tensor.quantization is None or tensor.elements != access.channels or work.operator.index in told:
            continue
        told.add(work.operator.index)
        yield Finding(
            RULE.code,
            RULE.severity,
            place(work.operator, step, access, tensor),
            f"{work.operator.type} reads {each} bytes a channel of {tensor.name!r}, which has one",
            "several numbers of 8 bits are taken for one: the result is nonsense, often the largest number everywhere",
            _CHANGE,
        )


RULE = Rule(
    "operand-format",
    Severity.ERROR,
    "a constant per channel is read in another number format than it is stored in",
    "A constant with one number per channel goes to the stages BS or BN, which read 32 bits a channel (16 for "
    "factors). The constant must be stored so; the converter sometimes leaves it as int8.",
    _CHANGE,
    "toolkit 2.5.0: Max(x, constant of [1, C, 1, 1]) in int8 on RK3566 and RV1106; RK3588 is right, where EW reads it. "
    "On RK3588, Sub(Gemm, ReduceMean): the mean, spread over the channels as int8, is read so",
    _check,
)
