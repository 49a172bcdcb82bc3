"""Which operators run together: groups that can run one after the other, as few as possible, and worth their way.

Nodes get a level: as many changes between NPU and CPU as lie before them on the way that has most. Neighbours of one
level and kind form a group; no group can wait for one that waits for it, since levels only grow along the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.masks import MASK_ARITHMETIC, is_huge, leads_to_softmax
from openrknn.compiler.operators import CPU_ANY, MOVES, ONNX_ON_NPU, QUANTISERS
from openrknn.onnxgraph import readers_of
from openrknn.partition.extract import borders
from openrknn.partition.view import Node, Value, View


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that run together, in order."""

    is_npu: bool
    level: int
    nodes: tuple[int, ...]


class Splitter:
    """Holds what is known of each node; `split` can be called again whenever `leave` has learnt more."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._masked = masked_values(view)
        self.reasons: dict[int, str] = {}
        """Node -> why it is the CPU's."""
        self.fitness: list[Fitness] = []
        for node in view.nodes:
            fitness, reason = fitness_of(view, node)
            self.fitness.append(fitness)
            if reason:
                self.reasons[node.index] = reason

    def leave(self, numbers: Iterable[int], reason: str) -> bool:
        """These go to the CPU; whether that is new for any of them."""
        news = [number for number in numbers if self.fitness[number] is not Fitness.CPU]
        for number in news:
            self.fitness[number] = Fitness.CPU
            self.reasons[number] = reason
        return bool(news)

    def alike(self, number: int) -> list[int]:
        """All nodes that the compiler would judge as it judges this one."""
        wanted = self.view.signature(self.view.nodes[number])
        kind = self.view.nodes[number].type
        return [
            node.index for node in self.view.nodes if node.type == kind and self.view.signature(node) == wanted
        ]  # fmt: skip

    def split(self, is_worth: Callable[[list[Node]], str] = lambda nodes: "") -> list[Group]:
        """Groups in the order in which they run. `is_worth` says why a group of the NPU's is not, or nothing."""
        while True:
            npu = self._trimmed()
            groups = self._groups(npu)
            again = False
            for group in groups:
                if group.is_npu:
                    nodes = [self.view.nodes[number] for number in group.nodes]
                    touching = self._odd_border(nodes)
                    reason = "quantised numbers and truths do not cross to the CPU"
                    if not touching:
                        touching = unfit_for(self.view, group.nodes, self._masked)
                        reason = "a half float has no number for its mask (minus infinity, the lowest float)"
                    if not touching:
                        reason = is_worth(nodes)
                    again |= bool(reason) and self.leave(touching or group.nodes, reason)
            if not again:
                return groups

    def _odd_border(self, nodes: list[Node]) -> list[int]:
        """Nodes at whose border there is something else than floats: a `.rknn` takes and gives floats here."""
        inside = {node.index for node in nodes}
        found = []
        for node in nodes:
            comes = [name for name in node.reads if self.view.makers.get(name, -1) not in inside]
            goes = [
                name for name in node.makes
                if name in self.view.outputs or any(reader not in inside for reader in self.view.readers.get(name, ()))
            ]  # fmt: skip
            if not all(self._is_float(name) for name in (*comes, *goes)):
                found.append(node.index)
        return found

    def _is_float(self, name: str) -> bool:
        return name in self.view.values and self.view.values[name].kind == 1

    def _trimmed(self) -> set[int]:
        """Nodes of the NPU. What the CPU does inside a `.rknn` is among them only where the NPU goes on behind it."""
        chosen = {index for index, fitness in enumerate(self.fitness) if fitness is Fitness.NPU}
        between = [index for index, fitness in enumerate(self.fitness) if fitness is Fitness.BETWEEN]
        fed: set[int] = set()
        for index in between:
            before = self.view.before(self.view.nodes[index])
            if before and all(maker in chosen or maker in fed for maker in before):
                fed.add(index)
        kept: set[int] = set()
        for index in reversed(between):
            after = self.view.after(self.view.nodes[index])
            ends = any(name in self.view.outputs for name in self.view.nodes[index].makes)
            if index in fed and after and not ends and all(reader in chosen or reader in kept for reader in after):
                kept.add(index)
        # What feeds only a node that was not kept is not fed any more.
        while True:
            lost = {
                index for index in kept
                if not all(maker in chosen or maker in kept for maker in self.view.before(self.view.nodes[index]))
            }  # fmt: skip
            if not lost:
                return chosen | kept
            kept -= lost

    def _groups(self, npu: set[int]) -> list[Group]:
        early, late = self._early(npu), self._late(npu)
        return min((self._by_level(npu, levels) for levels in (early, late)), key=len)

    def _early(self, npu: set[int]) -> list[int]:
        levels: list[int] = []
        for node in self.view.nodes:
            mine = node.index in npu
            before = [levels[maker] + ((maker in npu) != mine) for maker in self.view.before(node)]
            levels.append(max(before, default=0))
        return levels

    def _late(self, npu: set[int]) -> list[int]:
        levels = [0] * len(self.view.nodes)
        for node in reversed(self.view.nodes):
            mine = node.index in npu
            after = [levels[reader] - ((reader in npu) != mine) for reader in self.view.after(node)]
            levels[node.index] = min(after, default=0)
        return levels

    def _by_level(self, npu: set[int], levels: list[int]) -> list[Group]:
        """The CPU's nodes of a level are one group; the NPU's one for each connected piece."""
        piece = _pieces(self.view, npu, levels)
        found: dict[tuple[int, bool, int], list[int]] = {}
        for node in self.view.nodes:
            mine = node.index in npu
            key = (levels[node.index], mine, piece[node.index] if mine else 0)
            found.setdefault(key, []).append(node.index)
        return [Group(mine, level, tuple(nodes)) for (level, mine, _), nodes in sorted(found.items())]


