"""Where folded constants stay: large ones outside the model, repetitions not written out, equal ones once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.evaluate import LARGEST, bomb
from openrknn.compiler.importer.lazy import BY_NUMBER, compact, is_lazy
from openrknn.compiler.importer.shapes import attach, detach, known_shapes
from openrknn.compiler.ir import Array
from openrknn.onnxgraph import reads_of

_ALIKE = 4096
"""Elements from which on it is worth to look whether constants repeat themselves, or each other."""


def constants_of(model: Any) -> dict[str, Array]:
    """The model's constants by name."""
    onnx = onnx_package()
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


class Store:
    """The constants of a model that is being folded. The model itself has their types and shapes."""

    def __init__(self, model: Any) -> None:
        self.constants = constants_of(model)
        self._waiting = detach(model)
        self._makers: dict[str, Any] = {}
        """Who made the constants that repeat themselves: they are written at the end, when readers are known."""
        self._same: dict[tuple[Any, ...], str] = {}

    def put(self, model: Any, found: Mapping[str, Array]) -> None:
        """Constants in the place of the nodes that made them."""
        onnx = onnx_package()
        nodes = list(model.graph.node)
        kept = [node for node in nodes if not all(name in found for name in node.output if name)]
        needed = {name for node in kept for name in reads_of(node)} | {entry.name for entry in model.graph.output}
        makers = {name: node for node in nodes for name in node.output if name in found}
        renamed: dict[str, str] = {}
        for name, array in found.items():
            if name not in needed:
                continue
            other = self._alike(name, array)
            if other != name:
                renamed[name] = other
                continue
            if array.size > LARGEST and not is_lazy(array):
                raise bomb(makers[name])
            if array.size > _ALIKE and is_lazy(array):
                self._makers[name] = makers[name]
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                model.graph.initializer.append(onnx.TensorProto(name=name, data_type=kind, dims=array.shape))
            else:
                model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
            self.constants[name] = array
        for node in kept:
            if renamed:
                _rename(node, renamed)
        del model.graph.node[:]
        model.graph.node.extend(kept)
        self._waiting.update(detach(model))

    def _alike(self, name: str, array: Array) -> str:
        """The first constant with the same numbers: layers make the same mask again and again."""
        if array.size <= _ALIKE:
            return name
        small = compact(array)
        if small.size > LARGEST:
            return name
        key = (array.dtype.str, array.shape, small.shape, hash(small.tobytes()))
        other = self._same.setdefault(key, name)
        known = self.constants.get(other)
        return other if known is not None and np.array_equal(compact(known), small) else name

    def finish(self, model: Any) -> None:
        """All numbers are in the model again; what its readers repeat by themselves is there once."""
        onnx = onnx_package()
        read = {name for node in model.graph.node for name in reads_of(node)}
        read.update(entry.name for entry in model.graph.output)
        lazy = {name: self.constants[name] for name in self._makers if name in read}
        alone = _repeated_by_readers(model, lazy)
        kept = []
        for tensor in model.graph.initializer:
            if tensor.name not in self._makers:
                kept.append(tensor)
            elif tensor.name in read:
                array = compact(lazy[tensor.name]) if tensor.name in alone else lazy[tensor.name]
                if array.size > LARGEST:
                    raise bomb(self._makers[tensor.name])
                kept.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), tensor.name))
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)
        attach(model, self._waiting)


def _rename(node: Any, names: Mapping[str, str]) -> None:
    for at, name in enumerate(node.input):
        if name in names:
            node.input[at] = names[name]
    for entry in node.attribute:
        if entry.HasField("g"):
            for inner in entry.g.node:
                _rename(inner, names)
            for value in entry.g.output:
                value.name = names.get(value.name, value.name)


def _repeated_by_readers(model: Any, lazy: Mapping[str, Array]) -> set[str]:
    """Those whose repetitions every reader makes by itself, as its other operands have the sizes of its result."""
    alone = set(lazy)
    if not alone:
        return alone
    shapes: dict[str, Sequence[int]] = dict(known_shapes(model))
    shapes.update((tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer)
    for node in model.graph.node:
        read = alone.intersection(reads_of(node))
        if not read:
            continue
        others = [shapes.get(name) for name in node.input if name not in lazy]
        known = [tuple(shape) for shape in others if shape is not None]
        fits = node.op_type in BY_NUMBER and known and len(known) == len(others)
        if not fits or np.broadcast_shapes(*known) != shapes.get(node.output[0]):
            alone -= read
    return alone - {entry.name for entry in model.graph.output}
