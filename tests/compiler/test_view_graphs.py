"""Random graphs of views whose pieces are outputs and are also read elsewhere. Evidence: ONNX in float."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from openrknn.compiler import compile_model
from openrknn.compiler.errors import CompileError
from openrknn.compiler.float_model import FloatModel
from openrknn.runtime.session import Session
from tests.compiler.nets import Array, Net, feeds

Piece = tuple[str, tuple[int, ...]]


class Views(Net):
    """Grows a graph of views; `seed` decides everything."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.shape = tuple(int(size) for size in (1, *self.random.choice([1, 2, 3, 4, 6, 8, 16], 3)))
        self.pieces: list[Piece] = [("x", self.shape)]
        self.outputs: list[str] = []

    def grown(self) -> onnx.ModelProto:
        self.pieces = [self._work(self.pieces[0])]
        for _ in range(int(self.random.integers(3, 8))):
            piece = self.pieces[self.random.integers(len(self.pieces))]
            steps = [self._work, self._transpose, self._split, self._concat, self._reshape, self._slice, self._identity]
            self.pieces.append(steps[self.random.integers(len(steps))](piece))
        made = [name for name, _ in self.pieces]
        chosen = set(self.random.choice(made, min(3, len(made)), replace=False)) | {made[-1]}
        self.outputs = [name for name in dict.fromkeys(made) if name in chosen]
        return self.model({"x": self.shape}, self.outputs, opset=18)

    def _work(self, piece: Piece) -> Piece:
        name, shape = piece
        kind = ("Relu", "Add", "Sigmoid", "Softmax")[self.random.integers(4)]
        if kind == "Add":
            return self.add("Add", name, self.constant(self.random.normal(0, 1, shape))), shape
        given = {"axis": int(self.random.integers(len(shape)))} if kind == "Softmax" else {}
        return self.add(kind, name, **given), shape

    def _transpose(self, piece: Piece) -> Piece:
        name, shape = piece
        order = [int(axis) for axis in self.random.permutation(len(shape))]
        return self.add("Transpose", name, perm=order), tuple(shape[axis] for axis in order)

    def _axis(self, shape: tuple[int, ...]) -> int | None:
        axes = [axis for axis, size in enumerate(shape) if size > 1]
        return int(self.random.choice(axes)) if axes else None

    def _split(self, piece: Piece) -> Piece:
        name, shape = piece
        axis = self._axis(shape)
        if axis is None:
            return self._identity(piece)
        first = int(self.random.integers(1, shape[axis]))
        sizes = [first, shape[axis] - first]
        names = [f"{name}_{len(self.nodes)}_{number}" for number in range(2)]
        self.nodes.append(helper.make_node("Split", [name, self.constant(sizes, np.int64)], names, axis=axis))
        made = [(part, (*shape[:axis], size, *shape[axis + 1 :])) for part, size in zip(names, sizes, strict=True)]
        self.pieces.append(made[1])
        return made[0]

    def _concat(self, piece: Piece) -> Piece:
        name, shape = piece
        fitting = [other for other in self.pieces if other[1] == shape]
        other = fitting[self.random.integers(len(fitting))][0]
        axis = int(self.random.integers(len(shape)))
        return self.add("Concat", name, other, axis=axis), (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])

    def _reshape(self, piece: Piece) -> Piece:
        name, shape = piece
        sizes = list(shape)
        axis = int(self.random.integers(len(sizes)))
        if len(sizes) > 2 and self.random.integers(2):  # two dimensions become one
            axis = int(self.random.integers(len(sizes) - 1))
            sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
        elif sizes[axis] % 2 == 0 and len(sizes) < 4:
            sizes[axis : axis + 1] = [2, sizes[axis] // 2]
        else:
            sizes[0], sizes[-1] = sizes[-1], sizes[0]
        return self.add("Reshape", name, self.constant(sizes, np.int64)), tuple(sizes)

    def _slice(self, piece: Piece) -> Piece:
        name, shape = piece
        axis = self._axis(shape)
        if axis is None:
            return self._identity(piece)
        start = int(self.random.integers(shape[axis]))
        end = int(self.random.integers(start, shape[axis])) + 1
        limits = (self.constant([value], np.int64) for value in (start, end, axis))
        return self.add("Slice", name, *limits), (*shape[:axis], end - start, *shape[axis + 1 :])

    def _identity(self, piece: Piece) -> Piece:
        return self.add("Identity", piece[0]), piece[1]


def wrong_outputs(seed: int, chip: str = "rk3588") -> dict[str, float] | str:
    """Outputs that differ from float, with the largest error; or why the graph was refused."""
    views = Views(seed)
    model = views.grown()
    value = np.random.default_rng(seed).normal(0, 1, views.shape).astype(np.float32)
    try:
        compiled = compile_model(model, chip, check=False)
    except CompileError as error:
        return str(error)
    wanted = dict(FloatModel(model, views.outputs).run({"x": value}))
    with Session(compiled.model, "software") as session:
        found = session.run(value, layout="nchw")
    errors = {name: _error(found[name], wanted[name]) for name in views.outputs}
    return {name: error for name, error in errors.items() if error > 0.02}


def _error(found: Array, wanted: Array) -> float:
    return float(np.abs(found.reshape(wanted.shape) - wanted).max()) if found.size == wanted.size else float("inf")


@pytest.mark.parametrize("seed", [*range(20), 75, 131, 156])
def test_random_views(seed: int) -> None:
    """75, 131 and 156 had outputs of zeros: the CPU read a window into another output of the model."""
    found = wrong_outputs(seed)
    assert not found or isinstance(found, str)


@pytest.mark.parametrize(("target", "form"), [("rk3588", "int8"), ("rk3588", "fp16"), ("rv1106", "int8")])
def test_a_column_that_is_added_to_all_columns(target: str, form: str) -> None:
    """Its numbers are surfaces apart, and the reader of numbers for channels takes them one after the other."""
    net = Net()
    shape = (1, 17, 1, 2)
    model = net.model({"x": shape, "y": shape}, [net.add("Add", "left", "y")])
    model.graph.node.insert(0, helper.make_node("Split", ["x"], ["left", "right"], axis=3))
    data = [dict(zip("xy", feeds(shape, 2, seed), strict=True)) for seed in range(3)]
    made = compile_model(model, target, calibration=data if form == "int8" else None)
    assert made.check.snr_db > 35
