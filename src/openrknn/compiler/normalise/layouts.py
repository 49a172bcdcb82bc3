"""Operators move to where the numbers already lie: transpositions wander through the graph until they cancel.

Every value that Reshape and Transpose make is known as a `View` of the value before them. What works element by element
works on the base instead, and its result is the same view of the new base; what needs the numbers in order gets them
from the base in one go. So tokens [1, T, C] stay channels of pixels [1, C, 1, T] through a whole transformer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from openrknn.compiler.forms import Activation
from openrknn.compiler.identity import selection_conv
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.axes import View
from openrknn.compiler.normalise.common import constant
from openrknn.compiler.operators import ARITHMETIC

_BY_CHANNEL = {"prelu"}
_NPU = {
    "Conv", "ConvTranspose", "Convert", "Product", "Softmax", "Binary", "Activation", "Slice", "Concat", "MaxPool",
    *ARITHMETIC,
}  # fmt: skip


class Layouts:
    """One walk through the graph; `special` handles operators by type and says whether it did."""

    def __init__(self, graph: Graph, special: dict[str, Callable[[Layouts, Op], bool]] | None = None) -> None:
        self.graph = graph
        self.views: dict[str, View] = {}
        self._special = special or {}
        self._made: dict[tuple[object, ...], str] = {}
        self._ops: list[Op] = []
        self._by_npu: set[str] = set()
        self._done: set[str] = set()
        self._names: dict[str, tuple[str, ...]] = {}
        """Value -> the ONNX operators that moved it."""

    def run(self) -> None:
        graph = self.graph
        graph.sort()
        for op in list(graph.ops):
            if op.output in self._done:
                continue
            if (op.type in self._special and self._special[op.type](self, op)) or self._element_by_element(op):
                continue
            if op.type in {"Reshape", "Transpose"}:
                self._follow(op)
            else:
                op.inputs = [self.fetch(name) for name in op.inputs]
            self.emit(op)
        made: list[Op] = []
        for op in self._ops:
            is_end = op.type in {"Reshape", "Transpose"} and op.output in graph.outputs and op.output in self.views
            fused = self._names.get(op.output, ())
            made += self._chain(self.views[op.output], op.output, op.name, fused) if is_end else [op]
        graph.ops = made
        graph.sort()
        graph.prune()

    # -- for handlers ------------------------------------------------------------------------------------------

    def view(self, name: str) -> View:
        """What a value is made of."""
        return self.views.get(name) or View.of(name, self.graph.shape(name))

    def emit(self, *ops: Op) -> None:
        self._ops += ops
        self._by_npu.update(name for op in ops if op.type in _NPU for name in op.outputs)

    def maker(self, name: str) -> Op | None:
        """Who made a base so far."""
        return next((op for op in reversed(self._ops) if name in op.outputs), None)

    def skip(self, op: Op) -> None:
        """A later operator that became part of this one."""
        self._done.add(op.output)

    def result(self, op: Op, view: View, made: str) -> None:
        """The operator's output is a view of a new base; the moves that make it stay only if somebody needs them."""
        whole = View(made, view.sizes, view.order)
        self.views[op.output] = whole
        self.emit(*self._chain(whole, op.output, op.name))

    def base_of(self, op: Op, view: View, shape: Sequence[int], name: str = "") -> str:
        """A new value in the layout of a base; calibration gets it from the operator's output."""
        made = self.graph.add_value(name or f"{op.output}_base", shape)
        self.graph.derived[made] = derived_from(self.graph, op.output, lambda x: view.backward(x, shape))
        return made

    def arranged(self, view: View, shape: Sequence[int], name: str) -> str:
        """The numbers of a view, in its order, in any shape; `name` is an ONNX value with the same numbers in order."""
        graph = self.graph
        plain = view.joined()
        if plain.is_plain and tuple(shape) == graph.shape(plain.base):
            return plain.base
        key = (plain.base, plain.sizes, plain.order, tuple(shape))
        if key not in self._made:
            made = graph.add_value(f"{name}_moved", shape)
            base = plain.base
            graph.derived[made] = derived_from(graph, base, lambda x: plain.forward(x, shape))
            self.emit(*self._chain(plain, made, made, self._names.get(name, (name,))))
            self._made[key] = made
        return self._made[key]

    def fetch(self, name: str) -> str:
        """A value for an operator that wants it as it is in ONNX."""
        if name not in self.views:
            return name
        view, shape = self.views[name].joined(), self.graph.shape(name)
        return self._shuffled(view, shape, name) or self.arranged(view, shape, name)

    # -- operators ---------------------------------------------------------------------------------------------

    def _follow(self, op: Op) -> None:
        known = self._names.get(op.inputs[0], ())
        self._names[op.output] = (*known, *(name for name in op.fused or (op.name,) if name not in known))
        view, shape = self.view(op.inputs[0]), self.graph.shape(op.inputs[0])
        moved: View | None = view
        if op.type == "Transpose":
            moved = view.transposed(shape, op.attributes.get("perm") or range(len(shape))[::-1])
        if moved is not None and moved.dimensions(self.graph.shape(op.output)) is not None:
            self.views[op.output] = moved
        else:
            op.inputs = [self.fetch(op.inputs[0])]

    def _element_by_element(self, op: Op) -> bool:
        graph = self.graph
        names = graph.activations(op)
        is_one = isinstance(op.form, Activation) and op.form.function not in _BY_CHANNEL
        if not (is_one or (op.type in ARITHMETIC and len(op.inputs) == 2)) or not names:
            return False
        shape = graph.shape(op.output)
        whole = [name for name in names if graph.shape(name) == shape]
        moved = [name for name in whole if self._is_by_npu(name) and not self._is_settled(name)]
        if not moved:
            return False
        view = self.view(moved[0]).joined()
        base = graph.shape(view.base)
        spread = {name: self._spread(name, view, shape, base) for name in names if name not in whole}
        if None in spread.values():
            return False
        inputs = [spread.get(name) or self._operand(op, name, view, base) for name in op.inputs]
        made = self.base_of(op, view, base)
        self.emit(replace(op, inputs=inputs, outputs=[made]))
        self.result(op, view, made)
        return True

    def _is_by_npu(self, name: str) -> bool:
        """Whether the numbers come from the NPU as they lie there; others have to be moved to it in any case."""
        return self.view(name).base in self._by_npu

    def _is_settled(self, name: str) -> bool:
        """Whether the value is there as it is in ONNX."""
        view = self.view(name).joined()
        is_same = view.is_plain and self.graph.shape(view.base) == self.graph.shape(name)
        return is_same or (view.base, view.sizes, view.order, self.graph.shape(name)) in self._made

    def _operand(self, op: Op, name: str, view: View, base: Sequence[int]) -> str:
        """An operand in the layout of the base."""
        graph = self.graph
        array = constant(graph, op, op.inputs.index(name))
        if array is not None:
            return self._constant(name, array, view, graph.shape(op.output), base)
        own = self.view(name)
        if own.same_order(view):
            return self.arranged(View.of(own.base, graph.shape(own.base)), base, name)
        # Undo the order: the value's own factors, run through as the base does.
        back = tuple(int(entry) for entry in np.argsort(view.order))
        sizes = [view.sizes[entry] for entry in view.order]
        undone = own.transposed(sizes, back) if own.dimensions(sizes) is not None else None
        if undone is None:
            plain = self.fetch(name)
            undone = View(plain, tuple(sizes), back)
        return self.arranged(undone, base, name)

    def _spread(self, name: str, view: View, shape: Sequence[int], base: Sequence[int]) -> str | None:
        """An operand that repeats over some dimensions, in the layout of the base, with ones for what repeats."""
        own = (1,) * (len(shape) - len(self.graph.shape(name))) + self.graph.shape(name)
        cut = view.base_dimensions(base)
        again = cut[0].dimensions(shape) if cut is not None else None
        whole = again[0].base_dimensions(base) if again is not None else None
        if again is None or whole is None or len(own) != len(shape):
            return None
        fine, groups = again
        kept = [factor for at, group in enumerate(groups) if own[at] == shape[at] for factor in group]
        if any(0 < len(set(group) & set(kept)) < len(group) for group in whole[1]):
            return None  # a dimension of the base repeats in part
        sizes = [fine.sizes[factor] for factor in kept]
        moved = self.view(name).transposed(sizes, [int(entry) for entry in np.argsort(kept)])
        if moved is None:
            return None
        slim = [size if not group or group[0] in kept else 1 for size, group in zip(base, whole[1], strict=True)]
        return self.arranged(moved, slim, name)

    def _constant(self, name: str, array: Array, view: View, shape: Sequence[int], base: Sequence[int]) -> str:
        """In the layout of the base; dimensions that repeat stay 1 where they can."""
        if array.size == 1:
            return name
        key = ("constant", name, view.sizes, view.order, tuple(base))
        if key not in self._made:
            full = np.broadcast_to(array, shape)
            moved = view.backward(full, base)
            for axis in range(len(base)):
                first = moved.take([0], axis)
                if np.array_equal(moved, np.broadcast_to(first, moved.shape)):
                    moved = first
            self._made[key] = self.graph.add_constant(f"{name}_moved", np.ascontiguousarray(moved))
        return self._made[key]

    # -- moves -------------------------------------------------------------------------------------------------

    def _chain(self, view: View, target: str, name: str, fused: tuple[str, ...] = ()) -> list[Op]:
        """Reshape, Transpose, Reshape: what is needed of it."""
        fused = fused or (name,)
        graph = self.graph
        view, shape = view.joined(), graph.shape(target)
        if view.is_plain:
            return [Op("Reshape", name, [view.base], [target], {}, fused)]
        order = self._as_one(view, shape)
        if order is not None:
            return [Op("Transpose", name, [view.base], [target], {"perm": order}, fused)]
        steps, source = [], view.base
        sizes = (1, *view.sizes)
        if graph.shape(source) != sizes:
            apart = graph.add_value(f"{target}_apart", sizes)
            graph.derived[apart] = derived_from(graph, view.base, lambda x: x.reshape(sizes))
            steps.append(Op("Reshape", apart, [source], [apart], {}, fused))
            source = apart
        order = [0, *(entry + 1 for entry in view.order)]
        turned = tuple(sizes[entry] for entry in order)
        if turned == tuple(shape):
            return [*steps, Op("Transpose", name, [source], [target], {"perm": order}, fused)]
        ordered = graph.add_value(f"{target}_turned", turned)
        graph.derived[ordered] = derived_from(graph, view.base, lambda x: view.forward(x, turned))
        steps.append(Op("Transpose", ordered, [source], [ordered], {"perm": order}, fused))
        return [*steps, Op("Reshape", name, [ordered], [target], {}, fused)]

    def _as_one(self, view: View, shape: Sequence[int]) -> list[int] | None:
        """The order of a single Transpose, where dimensions only change places."""
        base = self.graph.shape(view.base)
        cut = view.base_dimensions(base)
        again = cut[0].dimensions(shape) if cut is not None else None
        if again is None or len(base) != len(shape):
            return None
        fine, groups = again
        whole = fine.base_dimensions(base)
        if whole is None or any(group and group not in whole[1] for group in groups):
            return None
        ones = [axis for axis, size in enumerate(base) if size == 1]
        return [whole[1].index(group) if group else ones.pop(0) for group in groups]

    def _shuffled(self, view: View, shape: Sequence[int], name: str) -> str | None:
        """Channels in another order, pixels where they were: a 1x1 convolution that picks."""
        graph = self.graph
        base = graph.shape(view.base)
        cut = view.base_dimensions(base)
        if cut is None or view.is_plain or len(shape) < 3 or len(base) not in (3, 4) or base[0] != 1:
            return None
        fine, groups = cut
        again = fine.dimensions(shape)
        if again is None or again[0].sizes != fine.sizes or shape[:2] != base[:2]:
            return None
        channels = groups[1]
        if fine.order[len(channels) :] != tuple(range(len(channels), len(fine.order))):
            return None
        key = ("shuffle", view.base, fine.sizes, fine.order, tuple(shape))
        if key not in self._made:
            picks = np.arange(base[1]).reshape([fine.sizes[entry] for entry in channels])
            picks = picks.transpose(fine.order[: len(channels)]).reshape(-1)
            made = graph.add_value(f"{name}_shuffled", base)
            graph.derived[made] = derived_from(graph, view.base, lambda x: x[:, picks])
            conv = selection_conv(graph, view.base, made, made, picks, "Pick")
            self.emit(conv)
            self._made[key] = made
        made = self._made[key]
        return self.arranged(View.of(made, base), shape, name)


def derived_from(graph: Graph, name: str, function: Callable[[Array], Array]) -> tuple[str, Callable[[Array], Array]]:
    """How calibration gets a value, from one that ONNX has."""
    before = graph.derived.get(name)
    if before is None:
        return name, function
    source, first = before
    return source, lambda x: function(first(x))
