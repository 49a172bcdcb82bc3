"""Random ONNX graphs of the operators that the compiler accepts: a seed makes the same graph every time.

Values have 1 to 5 dimensions and odd sizes; operands are shared, broadcast, and constant on either side. An operator
that does not fit the shapes at hand is drawn again, so every graph is valid ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

__all__ = ["Drawing", "draw"]

_OPSET = 20
_MOST = 20000
"""Elements of a value: graphs are many, so they are small."""
_FLAGS = {"Greater", "Less", "GreaterOrEqual"}
_TRIES = 60
_LEADS = ((1,), (1,), (1,), (1,), (2,), (3,))
"""First sizes: one item mostly, sometimes a batch."""
_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 32)


@dataclass(slots=True)
class Drawing:
    """A graph that grows."""

    random: np.random.Generator
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    """Values that are true or false: only who made them reads them."""

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def value(self, *ranks: int) -> str | None:
        """One of the values, late ones rather than early ones."""
        fitting = [
            name for name, shape in self.shapes.items()
            if (not ranks or len(shape) in ranks) and name not in self.flags
        ]  # fmt: skip
        if not fitting:
            return None
        return str(self.pick(fitting[-3:] if self.chance(0.7) else fitting))

    def constant(self, array: npt.ArrayLike, dtype: Any = np.float32) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        return self.constant(self.random.normal(0, scale, shape))

    def weights(self, *shape: int) -> str:
        return self.normal(*shape, scale=max(1, int(np.prod(shape[1:]))) ** -0.5)

    def add(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> str:
        """A node; its shapes are inferred by ONNX. Raises ValueError where that gives nothing or too much."""
        names = [f"t{len(self.nodes)}" + (f"_{at}" if count > 1 else "") for at in range(count)]
        node = helper.make_node(kind, list(inputs), names, name=f"{kind}_{names[0]}", **attributes)
        for name, shape in zip(names, self._infer(node, names), strict=True):
            if not shape or not all(shape) or np.prod(shape) > _MOST:
                raise ValueError(f"{kind} makes {shape}")
            self.shapes[name] = shape
            if kind in _FLAGS:
                self.flags.add(name)
        self.nodes.append(node)
        return names[-1] if count == 1 else names[0]

    def _infer(self, node: Any, names: list[str]) -> list[tuple[int, ...]]:
        known = {tensor.name: tensor for tensor in self.constants}
        entries = [
            helper.make_tensor_value_info(name, self._type(name), self.shapes[name])
            for name in dict.fromkeys(node.input)
            if name in self.shapes
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in names]
        stored = [known[name] for name in dict.fromkeys(node.input) if name in known]
        graph = helper.make_graph([node], "one", entries, outputs, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)
        try:
            made = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        except Exception as error:  # noqa: BLE001  (what does not fit is drawn again)
            raise ValueError(str(error)) from None
        return [tuple(dim.dim_value for dim in entry.type.tensor_type.shape.dim) for entry in made.graph.output]

    def _type(self, name: str) -> int:
        return int(onnx.TensorProto.BOOL if name in self.flags else onnx.TensorProto.FLOAT)

    def model(self, first: int = 0) -> Any:
        """From a node on. Unread values are outputs, and now and then one that is read, too."""
        nodes = self.nodes[first:]
        read = {name for node in nodes for name in node.input}
        made = [name for node in nodes for name in node.output]
        ends = [name for name in made if name not in read]
        inner = [name for name in made if name in read - self.flags]
        if inner and not first and self.chance(0.2):
            ends.append(self.pick(inner))
        kind = onnx.TensorProto.FLOAT
        fed = [name for name in self.shapes if name in read and name not in made]
        graph = helper.make_graph(
            nodes, "random",
            [helper.make_tensor_value_info(name, kind, self.shapes[name]) for name in fed],
            [helper.make_tensor_value_info(name, kind, self.shapes[name]) for name in ends],
            [tensor for tensor in self.constants if tensor.name in read],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=9)


def draw(
    seed: int, operators: Sequence[Callable[[Drawing], object]], accepts: Callable[[Any], bool] = lambda model: True
) -> Any:
    """The graph of a seed: 3 to 12 operators over one to three inputs, each of which is accepted alone."""
    drawing = Drawing(np.random.default_rng(seed))
    _inputs(drawing)
    wanted = int(drawing.random.integers(3, 13))
    for _ in range(_TRIES):
        if len(drawing.nodes) >= wanted:
            break
        kept = len(drawing.nodes), len(drawing.constants), dict(drawing.shapes)
        try:
            drawing.pick(operators)(drawing)
            if not accepts(drawing.model(kept[0])):
                raise ValueError("not accepted")
        except ValueError:
            del drawing.nodes[kept[0] :], drawing.constants[kept[1] :]
            drawing.shapes = kept[2]
    return drawing.model()


def _inputs(drawing: Drawing) -> None:
    rank = int(drawing.pick((1, 2, 3, 3, 4, 4, 4, 4, 4, 5)))
    for number in range(int(drawing.pick((1, 1, 1, 2, 2, 3)))):
        if number and drawing.chance(0.7):
            shape = drawing.shapes["x0"]
        else:
            rank = rank if number == 0 or drawing.chance(0.8) else int(drawing.pick((2, 3, 4)))
            lead = drawing.pick(_LEADS) if not number else drawing.shapes["x0"][:1]
            shape = (*lead, *(int(drawing.pick(_SIZES)) for _ in range(rank - 1)))
            if rank == 1:
                shape = (int(drawing.pick(_SIZES)),)
            while np.prod(shape) > _MOST // 4:
                shape = (*shape[:1], *(max(1, size // 2) for size in shape[1:]))
        drawing.inputs.append(f"x{number}")
        drawing.shapes[f"x{number}"] = tuple(shape)
