"""What operators of the CPU between those of the NPU cost."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity
from openrknn.analysis.lint.program import Work

__all__ = ["RULE"]

_CHANGE = (
    "write these operators with others that the NPU has (docs/operators.md lists them), or move them to the end of the "
    "network and cut it there"
)


def _check(context: Context) -> Iterator[Finding]:
    works = context.works
    busy = [number for number, work in enumerate(works) if work.on_npu]
    if not busy:
        return
    between = [work for work in works[busy[0] : busy[-1]] if not work.on_npu]
    if not between:
        return
    stops = sum(works[n].on_npu and not works[n + 1].on_npu for n in range(busy[0], busy[-1]))
    size = sum(map(_bytes, between))
    yield Finding(
        RULE.code,
        RULE.severity,
        place(between[0].operator),
        f"the NPU stops {stops} times for {len(between)} operators of the CPU in its midst, which convert "
        f"{size / 1e6:.2g} MB a run",
        "each stop costs a job of its own and the conversion of layouts and types; several cores cannot share the run",
        _CHANGE,
    )


def _bytes(work: Work) -> int:
    tensors = {tensor.name: tensor for tensor in (*work.operator.inputs, *work.operator.outputs)}
    return sum(tensor.size_bytes for tensor in tensors.values() if tensor.kind.is_activation)


RULE = Rule(
    "cpu-island",
    Severity.NOTE,
    "the NPU waits for operators of the CPU in the middle of the network",
    "Operators that the NPU cannot do run on the CPU. Between two parts of the NPU that costs twice: the data are "
    "converted to the plain layout and back, and the NPU gets a second job.",
    _CHANGE,
    "toolkit 2.5.0: Sin or Min between two convolutions",
    _check,
)