def _pieces(view: View, npu: set[int], levels: list[int]) -> list[int]:
    """For each node the first node of its connected piece of the same kind and level."""
    root = list(range(len(view.nodes)))

    def find(index: int) -> int:
        while root[index] != index:
            root[index] = root[root[index]]
            index = root[index]
        return index

    for node in view.nodes:
        for maker in view.before(node):
            if (maker in npu) == (node.index in npu) and levels[maker] == levels[node.index]:
                one, other = sorted((find(maker), find(node.index)))
                root[other] = one
    return [find(index) for index in range(len(root))]


# What the NPU could do, by looking at one operator alone: its type, and the types and shapes around it.
#
# The compiler has the last word: what it refuses goes to the CPU as well (`build`).

_LARGEST = 2**30
_MOST_STEPS = 64
"""Of a recurrent layer. Each step is a dozen tasks in the file: with hundreds, compiling takes minutes."""
_BETWEEN = CPU_ANY - ONNX_ON_NPU


class Fitness(Enum):
    """Where an operator can run."""

    NPU = "npu"
    BETWEEN = "between"
    """A `.rknn` can hold it, but the CPU runs it there: worth it only in the middle of an NPU part."""
    CPU = "cpu"


def fitness_of(view: View, node: Node) -> tuple[Fitness, str]:
    """With the reason where it is the CPU's."""
    if node.type not in ONNX_ON_NPU | QUANTISERS | _BETWEEN:
        return Fitness.CPU, f"the NPU has no {node.type}"
    proto = onnx_package().TensorProto
    known = {proto.FLOAT}
    if node.type in QUANTISERS:
        known |= {proto.INT8, proto.UINT8}
    elif node.type in _BETWEEN:
        known.add(proto.BOOL)  # a guard like Where(IsNaN(x), 0, x) is no reason to cut
    for name in (*node.reads, *node.makes):
        value = view.values.get(name, Value())
        if value.kind not in known:
            return Fitness.CPU, f"{name!r} is {_label(proto, value)}"
        if value.shape is None:
            return Fitness.CPU, f"the shape of {name!r} is known only when it runs"
        if not 0 < value.numbers <= _LARGEST:
            return Fitness.CPU, f"{name!r} has {value.numbers} numbers"
    if view.steps(node) > _MOST_STEPS:
        return Fitness.CPU, f"{view.steps(node)} steps, one after the other"
    if not node.reads:
        return Fitness.CPU, "it reads constants only"
    return (Fitness.BETWEEN if node.type in _BETWEEN else Fitness.NPU), ""


def _label(proto: Any, value: Value) -> str:
    return str(proto.DataType.Name(value.kind)).lower() if value.kind else "of a type that is not known"


# Values that carry the number of a mask: minus infinity, or the lowest float.
#
# A half float ends at 65504. Before a Softmax of the same part such a number only means "far below every score", and is
# made smaller (`compiler.importer.masks`); everywhere else the NPU would hand on an infinity that nobody can tell from
# an overflow, so these operators are the CPU's.

_TAKES = (MASK_ARITHMETIC | MOVES) - {"Max", "Min"}
"""Whose constants count: in a Max or Min they are limits that no number reaches."""
_CARRIES = MASK_ARITHMETIC | MOVES | {"Pad"}


def masked_values(view: View) -> frozenset[str]:
    """Constants with such numbers, and the values that they reach."""
    onnx = onnx_package()
    read = {name for node in view.nodes if node.type in _TAKES for name in node.proto.input}
    found = {name for name in read.intersection(view.constants)
             if view.constants[name].data_type == onnx.TensorProto.FLOAT
             and is_huge(onnx.numpy_helper.to_array(view.constants[name]))}  # fmt: skip
    for node in view.nodes:
        if node.type in _CARRIES and _reads(view, node, found):
            found.update(node.makes)
    return frozenset(found)


def unfit_for(view: View, numbers: Sequence[int], masked: frozenset[str]) -> list[int]:
    """Nodes of one part of the NPU that read such a number, and from which a way leads elsewhere than to a Softmax."""
    reading = [view.nodes[number] for number in numbers if _reads(view, view.nodes[number], masked)]
    if not reading:
        return []
    readers = readers_of(view.nodes[number].proto for number in numbers)
    outputs = set(borders(view, numbers)[1])
    return [node.index for node in reading if not leads_to_softmax(node.proto, readers, outputs)]


def _reads(view: View, node: Node, masked: frozenset[str] | set[str]) -> bool:
    return any(name in masked and (node.type in _TAKES or name not in view.constants) for name in node.proto.input)
