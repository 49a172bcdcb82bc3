"""Concatenations and slices without tasks: tensors that are windows into others."""

from __future__ import annotations

from openrknn.compiler.forms import Concat, Conv, Slice
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.lower.context import Lowering


def place_views(low: Lowering) -> dict[str, list[str]]:
    """Give slices and the parts of concatenations their parents.

    Returns what has to be copied after all: for each concatenation by its output its parts, and slices themselves.
    """
    graph = low.graph
    views = _Views(low)
    copies: dict[str, list[str]] = {}
    for op in graph.ops:
        if op.type == "Reshape" and _is_same_memory(low, views, op):
            views.put(op.output, op.inputs[0])
        elif op.type == "Fold":
            views.put(op.output, op.inputs[0])
            views.folded.add(op.output)
    for op in reversed(graph.ops):  # windows of a window come first: what reads them decides about it
        if op.type == "Slice":
            form = op.get(Slice)
            if _needs_copy(views, op, form):
                copies[op.output] = [op.output]
            elif form.along_pixels:
                views.put(op.output, op.inputs[0], pixel=form.start)
            else:
                views.put(op.output, op.inputs[0], channel=form.start)
    for op in graph.ops:
        if op.type == "Concat":
            copies[op.output] = (_pixels if op.get(Concat).along_pixels else _concat)(low, views, op)
    views.settle()
    return copies


class _Views:
    """Windows by surface and pixel; bytes follow when it is known how far apart the surfaces are in the end."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.makers, self.readers = low.graph.producers(), low.graph.readers()
        self._places: dict[str, tuple[int, int]] = {}
        self.folded: set[str] = set()
        """Whose surfaces are as far apart as they have pixels."""
        self._children: dict[str, list[str]] = {}

    def put(self, name: str, parent: str, *, channel: int = 0, pixel: int = 0) -> None:
        self.low.tensor(name).parent = parent
        self._places[name] = channel // self.low.format_of(name).atom, pixel
        self._children.setdefault(parent, []).append(name)

    def settle(self) -> None:
        for name in self.low.graph.values:
            tensor, (root, _) = self.low.tensor(name), self.low.program.root(name)
            if name in self.folded:
                tensor.pitch = tensor.cube[1] * tensor.cube[2]
                continue
            tensor.pitch = root.pitch
            if name in self._places:
                surface, pixel = self._places[name]
                tensor.parent_offset = (surface * root.pitch + pixel) * self.low.target.atom_bytes

    def is_by_cpu(self, name: str) -> bool:
        """Whether the CPU or the outside touches a value or a window of it: they know maps of their own only."""
        graph = self.low.graph
        if name in graph.outputs or name in graph.inputs or self.low.tensor(name).layout != "feature":
            return True
        users = [*self.readers[name], *([self.makers[name]] if name in self.makers else [])]
        if any(op.type == "Cpu" or (op.type == "Reshape" and self.low.tensor(op.output).parent is None)
               for op in users):  # fmt: skip
            return True
        return any(self.is_by_cpu(child) for child in self._children.get(name, ()))

    def source(self, op: Op) -> str:
        """The map that a slice, and what it is a slice of, are windows into."""
        name = op.inputs[0]
        while name not in self.low.graph.outputs and name in self.makers:
            maker = self.makers[name]
            if maker.type != "Slice" and (maker.type != "Reshape" or self.low.tensor(name).parent is None):
                break
            name = maker.inputs[0]
        return name

    def origin(self, name: str) -> str:
        """The value that this one is another shape of."""
        while name in self.makers and self.makers[name].type == "Reshape" and self.low.tensor(name).parent is not None:
            name = self.makers[name].inputs[0]
        return name


def _needs_copy(views: _Views, op: Op, form: Slice) -> bool:
    """Whether a slice is a buffer of its own.

    An output of the model always is. The CPU reads no run of pixels, and no window into an output: that memory may be
    the user's.
    """
    outputs = views.low.graph.outputs
    if op.output in outputs:
        return True
    reaches_outside = form.along_pixels or views.source(op) in outputs
    return reaches_outside and views.is_by_cpu(op.output)


def _pixels(low: Lowering, views: _Views, op: Op) -> list[str]:
    """Parts of one run of pixels, in all surfaces."""
    copied = []
    for name, start in zip(op.inputs, op.get(Concat).starts, strict=True):
        if name in low.graph.constants or op.inputs.count(name) > 1:
            copied.append(name)
            continue
        whole = views.origin(name)
        maker = views.makers.get(whole)
        is_free = low.tensor(whole).parent is None and maker is not None and whole != op.output
        if not is_free or views.is_by_cpu(whole):
            copied.append(name)
        else:
            views.put(whole, op.output, pixel=start)
    return copied


def _is_same_memory(low: Lowering, views: _Views, op: Op) -> bool:
    """Rows and columns only, between two operators of the NPU: pixels lie one after the other in any case."""
    graph = low.graph
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    (channels, *before), (others, *after) = source.cube, target.cube
    if channels != others or before[0] * before[1] != after[0] * after[1] or op.output in graph.outputs:
        return False
    maker = views.makers.get(op.inputs[0])
    by_npu = maker is not None and (
        maker.type not in {"Cpu", "Reshape"} or (maker.type == "Reshape" and source.parent is not None)
    )
    to_npu = all(_is_npu(low, reader) for reader in views.readers[op.output])
    is_map = source.layout == target.layout == "feature" and source.element_bytes == target.element_bytes
    return by_npu and to_npu and is_map


def _is_npu(low: Lowering, op: Op) -> bool:
    """Whether an operator reads maps: a Reshape of pixels alone does."""
    if op.type != "Reshape":
        return op.type != "Cpu"
    (before, *_), (after, *_) = (low.tensor(name).cube for name in (op.inputs[0], op.output))
    return False if op.output in low.graph.outputs else before == after and low.tensor(op.output).layout == "feature"


def _concat(low: Lowering, views: _Views, op: Op) -> list[str]:
    target = op.output
    copied = []
    placed: dict[str, int] = {}
    for number, (name, start) in enumerate(zip(op.inputs, op.get(Concat).starts, strict=True)):
        if name in low.graph.constants:
            copied.append(name)
        elif op.inputs.count(name) > 1 or not _may_move(low, name, target):
            source = _whole_source(low, op, number)
            if source is not None and _is_read_from_outside(low, source[0], target):
                source = None
            if source is not None and placed.get(source[0], source[1]) == source[1]:
                if source[0] not in placed:
                    views.put(source[0], target, channel=source[1])
                    placed[source[0]] = source[1]
                continue
            copied.append(name)
        elif not _ascending(low, op, number) or _is_read_from_outside(low, name, target):
            copied.append(name)
        else:
            views.put(name, target, channel=start)
    return copied


def _may_move(low: Lowering, name: str, target: str) -> bool:
    """A separate internal tensor that has not been placed yet."""
    graph = low.graph
    tensor = low.tensor(name)
    outside = name in graph.inputs or name in graph.outputs
    makers = graph.producers()
    by_cpu = name in makers and makers[name].type in {"Cpu", "Reshape"}
    return tensor.parent is None and not outside and tensor.layout == "feature" and not by_cpu and name != target


def _is_read_from_outside(low: Lowering, name: str, target: str) -> bool:
    """Whether the CPU would read a window into an output: that memory may be the user's, a window has no address."""
    graph = low.graph
    if low.program.root(target)[0].name not in graph.outputs:
        return False
    inside = {entry for entry in graph.values if low.program.root(entry)[0].name == name}
    return any(op.type in {"Cpu", "Reshape"} and inside.intersection(op.inputs) for op in graph.ops)


