"""Inputs that the CPU has to rearrange in every run."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.analysis.lint.rules.layout import is_picture
from openrknn.container.parts import Layout

__all__ = ["RULE"]

_LARGE_BYTES = 256 * 1024
_CHANGE = (
    "feed the native layout (pass_through, or rknn_set_io_mem with the native attributes) if the data come from a "
    "program of yours; otherwise nothing"
)


def _check(context: Context) -> Iterator[Finding]:
    for index in context.graph.inputs:
        tensor = context.graph.tensors[index]
        if tensor.layout is not Layout.NC1HWC2 or is_picture(tensor, context.model.chip.atom_bytes):
            continue
        if tensor.size_bytes >= _LARGE_BYTES:
            yield Finding(
                RULE.code,
                RULE.severity,
                Where(tensor=tensor.name),
                f"the {tensor.size_bytes / 1e6:.2g} MB of {tensor.name!r} {list(tensor.shape)} are rearranged each run",
                "the NPU wants NC1HWC2; the runtime converts NCHW or NHWC on the CPU before it starts",
                _CHANGE,
            )


RULE = Rule(
    "input-rearranged",
    Severity.NOTE,
    "a large input is rearranged by the CPU before each run",
    "Pictures of 1, 3 or 4 channels are read as they are. Other inputs are brought into blocks of channels first.",
    _CHANGE,
    f"any network whose first input has 5 channels or more and {_LARGE_BYTES // 1024} KiB",
    _check,
)
