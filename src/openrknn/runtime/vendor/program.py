"""One graph in the vendor's library, with inputs and outputs in memory that NPU and CPU share: nothing is copied twice.

Arrays become bytes and bytes become arrays by the same ports as on the software NPU, so both give the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy.typing as npt

from openrknn.container.model import Model
from openrknn.container.parts import DataType, Graph, Placement, Tensor
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.inputs import InputPort
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import StoredTensor, row_bytes
from openrknn.runtime.io.user_memory import DmaBuf, check_stride
from openrknn.vendor.memory.tensor_memory import TensorMemory
from openrknn.vendor.tables.enums import TensorType

if TYPE_CHECKING:
    from openrknn.vendor.context.answers import TensorAttributes
    from openrknn.vendor.context.context import Context


@dataclass(slots=True, eq=False)
class BoundContext:
    """A context, and the program whose memory is bound to it."""

    context: Context
    program: VendorProgram | None = None
    """Whose memory it uses."""
    detours: Mapping[int, npt.NDArray[Any]] = field(default_factory=dict)
    """Inputs that go through another memory; see `VendorProgram`."""


class Contexts(Protocol):
    """Who makes contexts of the library: the engine."""

    def home(self, graph: int) -> Context:
        """The context that the memory of a graph belongs to."""

    def bound_context(self, pixels: frozenset[str], graph: int) -> BoundContext:
        """The one for these shapes, and for inputs of this kind."""


class VendorProgram:
    """Ports over memory that contexts of the engine share; each program binds its memory when it runs."""

    def __init__(
        self, engine: Contexts, model: Model, graph: Graph, places: Mapping[str, object] | None = None
    ) -> None:
        self.model, self.graph, self._engine = model, graph, engine
        self._context = context = engine.home(graph.index)
        self._batch = max(model.batch_size, 1)
        self.batch = model.batch_size if model.batch_size > 1 else 0
        self._memories: dict[str, TensorMemory] = {}
        self._stored: dict[str, list[StoredTensor]] = {}
        self._owned: list[TensorMemory] = []
        self._imported: dict[int, dict[str, TensorMemory]] = {}
        self._detours: Mapping[int, npt.NDArray[Any]] = {}
        inputs = [graph.tensors[index] for index in graph.inputs]
        outputs = [graph.tensors[index] for index in graph.outputs]
        natives = {one.name: one for one in (*context.native_inputs, *context.native_outputs)}
        try:
            for tensor in (*inputs, *outputs):
                self._allocate(tensor, natives, (places or {}).get(tensor.name))
        except BaseException:
            self.close()
            raise
        self.lanes = tuple(
            (
                tuple(self._input(number, tensor, item) for number, tensor in enumerate(inputs)),
                tuple(OutputPort(self._stored[tensor.name][item]) for tensor in outputs),
            )
            for item in range(self._batch)
        )
        self.inputs, self.outputs = self.lanes[0]
        self.names = tuple(port.name for port in self.inputs)
        self._fed: frozenset[str] | None = None
        self._run = context.run

    def run(self, pixels: frozenset[str]) -> None:
        """Execute it on what the inputs hold."""
        if self._fed is not pixels and self._fed != pixels:
            self._bind(pixels)
        if self._detours:
            self._take_detours()
        self._run()

    def forget(self) -> None:
        """Another program, or other shapes, took the context: bind again before the next run."""
        self._fed = None

    def close(self) -> None:
        """Give the memory back; views of it stay valid."""
        for memories in self._imported.values():
            for memory in memories.values():
                memory.close()
        self._imported.clear()
        for memory in self._owned:
            memory.close()
        self._owned.clear()

    @property
    def input_memories(self) -> tuple[TensorMemory, ...]:
        """Where the inputs are, in the order of the model."""
        return tuple(self._memories[name] for name in self.names)

    def sizes(self) -> dict[str, int]:
        """Bytes of inputs and outputs; the library keeps the commands to itself."""
        totals = {"commands": 0, "inputs": 0, "outputs": 0}
        for name, memory in self._memories.items():
            totals["inputs" if name in self.names else "outputs"] += memory.size_bytes
        return totals

    # ---------------------------------------------------------------------------------------------- memory

    def _allocate(self, tensor: Tensor, natives: Mapping[str, TensorAttributes], given: object) -> None:
        if tensor.name not in natives:
            known = ", ".join(natives)
            raise UnsupportedError(f"the library does not know tensor {tensor.name!r}; it has {known}")
        needed = max(natives[tensor.name].size_with_stride_bytes, tensor.size_bytes * self._batch)
        if isinstance(given, DmaBuf):
            check_stride(given, tensor.name, row_bytes(tensor))
        memory = self._memory(tensor.name, given, needed)
        self._memories[tensor.name] = memory
        whole = memory.array()
        step = natives[tensor.name].size_with_stride_bytes // self._batch
        self._stored[tensor.name] = [StoredTensor(tensor, whole[item * step :]) for item in range(self._batch)]

    def _memory(self, name: str, given: object, needed: int) -> TensorMemory:
        if isinstance(given, TensorMemory):
            return given
        if isinstance(given, DmaBuf):
            made = self._context.memory_from_fd(given.fd, given.length(), offset=given.offset)
        elif given is None:
            made = self._context.create_memory(needed)
            made.array()[...] = 0
        else:
            raise TypeError(
                f"{name!r}: the vendor's library takes a DmaBuf or a TensorMemory, not {type(given).__name__}; the NPU "
                "cannot see ordinary memory"
            )
        self._owned.append(made)
        if made.size_bytes < needed:
            raise ValueError(f"{name!r} needs {needed} bytes of memory, this has {made.size_bytes}")
        return made

    def _bind(self, pixels: frozenset[str]) -> None:
        """Take the context for inputs of this kind, and tell it where everything is."""
        self._fed = None
        bound = self._engine.bound_context(pixels, self.graph.index)
        context, memories = bound.context, self._memories_in(bound)
        if bound.program is not self:
            bound.program = None
            detours = {}
            for number, port in enumerate(self.inputs):
                memory = memories[port.name]
                if port.name in pixels:
                    context.bind_input(port.name, memory, type=TensorType.UINT8)
                elif port.stored.padding is not None:
                    detours[number] = context.bind_input(port.name, type=TensorType.FLOAT32).array
                else:
                    context.bind_input(port.name, memory, pass_through=True)
            for output in self.outputs:
                context.bind_output(output.name, memories[output.name])
            bound.program, bound.detours = self, detours
        self._run, self._detours = context.run, bound.detours
        self._fed = pixels

    def _take_detours(self) -> None:
        """Pictures with padded rows that hold stored numbers.

        Runtime 1.5.2 fills the ends of their rows as if they were pixels, which spoils the right edge. As floats it
        gets them right, and rounds them to the numbers that they came from.
        """
        for number, floats in self._detours.items():
            for item, (inputs, _) in enumerate(self.lanes):
                one = inputs[number].numbers()
                floats[item * len(one) : (item + 1) * len(one)] = one

    def _memories_in(self, bound: BoundContext) -> Mapping[str, TensorMemory]:
        """The memory as another context sees it: memory belongs to the one that it was made in."""
        if bound.context is self._context:
            return self._memories
        key = id(bound)
        if key not in self._imported:
            self._imported[key] = {
                name: bound.context.memory_from_fd(
                    memory.fd, memory.size_bytes, offset=max(memory.offset, 0), buffer=memory.virtual_address
                )
                for name, memory in self._memories.items()
            }
        return self._imported[key]

    # ---------------------------------------------------------------------------------------------- ports

    def _input(self, number: int, tensor: Tensor, item: int) -> InputPort:
        norms = self.graph.normalizations
        stored = self._stored[tensor.name][item]
        return InputPort(
            stored,
            norms[number] if number < len(norms) else None,
            takes_pixels=number < len(norms) and self._takes_pixels(tensor, stored),
        )

    def _takes_pixels(self, tensor: Tensor, stored: StoredTensor) -> bool:
        """As on the software NPU: all who read the input have a converter in front."""
        readers = [one for one in self.model.operators_of(self.graph) if tensor in one.inputs]
        return (
            stored.is_image
            and tensor.dtype is DataType.INT8
            and any(patch.input == tensor.name for patch in self.graph.convert_patches)
            and all(one.placement is Placement.NPU for one in readers if one.type != "OutputOperator")
        )
