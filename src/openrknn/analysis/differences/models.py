"""Two models side by side: versions, what a program sees, operators, tensors, memory and texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from openrknn.analysis.differences.difference import Difference, Section, Value, changes, only_in_one
from openrknn.analysis.explain import list_label
from openrknn.chips import TaskList
from openrknn.container.edit import rename_tensors
from openrknn.container.model import Model, Operator, TensorSpec
from openrknn.container.parts import Graph, Quantization, Tensor
from openrknn.errors import BadTextError


def compare(first: Model, second: Model) -> Iterator[Difference]:
    """Everything that differs, section by section. Nothing: the two do the same in every respect that is understood."""
    yield from _model(first, second)
    yield from _interface(first, second)
    names = renamed(first, second)
    yield from (
        Difference(Section.TENSORS, f"tensor {old!r}", "name", old, new, f"is called {new!r}")
        for old, new in names.items()
    )
    if names:
        first = rename_tensors(first, names, check_names=False)
    for one, other in zip(first.graphs, second.graphs, strict=False):
        yield from _graph(first, one, second, other)
    yield from _memory(first, second)
    yield from _texts(first, second)


def _graph(first: Model, one: Graph, second: Model, other: Graph) -> Iterator[Difference]:
    from openrknn.analysis.differences.commands import compare_commands
    from openrknn.analysis.differences.constants import compare_constants

    place = f"graph {one.index}, " if len(first.graphs) > 1 else ""
    for found in (
        _operators(first, one, second, other),
        compare_tensors(one, other, same_layouts=first.chip.family == second.chip.family),
        compare_constants(first, one, second, other),
        compare_commands(first, one, second, other),
    ):
        for difference in found:
            yield replace(difference, subject=f"{place}{difference.subject}") if place else difference


# -------------------------------------------------------------------------------------------------- the model


def _model(first: Model, second: Model) -> Iterator[Difference]:
    yield from changes(Section.MODEL, "", _head(first), _head(second))


def _head(model: Model) -> dict[str, Value]:
    return {
        "chip": model.chip.name,
        "target": model.target,
        "platform": model.platform,
        "container": str(model.flavour),
        "container version": model.container_version,
        "model format": model.format_version,
        "toolkit": model.toolkit_version,
        "toolkit build": model.toolkit_text,
        "framework": model.framework,
        "batch size": model.batch_size,
        "shapes": model.shape_mode,
        "number of graphs": len(model.graphs),
        "custom string": model.custom_string,
        "custom operators": model.custom_operators,
        "shared weights": list(model.shared_weights),
    }


def _interface(first: Model, second: Model) -> Iterator[Difference]:
    for what, ones, others in (("input", first.inputs, second.inputs), ("output", first.outputs, second.outputs)):
        for number, (one, other) in enumerate(zip_longest(ones, others)):
            named = one or other
            subject = f"{what} {number} {named.name!r}" if named else what
            if one is None or other is None:
                yield only_in_one(Section.INTERFACE, subject, one is not None)
            else:
                yield from changes(Section.INTERFACE, subject, _spec(one), _spec(other))


def _spec(spec: TensorSpec) -> dict[str, Value]:
    norm = spec.normalization
    return {
        "name": spec.name,
        "shape": list(spec.shape),
        "type": spec.dtype,
        "layout": spec.layout,
        "mean": list(norm.mean) if norm else None,
        "std": list(norm.std) if norm else None,
        **quantization_facts(spec.quantization),
    }


# -------------------------------------------------------------------------------------------------- operators


def _operators(first: Model, one: Graph, second: Model, other: Graph) -> Iterator[Difference]:
    ones, others = _by_key(first.operators_of(one)), _by_key(second.operators_of(other))
    counts = _list_counts(one), _list_counts(other)
    if first.chip.family != second.chip.family:  # another chip has other lists; the one for one core they all have
        counts = _one_core(counts[0]), _one_core(counts[1])
    for key in (*ones, *(key for key in others if key not in ones)):
        before, after = ones.get(key), others.get(key)
        named = before or after
        subject = f"operator {named.index} {named.name or named.type}" if named else ""
        if before is None or after is None:
            yield only_in_one(Section.OPERATORS, f"{subject} ({named.type})" if named else "", before is not None)
        else:
            yield from changes(Section.OPERATORS, subject, _operator(before, counts[0]), _operator(after, counts[1]))
    common = [key for key in ones if key in others]
    if common != [key for key in others if key in ones]:
        yield Difference(Section.OPERATORS, "", "order", words="the operators are in another order")


def _by_key(operators: tuple[Operator, ...]) -> dict[tuple[str, int], Operator]:
    """By name; operators without one by their type, counted."""
    seen: Counter[str] = Counter()
    found = {}
    for operator in operators:
        name = operator.name or f"({operator.type})"
        found[name, seen[name]] = operator
        seen[name] += 1
    return found


def _operator(operator: Operator, counts: dict[int, dict[str, int]]) -> dict[str, Value]:
    return {
        "type": operator.type,
        "runs on": str(operator.placement),
        "inputs": [tensor.name for tensor in operator.inputs],
        "outputs": [tensor.name for tensor in operator.outputs],
        "attributes": {name: _plain(value) for name, value in operator.attributes.items()},
        **{f"tasks in list {label}": count for label, count in counts.get(operator.index, {}).items()},
    }


def _plain(value: object) -> Value:
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else str(value)


def _one_core(counts: dict[int, dict[str, int]]) -> dict[int, dict[str, int]]:
    label = list_label(TaskList(1, 0))
    return {number: {label: lists[label]} for number, lists in counts.items() if label in lists}


def _list_counts(graph: Graph) -> dict[int, dict[str, int]]:
    counts: dict[int, dict[str, int]] = {}
    for entry, numbers in graph.task_lists.items():
        for number in numbers:
            lists = counts.setdefault(graph.tasks[number].op_index, {})
            lists[list_label(entry)] = lists.get(list_label(entry), 0) + 1
    return counts


# -------------------------------------------------------------------------------------------------- memory, texts


def _memory(first: Model, second: Model) -> Iterator[Difference]:
    yield from changes(Section.MEMORY, "", _plan(first), _plan(second))


def _plan(model: Model) -> dict[str, Value]:
    return {
        "weight bytes": model.memory.weight_bytes,
        "internal bytes": model.memory.internal_bytes,
        "bytes of the compiler's constants": model.memory.constant_bytes,
        "tasks": sum(len(graph.tasks) for graph in model.graphs),
        "commands": sum(len(graph.commands) for graph in model.graphs),
        "relocations": sum(len(group) for graph in model.graphs for group in graph.relocations),
    }


def _texts(first: Model, second: Model) -> Iterator[Difference]:
    for what, one, other in (
        ("the converter's notes", _notes(first), _notes(second)),
        ("the trailing JSON", _legacy(first), _legacy(second)),
        ("the JSON of the inputs", _json(first.input_json), _json(second.input_json)),
        ("the JSON of the outputs", _json(first.output_json), _json(second.output_json)),
    ):
        if one != other:
            yield Difference(Section.TEXTS, "", what, words=f"{what} differs" if "JSON" in what else f"{what} differ")


def _notes(model: Model) -> object:
    try:
        return model.notes
    except BadTextError:
        return model.notes_text


def _legacy(model: Model) -> object:
    try:
        return model.legacy_json
    except BadTextError:
        return bytes(model.json_bytes)


def _json(text: str) -> object:
    """The content, so that blanks do not count."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# Tensors by name: which are there, and what is said about them.


