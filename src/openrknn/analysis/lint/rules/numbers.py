"""Numbers that go wrong: constants that are not finite, operands lost in sums, scores that cannot decide, formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from openrknn.analysis.lint.context import Found, LintContext, Rule, limits_of, place, scale_of
from openrknn.analysis.lint.finding import Severity, Where
from openrknn.container.model import Operator
from openrknn.container.parts import DataType, Kind, Tensor

_FLOATS: dict[DataType, np.dtype[Any]] = {DataType.FLOAT16: np.dtype("<f2"), DataType.FLOAT32: np.dtype("<f4")}
_KINDS = {Kind.WEIGHT, Kind.CPU_CONSTANT}
_LARGEST = 65504


def _not_finite(context: LintContext) -> Iterator[Found]:
    users = {tensor.name: operator for operator in context.operators for tensor in operator.inputs}
    for tensor in context.graph.tensors:
        operator = users.get(tensor.name)
        if operator is None:
            continue  # scratch of the compiler's own is never set to anything
        infinite, large = _count(tensor)
        halves = any(output.dtype is DataType.FLOAT16 for output in operator.outputs)
        if infinite:
            what = f"{infinite} numbers of {tensor.name!r} are infinite or NaN"
        elif large and halves and tensor.kind is Kind.WEIGHT:
            what = f"{large} numbers of {tensor.name!r} are beyond {_LARGEST}, and the result is stored as fp16"
        else:
            continue
        yield Found(
            place(operator, tensor=tensor),
            what,
            "everything that is computed from them becomes infinite or NaN",
        )


def _count(tensor: Tensor) -> tuple[int, int]:
    """How many numbers of a constant are not finite, and how many others fp16 cannot hold."""
    form = _FLOATS.get(tensor.dtype)
    if form is None or tensor.kind not in _KINDS or not tensor.data or tensor.compressed:
        return 0, 0
    numbers = np.frombuffer(tensor.data[: len(tensor.data) // form.itemsize * form.itemsize], form)
    finite = np.isfinite(numbers)
    return int((~finite).sum()), int((np.abs(numbers[finite]) > _LARGEST).sum())


NOT_FINITE = Rule(
    "not-finite",
    Severity.ERROR,
    "a constant is infinite, not a number, or too large for fp16",
    "The NPU computes in fp16, whose largest number is 65504. A constant of the ONNX model that is larger becomes "
    "infinity when it is stored, and a bias that is larger, which is kept in fp32, makes the result infinite.",
    f"keep constants within +-{_LARGEST}, the largest number of fp16: a mask of -1e9 works as well with -1e4; for "
    "weights, scale the layer down and the next one up",
    "toolkit 2.5.0, fp16: Add with a constant of 300000 behind a convolution",
    _not_finite,
)


_SUM = re.compile(r"^(Add|Sub)(Relu)?$")
_LEVELS = 255
_COARSE = 8


def _lost_in_sum(context: LintContext) -> Iterator[Found]:
    for operator in context.operators:
        if not _SUM.match(operator.type) or len(operator.outputs) != 1:
            continue
        output, step = operator.outputs[0], scale_of(operator.outputs[0])
        sources = [
            (tensor, scale) for tensor in operator.inputs if tensor.kind.is_activation and (scale := scale_of(tensor))
        ]
        if not step or len(sources) != 2:
            continue
        for tensor, scale in sources:
            if scale * _LEVELS < step:
                yield Found(
                    place(operator, tensor=tensor),
                    f"all values of {tensor.name!r} together are {scale * _LEVELS / step:.2g} steps of the sum "
                    f"{output.name!r}",
                    "the sum is the other operand alone: this branch is computed and changes nothing",
                )
        coarse = min(sources, key=lambda source: source[1])
        if coarse[1] > _COARSE * step:
            yield Found(
                place(operator, tensor=output),
                f"one step of the operands of {output.name!r} is {coarse[1] / step:.0f} steps of the result: large "
                "numbers cancel",
                "the result is the rounding error of its operands",
            )


LOST_IN_SUM = Rule(
    "lost-in-sum",
    Severity.WARNING,
    "a sum in which an operand vanishes, or in which large numbers cancel",
    "Every int8 tensor has 256 levels. When one operand of an Add has a range thousands of times that of the other, "
    "the small one never reaches half a step of the sum. When two large operands cancel, the result has the steps "
    "of the large ones.",
    "keep this sum in fp16 (hybrid quantization), or rewrite it so that the difference is taken before the numbers "
    "grow (a scale in front of both operands)",
    "toolkit 2.5.0: Add(a, b) with b = -a + noise, a a thousand times the noise: 0 dB, in the simulator too",
    _lost_in_sum,
)


_DECISION = 0.5 * (1 + 1e-3)
_MAP_RANK = 4
_BOXES = ("reg", "box", "loc", "kps", "landmark")
"""In the names of outputs that are no scores."""
_MOVES = ("Reshape", "Transpose", "Concat", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Split")
_NEVER_POSITIVE = ("Log", "Neg", "ReduceMin")
_WHY = "detectors and classifiers take what is above 50 %: this one finds nothing and reports no error"


def _cannot_decide(context: LintContext) -> Iterator[Found]:
    for tensor in context.outputs:
        limits = limits_of(tensor)
        if limits is None:
            continue
        sources = list(_sources(context, tensor))
        where = place(sources[0], tensor=tensor) if sources else Where(tensor=tensor.name)
        largest = max(limits)
        if _all_are(sources, "Sigmoid") and largest <= _DECISION:
            yield Found(
                where,
                f"{tensor.name!r} comes from a Sigmoid and can hold {largest:.3g} at most: no score can exceed 50 %",
                _WHY,
            )
        elif largest <= 0 and not any(word in source.type for source in sources for word in _NEVER_POSITIVE):
            yield Found(
                where,
                f"{tensor.name!r} can hold nothing above {largest:.3g} (its zero point is the largest byte)",
                f"if these are scores before a sigmoid, none can exceed 50 %; {_WHY}",
                CANNOT_DECIDE.severity if _is_map(tensor) else Severity.NOTE,
            )


def _is_map(tensor: Tensor) -> bool:
    """A map of scores, as the heads of detectors are; a row of them is mostly searched for its largest."""
    if any(word in tensor.name.lower() for word in _BOXES):
        return False
    return len(tensor.shape) == _MAP_RANK and tensor.shape[2] * tensor.shape[3] > 1


def _all_are(sources: list[Operator], word: str) -> bool:
    return bool(sources) and all(word in source.type and "Hard" not in source.type for source in sources)


def _sources(context: LintContext, tensor: Tensor) -> Iterator[Operator]:
    """The operators that compute a tensor, through those that only move data."""
    waiting, seen = [tensor], {tensor.name}
    while waiting:
        maker = context.makers.get(waiting.pop().name)
        if maker is None:
            continue
        if not maker.type.startswith(_MOVES):
            yield maker
            continue
        for source in maker.inputs:
            if source.kind.is_activation and source.name not in seen:
                seen.add(source.name)
                waiting.append(source)


CANNOT_DECIDE = Rule(
    "cannot-decide",
    Severity.WARNING,
    "an int8 output cannot cross the point at which programs decide",
    "The range of an int8 output follows from its scale and zero point, which calibration chose. With pictures "
    "without objects, a class head gets the zero point 127: it can hold numbers up to 0 only, and the sigmoid of 0 is "
    "50 %.",
    "calibrate with pictures in which the classes appear (some hundred, preprocessed as in training), or keep the last "
    "layers in fp16 (hybrid quantization)",
    "toolkit 2.5.0 and openrknn compile: a convolution with a bias of -9, with and without a sigmoid behind it",
    _cannot_decide,
)


def _operand_format(context: LintContext) -> Iterator[Found]:
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
        yield Found(
            place(work.operator, step, access, tensor),
            f"{work.operator.type} reads {each} bytes a channel of {tensor.name!r}, which has one",
            "several numbers of 8 bits are taken for one: the result is nonsense, often the largest number everywhere",
        )


OPERAND_FORMAT = Rule(
    "operand-format",
    Severity.ERROR,
    "a constant per channel is read in another number format than it is stored in",
    "A constant with one number per channel goes to the stages BS or BN, which read 32 bits a channel (16 for "
    "factors). The constant must be stored so; the converter sometimes leaves it as int8.",
    "repeat the constant in the ONNX to the shape of the other operand, so that it is read element by element, or keep "
    "this operator in fp16 (hybrid quantization)",
    "toolkit 2.5.0: Max(x, constant of [1, C, 1, 1]) in int8 on RK3566 and RV1106; RK3588 is right, where EW reads it. "
    "On RK3588, Sub(Gemm, ReduceMean): the mean, spread over the channels as int8, is read so",
    _operand_format,
)
