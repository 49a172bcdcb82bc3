"""Copying inputs in and outputs out: `rknn_inputs_set` and `rknn_outputs_get` with buffers that are checked once.

    inputs = context.prepare_inputs([image])        # checked here
    outputs = context.prepare_outputs()             # allocated here
    while True:
        camera.read_into(image)
        inputs.set(); context.run(); outputs.get()  # three C calls, nothing is allocated
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.vendor.context.bindings import ContextBindings
from openrknn.vendor.context.io_rules import array_type, check_input_array
from openrknn.vendor.errors import call_error
from openrknn.vendor.tables.enums import InitFlag


class InputSet:
    """Arrays that are handed to the library again and again."""

    def __init__(
        self, context: ContextIo, arrays: Mapping[int, npt.NDArray[Any]], pass_through: frozenset[int] = frozenset()
    ) -> None:
        self.arrays = dict(arrays)
        """By input; change their contents, not the arrays."""
        self._context = context
        self._generation = context.generation
        self._function = context.library.function("rknn_inputs_set")
        self._structs = (context.library.structs.rknn_input * len(arrays))()
        for raw, (index, array) in zip(self._structs, arrays.items(), strict=True):
            raw.index, raw.buf, raw.size = index, array.ctypes.data, array.nbytes
            raw.pass_through = int(index in pass_through)
            raw.type, raw.fmt = int(array_type(array)), int(context.inputs[index].format)

    def set(self) -> None:
        """`rknn_inputs_set`: the library copies and converts what is in the arrays now."""
        context = self._context
        with context.lock:
            context.ensure_current(self._generation)
            code = self._function(context.number, len(self._structs), self._structs)
        if code < 0:
            raise call_error("rknn_inputs_set", code, context.library.version)


class OutputSet:
    """Arrays that the library fills again and again."""

    def __init__(self, context: ContextIo, arrays: Sequence[npt.NDArray[Any]], want_float: bool) -> None:
        self.arrays = tuple(arrays)
        self.frame_id = 0
        """The number of the run that the outputs belong to, where the library counts runs."""
        self._context = context
        self._generation = context.generation
        self._get = context.library.function("rknn_outputs_get")
        self._release = context.library.function("rknn_outputs_release")
        self._extend = context.library.structs.rknn_output_extend()
        self._structs = (context.library.structs.rknn_output * len(arrays))()
        for index, (raw, array) in enumerate(zip(self._structs, arrays, strict=True)):
            raw.index, raw.buf, raw.size = index, array.ctypes.data, array.nbytes
            raw.want_float, raw.is_prealloc = int(want_float), 1

    def get(self) -> tuple[npt.NDArray[Any], ...]:
        """`rknn_outputs_get`: the outputs of the last run, in the same arrays each time."""
        context = self._context
        count = len(self._structs)
        with context.lock:
            context.ensure_current(self._generation)
            context.ensure_ran()
            code = self._get(context.number, count, self._structs, ctypes.byref(self._extend))
            if code >= 0:
                self._release(context.number, count, self._structs)
        if code < 0:
            raise call_error("rknn_outputs_get", code, context.library.version)
        self.frame_id = self._extend.frame_id
        return self.arrays


class ContextIo(ContextBindings):
    """A context with inputs and outputs that are copied."""

    @property
    def lock(self) -> Any:
        """Held during each call on this context."""
        return self._lock

    @property
    def number(self) -> int:
        """The `rknn_context`, for functions that are called through `library`."""
        self._ensure_open()
        return self._handle.value

    @property
    def generation(self) -> int:
        """Changes with the shapes: prepared inputs and outputs are good for one."""
        return self._generation

    def ensure_current(self, generation: int) -> None:
        """Raise if the context was closed, or has other shapes than when something was prepared."""
        self._ensure_open()
        if generation != self._generation:
            raise ValueError("the shapes changed; prepare inputs and outputs again")

    def ensure_ran(self) -> None:
        """Raise if there is no result yet: the library would hand out what its memory happens to hold."""
        if not self._runs:
            raise ValueError("there are no outputs before the first run")

    def prepare_inputs(
        self,
        arrays: Sequence[npt.NDArray[Any]] | Mapping[int | str, npt.NDArray[Any]] | npt.NDArray[Any],
        *,
        pass_through: bool | Sequence[bool] = False,
    ) -> InputSet:
        """Check arrays once, to set them often. A sequence has one array for each input; a mapping may leave some out.

        Arrays are NHWC where the input is (see `inputs`), contiguous, and of a type that the library converts. With
        `pass_through` they hold the bytes that the NPU reads (see `native_inputs`).
        """
        self._ensure_shaped()
        self._require("rknn_inputs_set")
        if InitFlag.MEM_ALLOC_OUTSIDE in self.flags:
            raise ValueError("a context with InitFlag.MEM_ALLOC_OUTSIDE takes inputs by bind_input")
        given = self._by_index(arrays)
        raw = _raw_inputs(pass_through, len(self.inputs))
        plain, native, version = self.inputs, self.native_inputs, self.library.version
        checked = {
            index: check_input_array(plain[index], native[index], array, index in raw, version)
            for index, array in given.items()
        }
        return InputSet(self, checked, raw)

    def _by_index(self, arrays: Any) -> dict[int, Any]:
        if isinstance(arrays, Mapping):
            given = {self._index("input", which): array for which, array in arrays.items()}
        else:
            listed = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
            if len(listed) != len(self.inputs):
                raise ValueError(f"the model has {len(self.inputs)} inputs, {len(listed)} were given")
            given = dict(enumerate(listed))
        if not given:
            raise ValueError("no inputs were given")
        return given

    def prepare_outputs(
        self, *, want_float: bool = True, out: Sequence[npt.NDArray[Any]] | None = None
    ) -> OutputSet:
        """Allocate arrays for the outputs once, or check those in `out`.

        With `want_float` they are float32; without, of the model's own type (see `outputs`).
        """
        self._ensure_shaped()
        self._require("rknn_outputs_get")
        kinds = [np.dtype(np.float32) if want_float else tensor.dtype for tensor in self.outputs]
        shapes = [tensor.shape for tensor in self.outputs]
        if out is None:
            made = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)]
            return OutputSet(self, made, want_float)
        if len(out) != len(shapes):
            raise ValueError(f"the model has {len(shapes)} outputs, {len(out)} arrays were given")
        for index, (array, shape, kind) in enumerate(zip(out, shapes, kinds, strict=True)):
            _check_output_array(index, array, shape, kind)
        return OutputSet(self, out, want_float)

    def set_inputs(
        self,
        arrays: Sequence[npt.NDArray[Any]] | Mapping[int | str, npt.NDArray[Any]] | npt.NDArray[Any],
        *,
        pass_through: bool | Sequence[bool] = False,
    ) -> None:
        """`rknn_inputs_set`; see `prepare_inputs` for what it takes."""
        self.prepare_inputs(arrays, pass_through=pass_through).set()

    def get_outputs(
        self, *, want_float: bool = True, out: Sequence[npt.NDArray[Any]] | None = None
    ) -> tuple[npt.NDArray[Any], ...]:
        """`rknn_outputs_get` into new arrays, or into those of `out`."""
        return self.prepare_outputs(want_float=want_float, out=out).get()


def _raw_inputs(pass_through: bool | Sequence[bool], count: int) -> frozenset[int]:
    if isinstance(pass_through, bool):
        return frozenset(range(count)) if pass_through else frozenset()
    if len(pass_through) != count:
        raise ValueError(f"pass_through has {len(pass_through)} entries, the model {count} inputs")
    return frozenset(index for index, raw in enumerate(pass_through) if raw)


def _check_output_array(index: int, array: object, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"output {index} needs a NumPy array, not {type(array).__name__}")
    if array.dtype != kind or array.shape != shape:
        raise ValueError(f"output {index} is {kind} {list(shape)}, the array is {array.dtype} {list(array.shape)}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"the array for output {index} must be contiguous and writable")