def quantization_facts(quantization: Quantization | None) -> dict[str, Value]:
    """Scale and zero point as plain values."""
    if quantization is None:
        return {"scale": None, "zero point": None}
    scale, zero = quantization.scale, quantization.zero_point
    return {
        "scale": scale[0] if len(scale) == 1 else list(scale),
        "zero point": zero[0] if len(zero) == 1 else list(zero),
    }


def renamed(first: Model, second: Model) -> dict[str, str]:
    """Tensors that stand in the same place and differ in their name alone."""
    names: dict[str, str] = {}
    known = [{tensor.name for graph in model.graphs for tensor in graph.tensors} for model in (first, second)]
    for one, other in zip(first.graphs, second.graphs, strict=False):
        for before, after in zip(one.tensors, other.tensors, strict=False):
            if before.name in known[1] or after.name in known[0] or not before.name or not after.name:
                continue
            if (before.kind, before.dtype, before.shape) == (after.kind, after.dtype, after.shape):
                names[before.name] = after.name
    try:
        rename_tensors(first, names, check_names=False)
    except (ValueError, BadTextError):
        return {}
    return names


def compare_tensors(one: Graph, other: Graph, *, same_layouts: bool = True) -> Iterator[Difference]:
    """What differs between tensors of the same name, and which names only one side has.

    Without `same_layouts` (other chips) memory layouts of tensors are not compared.
    """
    ones = {tensor.name: tensor for tensor in one.tensors if tensor.name}
    others = {tensor.name: tensor for tensor in other.tensors if tensor.name}
    for name in (*ones, *(name for name in others if name not in ones)):
        subject = f"tensor {name!r}"
        if name not in ones or name not in others:
            yield only_in_one(Section.TENSORS, subject, name in ones)
        else:
            before, after = _tensor(ones[name]), _tensor(others[name])
            if same_layouts:
                before |= _placement(ones[name])
                after |= _placement(others[name])
            yield from changes(Section.TENSORS, subject, before, after)
    moved = sum(ones[name].offset != others[name].offset for name in ones if name in others)
    if moved:
        words = f"{moved} {'tensor is' if moved == 1 else 'tensors are'} at another place in internal memory"
        yield Difference(Section.MEMORY, "", "offsets", 0, moved, words)


def _tensor(tensor: Tensor) -> dict[str, Value]:
    return {
        "kind": tensor.kind.name.lower(),
        "type": tensor.dtype.label,
        "layout": tensor.layout.label,
        "shape": list(tensor.shape),
        **quantization_facts(tensor.quantization),
        "calibrated minimum": list(tensor.minimum),
        "calibrated maximum": list(tensor.maximum),
        "compressed": bool(tensor.compressed),
    }


def _placement(tensor: Tensor) -> dict[str, Value]:
    return {
        "native shape": list(tensor.native_shape),
        "allocated bytes": tensor.size_bytes,
        "pixel alignment": tensor.pixel_alignment,
        "row alignment": tensor.row_alignment,
        "memory class": tensor.memory_class,
    }
