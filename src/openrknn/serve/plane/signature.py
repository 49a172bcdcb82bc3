"""What a model takes and gives, in the words of the protocol, and whether a request fits.

An input names its preferred datatype: UINT8 for pictures, FP32 for other real numbers. `Session.run` accepts any number
type, so the server does too. Outputs are what `Session.run` returns: FP32, or with `raw` the stored elements.
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
from openrknn.serve.datatypes import DATATYPES, Array, datatype_of
from openrknn.serve.errors import BadRequestError
from openrknn.serve.shared.tensor import Tensor

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

    def __init__(
        self,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        allowed: Sequence[Mapping[str, tuple[int, ...]]],
        *,
        batch: int = 1,
        is_dynamic: bool = False,
        answer_elements: int = 0,
        is_parted: bool = False,
        open_elements: int = 0,
    ) -> None:
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.batch = batch
        """Items that one run takes; requests may bring fewer."""
        self.is_dynamic = is_dynamic
        self.allowed = tuple(dict(entry) for entry in allowed)
        """The sets of input shapes that one run takes."""
        self.answer_elements = answer_elements
        """Of all outputs of one run together, at most."""
        self.is_parted = is_parted
        """A model in parts: types and shapes are the model's own, and nothing is turned round."""
        self.open_elements = open_elements
        """Of all inputs of one request together, where no plan bounds them; 0: plans do."""
        self._names = [port.name for port in self.inputs]
        self._output_names = frozenset(port.name for port in self.outputs)

    @classmethod
    def of(cls, model: Model) -> Signature:
        """What a model takes and gives."""
        batch = max(model.batch_size, 1)
        takes = [specs(model, graph, inputs=True) for graph in model.graphs]
        inputs = [
            Port(ports[0].name, _input_type(ports[0]), _merged([port.shape for port in ports], batch))
            for ports in zip(*takes, strict=True)
        ]
        shapes = [[_output_shape(graph, index, batch) for index in graph.outputs] for graph in model.graphs]
        return cls(
            inputs,
            _outputs(model, batch),
            allowed_shapes(model),
            batch=batch,
            is_dynamic=model.is_dynamic,
            answer_elements=max(sum(map(math.prod, graph)) for graph in shapes),
        )

    # -- requests ------------------------------------------------------------------------------------------------

    def check_inputs(self, given: Mapping[str, Tensor]) -> int:
        """Refuse what no run could take; how many items of a batch there are."""
        unknown = [name for name in given if name not in self._names]
        if unknown:
            raise BadRequestError(f"no input is called {unknown[0][:_MAX_INPUT_NAME]!r}; there are {self._listed()}")
        missing = [name for name in self._names if name not in given]
        if missing:
            raise BadRequestError(f"input {missing[0]!r} is missing; the model takes {self._listed()}")
        if self.is_parted:
            return self._check_parted(given)
        if self.batch > 1:
            return self._check_batch(given)
        sizes = {name: array.size for name, array in given.items()}
        if not any(all(sizes[name] == math.prod(shape) for name, shape in entry.items()) for entry in self.allowed):
            wanted = " or ".join(str({name: list(shape) for name, shape in entry.items()}) for entry in self.allowed)
            shapes = {name: list(array.shape) for name, array in given.items()}
            raise BadRequestError(f"the shapes {shapes} do not fit; the model takes {wanted}")
        return 1

    def _check_parted(self, given: Mapping[str, Tensor]) -> int:
        """Types and dimensions; which plan runs, and whether there is one, the session decides."""
        for port in self.inputs:
            array = given[port.name]
            fits = len(array.shape) == len(port.shape) and all(
                wanted in {-1, size} for size, wanted in zip(array.shape, port.shape, strict=True)
            )
            if not fits:
                shape = list(array.shape)
                raise BadRequestError(f"input {port.name!r}: {shape} does not fit {list(port.shape)} (-1: any)")
            if array.dtype.kind == "f" and not port.datatype.startswith("FP"):
                raise BadRequestError(f"input {port.name!r} is {port.datatype}; real numbers were sent")
        most = self.largest_bytes() // 8
        if sum(array.size for array in given.values()) > most:
            raise BadRequestError(f"the inputs have more than {most} numbers together")
        return 1

    def _check_batch(self, given: Mapping[str, Tensor]) -> int:
        counts = {array.shape[0] if array.ndim else 0 for array in given.values()}
        count = counts.pop()
        if counts or not 1 <= count <= self.batch:
            raise BadRequestError(f"the first dimension is the batch: 1 to {self.batch}, the same for all inputs")
        for name, array in given.items():
            wanted = self.allowed[0][name]
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
        return 8 * max(self.open_elements, *(sum(map(math.prod, entry.values())) for entry in self.allowed))

    def answer_bytes(self) -> int:
        """Of all outputs together, as the widest type: more than any answer needs."""
        return 8 * self.answer_elements

    def zeros(self) -> dict[str, Array]:
        """A request that fits, for the warm-up; whole numbers of a model in parts are ones: lengths, masks, tokens."""
        if self.is_parted:
            kinds = {port.name: DATATYPES[port.datatype] for port in self.inputs}
            return {
                name: (np.zeros if kinds[name].kind == "f" else np.ones)(shape, kinds[name])
                for name, shape in self.allowed[0].items()
            }
        types = {port.name: np.uint8 if port.datatype == "UINT8" else np.float32 for port in self.inputs}
        whole = {port.name for port in self.inputs if port.datatype not in {"UINT8", "FP32"}}
        return {
            name: np.zeros(shape, np.int64 if name in whole else types[name])
            for name, shape in self.allowed[0].items()
        }

    def _listed(self) -> str:
        return ", ".join(f"{port.name!r} {port.datatype}{list(port.shape)}" for port in self.inputs)


def check_shape(shape: object, tensor: str) -> tuple[int, ...]:
    """A shape from the network: a short list of small whole numbers."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes) or len(shape) > _MAX_RANK:
        raise BadRequestError(f"input {tensor[:80]!r}: the shape is a list of at most {_MAX_RANK} numbers")
    for size in shape:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 1 << 31:
            raise BadRequestError(f"input {tensor[:80]!r}: sizes of a shape are whole numbers from 1 to 2147483647")
    return tuple(shape)


def _outputs(model: Model, batch: int) -> list[Port]:
    found = []
    for number, index in enumerate(model.graphs[0].outputs):
        tensor = model.graphs[0].tensors[index]
        is_real = tensor.quantization is not None or stored_type(tensor).kind == "f"
        datatype = "FP32" if is_real else datatype_of(stored_type(tensor))
        shapes = [_output_shape(graph, graph.outputs[number], batch) for graph in model.graphs]
        found.append(Port(tensor.name, datatype, _merged(shapes, batch)))
    return found


def _output_shape(graph: Graph, index: int, batch: int) -> tuple[int, ...]:
    shape = graph.tensors[index].shape
    return (shape[0] * batch, *shape[1:]) if shape else ()


def _merged(shapes: Sequence[tuple[int, ...]], batch: int) -> tuple[int, ...]:
    """One shape for all graphs: -1 where they differ."""
    first = shapes[0]
    merged = tuple(
        size if all(len(other) == len(first) and other[axis] == size for other in shapes) else -1
        for axis, size in enumerate(first)
    )
    return (-1, *merged[1:]) if batch > 1 and merged else merged


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
