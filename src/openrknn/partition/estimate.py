"""What a group of operators costs on a board: on the NPU, with its way in and out, and on the processor beside it.

The NPU's constants are those that published times of boards gave (`openrknn.cost`). The processor's are rough: a third
of what its multipliers could do at most, and its memory's speed. They only decide between 1 ms here and 5 ms there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from openrknn.chips import Chip, chip_named
from openrknn.cost import board_of
from openrknn.partition.view import Node, Value, View

_FLOAT, _HALF = 4, 2


class _Processor(NamedTuple):
    macs: float
    """Products in a microsecond."""
    bytes: float
    """Moved in a microsecond."""


_PROCESSORS = {
    "rk3588": _Processor(25_000, 8_000),  # 4 A76 at 2.3 GHz: 2 units of 4 lanes each
    "rk3576": _Processor(12_000, 6_000),  # 4 A72 at 2.2 GHz
    "rk3566": _Processor(8_000, 3_000),  # 4 A55 at 1.8 GHz
    "rv1106": _Processor(800, 1_000),  # 1 A7 at 1.2 GHz
}
_CALL_US = 5.0
"""Of one operator in ONNX Runtime."""
_BORDER_BYTES = 1_500.0
"""Bytes of float that a core arranges for the NPU in a microsecond, or back."""
_USE = 0.5
"""How much of the array networks use."""
_TASKS_A_STEP = 12
"""Of a recurrent layer: products, sums and gates."""
_STEP_US = 60.0
"""Another part: the way through the runtime."""


class Costs(NamedTuple):
    """Microseconds, by estimate."""

    npu: float
    cpu: float

    @property
    def is_worth(self) -> bool:
        return self.npu < self.cpu


def costs_of(view: View, nodes: Iterable[Node], target: str, *, is_int8: bool) -> Costs:
    """Of a connected group."""
    chip = chip_named(target)
    board = board_of(chip)
    group = list(nodes)
    macs = sum(node.macs for node in group)
    made = {name for node in group for name in node.makes}
    read = {name for node in group for name in node.reads}
    inside = {node.index for node in group}
    borders = {name for name in read if name not in made} | {
        name for name in made
        if name in view.outputs or any(reader not in inside for reader in view.readers.get(name, ()))
    }  # fmt: skip
    moved = sum(_numbers(view, name) for node in group for name in (*node.reads, *node.makes))
    weights = sum(_weights(view, node) for node in group)
    size = 1 if is_int8 else _HALF
    rate = _macs_per_us(chip, board.hertz, is_int8=is_int8) * _USE
    tasks = sum(1 if (steps := view.steps(node)) == 1 else steps * _TASKS_A_STEP for node in group)
    npu = (
        max(macs / rate, (moved + weights) * size / (board.bytes_per_second / 1e6))
        + sum(_numbers(view, name) for name in borders) * _FLOAT / _BORDER_BYTES
        + tasks * board.task_seconds * 1e6 + board.submit_seconds * 1e6 + _STEP_US
    )  # fmt: skip
    beside = _PROCESSORS.get(chip.family) or _PROCESSORS["rk3566"]
    cpu = max(macs / beside.macs, (moved + weights) * _FLOAT / beside.bytes) + len(group) * _CALL_US
    return Costs(npu, cpu)


def _macs_per_us(chip: Chip, hertz: float, *, is_int8: bool) -> float:
    kernels, lanes = chip.weight_group
    return kernels * lanes * hertz / 1e6 / (1 if is_int8 else 2)


def _numbers(view: View, name: str) -> int:
    return view.values.get(name, Value()).numbers


def _weights(view: View, node: Node) -> int:
    return sum(view.values[name].numbers for name in node.proto.input if name in view.constants)
