"""Runs a `.rknn` operator by operator on the software NPU, and looks at each result before its memory is used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Tensor
from openrknn.device import Device
from openrknn.runtime.engine import LocalEngine, Options
from openrknn.runtime.io.tensors import StoredTensor, stored_bytes
from openrknn.runtime.io.values import decode, encode

Array: TypeAlias = npt.NDArray[Any]


class Window(NamedTuple):
    """The place of a tensor that is a part of another one. Files do not say how far apart its surfaces are."""

    root: str
    start: int
    """Bytes into the root."""
    pitch: int
    """Atoms from one surface to the next."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One tensor, right after the operator that makes it."""

    tensor: Tensor
    operator: Operator | None
    """None for inputs of the model."""
    stored: Array
    """Elements as the NPU stores them, in the original shape."""

    @property
    def real(self) -> Array:
        """The numbers that they stand for."""
        return decode(self.stored, self.tensor)


class Inspector(Closing):
    """A model on a device whose operators are run one by one."""

    def __init__(
        self, model: Model, device: str = "auto", *, graph: int = 0, windows: Mapping[str, Window] | None = None,
        engine: LocalEngine | None = None,
    ) -> None:  # fmt: skip
        """`windows`: by name, for tensors whose place the compiler of the file knows better than the file.

        `engine`: of a session on one core, which stays open; see `inspector_of`.
        """
        self.model = model
        self.graph = model.graphs[graph]
        self._windows = windows or {}
        self._is_owner = engine is None
        self._engine = LocalEngine.open(model, device, Options()) if engine is None else engine
        try:
            self._program = self._engine.program(graph)
        except BaseException:
            self.close()
            raise
        self._internal = self._engine.internal
        self._own = {buffer.name: buffer.array for buffer in self._program.buffers}
        self.operators = self._program.operators

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self._engine.device

    def close(self) -> None:
        """Give the engine back, if it is its own."""
        if self._is_owner:
            self._engine.close()

    @property
    def has_intact_weights(self) -> bool:
        """Whether no operator so far has changed them."""
        return self._engine.has_intact_weights()

    def prepare(self) -> None:
        """Decode the tasks of every operator now; a session that shares the engine then runs on the same ones."""
        self._program.prepare_single_steps(frozenset())

    def clear(self) -> None:
        """Memory as it is before the first run: nothing that a session left there may help an operator."""
        self._internal[...] = 0
        for name in (*self._program.names, *(port.name for port in self._program.outputs)):
            self._program.buffer_of(name).array[...] = 0
        for port in self._program.inputs:
            port.renew_row_ends("stored")

    def feed(self, arrays: Mapping[str, Array], layout: str | None) -> None:
        """Put the inputs in. As numbers, never as raw pixels: so the quantised input can be looked at as well.

        The runtime quantises numbers as the converter of the NPU does raw pixels, bit for bit.
        """
        for port in self._program.inputs:
            array = arrays[port.name]
            port.feed(array.astype(np.float32) if array.dtype == np.uint8 else array, layout)

    def captured(self) -> Iterator[Captured]:
        """Run freely: every operator works on what the ones before it made."""
        yield from (self._look(port.tensor, None) for port in self._program.inputs)
        for operator in self._steps(lambda operator: None):
            yield from (self._look(tensor, operator) for tensor in operator.outputs)

    def isolated(self, teacher: Mapping[str, Array]) -> Iterator[Captured]:
        """Give every operator the teacher's numbers, stored as the file says; tensors without a teacher stay ours."""
        kept: dict[str, Array] = {}
        last = {tensor.name: operator.index for operator in self.operators for tensor in operator.inputs}
        for port in self._program.inputs:
            port.fill_row_ends("stored")

        def prepare(operator: Operator) -> None:
            for tensor in operator.inputs:
                if not tensor.kind.is_activation:
                    continue
                if tensor.name in kept:
                    self._whole(tensor)[...] = kept[tensor.name]
                if tensor.name in teacher:
                    self._stored(tensor).write(stored_as(teacher[tensor.name], tensor))

        for operator in self._steps(prepare):
            for tensor in operator.inputs:
                if last[tensor.name] <= operator.index:
                    kept.pop(tensor.name, None)
            for tensor in operator.outputs:
                if last.get(tensor.name, -1) > operator.index:
                    kept[tensor.name] = self._whole(tensor).copy()
                yield self._look(tensor, operator)

    def _steps(self, prepare: Callable[[Operator], None]) -> Iterator[Operator]:
        """Every operator after its work is done; one that has no tasks is done by its neighbours."""
        waiting = [operator for operator in self.operators if operator.outputs]
        timed = self._program.run_timed(frozenset())
        working = {operator.index for operator in self.operators if operator.tasks or operator.placement != "npu"}
        for operator in waiting:
            prepare(operator)
            if operator.index in working:
                next(timed)
            yield operator

    def _memory(self, tensor: Tensor) -> npt.NDArray[np.uint8]:
        """All bytes of a tensor, the ones between its elements included."""
        if tensor.name in self._own:
            return self._own[tensor.name]
        window = self._windows.get(tensor.name)
        if window is not None and window.root in self._own:
            return self._own[window.root][window.start :]
        size = None if window is not None else tensor.offset + stored_bytes(tensor)
        return self._internal[tensor.offset : size]

    def _whole(self, tensor: Tensor) -> Array:
        """All that belongs to a tensor: of a part of another one only its own elements."""
        return self._stored(tensor).native if tensor.name in self._windows else self._memory(tensor)

    def _stored(self, tensor: Tensor) -> StoredTensor:
        window = self._windows.get(tensor.name)
        if window is not None:  # its surfaces are as far apart as those of the whole
            tensor = replace(tensor, pixel_alignment=window.pitch)
        return StoredTensor(tensor, self._memory(tensor))

    def _look(self, tensor: Tensor, operator: Operator | None) -> Captured:
        return Captured(tensor, operator, self._stored(tensor).read())


def stored_as(values: Array, tensor: Tensor) -> Array:
    """Real numbers as the elements of a tensor: quantised, or rounded to its format."""
    from openrknn.runtime.io.tensors import stored_type

    return encode(values.reshape(tensor.shape), tensor, stored_type(tensor))
