"""Zero copy: inputs, outputs, weights and internals in memory that the caller owns."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.vendor.context.answers import TensorAttributes
from openrknn.vendor.context.io_rules import check_input_type, input_bytes, output_as
from openrknn.vendor.context.queries import ContextQueries
from openrknn.vendor.library.handle import Handle
from openrknn.vendor.memory.tensor_memory import TensorMemory
from openrknn.vendor.tables.enums import InitFlag, TensorFormat, TensorType
from openrknn.vendor.tables.versions import Version

_OUTSIDE = InitFlag.MEM_ALLOC_OUTSIDE
_CHANGES_ITS_MIND = Version(1, 6)
"""Newer ones have not been examined; the library decides."""
_INTERNAL = InitFlag.MEM_ALLOC_OUTSIDE | InitFlag.INTERNAL_ALLOC_OUTSIDE


@dataclass(frozen=True, slots=True)
class Binding:
    """A tensor in a memory: its attributes, and a view in natural order."""

    attributes: TensorAttributes
    memory: TensorMemory

    @property
    def array(self) -> npt.NDArray[Any]:
        """The tensor without a copy, in the order of `attributes.format`; the padding of rows is left out."""
        tensor = self.attributes
        if tensor.format is not TensorFormat.NHWC or len(tensor.shape) != 4:
            return self.memory.array(tensor.dtype, tensor.shape)
        batches, height, width, channels = tensor.shape
        rows, pixels = max(tensor.height_stride, height), max(tensor.width_stride, width)
        return self.memory.array(tensor.dtype, (batches, rows, pixels, channels))[:, :height, :width]


class ContextBindings(ContextQueries):
    """A context with memory of the caller's."""

    def __init__(
        self, handle: Handle, flags: InitFlag, chip: Chip | None, family: set[str] | None = None
    ) -> None:
        super().__init__(handle, flags, chip, family)
        self._bound: dict[str, tuple[TensorMemory, int]] = {}
        self._ways: dict[int, tuple[bool, TensorType | None]] = {}
        if _OUTSIDE in flags:
            self._blockers["weights"] = "the context has no memory for weights; give it with set_weight_memory"
        if _OUTSIDE in flags or InitFlag.INTERNAL_ALLOC_OUTSIDE in flags:
            self._blockers["internal"] = "the context has no memory for internals; give it with set_internal_memory"
        if _OUTSIDE in flags and "info" not in self._blockers:
            for kind, count in (("input", self.counts.inputs), ("output", self.counts.outputs)):
                for index in range(count):
                    self._blockers[f"{kind} {index}"] = f"{kind} {index} has no memory; give it with bind_{kind}"

    # ---------------------------------------------------------------------------------------------- tensors

    def bind_input(
        self,
        which: int | str,
        memory: TensorMemory | None = None,
        *,
        type: TensorType | None = None,  # noqa: A002 - the C API's name
        pass_through: bool = False,
        height_stride: int = 0,
    ) -> Binding:
        """`rknn_set_io_mem` for an input; without a memory one of the right size is made.

        By default the memory holds NHWC numbers of `type` (the model's own if it is not given), which the library
        converts. With `pass_through` it holds what the NPU reads: see `native_inputs`.
        """
        self._ensure_shaped()
        index = self._index("input", which)
        plain, native = self.inputs[index], self.native_inputs[index]
        if pass_through:
            chosen, needed = native.replaced(pass_through=True), native.size_with_stride_bytes
        else:
            kind = plain.type if type is None else TensorType(type)
            check_input_type(plain, kind, self.library.version)
            needed = input_bytes(plain, kind, height_stride)
            chosen = plain.replaced(type=kind, height_stride=height_stride, pass_through=False)
        way = (pass_through, chosen.type if native.format is TensorFormat.NHWC else None)
        if self.library.version < _CHANGES_ITS_MIND and self._ways.get(index, way) != way:
            raise ValueError(
                f"library {self.library.version} reads input {plain.name!r} as it was first bound, and wrongly if that "
                "changes (pass_through, or the type of a picture); use another context for it"
            )
        made = self._bind(f"input {index}", chosen, memory, needed)
        self._ways[index] = way
        return made

    def bind_output(
        self,
        which: int | str,
        memory: TensorMemory | None = None,
        *,
        format: TensorFormat | None = None,  # noqa: A002 - the C API's name
        type: TensorType | None = None,  # noqa: A002 - the C API's name
    ) -> Binding:
        """`rknn_set_io_mem` for an output; without a memory one of the right size is made.

        By default the NPU writes straight into it: its own layout, the model's own type. With another layout or with
        float32 the library converts after each run.
        """
        self._ensure_shaped()
        index = self._index("output", which)
        chosen, needed = output_as(
            self.outputs[index],
            self.native_outputs[index],
            self.nhwc_outputs[index],
            None if format is None else TensorFormat(format),
            None if type is None else TensorType(type),
        )
        return self._bind(f"output {index}", chosen, memory, needed)

    def set_io_memory(self, memory: TensorMemory, attributes: TensorAttributes) -> Binding:
        """`rknn_set_io_mem` as the C API has it: the attributes of a query, perhaps with another type or layout.

        The name selects the tensor. What the library would do wrong is refused.
        """
        for tensor in self.inputs:
            if tensor.name == attributes.name:
                if attributes.format is TensorFormat.NHWC and not attributes.pass_through:
                    return self.bind_input(
                        tensor.index, memory, type=attributes.type, height_stride=attributes.height_stride
                    )
                if attributes.format is self.native_inputs[tensor.index].format and attributes.pass_through:
                    return self.bind_input(tensor.index, memory, pass_through=True)
                if attributes.format is tensor.format:
                    return self.bind_input(tensor.index, memory, type=attributes.type)
                raise ValueError(f"input {tensor.name!r} is NHWC, or native with pass_through=True")
        for tensor in self.outputs:
            if tensor.name == attributes.name:
                return self.bind_output(tensor.index, memory, format=attributes.format, type=attributes.type)
        raise ValueError(f"the model has no input or output {attributes.name!r}")

    def _bind(self, key: str, chosen: TensorAttributes, memory: TensorMemory | None, needed: int) -> Binding:
        with self._lock:
            self._ensure_open()
            self._require("rknn_set_io_mem")
            memory = self.create_memory(needed) if memory is None else self._own(memory, needed, key)
            raw = self.library.structs.rknn_tensor_attr()
            chosen.fill(raw)
            self._call("rknn_set_io_mem", memory.pointer, ctypes.byref(raw), about=f"{key} {chosen.name!r}")
            self._remember(key, memory, needed)
        return Binding(chosen, memory)

    # ---------------------------------------------------------------------------------------------- the rest

    def set_weight_memory(self, memory: TensorMemory | None = None) -> TensorMemory:
        """`rknn_set_weight_mem`: needs InitFlag.MEM_ALLOC_OUTSIDE; without a memory one of the right size is made."""
        if _OUTSIDE not in self.flags:
            raise ValueError("the caller's memory for weights needs a context with InitFlag.MEM_ALLOC_OUTSIDE")
        return self._set("rknn_set_weight_mem", "weights", memory, self.memory_size.weights_bytes)

    def set_internal_memory(self, memory: TensorMemory | None = None) -> TensorMemory:
        """`rknn_set_internal_mem`: needs InitFlag.MEM_ALLOC_OUTSIDE or INTERNAL_ALLOC_OUTSIDE."""
        if not self.flags & _INTERNAL:
            raise ValueError(
                "the caller's memory for internals needs a context with InitFlag.INTERNAL_ALLOC_OUTSIDE or "
                "MEM_ALLOC_OUTSIDE"
            )
        return self._set("rknn_set_internal_mem", "internal", memory, self.memory_size.internal_bytes)

    def _set(self, function: str, key: str, memory: TensorMemory | None, needed: int) -> TensorMemory:
        with self._lock:
            self._ensure_open()
            self._require(function)
            memory = self.create_memory(max(needed, 1)) if memory is None else self._own(memory, needed, key)
            self._call(function, memory.pointer)
            self._remember(key, memory, needed)
        return memory

    def _own(self, memory: TensorMemory, needed: int, key: str) -> TensorMemory:
        if not isinstance(memory, TensorMemory):
            raise TypeError(f"{key} needs a TensorMemory, not {type(memory).__name__}")
        if memory.handle is not self._handle:
            raise ValueError(
                f"the memory for {key} belongs to another context; use this one's memory_from_fd(memory.fd, ...)"
            )
        if memory.pointer and memory.size_bytes < needed:
            raise ValueError(f"{key} needs {needed} bytes of memory, this one has {memory.size_bytes}")
        return memory

    def _remember(self, key: str, memory: TensorMemory, needed: int) -> None:
        self._bound[key] = (memory, needed)
        self._blockers.pop(key, None)
        memory.on_close(partial(self._memory_closed, key))

    def _memory_closed(self, key: str, memory: TensorMemory) -> None:
        """The library would use freed memory at the next run."""
        if self._bound.get(key, (None, 0))[0] is memory:
            del self._bound[key]
            self._blockers[key] = f"the memory of {key} was closed; bind another"

    def _shapes_changed(self) -> None:
        """Bound tensors may need more room now."""
        for key in [key for key in self._bound if key.startswith(("input", "output"))]:
            self._blockers[key] = f"the shapes changed; bind {key} again"

    # ---------------------------------------------------------------------------------------------- inside

    def _ensure_shaped(self) -> None:
        """The library aborts if tensors of a dynamic model are touched before a shape was chosen."""
        self._ensure_open()
        for key in ("shape", "info"):
            if key in self._blockers:
                raise ValueError(self._blockers[key])

    def _index(self, kind: str, which: int | str) -> int:
        """The number of an input or output that was given by number or name."""
        tensors = self.inputs if kind == "input" else self.outputs
        if isinstance(which, str):
            names = [tensor.name for tensor in tensors]
            if which not in names:
                raise KeyError(f"there is no {kind} {which!r}; there are {', '.join(names)}")
            return names.index(which)
        if not 0 <= which < len(tensors):
            raise IndexError(f"there is no {kind} {which}; the model has {len(tensors)}")
        return which
