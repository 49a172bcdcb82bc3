"""Reads and writes that leave their tensor."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity
from openrknn.analysis.lint.history import is_scratch
from openrknn.analysis.lint.program import Decoded, Work
from openrknn.analysis.lint.rules.layout import is_picture
from openrknn.container.parts import Kind, Tensor
from openrknn.npu.accesses import Access

__all__ = ["RULE"]

_SLACK_BYTES = 256
"""Tasks that copy in blocks take the tail of the last block along and drop it later: up to 96 bytes in 1,000 files."""
_CONSTANT_ALIGNMENT = 64
_MINI_FORMAT = 0
"""Mini files give sizes without the channels that only fill an atom: how much is reserved is not known."""
_SHORT_OUTPUTS = {"rv1106", "rv1106b"}
"""Families whose files give the sizes of outputs without spare channels too; the runtime reserves more."""
_CHANGE = "convert again with another toolkit, or change the shape of this layer (channels to a multiple of 32)"


def _needed_end(access: Access, work: Work) -> int:
    """Operands of channels that are only there to fill an atom do not count."""
    outputs = work.operator.outputs
    if not access.is_per_channel or not outputs or len(outputs[0].shape) < 2:
        return access.end
    each = access.shape[3] // access.channels
    return access.address + each * min(access.channels, outputs[0].shape[1])


def _surplus(decoded: Decoded, work: Work, access: Access) -> tuple[int, Tensor | None]:
    """Bytes behind the tensor in which an access begins, and that tensor."""
    region = decoded.region_at(access.first)
    if region is None or access.first >= region.end:
        return 0, None  # addresses that no relocation gave: nothing is known about them
    if region != decoded.internal:
        is_constant = region.tensor is not None and not region.tensor.kind.is_activation
        slack = -region.size_bytes % _CONSTANT_ALIGNMENT if is_constant else _SLACK_BYTES
        return max(_needed_end(access, work) - region.end - slack, 0), region.tensor
    among = (*work.operator.outputs, *work.operator.inputs) if access.writes else work.operator.inputs
    tensor = decoded.tensor_at(access.first, among)
    if tensor is None or is_scratch(tensor):
        return max(access.end - region.end - _SLACK_BYTES, 0), tensor
    return max(access.end - decoded.places[tensor.name] - tensor.size_bytes - _SLACK_BYTES, 0), tensor


def _check(context: Context) -> Iterator[Finding]:
    decoded, atom = context.decoded, context.model.chip.atom_bytes
    if decoded is None or context.model.format_version == _MINI_FORMAT:
        return
    told = set()
    for work, step, access in context.accesses():
        if not access.exact:
            continue
        surplus, tensor = _surplus(decoded, work, access)
        # A picture that is read as a feature map is reported as that.
        misread = tensor is not None and not access.writes and is_picture(tensor, atom)
        unknown = tensor is not None and tensor.kind is Kind.OUTPUT and context.model.chip.family in _SHORT_OUTPUTS
        key = (work.operator.index, access.unit)
        if not surplus or misread or unknown or key in told:
            continue
        told.add(key)
        name = tensor.name if tensor is not None else "internal memory"
        verb = "writes" if access.writes else "reads"
        yield Finding(
            RULE.code,
            RULE.severity,
            place(work.operator, step, access, tensor),
            f"{work.operator.type} {verb} {surplus} bytes behind the end of {name!r}",
            "it destroys what lies there, or the kernel stops the NPU with a page fault"
            if access.writes
            else "the result depends on whatever lies there: other tensors, or the last run's data",
            _CHANGE,
        )


RULE = Rule(
    "out-of-bounds",
    Severity.ERROR,
    "a task reads or writes behind the end of its tensor",
    "Each address register names a tensor, and sizes and strides say how far the unit goes from there. Up to "
    f"{_SLACK_BYTES} bytes behind an activation are tolerated: tasks that copy in blocks take a tail along.",
    _CHANGE,
    "toolkit 2.5.0, PP-OCRv4 detection: an Add reads 32 bytes behind its bias, for channels that only fill an atom "
    "(harmless, and not reported)",
    _check,
)
