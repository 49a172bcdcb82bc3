"""Inputs that tasks cannot read in place go through a convolution that changes nothing."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.formats import Format
from openrknn.compiler.forms import Conv, Slice
from openrknn.compiler.identity import TooManyError, identity_conv, selection_conv
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.targets import Target
from openrknn.compiler.tile import LONGEST

_PICTURE_CHANNELS = (1, 3, 4)


def picture_inputs(graph: Graph, form: Format) -> set[str]:
    """Inputs of 1, 3 or 4 channels that only ordinary convolutions read; a pixel that is an atom is no picture's."""
    found = set()
    for name in graph.inputs:
        readers = [op for op in graph.ops if name in op.inputs]
        if not _may_be_picture(graph.shape(name), form) or not readers:
            continue
        if all(op.type == "Conv" and op.inputs[0] == name and name not in op.inputs[1:] for op in readers):
            found.add(name)
    return found


def _may_be_picture(shape: tuple[int, ...], form: Format) -> bool:
    """Rows of pixels are read whole, so they must not be longer than a register counts."""
    is_map = len(shape) == 4 and shape[0] == 1
    return is_map and shape[1] in _PICTURE_CHANNELS and shape[1] != form.atom and max(shape[2:]) <= LONGEST


def free_pictures(graph: Graph, form: Format) -> None:
    """Picture inputs that something else than a convolution reads go through one that changes nothing."""
    for name in graph.inputs:
        shape = graph.shape(name)
        readers = [op for op in graph.ops if name in op.inputs]
        if not _may_be_picture(shape, form):
            continue
        others = [op for op in readers if not _reads_picture(op, name, shape[3] % form.atom == 0)]
        if others:
            inner = graph.add_like(f"{name}_map", name)
            graph.replace_uses(name, inner, others)
            graph.ops.insert(0, selection_conv(graph, name, inner, inner, np.arange(shape[1]), "Input"))


def _reads_picture(op: Op, name: str, is_whole: bool) -> bool:
    """Rows of pictures end in zeros up to a whole atom: a right border of another number needs a feature map."""
    if op.type in {"Cpu", "Reshape"}:
        return True
    if op.type != "Conv" or name in op.inputs[1:]:
        return False
    return is_whole or not (op.get(Conv).pad_value and any(op.get(Conv).pads))


def align_inputs(graph: Graph, form: Format) -> None:
    """Inputs whose surfaces are not whole fours of pixels: what is no convolution reads a copy, as the vendor's do."""
    pictures = picture_inputs(graph, form)
    for name in graph.inputs:
        _, height, width = graph.values[name].cube
        others = [
            op for op in graph.ops if name in op.inputs and op.type not in {"Cpu", "Reshape"}
            and (op.type != "Conv" or name in op.inputs[1:])
        ]  # fmt: skip
        shape = graph.shape(name)  # several items get one shape for all of them, and a copy by that (`fit_converts`)
        if name in pictures or height * width % 4 == 0 or len(shape) != 4 or shape[0] != 1 or not others:
            continue
        inner = graph.add_like(f"{name}_aligned", name)
        graph.replace_uses(name, inner, others)
        graph.ops.insert(0, identity_conv(graph, name, inner, inner, why="Input"))


def pair_surfaces(graph: Graph, target: Target) -> None:
    """A convolution adds a copy of an input with an odd number of surfaces: the input may end with the last of them."""
    copies: dict[str, str] = {}
    for op in [entry for entry in graph.ops if entry.type == "Conv" and len(entry.inputs) > 3]:
        name = root = op.inputs[3]
        while (maker := graph.producer(root)) is not None and maker.type == "Slice":
            root = maker.inputs[0]
        value = graph.values[name]
        form = target.fp16 if value.quantization is None else target.int8
        if root not in graph.inputs or len(value.shape) != 4 or form.surfaces(value.cube[0]) % 2 == 0:
            continue
        if name not in copies:
            copies[name] = graph.add_like(f"{name}_paired", name)
            made = identity_conv(graph, name, copies[name], copies[name], why="Input")
            graph.ops.insert(graph.ops.index(op), made)
        op.inputs = [*op.inputs[:3], copies[name]]


def copy_input_slices(graph: Graph) -> None:
    """Channels of an input for the CPU: a window into memory that may be the user's has no address of its own."""
    for op in list(graph.ops):
        if not isinstance(op.form, Slice) or op.inputs[0] not in graph.inputs or op.form.along_pixels:
            continue
        if any(user.type in {"Cpu", "Reshape"} for user in graph.ops if op.output in user.inputs):
            start = op.form.start
            picks = np.arange(start, start + graph.values[op.output].cube[0])
            try:
                made = selection_conv(graph, op.inputs[0], op.output, op.name, picks, "Slice")
            except TooManyError:  # a recording has as many channels as samples
                made = _cpu_slice(graph, op)
            graph.ops[graph.ops.index(op)] = made


def _cpu_slice(graph: Graph, op: Op) -> Op:
    before, after = graph.shape(op.inputs[0]), graph.shape(op.output)
    start = op.get(Slice).start
    axis = next(at for at, (whole, part) in enumerate(zip(before, after, strict=True)) if whole != part)
    bounds = [
        graph.add_constant(f"{op.output}_{name}", np.array([number], np.int64))
        for name, number in (("starts", start), ("ends", start + after[axis]), ("axes", axis))
    ]
    return Op("Cpu", op.name, [op.inputs[0], *bounds], [op.output], {"operator": "Slice"}, op.fused)
