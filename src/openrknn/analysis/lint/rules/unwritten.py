"""Tensors that are read before they are written."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.analysis.lint.history import NOBODY, History

__all__ = ["RULE"]

_LOOPS = ("GRU", "LSTM", "RNN")
"""The runtime feeds the tasks of recurrent layers row by row, at addresses that it makes up itself."""
_CHANGE = (
    "convert again with another toolkit; or change the network so that another operator makes this tensor (a 1x1 "
    "convolution with the identity as its weights in front of this one)"
)


def _check(context: Context) -> Iterator[Finding]:
    history = context.history
    if history is None or any(word in operator.type for operator in context.operators for word in _LOOPS):
        return
    told = set()
    for seen in context.reads:
        tensor = seen.tensor
        if tensor is None or tensor.name in told:
            continue
        if seen.labels.isdisjoint(history.makers(tensor) | {History.label(seen.work)}):
            told.add(tensor.name)
            maker = context.makers.get(tensor.name)
            who = "no operator makes it" if maker is None else f"#{maker.index} {maker.type} should make it and "
            if maker is not None:
                who += "writes elsewhere" if maker.tasks else "has no task"
            stale = "" if seen.labels == {NOBODY} else "; other operators have left their data there"
            yield Finding(
                RULE.code,
                RULE.severity,
                place(seen.work.operator, seen.step, seen.access, tensor),
                f"{seen.work.operator.type} reads {tensor.name!r}, which is not written before: {who}{stale}",
                "the result is computed from whatever is in memory, zeros at first and the last run's data later",
                _CHANGE,
            )
    for tensor in history.unwritten:
        yield Finding(
            RULE.code,
            RULE.severity,
            Where(tensor=tensor.name),
            f"no task and no operator writes the output {tensor.name!r}",
            "the application gets whatever is in memory",
            _CHANGE,
        )


RULE = Rule(
    "never-written",
    Severity.ERROR,
    "a tensor is read although no task has written it",
    "The tasks are followed in their order, and every byte remembers who wrote it. A read that finds not one byte of "
    "the operator that should have made the tensor computes with rubbish. The converter leaves an operator without "
    "tasks, for example the convolution that turns the input of a lone Softmax into fp16 on RV1106.",
    _CHANGE,
    "toolkit 2.5.0, RV1106 int8: a network that is one Softmax over the channels of [1, 64, 7, 7]",
    _check,
)
