"""Channels of a convolution that can have one value only, whatever comes in.

The smallest and the largest sum that int8 inputs can make follow from the weights; both go through the stages behind
the array. All of these are monotone, so a channel whose two ends become the same byte is constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from openrknn.analysis.lint.context import Found, LintContext, Rule, place
from openrknn.analysis.lint.finding import Severity
from openrknn.analysis.lint.program import Decoded, Work
from openrknn.container.parts import Kind
from openrknn.errors import RknnError
from openrknn.isa import Precision
from openrknn.npu.blocks import cna, core, rdma
from openrknn.npu.blocks.dpu import out_cvt
from openrknn.npu.blocks.dpu.stage import apply_bn, apply_bs
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.task import Convolution

_LISTED = 6


class _Count(NamedTuple):
    work: Work
    constant: int
    channels: int


def _constant_channels(context: LintContext) -> Iterator[Found]:
    if context.decoded is None:
        return
    counts = [count for work in context.works if (count := _count(context.decoded, work)) is not None]
    found = [count for count in counts if count.constant]
    for count in found:
        outputs = count.work.operator.outputs
        if count.constant == count.channels and count.channels > 1:
            is_output = outputs[0].kind is Kind.OUTPUT
            yield Found(
                place(count.work.operator, tensor=outputs[0]),
                f"all {count.channels} channels of {outputs[0].name!r} are constant",
                "whatever comes in, the answer is the same" if is_output else "the part before it does nothing",
                Severity.ERROR if is_output else Severity.WARNING,
                "look for a wrong range in calibration: feed data like those of the training, preprocessed as there",
            )
    some = [count for count in found if count.constant < count.channels]
    if some:
        total, channels = sum(count.constant for count in some), sum(count.channels for count in counts)
        names = ", ".join(
            f"#{count.work.operator.index} {count.constant} of {count.channels}"
            for count in sorted(some, key=lambda count: -count.constant)[:_LISTED]
        )
        yield Found(
            place(some[0].work.operator),
            f"{total} of {channels} channels are constant: {names}{', ...' if len(some) > _LISTED else ''}",
            "they are computed and stored in every run, and carry no information",
            Severity.NOTE,
        )


def _count(decoded: Decoded, work: Work) -> _Count | None:
    """Of the convolutions of one operator; None where nothing can be said."""
    operator = work.operator
    if not operator.type.startswith("Conv") or not operator.outputs:
        return None  # the convolutions inside a softmax and the like are the compiler's own
    if len(operator.outputs[0].shape) < 2:
        return None
    flags: dict[int, Numbers] = {}
    for step in work.steps:
        if isinstance(step, Convolution) and _is_plain(step) and step.source.weight_address not in flags:
            try:
                flags[step.source.weight_address] = _constant(step, decoded)
            except RknnError:
                return None
    if not flags:
        return None
    channels = operator.outputs[0].shape[1]
    together = np.concatenate(list(flags.values()))[:channels]
    return _Count(work, int(together.sum()), len(together)) if len(together) == channels else None


def _is_plain(step: Convolution) -> bool:
    """int8 all the way, and nothing behind the stages that memory decides."""
    stages = step.dpu
    return (
        step.source.weight_precision is Precision.INT8
        and stages.out.precision is Precision.INT8
        and stages.element_wise is None
        and not stages.reduction
    )


def _constant(step: Convolution, decoded: Decoded) -> Numbers:
    """Whether each channel of a task is constant."""
    dpu, memory = step.dpu, decoded.memory
    weights = cna.fetch_weights(step.source, memory).astype(np.int64)
    flat = weights.reshape(len(weights), -1)
    operands = rdma.ChannelOperands()
    if step.reader is not None:
        operands = rdma.fetch_channels(step.reader, dpu.channels, dpu.precision, memory, norm=False)
    count = min(len(flat), dpu.real_channels)
    if dpu.correction is not None and step.array.window_sums:
        given = dpu.correction.operand
        points = operands.cpend if given is None else np.full(count, given, np.int64)
        if points is None:
            return np.zeros(count, bool)
        flat = flat[:count] + points[:count, None]
    high = np.maximum(flat[:count] * 127, flat[:count] * -128).sum(1)
    low = np.minimum(flat[:count] * 127, flat[:count] * -128).sum(1)
    ends = np.zeros((dpu.channels, 1, 2), np.int64)
    ends[:count, 0] = np.stack([low, high], 1)
    values = apply_bs(core.truncate(ends, step.array), dpu.bias, operands)
    norm = rdma.ChannelOperands()
    if step.reader is not None:
        norm = rdma.fetch_channels(step.reader, dpu.channels, dpu.precision, memory, norm=True)
    answer = np.clip(out_cvt.apply(apply_bn(values, dpu.norm, norm), dpu.out), -128, 127)
    same: Numbers = answer[:count, 0, 0] == answer[:count, 0, 1]
    return same


CONSTANT_CHANNELS = Rule(
    "constant-channels",
    Severity.ERROR,
    "channels that have one value only, whatever comes in",
    "For every int8 convolution the smallest and the largest sum of each channel are computed from its weights and "
    "followed through bias, scale, clamp and output converter. If both ends give the same byte, no input can change "
    "the channel: its weights are 0, its bias saturates it, or a ReLU never opens. A few such channels are common in "
    "trained networks (a note); all channels of an output are an error.",
    "if the float network has such channels too, prune them (they cost time and do nothing); if it has not, calibrate "
    "with data like those of the training, preprocessed as there",
    "toolkit 2.5.0: a convolution with a kernel of zeros and a bias of -60 under a ReLU",
    _constant_channels,
)
