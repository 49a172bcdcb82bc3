"""Tensors that are overwritten before their last reader."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity

__all__ = ["RULE"]

_CHANGE = (
    "convert again with another toolkit; or make the tensor an output of the network, so that it gets memory of its own"
)


def _check(context: Context) -> Iterator[Finding]:
    types = {operator.index + 1: f"#{operator.index} {operator.type}" for operator in context.operators}
    told = set()
    for seen in context.reads:
        if seen.overwritten_by is None or seen.tensor is None or seen.tensor.name in told:
            continue
        told.add(seen.tensor.name)
        yield Finding(
            RULE.code,
            RULE.severity,
            place(seen.work.operator, seen.step, seen.access, seen.tensor),
            f"{types.get(seen.overwritten_by, 'the application')} writes over {seen.tensor.name!r} before "
            f"#{seen.work.operator.index} {seen.work.operator.type} reads it",
            "the two tensors share memory while both are needed: the reader computes with the wrong one",
            _CHANGE,
        )


RULE = Rule(
    "overwritten",
    Severity.ERROR,
    "a tensor is overwritten while somebody still needs it",
    "The compiler gives tensors the same memory when it believes that they are never needed at the same time. Every "
    "byte remembers its last two writers: a reader that finds another operator's data where the maker's had been was "
    "robbed.",
    _CHANGE,
    "none of 1,100 files of the vendor's converter has it; the test moves a tensor in a file",
    _check,
)
