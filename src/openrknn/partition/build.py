"""From a model to its parts: split, compile, learn from what the compiler refuses, split again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.compiler.importer.masks import is_mask
from openrknn.container.bundle import Part
from openrknn.onnxgraph import readers_of
from openrknn.partition.cache import Cache
from openrknn.partition.compiled import Compiler, Made, Refusal
from openrknn.partition.estimate import costs_of
from openrknn.partition.extract import borders, extract
from openrknn.partition.options import PartitionOptions
from openrknn.partition.samples import Samples
from openrknn.partition.split import Group, Splitter
from openrknn.partition.view import Node, View

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
