"""Integer programs of the DPU as chains of double-precision steps, where that is proved to be exact.

A double holds every integer up to 2^53, and a product with m / 2^n is exact as long as it needs no more bits. So each
stage is one multiplication and one addition that rounds to the nearest integer, ties to even. `build` follows the
range of the numbers through the stages; a program that could leave the safe range has no chain.

Clamps are moved to the end where only rising (or falling) functions follow: g(min(max(x, a), b)) is between g(a) and
g(b). What comes after a lookup table is part of the table.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.isa.enums import EwAlgorithm, OperandMode
from openrknn.nativelib.structures import Chain, ChainFlags
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.native import singles, table
from openrknn.npu.native.places import Places, padded
from openrknn.npu.native.program import Task, ignore_unused
from openrknn.npu.native.reading import ignore, whole
from openrknn.records import dataclass
from openrknn.task import ew
from openrknn.task import out_cvt as task_out_cvt
from openrknn.task.stage import Clamp, Stage

_MAGIC = 3 * 2**51
_EXACT = 2**53
_ROUNDS = 2**51
_INT32 = 2**31
_FAR = 2**24
"""Beyond this an int8 result is saturated for certain."""
_LARGEST_OFFSET = 2**14
_INT8 = 128
_MONOTONE = {EwAlgorithm.MAX, EwAlgorithm.MIN, EwAlgorithm.ADD, EwAlgorithm.MINUS}


class _NoChainError(Exception):
    """The program does not fit."""


@dataclass
class _Range:
    """The numbers that are possible at a place of the program, and what clamps on the way would leave of them."""

    limit: int
    """No number is larger in magnitude, with clamps or without."""
    low: int
    high: int

    @property
    def is_clamped(self) -> bool:
        return (self.low, self.high) != (-self.limit, self.limit)

    def clamp(self, clamp: Clamp | None) -> None:
        if clamp is None:
            return
        if clamp.below is not None:
            raise _NoChainError
        ends = [self.low, self.high]
        if clamp.lower is not None:
            ends = [max(end, int(clamp.lower)) for end in ends]
        if clamp.upper is not None:
            ends = [min(end, int(clamp.upper)) for end in ends]
        self.low, self.high = ends
        self.limit = max(self.limit, *map(abs, ends))  # a clamp can move numbers away from zero

    def scale(self, factor: int, addend: int, shift: int) -> None:
        """x = (x * factor + addend) >> shift"""
        exact = _bounded(self.limit * abs(factor) + abs(addend), _EXACT)
        limit = _bounded((exact >> shift) + 1, _ROUNDS)
        ends = sorted(numerics.shift_number(end * factor + addend, shift) for end in (self.low, self.high))
        self.low, self.high = ends if self.is_clamped else (-limit, limit)
        self.limit = limit


def _bounded(limit: int, highest: int) -> int:
    if limit >= highest:
        raise _NoChainError
    return limit


def build(task: Task, limit: int, places: Places, cache: table.Cache) -> Chain:
    """The chain for sums of magnitude up to `limit`; without flags where there is none."""
    chain = Chain()
    try:
        if task.is_float or task.precision is not Precision.INT8 or task.config.write.packed_bytes is not None:
            raise _NoChainError
        numbers, facts = _Range(limit, -limit, limit), singles.Facts()
        flags = ChainFlags.CHAIN | _bias(chain, task, numbers, places, facts) | _norm(chain, task, numbers, facts)
        config = task.config.element_wise
        operation = config.operation if config is not None else None
        if config is not None and operation is not None and operation.operand is None:
            if config.table is not None:
                raise _NoChainError
            flags |= _middle(chain, numbers, facts) | _operation(chain, task, operation, numbers, facts)
        elif config is not None and (config.table is not None or operation is not None):
            found = _table(whole(task.config.out), whole(config), numbers, cache)
            chain.table, chain.table_shift = places.keep(found.entries), found.shift
            chain.table_low, chain.table_high = found.low, found.high
            facts.table = found
            flags |= ChainFlags.TABLE
        if not flags & ChainFlags.TABLE:
            if config is not None:
                numbers.clamp(config.clamp)
            flags |= _out(chain, task.config.out, numbers)
            facts.out = task.config.out.scale, task.config.out.shift, task.config.out.offset
    except (_NoChainError, table.TooLongError):
        return Chain()
    chain.flags = int(flags | _single(chain, facts, places, cache))
    return chain


def _single(chain: Chain, facts: singles.Facts, places: Places, cache: table.Cache) -> ChainFlags:
    """What kernels need to do the same in single precision."""
    if not cache.has_singles:
        return ChainFlags(0)
    found = None if facts.table is None else cache.bytes_of(facts.table, facts.norm)
    flags, chain.sum_limit = singles.flags_of(facts, found)
    if flags & ChainFlags.SINGLE_NORM and facts.table is not None:
        found = cache.bytes_of(facts.table, None)
    if flags and found is not None:
        chain.byte_table, chain.byte_table_low = places.keep(found.values), found.low
        chain.byte_table_last = len(found.values) - 1
    return flags


# ---------------------------------------------------------------------------------------------------- stages


def _refuse_float(stage: Stage | None) -> None:
    """A stage of floats does not shift. Without a sum it has no use for an addend."""
    if stage is not None and stage.is_float:
        raise _NoChainError
    if stage is not None and not stage.adds:
        ignore(stage, "addend", "subtracts")


def _shift(stage: Stage) -> int:
    if stage.scaling is None:
        return 0
    if stage.scaling.negative_only or stage.scaling.shift != stage.scaling.shift_negative:
        raise _NoChainError
    return stage.scaling.shift


def _values(values: Numbers | None, given: float | None, channels: int) -> npt.NDArray[np.int64]:
    if given is not None:
        return np.full(channels, int(given), np.int64)
    if values is None or len(values) < channels:
        raise _NoChainError
    found: npt.NDArray[np.int64] = values[:channels]
    return found


def _largest(values: npt.NDArray[np.int64]) -> int:
    return int(np.abs(values).max(initial=0))


def _bias(chain: Chain, task: Task, numbers: _Range, places: Places, facts: singles.Facts) -> ChainFlags:
    """BS: sums and addends in 32 bits, then the scale of each channel."""
    stage, channels = task.config.bias, task.config.channels
    addends = np.zeros(channels, np.int64)
    ignore(stage, "adds_first")
    _refuse_float(stage)
    if stage is not None and stage.adds:
        addends = _values(task.bias.alu, stage.addend, channels)
        addends = -addends if stage.subtracts else addends
    limit = _bounded(numbers.limit + _largest(addends), _INT32)
    chain.addends = places.keep(padded(addends, np.int32, task.padded_channels))
    facts.limit = limit
    flags = ChainFlags(0)
    if stage is not None and stage.scaling is not None:
        shift, factors = _shift(stage), _values(task.bias.mul, stage.scaling.operand, channels)
        _bounded(limit * _largest(factors), _EXACT)
        limit = _bounded((limit * _largest(factors) >> shift) + 1, _ROUNDS)
        facts.factors, facts.shift = factors, shift
        scales = np.ldexp(factors.astype(np.float64), -shift)
        chain.scales = places.keep(padded(scales, np.float64, task.padded_channels))
        flags = ChainFlags.SCALE
    numbers.limit, numbers.low, numbers.high = limit, -limit, limit
    numbers.clamp(stage.clamp if stage is not None else None)
    return flags


def _norm(chain: Chain, task: Task, numbers: _Range, facts: singles.Facts) -> ChainFlags:
    """BN with one multiplier and one addend for all channels."""
    stage, channels = task.config.norm, task.config.channels
    if stage is None:
        return ChainFlags(0)
    _refuse_float(stage)
    if stage.adds_first and stage.adds:
        raise _NoChainError
    flags = ChainFlags(0)
    if stage.adds or stage.scaling is not None:
        addends = _values(task.norm.alu, stage.addend if stage.adds else 0, channels)
        factors = _values(task.norm.mul, 1 if stage.scaling is None else stage.scaling.operand, channels)
        if np.ptp(addends) or np.ptp(factors):
            raise _NoChainError
        shift, factor = _shift(stage), int(factors[0])
        addend = -int(addends[0]) if stage.subtracts else int(addends[0])
        numbers.scale(factor, addend, shift)
        facts.norm = factor, addend, shift
        chain.norm_scale, chain.norm_addend = factor * 2.0**-shift, addend * 2.0**-shift
        flags = ChainFlags.NORM
        fused = _fused(factor, addend, shift)
        if fused is not None:
            chain.norm_fused = fused
            flags |= ChainFlags.NORM_FUSED
    numbers.clamp(stage.clamp)
    return flags


def _fused(factor: int, addend: int, shift: int) -> float | None:
    """What makes (x + M) * factor / 2^shift the sum M + (x * factor + addend) / 2^shift, if a double can hold it."""
    exact = (_MAGIC << shift) + addend - _MAGIC * factor  # times 2^shift
    return math.ldexp(float(exact), -shift) if int(float(exact)) == exact else None


def _middle(chain: Chain, numbers: _Range, facts: singles.Facts) -> ChainFlags:
    """A clamp before an operation with another tensor has to happen there."""
    if not numbers.is_clamped:
        return ChainFlags(0)
    chain.middle_low, chain.middle_high = numbers.low, numbers.high
    facts.middle = numbers.low, numbers.high
    return ChainFlags.MIDDLE_CLAMP


def _operation(
    chain: Chain, task: Task, operation: ew.Operation, numbers: _Range, facts: singles.Facts
) -> ChainFlags:
    reader = task.reader
    if reader is None or reader.operand is None or reader.operand.bytes_each != 1:
        raise _NoChainError
    if reader.operand.mode not in {OperandMode.PER_CHANNEL, OperandMode.PER_PIXEL}:
        raise _NoChainError
    scale, shift, offset, before, after = 1, 0, 0, 0, 0
    converter = operation.converter
    ignore_unused(operation)
    if converter is not None:
        scale, shift = converter.scale, converter.shift
        offset = converter.offset * scale if converter.add_first else converter.offset << shift
        before, after = (converter.offset, 0) if converter.add_first else (0, converter.offset)
        if not shift:
            ignore(converter, "rounding")
        # An odd offset after the rounding would move ties.
        if shift and (
            converter.rounding is not numerics.Rounding.EVEN or (not converter.add_first and converter.offset % 2)
        ):
            raise _NoChainError
    largest = _bounded(_INT8 * abs(scale) + abs(offset), _EXACT)
    largest = _bounded((largest >> shift) + 1, _ROUNDS)
    flags = ChainFlags.ROUND_OPERAND if shift else ChainFlags(0)
    sign, limit = 1, numbers.limit
    if operation.multiplies:
        if operation.negative_only or operation.shift or operation.shift_negative:
            raise _NoChainError
        limit, flags = limit * largest, flags | ChainFlags.MULTIPLY
    elif operation.algorithm in {EwAlgorithm.ADD, EwAlgorithm.MINUS}:
        sign = -1 if operation.algorithm is EwAlgorithm.MINUS else 1
        limit, flags = limit + largest, flags | ChainFlags.ADD
    elif operation.algorithm in {EwAlgorithm.MAX, EwAlgorithm.MIN}:
        chosen = ChainFlags.MAX if operation.algorithm is EwAlgorithm.MAX else ChainFlags.MIN
        limit, flags = max(limit, largest), flags | chosen
    else:
        raise _NoChainError
    facts.multiplies, facts.operand_limit, facts.operand = operation.multiplies, largest, (scale, before, after)
    chain.operand_before, chain.operand_after = before, sign * after
    chain.operand_scale, chain.operand_addend = sign * scale * 2.0**-shift, sign * offset * 2.0**-shift
    numbers.limit = _bounded(limit, _ROUNDS)
    numbers.low, numbers.high = -limit, limit
    return flags


def _out(chain: Chain, out: task_out_cvt.Config, numbers: _Range) -> ChainFlags:
    ignore(out, "minus_exponent")  # the result is an integer
    if out.rounding is not numerics.Rounding.EVEN or abs(out.offset) > _LARGEST_OFFSET:
        raise _NoChainError
    if out.add_first and out.offset:
        raise _NoChainError
    flags = ChainFlags(0)
    limit = numbers.limit
    ends = [-_INT8, _INT8 - 1]
    if numbers.is_clamped:
        _bounded(max(abs(numbers.low), abs(numbers.high)) * abs(out.scale), 2**62)
        exact = (
            numerics.shift_number(end * out.scale, out.shift, offset=out.offset) for end in (numbers.low, numbers.high)
        )
        ends = [min(max(end, -_INT8), _INT8 - 1) for end in exact]
    if (limit * abs(out.scale) >> out.shift) + abs(out.offset) >= _INT32 - 1:
        # Too far for 32 bits, but saturated long before: hold the number where it is certain.
        if not out.scale:
            raise _NoChainError
        # Beyond 64 bits the specification wraps around: nothing is certain there.
        _bounded(max(abs(numbers.low), abs(numbers.high)) * abs(out.scale), 2**63)
        limit = (2 * _FAR << out.shift) // abs(out.scale) + 1
        chain.last_low, chain.last_high = -float(limit), float(limit)
        flags |= ChainFlags.LAST_CLAMP
    _bounded(limit * abs(out.scale), _EXACT)
    chain.byte_low, chain.byte_high = min(ends), max(ends)
    chain.out_scale = out.scale * 2.0**-out.shift
    chain.out_addend = float(out.offset)
    fused = _fused(out.scale, out.offset << out.shift, out.shift)
    if fused is not None:
        chain.out_fused = fused
        flags |= ChainFlags.OUT_FUSED
    return flags


def _table(out: task_out_cvt.Config, config: ew.Config, numbers: _Range, cache: table.Cache) -> table.Table:
    """EW and the output converter as one table; clamps before it are the ends of the table."""
    operation = config.operation
    if operation is not None and (operation.multiplies or operation.algorithm not in _MONOTONE):
        raise _NoChainError
    _bounded(numbers.limit, _INT32)
    return table.build(config, out, numbers.low, numbers.high, cache)
