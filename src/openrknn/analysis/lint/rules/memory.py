"""What tasks do to memory: reads in another layout, before a tensor is written, after it is overwritten, beyond it."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Found, LintContext, Rule, place
from openrknn.analysis.lint.finding import Severity, Where
from openrknn.analysis.lint.history import NOBODY, History, is_scratch
from openrknn.analysis.lint.program import Decoded, Work
from openrknn.container.parts import Kind, Layout, Tensor
from openrknn.npu.accesses import Access

_NATIVE_RANK = 5
_PACKED = (
    "pixels are packed, {pixel} bytes each, and the unit takes {atom} bytes for each: from the second pixel on it "
    "computes with other pixels, and near the end with memory behind the picture; the simulator does not show it"
)


def is_picture(tensor: Tensor, atom_bytes: int) -> bool:
    """Whether the pixels of a tensor lie packed: [N, 1, H, W, C] with fewer bytes than an atom has."""
    native = tensor.native_shape
    if tensor.layout is not Layout.NC1HWC2 or len(native) != _NATIVE_RANK or not tensor.row_alignment:
        return False
    return native[1] == 1 and native[-1] * tensor.dtype.bits // 8 < atom_bytes


def _is_wrong(access: Access, tensor: Tensor, atom_bytes: int) -> bool:
    """Only reads of the whole pixel count; a single pixel is the same in both layouts."""
    _, rows, columns, _ = access.shape
    reads_atoms = not access.is_picture and access.channels > 0
    return reads_atoms and rows * columns > 1 and access.steps[2] == atom_bytes and is_picture(tensor, atom_bytes)


def _layout_mismatch(context: LintContext) -> Iterator[Found]:
    decoded, atom = context.decoded, context.model.chip.atom_bytes
    if decoded is None:
        return
    told = set()
    for work, step, access in context.accesses():
        region = decoded.region_at(access.first)
        tensor = region.tensor if region is not None else None
        if access.writes or tensor is None or not tensor.kind.is_activation:
            continue
        if _is_wrong(access, tensor, atom) and (work.operator.index, tensor.name) not in told:
            told.add((work.operator.index, tensor.name))
            pixel = tensor.native_shape[-1] * tensor.dtype.bits // 8
            yield Found(
                place(work.operator, step, access, tensor),
                f"{work.operator.type} reads the picture {tensor.name!r} {list(tensor.shape)} as a feature map",
                _PACKED.format(pixel=pixel, atom=atom),
            )


LAYOUT_MISMATCH = Rule(
    "layout-mismatch",
    Severity.ERROR,
    "a tensor is read in another layout than it was written in",
    "An input of 1, 3 or 4 channels is stored as a picture, pixel behind pixel. Only the first unit of a convolution "
    "can read that. A residual Add or Mul whose operand is the network's input reads it through ERDMA, which knows "
    "feature maps only. The converter inserts a copying convolution on RK3588; on RK3562 and RV1106 it forgets it "
    "where the operation is fused into a convolution.",
    "put a 1x1 convolution with the identity as its weights between the input and this operator, which then reads a "
    "copy (a second input of the same shape does not help: it is a picture too)",
    "toolkit 2.5.0, RK3562 (int8 and fp16) and RV1106: Mul(Conv(x), x) with three channels: -1.5 dB, and "
    "66.8 dB with the convolution in between",
    _layout_mismatch,
)


_LOOPS = ("GRU", "LSTM", "RNN")
"""The runtime feeds the tasks of recurrent layers row by row, at addresses that it makes up itself."""


def _never_written(context: LintContext) -> Iterator[Found]:
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
            yield Found(
                place(seen.work.operator, seen.step, seen.access, tensor),
                f"{seen.work.operator.type} reads {tensor.name!r}, which is not written before: {who}{stale}",
                "the result is computed from whatever is in memory, zeros at first and the last run's data later",
            )
    for tensor in history.unwritten:
        yield Found(
            Where(tensor=tensor.name),
            f"no task and no operator writes the output {tensor.name!r}",
            "the application gets whatever is in memory",
        )


NEVER_WRITTEN = Rule(
    "never-written",
    Severity.ERROR,
    "a tensor is read although no task has written it",
    "The tasks are followed in their order, and every byte remembers who wrote it. A read that finds not one byte of "
    "the operator that should have made the tensor computes with rubbish. The converter leaves an operator without "
    "tasks, for example the convolution that turns the input of a lone Softmax into fp16 on RV1106.",
    "convert again with another toolkit; or change the network so that another operator makes this tensor (a 1x1 "
    "convolution with the identity as its weights in front of this one)",
    "toolkit 2.5.0, RV1106 int8: a network that is one Softmax over the channels of [1, 64, 7, 7]",
    _never_written,
)


def _overwritten(context: LintContext) -> Iterator[Found]:
    types = {operator.index + 1: f"#{operator.index} {operator.type}" for operator in context.operators}
    told = set()
    for seen in context.reads:
        if seen.overwritten_by is None or seen.tensor is None or seen.tensor.name in told:
            continue
        told.add(seen.tensor.name)
        yield Found(
            place(seen.work.operator, seen.step, seen.access, seen.tensor),
            f"{types.get(seen.overwritten_by, 'the application')} writes over {seen.tensor.name!r} before "
            f"#{seen.work.operator.index} {seen.work.operator.type} reads it",
            "the two tensors share memory while both are needed: the reader computes with the wrong one",
        )


OVERWRITTEN = Rule(
    "overwritten",
    Severity.ERROR,
    "a tensor is overwritten while somebody still needs it",
    "The compiler gives tensors the same memory when it believes that they are never needed at the same time. Every "
    "byte remembers its last two writers: a reader that finds another operator's data where the maker's had been was "
    "robbed.",
    "convert again with another toolkit; or make the tensor an output of the network, so that it gets memory of its "
    "own",
    "none of 1,100 files of the vendor's converter has it; the test moves a tensor in a file",
    _overwritten,
)


_SLACK_BYTES = 256
"""Tasks that copy in blocks take the tail of the last block along and drop it later: up to 96 bytes in 1,000 files."""
_CONSTANT_ALIGNMENT = 64
_MINI_FORMAT = 0
"""Mini files give sizes without the channels that only fill an atom: how much is reserved is not known."""
_SHORT_OUTPUTS = {"rv1106", "rv1106b"}
"""Families whose files give the sizes of outputs without spare channels too; the runtime reserves more."""


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


def _reads_of_parts(context: LintContext) -> set[tuple[int, str]]:
    """Reads (task, register) of a tensor that is a part of another one and that no operator makes.

    A Gather or Slice may be done by address alone: the reader steps with the strides of the whole tensor, beyond the
    size of the part. It is in bounds if all that it finds there is of the operator that makes the whole.
    """
    history = context.history
    return {
        (seen.step.task, seen.access.register)
        for seen in context.reads
        if history is not None and seen.tensor is not None and seen.tensor.name not in context.makers
        and seen.labels <= history.makers(seen.tensor)
    }  # fmt: skip


def _out_of_bounds(context: LintContext) -> Iterator[Found]:
    decoded, atom = context.decoded, context.model.chip.atom_bytes
    if decoded is None or context.model.format_version == _MINI_FORMAT:
        return
    told = set()
    of_parts = _reads_of_parts(context)
    for work, step, access in context.accesses():
        if not access.exact:
            continue
        surplus, tensor = _surplus(decoded, work, access)
        # A picture that is read as a feature map is reported as that.
        misread = tensor is not None and not access.writes and is_picture(tensor, atom)
        unknown = tensor is not None and tensor.kind is Kind.OUTPUT and context.model.chip.family in _SHORT_OUTPUTS
        key = (work.operator.index, access.unit)
        is_part = not access.writes and (step.task, access.register) in of_parts
        if not surplus or misread or unknown or is_part or key in told:
            continue
        told.add(key)
        name = tensor.name if tensor is not None else "internal memory"
        verb = "writes" if access.writes else "reads"
        yield Found(
            place(work.operator, step, access, tensor),
            f"{work.operator.type} {verb} {surplus} bytes behind the end of {name!r}",
            "it overwrites other data, or the kernel stops the NPU with a page fault"
            if access.writes
            else "the result depends on other tensors or on data of the previous run",
        )


OUT_OF_BOUNDS = Rule(
    "out-of-bounds",
    Severity.ERROR,
    "a task reads or writes behind the end of its tensor",
    "Each address register names a tensor, and sizes and strides say how far the unit goes from there. Up to "
    f"{_SLACK_BYTES} bytes behind an activation are tolerated: tasks that copy in blocks take a tail along.",
    "convert again with another toolkit, or change the shape of this layer (channels to a multiple of 32)",
    "toolkit 2.5.0, PP-OCRv4 detection: an Add reads 32 bytes behind its bias, for channels that only fill an atom "
    "(harmless, and not reported)",
    _out_of_bounds,
)
