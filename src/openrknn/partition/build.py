"""From a model to its parts: split, compile, learn from what the compiler refuses, split again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openrknn.chips import Chip, chip_named
from openrknn.compiler.importer.masks import is_mask
from openrknn.container.bundle import Part
from openrknn.cost import board_of
from openrknn.onnxgraph import readers_of
from openrknn.partition.cache import Cache
from openrknn.partition.compiled import Compiler, Made, Refusal
from openrknn.partition.extract import borders, extract
from openrknn.partition.options import PartitionOptions
from openrknn.partition.samples import Samples
from openrknn.partition.split import Group, Splitter
from openrknn.partition.view import Node, Value, View

_ROUNDS = 200
_DEAR = "by estimate"
_PATIENCE = 40
"""Refusals after which whole groups go to the CPU, not single operators."""
Tell = Callable[[str, int, int], None]


@dataclass(slots=True)
class Built:
    """Parts in the order in which they run, with their files."""

    parts: list[Part] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def build(
    view: View, options: PartitionOptions, cache: Cache, samples: Samples | None = None,
    tell: Tell | None = None,
) -> Built:  # fmt: skip
    """Nothing is refused: at worst everything is one part of the CPU."""
    splitter = Splitter(view)
    compiler = Compiler(view, options, cache, samples)
    if options.prefer == "cpu":
        splitter.leave(range(len(view.nodes)), "asked for")
    if options.avoid:
        touching = [number for name in options.avoid for number in (*_maker(view, name), *view.readers.get(name, ()))]
        splitter.leave(touching, "beyond what fp16 holds, on the first inputs")
    judge = _judge(view, options, is_int8=samples is not None)
    groups, made = _settle(splitter, compiler, judge, tell or (lambda stage, done, of: None))
    return _assembled(view, options, splitter, groups, made, is_int8=samples is not None)


def _maker(view: View, name: str) -> tuple[int, ...]:
    return (view.makers[name],) if name in view.makers else ()


def _judge(view: View, options: PartitionOptions, *, is_int8: bool) -> Callable[[list[Node]], str]:
    def judge(nodes: list[Node]) -> str:
        if options.prefer == "npu":
            return ""
        costs = costs_of(view, nodes, options.target, is_int8=is_int8)
        if costs.is_worth:
            return ""
        return f"{_DEAR} {_us(costs.cpu)} here, {_us(costs.npu)} on the NPU with the way there and back"

    return judge


def _settle(
    splitter: Splitter, compiler: Compiler, judge: Callable[[list[Node]], str], tell: Tell
) -> tuple[list[Group], dict[tuple[int, ...], Made]]:
    for turn in range(_ROUNDS):
        groups = splitter.split(judge)
        npu = [group for group in groups if group.is_npu]
        made: dict[tuple[int, ...], Made] = {}
        for number, group in enumerate(npu):
            tell("parts", number, len(npu))
            found = compiler.compile(group.nodes)
            if isinstance(found, Made):
                made[group.nodes] = found
                continue
            _learn(splitter, found, group, whole=turn > _PATIENCE)
            break
        else:
            return groups, made
    splitter.leave(range(len(splitter.view.nodes)), "the compiler refuses too many operators")
    return splitter.split(judge), {}


def _learn(splitter: Splitter, refusal: Refusal, group: Group, *, whole: bool) -> None:
    """What the compiler does not take here it takes nowhere else."""
    blamed = group.nodes if whole or not refusal.nodes else refusal.nodes
    alike = {other for number in blamed for other in splitter.alike(number)} if len(blamed) == 1 else set(blamed)
    splitter.leave(alike, refusal.reason)


def _assembled(
    view: View, options: PartitionOptions, splitter: Splitter, groups: list[Group],
    made: Mapping[tuple[int, ...], Made], *, is_int8: bool,
) -> Built:  # fmt: skip
    built = Built()
    for number, group in enumerate(groups):
        nodes = [view.nodes[index] for index in group.nodes]
        inputs, outputs = borders(view, group.nodes)
        if not outputs:
            continue  # nobody reads what it makes
        costs = costs_of(view, nodes, options.target, is_int8=is_int8)
        macs = sum(node.macs for node in nodes)
        file = f"parts/{number:02}.{'rknn' if group.is_npu else 'onnx'}"
        if group.is_npu:
            found = made[group.nodes]
            shapes = {name: view.values[name].shape or () for name in (*inputs, *outputs)}
            npu_us = found.npu_us if found.npu_us is not None else costs.npu
            built.files[file] = found.data
            reason = f"by estimate {_us(npu_us)} on the NPU, {_us(costs.cpu)} on the CPU"
            if found.check:
                reason += f"; {found.check}"
            part = Part(
                "npu", file, inputs, outputs, shapes, len(nodes), macs, max(0, macs - found.cpu_macs), npu_us,
                costs.cpu, reason, _masks(view, group.nodes),
            )  # fmt: skip
        else:
            built.files[file] = _stored(view, group.nodes, (inputs, outputs))
            why = _why(splitter, nodes)
            there = costs.npu if why.startswith(_DEAR) else None
            part = Part("cpu", file, inputs, outputs, {}, len(nodes), macs, 0, there, costs.cpu, why)
        built.parts.append(part)
    built.notes = [
        f"{view.nodes[index].type} {view.nodes[index].name!r}: {reason}"
        for index, reason in sorted(splitter.reasons.items())
    ]
    return built


def _masks(view: View, nodes: Sequence[int]) -> tuple[str, ...]:
    inputs, outputs = borders(view, nodes)
    readers = readers_of(view.nodes[number].proto for number in nodes)
    return tuple(name for name in inputs if is_mask(name, readers, set(outputs)))


def _stored(view: View, nodes: Sequence[int], cut: tuple[tuple[str, ...], tuple[str, ...]]) -> bytes:
    model: Any = extract(view, nodes, cut)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _why(splitter: Splitter, nodes: list[Node]) -> str:
    """The reasons of a part of the CPU, the commonest first."""
    counted: dict[str, int] = {}
    for node in nodes:
        reason = splitter.reasons.get(node.index, "the CPU runs it in a .rknn, too")
        counted[reason] = counted.get(reason, 0) + 1
    ranked = sorted(counted.items(), key=lambda entry: -entry[1])
    texts = [f"{reason} ({count})" if count > 1 else reason for reason, count in ranked[:3]]
    return "; ".join(texts) + ("; ..." if len(ranked) > 3 else "")


def _us(value: float) -> str:
    return f"{value / 1000:.1f} ms" if value >= 1000 else f"{value:.0f} us"


# What a group of operators costs on a board: on the NPU, with its way in and out, and on the processor beside it.
#
# The NPU's constants are those that published times of boards gave (`openrknn.cost`). The processor's are rough: a
# third of what its multipliers could do at most, and its memory's speed. They decide between 1 ms here and 5 ms there.

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
