"""The order of operators: CPU and NPU take turns as rarely as possible, and so do lookup tables."""

from __future__ import annotations

import heapq

from openrknn.compiler.forms import Concat, Conv
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering


def schedule(low: Lowering) -> None:
    """Reorder the graph so that submits and tables are as few as possible; else operators stay in their order.

    Of the operators whose inputs are there, those of the side (CPU or NPU) that is working come first: what the CPU
    does with inputs is done before the first submit, what it does with results after the last. Of these, the first one
    that needs no table or the loaded one is next. A heap for each keeps that n log n: networks have thousands of
    operators.
    """
    graph = low.graph
    done = {*graph.inputs, *graph.constants, ""}
    later = _write_order(low)
    of_cpu = {name for name, readers in graph.readers().items() if readers and all(op.type == "Cpu" for op in readers)}
    waits: dict[int, int] = {}
    waiting: dict[str, list[int]] = {}
    ready: dict[tuple[bool | None, str | None], list[int]] = {}
    for number, op in enumerate(graph.ops):
        needed = {*op.inputs, later.get(op.output, "")} - done
        waits[number] = len(needed)
        for name in needed:
            waiting.setdefault(name, []).append(number)
        if not needed:
            heapq.heappush(ready.setdefault((_is_cpu(low, op, of_cpu), _table(low, op)), []), number)
    ordered: list[Op] = []
    loaded: str | None = None
    side = True
    while any(ready.values()):
        full = {key: queue for key, queue in ready.items() if queue}
        if not any(key[0] in {None, side} for key in full):
            side = not side
        queues = {key: queue for key, queue in full.items() if key[0] in {None, side}}
        easy = [queue for key, queue in queues.items() if key[1] in {None, loaded}]
        queue = min(easy or queues.values(), key=lambda entries: entries[0])
        chosen = graph.ops[heapq.heappop(queue)]
        loaded = _table(low, chosen) or loaded
        ordered.append(chosen)
        for name in set(chosen.outputs) - done:
            done.add(name)
            for number in waiting.pop(name, ()):
                waits[number] -= 1
                if not waits[number]:
                    next_op = graph.ops[number]
                    heapq.heappush(ready.setdefault((_is_cpu(low, next_op, of_cpu), _table(low, next_op)), []), number)
    assert len(ordered) == len(graph.ops), "operators wait for each other"
    graph.ops = ordered


def _write_order(low: Lowering) -> dict[str, str]:
    """Value -> the value that has to be written before it.

    A convolution may write up to the end of its last group of channels. If the next part of a concatenation is
    there, that part is computed later, if nothing speaks against it.
    """
    graph = low.graph
    makers = graph.producers()
    later: dict[str, str] = {}

    def needs(name: str, other: str) -> bool:
        """Whether computing `name` needs `other`, in the order as it is so far."""
        seen, left = set[str](), [name]
        while left:  # not by recursion: a network has thousands of operators in a row
            entry = left.pop()
            if entry == other:
                return True
            if entry in makers and entry not in seen:
                seen.add(entry)
                left += [*makers[entry].inputs, *([later[entry]] if entry in later else [])]
        return False

    for op in graph.ops:
        if not isinstance(op.form, Concat) or op.form.along_pixels:
            continue
        for first, second in zip(op.inputs, op.inputs[1:], strict=False):
            maker, follower = makers.get(first), makers.get(second)
            if maker is None or follower is None or maker.type not in {"Conv", "ConvTranspose"}:
                continue
            form = low.format_of(first)
            group = form.depthwise_group if maker.get(Conv).group > 1 else form.group
            if graph.values[first].cube[0] % group == 0 or follower.type == "Slice" or second in later:
                continue
            if not needs(first, second):
                later[follower.output] = first
    return later


def _is_cpu(low: Lowering, op: Op, of_cpu: set[str]) -> bool | None:
    """Which side does it; None: neither, or it may be both (channels stay where they are: an address).

    `of_cpu`: values that only the CPU reads; moving those is its work, too.
    """
    if op.type == "Reshape" and op.inputs[0] in low.graph.values:
        before, after = (low.graph.values[name].cube for name in (op.inputs[0], op.output))
        is_same = before[0] == after[0] and op.inputs[0] not in low.graph.inputs and op.output not in low.graph.outputs
        return None if is_same and op.output not in of_cpu else True
    return op.type in {"Cpu", "Reshape"}


def _table(low: Lowering, op: Op) -> str | None:
    function = low.functions.get(op.output)
    return function.key if function else None
