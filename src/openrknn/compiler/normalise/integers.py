"""Truths and indices: operators that read or make integers are the CPU's, before anything else looks at them."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import refuse
from openrknn.compiler.operators import CPU_ANY, IDENTITIES, VIEWS

_PICTURE = 4
_SCALES = 2
_GATHERS = {"Gather", "GatherElements"}
_SAME = VIEWS | IDENTITIES


def is_computable(graph: Graph, op: Op) -> bool:
    """Whether the runtime has this form of the operator; why not is said in `reason`."""
    shape = graph.shape(op.inputs[0]) if op.inputs and op.inputs[0] else ()
    why = ""
    if op.type == "GridSample" and len(shape) != _PICTURE:
        why = "the CPU samples pictures only"
    elif op.type == "Resize" and op.attributes.get("antialias"):
        why = "with antialias it is not there; export the model without it, or resize in your program"
    elif op.type == "Resize" and op.attributes.get("coordinate_transformation_mode") == "align_corners":
        why = "corners are aligned for factors that give no whole sizes; export it with sizes" * _is_uneven(graph, op)
    elif op.type in {"Max", "Min"} and _has_numbers(graph, op):
        why = "a constant per channel is what the vendor's runtime computes wrong"
    elif op.type in _GATHERS:
        why = _misplaced(graph, op, shape)
    elif op.type == "ReverseSequence":
        lengths = graph.constants.get(op.inputs[1])
        items, steps = (shape[op.attributes.get(name, at)] for name, at in (("batch_axis", 1), ("time_axis", 0)))
        if lengths is None or lengths.size != items or lengths.max() > steps:
            why = "its lengths do not fit what it reverses, or are computed at run time"
    if why:
        op.attributes["reason"] = why
    return not why


def _is_uneven(graph: Graph, op: Op) -> bool:
    """Whether factors give sizes that are cut off: ONNX aligns the corner that is not there then."""
    scales = graph.constants.get(op.inputs[2]) if len(op.inputs) > _SCALES else None
    shapes = graph.shape(op.inputs[0]), graph.shape(op.output)
    return scales is not None and scales.size > 0 and any(
        abs(a * float(scale) - b) > 1e-3 for a, scale, b in zip(shapes[0], scales.reshape(-1), shapes[1], strict=False)
    )


def _has_numbers(graph: Graph, op: Op) -> bool:
    """Whether an operand is a constant of more than one number."""
    return any(name in graph.constants and graph.constants[name].size > 1 for name in op.inputs)


def _misplaced(graph: Graph, op: Op, shape: tuple[int, ...]) -> str:
    """What is wrong with the indices of a Gather."""
    places = graph.constants.get(op.inputs[1])
    axis = int(op.attributes.get("axis", 0)) % len(shape)
    if places is not None and places.size and not -shape[axis] <= places.min() <= places.max() < shape[axis]:
        return f"an index from {places.min()} to {places.max()} into {shape[axis]} values"
    sizes = graph.shape(op.inputs[1])
    fits = op.type == "Gather" or all(at == axis or a <= b for at, (a, b) in enumerate(zip(sizes, shape, strict=False)))
    return "" if fits else f"indices of {list(sizes)} into {list(shape)}"


def place_integers(graph: Graph) -> None:
    """Comparisons, choices, indices and casts become operators of the CPU."""
    for op in graph.ops:
        integers = [name for name in (*graph.activations(op), *op.outputs) if graph.values[name].integer]
        if not integers or op.type in _SAME:
            continue
        if op.type not in CPU_ANY or not is_computable(graph, op):
            kind, cut = graph.values[integers[0]].integer, graph.activations(op)[0]
            why = f"{integers[0]!r} holds whole numbers ({kind}), and only some operators of the CPU take them"
            refuse(op, f"{op.attributes.get('reason', why)}. Cut the model before it (--outputs {cut})")
        as_cpu(op)


def as_cpu(op: Op) -> None:
    """Leave the operator to the runtime, on the CPU."""
    kept = {name: value for name, value in op.attributes.items() if name != "reason"}
    op.type, op.attributes = "Cpu", {"operator": op.type, **kept}


def follow_integers(graph: Graph, *, calibrated: bool) -> None:
    """What is moved stays what it is: passes make values for moves between others."""
    for op in graph.ops:
        is_move = op.type == "Reshape" or (op.type == "Cpu" and op.operator == "Transpose")
        if is_move and op.inputs[0] in graph.values and graph.values[op.inputs[0]].integer:
            graph.values[op.output].integer = graph.values[op.inputs[0]].integer
    if calibrated:  # they have no scale
        graph.floats |= {name for name, value in graph.values.items() if value.integer}
        graph.floats |= {op.output for op in graph.ops if is_table(graph, op) and op.output not in graph.outputs}


def is_table(graph: Graph, op: Op) -> bool:
    """Rows of a table of floats, picked by indices: an embedding."""
    is_gather = op.type == "Cpu" and op.operator in _GATHERS
    table = graph.constants.get(op.inputs[0]) if is_gather else None
    return table is not None and table.dtype.kind == "f"
