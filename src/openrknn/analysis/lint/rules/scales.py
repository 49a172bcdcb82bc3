"""Sums whose operands have steps that do not go together with the step of the sum."""

from __future__ import annotations

import re
from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place, scale_of
from openrknn.analysis.lint.finding import Finding, Severity

__all__ = ["RULE"]

_SUM = re.compile(r"^(Add|Sub)(Relu)?$")
_LEVELS = 255
_COARSE = 8
_CHANGE = (
    "keep this sum in fp16 (hybrid quantization), or rewrite it so that the difference is taken before the numbers "
    "grow (a scale in front of both operands)"
)


def _check(context: Context) -> Iterator[Finding]:
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
                yield Finding(
                    RULE.code,
                    RULE.severity,
                    place(operator, tensor=tensor),
                    f"all values of {tensor.name!r} together are {scale * _LEVELS / step:.2g} steps of the sum "
                    f"{output.name!r}",
                    "the sum is the other operand alone: this branch is computed and changes nothing",
                    _CHANGE,
                )
        coarse = min(sources, key=lambda source: source[1])
        if coarse[1] > _COARSE * step:
            yield Finding(
                RULE.code,
                RULE.severity,
                place(operator, tensor=output),
                f"one step of the operands of {output.name!r} is {coarse[1] / step:.0f} steps of the result: large "
                "numbers cancel",
                "the result is the rounding error of its operands",
                _CHANGE,
            )


RULE = Rule(
    "lost-in-sum",
    Severity.WARNING,
    "a sum in which an operand vanishes, or in which large numbers cancel",
    "Every int8 tensor has 256 levels. When one operand of an Add has a range thousands of times that of the other, "
    "the small one never reaches half a step of the sum. When two large operands cancel, the result has the steps "
    "of the large ones.",
    _CHANGE,
    "toolkit 2.5.0: Add(a, b) with b = -a + noise, a a thousand times the noise: 0 dB, in the simulator too",
    _check,
)
