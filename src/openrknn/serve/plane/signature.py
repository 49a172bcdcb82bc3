"""What a model takes and gives, in the words of the protocol, and whether a request fits.

The datatype of an input is what it likes best: UINT8 for pictures, FP32 for other real numbers. `Session.run` takes any
number, so the server does too. Outputs are what `Session.run` gives: FP32, or with `raw` the stored elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.container.model import Model, TensorSpec
from openrknn.container.parts import Graph
from openrknn.runtime.io.tensors import stored_type
from openrknn.runtime.shapes import allowed_shapes, specs
from openrknn.serve.datatypes import Array, datatype_of
from openrknn.serve.errors import BadRequestError

__all__ = ["Port", "Signature", "check_shape"]

_MAX_RANK = 8
_MAX_INPUT_NAME = 80


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    """-1 where several sizes are possible."""

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


class Signature:
    """Inputs and outputs of one model."""

    def __init__(self, model: Model) -> None:
        self.batch = max(model.batch_size, 1)
        """Items that one run takes; requests may bring fewer."""
        self.is_dynamic = model.is_dynamic
        self._allowed = allowed_shapes(model)
        self._names = [spec.name for spec in model.inputs]
        takes = [specs(model, graph, inputs=True) for graph in model.graphs]
        self.inputs = tuple(self._port(ports, _input_type(ports[0])) for ports in zip(*takes, strict=True))
        self.outputs = self._outputs(model)
        self._output_names = frozenset(port.name for port in self.outputs)

    def _port(self, ports: Sequence[TensorSpec], datatype: str) -> Port:
        return Port(ports[0].name, datatype, self._merged([port.shape for port in ports]))

    def _outputs(self, model: Model) -> tuple[Port, ...]:
        found = []
        for number, index in enumerate(model.graphs[0].outputs):
            tensor = model.graphs[0].tensors[index]
            is_real = tensor.quantization is not None or stored_type(tensor).kind == "f"
            datatype = "FP32" if is_real else datatype_of(stored_type(tensor))
            shapes = [self._output_shape(graph, number) for graph in model.graphs]
            found.append(Port(tensor.name, datatype, self._merged(shapes)))
        return tuple(found)

    def _output_shape(self, graph: Graph, number: int) -> tuple[int, ...]:
        shape = graph.tensors[graph.outputs[number]].shape
        return (shape[0] * self.batch, *shape[1:]) if shape else ()

    def _merged(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        first = shapes[0]
        merged = tuple(
            size if all(len(other) == len(first) and other[axis] == size for other in shapes) else -1
            for axis, size in enumerate(first)
        )
        return (-1, *merged[1:]) if self.batch > 1 and merged else merged

    # -- requests ------------------------------------------------------------------------------------------------

    def check_inputs(self, given: Mapping[str, Array]) -> int:
        """Refuse what no run could take; how many items of a batch there are."""
        unknown = [name for name in given if name not in self._names]
        if unknown:
            raise BadRequestError(f"no input is called {unknown[0][:_MAX_INPUT_NAME]!r}; there are {self._listed()}")
        missing = [name for name in self._names if name not in given]
        if missing:
            raise BadRequestError(f"input {missing[0]!r} is missing; the model takes {self._listed()}")
        if self.batch > 1:
            return self._check_batch(given)
        sizes = {name: array.size for name, array in given.items()}
        if not any(all(sizes[name] == math.prod(shape) for name, shape in entry.items()) for entry in self._allowed):
            wanted = " or ".join(str({name: list(shape) for name, shape in entry.items()}) for entry in self._allowed)
            shapes = {name: list(array.shape) for name, array in given.items()}
            raise BadRequestError(f"the shapes {shapes} do not fit; the model takes {wanted}")
        return 1

    def _check_batch(self, given: Mapping[str, Array]) -> int:
        counts = {array.shape[0] if array.ndim else 0 for array in given.values()}
        count = counts.pop()
        if counts or not 1 <= count <= self.batch:
            raise BadRequestError(f"the first dimension is the batch: 1 to {self.batch}, the same for all inputs")
        for name, array in given.items():
            wanted = self._allowed[0][name]
            if array.size * self.batch != count * math.prod(wanted):
                raise BadRequestError(f"input {name!r}: {list(array.shape)} does not fit {['batch', *wanted[1:]]}")
        return count

    def check_outputs(self, names: Iterable[str]) -> None:
        """Refuse outputs that the model does not have."""
        for name in names:
            if name not in self._output_names:
                there = ", ".join(repr(port.name) for port in self.outputs)
                raise BadRequestError(f"no output is called {name[:_MAX_INPUT_NAME]!r}; there are {there}")

    def largest_bytes(self) -> int:
        """Of all inputs together, as FP64: more than any request for this model needs."""
        return 8 * max(sum(math.prod(shape) for shape in entry.values()) for entry in self._allowed)

    def zeros(self) -> dict[str, Array]:
        """A request that fits, for the warm-up."""
        types = {port.name: np.uint8 if port.datatype == "UINT8" else np.float32 for port in self.inputs}
        whole = {port.name for port in self.inputs if port.datatype not in {"UINT8", "FP32"}}
        return {
            name: np.zeros(shape, np.int64 if name in whole else types[name])
            for name, shape in self._allowed[0].items()
        }

    def _listed(self) -> str:
        return ", ".join(f"{port.name!r} {port.datatype}{list(port.shape)}" for port in self.inputs)


def check_shape(shape: object, tensor: str) -> tuple[int, ...]:
    """A shape from the network: a short list of small whole numbers."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes) or len(shape) > _MAX_RANK:
        raise BadRequestError(f"input {tensor!r}: the shape is a list of at most {_MAX_RANK} numbers")
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 31:
            raise BadRequestError(f"input {tensor!r}: the shape {str(list(shape))[:60]} has a size that cannot be")
    return tuple(shape)


def _input_type(spec: TensorSpec) -> str:
    if spec.is_image:
        return "UINT8"
    if spec.quantization is not None or spec.dtype.startswith("float"):
        return "FP32"
    return _PLAIN.get(spec.dtype, "FP32")


_PLAIN = {
    "int8": "INT8", "uint8": "UINT8", "int16": "INT16", "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32",
    "int64": "INT64", "uint64": "UINT64", "bool": "UINT8",
}  # fmt: skip