def _whole_source(low: Lowering, op: Op, number: int) -> tuple[str, int] | None:
    """Where all slices of a tensor stand in the concatenation side by side, the tensor itself can live there."""
    graph = low.graph
    slices = {
        entry.output: (entry.inputs[0], entry.form.start)
        for entry in graph.ops
        if isinstance(entry.form, Slice) and not entry.form.along_pixels
    }
    name = op.inputs[number]
    if name not in slices or op.inputs.count(name) > 1:
        return None
    source, begin = slices[name]
    tensor, starts = low.tensor(source), op.get(Concat).starts
    first = starts[number] - begin
    covered = 0
    for other, start in zip(op.inputs, op.get(Concat).starts, strict=True):
        if other in slices and slices[other][0] == source:
            if start - slices[other][1] != first:
                return None
            covered += low.tensor(other).cube[0]
    is_free = tensor.parent is None or tensor.parent == op.output
    outside = source in graph.inputs or source in graph.outputs
    if first < 0 or covered != tensor.cube[0] or not is_free or outside or tensor.layout != "feature":
        return None
    return source, first


def _ascending(low: Lowering, op: Op, number: int) -> bool:
    """A convolution may write up to the end of its last group: what follows must be written later.

    Whether it really does is not known (only a board can tell), so the order has to be safe.
    """
    graph = low.graph
    order = {name: at for at, entry in enumerate(graph.ops) for name in entry.outputs}
    name = op.inputs[number]
    maker = graph.producer(name)
    channels = low.tensor(name).cube[0]
    made = maker.form if maker is not None else None
    if not (isinstance(made, Conv) or (isinstance(made, Slice | Concat) and made.along_pixels)):
        return True
    form = low.format_of(name)
    group = form.depthwise_group if isinstance(made, Conv) and made.group > 1 else form.group
    if channels % group == 0 or number == len(op.inputs) - 1:
        return True
    return all(_written(graph, other, order) > order[name] for other in op.inputs[number + 1 : number + 2])


def _written(graph: Graph, name: str, order: dict[str, int]) -> int:
    makers = graph.producers()
    while name in makers and makers[name].type == "Slice":
        name = makers[name].inputs[0]
    return order.get(name, -1)

