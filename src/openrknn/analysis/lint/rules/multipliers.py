"""Multipliers that are 0, have the wrong sign, or do not fit the scales of the tensors.

An element-wise task brings both operands to one scale:  x = (a - zero) * bs >> n,  e = (b - zero) * ew >> k,  so that

    (ew / 2^k) / (bs / 2^n) = scale of b / scale of a          and ew > 0, bs > 0 but for a subtraction
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from openrknn.analysis.lint.context import Found, LintContext, Rule, place, scale_of
from openrknn.analysis.lint.finding import Severity
from openrknn.analysis.lint.program import Decoded, Work
from openrknn.container.parts import Tensor
from openrknn.errors import RknnError
from openrknn.npu.accesses import accesses_of
from openrknn.npu.blocks import rdma
from openrknn.npu.task import Chained, Convolution, Flying, Step
from openrknn.task import ew
from openrknn.task.formats import is_float

_TOLERANCE = 0.05
"""Multipliers have 15 bits; the vendor's converter is never off by more than 0.01 %."""
_ELEMENT_WISE = re.compile(r"(Add|Sub|Max|Min)")
_COMPUTES = re.compile(r"^(Conv|Add|Sub|Mul|Max|Min)")
_SCALED = re.compile(r"^(Add|Sub|Max|Min)(Relu)?$")


def _multiplier_overflow(context: LintContext) -> Iterator[Found]:
    if context.decoded is None:
        return
    told = set()
    for work, step in context.steps():
        if not isinstance(step, Convolution | Flying) or is_float(step.dpu.precision):
            continue
        found = (*_constants(work, step), *_ratio(context.decoded, work, step), *_channels(context.decoded, work, step))
        for register, what in found:
            if (work.operator.index, register) not in told:
                told.add((work.operator.index, register))
                yield Found(
                    replace(place(work.operator, step), register=register),
                    f"{work.operator.type}: {what}",
                    "the product has the wrong sign or size, or is 0: the operator answers with a constant or nonsense",
                )


def _operation(step: Convolution | Flying) -> ew.Operation | None:
    return step.dpu.element_wise.operation if step.dpu.element_wise is not None else None


def _constants(work: Work, step: Convolution | Flying) -> Iterator[tuple[str, str]]:
    """Multipliers that stand in registers; operators of many tasks (Softmax) use them in ways of their own."""
    operation, kind = _operation(step), work.operator.type
    if step.dpu.out.scale <= 0 and _COMPUTES.match(kind) and not isinstance(step, Chained):
        yield "OUT_CVT_SCALE", f"the multiplier of the output is {step.dpu.out.scale}"
    if operation is None or operation.converter is None or kind.startswith("ex"):
        return
    scale = operation.converter.scale
    if scale == 0 or (scale < 0 and "Sub" not in kind):
        yield "EW_CVT_SCALE_VALUE", f"the multiplier of the second operand is {scale}"
    stage = step.dpu.bias
    factor = stage.scaling.operand if stage is not None and stage.scaling is not None else None
    is_wrong = factor is not None and (factor == 0 or (factor < 0 and "Sub" not in kind))
    if factor is not None and is_wrong and _ELEMENT_WISE.search(kind) and isinstance(step, Flying):
        yield "BS_MUL_CFG", f"the multiplier of the first operand is {factor:g}"


def _ratio(decoded: Decoded, work: Work, step: Step) -> Iterator[tuple[str, str]]:
    """Both operands of an element-wise task against the scales of their tensors."""
    if not isinstance(step, Flying) or not _SCALED.match(work.operator.type):
        return
    operation, stage = _operation(step), step.dpu.bias
    if operation is None or operation.converter is None or operation.converter.scale == 0:
        return
    sources = {access.unit: _scale_at(decoded, work, access.first) for access in accesses_of(step) if not access.writes}
    main, other = sources.get("MRDMA"), sources.get("ERDMA")
    if main is None or other is None:
        return
    scaling = stage.scaling if stage is not None else None
    factor = 1.0 if scaling is None or scaling.operand is None else scaling.operand / 2.0**scaling.shift
    if factor <= 0 or (scaling is not None and scaling.operand is None):
        return
    given = abs(operation.converter.scale) / 2.0**operation.converter.shift / factor
    if abs(given * main / other - 1) > _TOLERANCE:
        yield (
            "EW_CVT_SCALE_VALUE",
            f"the second operand is scaled by {given:.4g} against the first; the scales ask for {other / main:.4g}",
        )


def _scale_at(decoded: Decoded, work: Work, address: int) -> float | None:
    tensor: Tensor | None = decoded.tensor_at(address, work.operator.inputs)
    return scale_of(tensor) if tensor is not None and tensor.kind.is_activation else None


def _channels(decoded: Decoded, work: Work, step: Step) -> Iterator[tuple[str, str]]:
    """Multipliers per channel of a convolution, whose scales are positive."""
    if not isinstance(step, Convolution) or step.reader is None or not work.operator.outputs:
        return
    stage, shape = step.dpu.bias, work.operator.outputs[0].shape
    if stage is None or stage.scaling is None or stage.scaling.operand is not None or len(shape) < 2:
        return
    count = min(step.dpu.real_channels, shape[1])
    try:
        found = rdma.fetch_channels(step.reader, count, step.dpu.precision, decoded.memory, norm=False).mul
    except RknnError:
        return
    if found is not None and (found < 0).any() and "Mul" not in work.operator.type:
        channel = int((found < 0).argmax())
        yield "RDMA_BS_BASE_ADDR", f"the multiplier of channel {channel} is {int(found[channel])}"


MULTIPLIER_OVERFLOW = Rule(
    "multiplier-overflow",
    Severity.ERROR,
    "a multiplier is 0, negative, or does not fit the scales of its tensors",
    "Integers are rescaled by a multiplier of 16 bits and a shift. A converter that computes a multiplier of more than "
    "15 bits stores it as a negative number or as 0. Multipliers of element-wise tasks are compared with the scales "
    "that the file gives for both operands.",
    "give each Max or Min a constant of its own instead of one that several share, or write max(x, c) as a Clip; if "
    "both operands are tensors, keep this operator in fp16 (hybrid quantization)",
    "toolkit 2.5.0: max(x, c) and max(y, c) share one constant, as networks from TensorFlow have it; its scale is made "
    "for x, and where y is larger the multiplier of y, above 32767, becomes 0",
    _multiplier_overflow,
)
