"""`rknn_runtime.lib`: functions of the C API as Python callables, for programs that go past the wheel's methods.

They take what ctypes functions take (`byref`, arrays, pointers, addresses) and return the C API's codes; the reason
for a code that is not 0 is in the log. What is not here raises AttributeError, as a library without that symbol does.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rknnlite.api import constants as c
from rknnlite.api.rknn_log import LOGGER
from rknnlite.api.structures import RKNNInput, RKNNOutput, RKNNOutputExtend, RKNNRtRunExtend, RKNNRtTensorAttr
from rknnlite.engine.codes import CAUGHT, CodeError, code_of
from rknnlite.engine.context import Context
from rknnlite.engine.outputs import Array
from rknnlite.engine.ports import InputPort
from rknnlite.engine.queries import QUERIES
from rknnlite.engine.sources import Source, read_source

__all__ = ["Function", "Library", "add_context", "destroy_context"]

_TYPES = {code: name for name, code in c.rknn_input_data_type.items()}
_CONTEXTS: dict[int, Context] = {}
_HANDLES = itertools.count(0x1000, 0x10)


def add_context(context: Context) -> int:
    """A handle, as the C API has it."""
    handle = next(_HANDLES)
    _CONTEXTS[handle] = context
    return handle


def destroy_context(handle: int) -> None:
    """Close a context; unknown handles are left alone."""
    context = _CONTEXTS.pop(handle, None)
    if context is not None:
        context.close()


def _context(handle: Any) -> Context:
    number = int(getattr(handle, "value", handle) or 0)
    try:
        return _CONTEXTS[number]
    except KeyError:
        text = f"there is no context {number:#x}; it was released, or never there"
        raise CodeError(c.RKNN_ERR_CTX_INVALID, text) from None


def _address(pointer: Any) -> int:
    """Of whatever ctypes takes for a pointer, a struct itself included; 0 for NULL."""
    if isinstance(pointer, ctypes.Structure):
        return ctypes.addressof(pointer)
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _structs(kind: type[ctypes.Structure], count: int, pointer: Any) -> list[Any]:
    address = _address(pointer)
    if not address:
        raise CodeError(c.RKNN_ERR_PARAM_INVALID, f"a pointer to {kind.__name__} is needed, not NULL")
    return list((kind * count).from_address(address))


def rknn_init(handle: Any, model: Any, size: int, flag: int = 0, extend: Any = None) -> None:
    """From bytes, or with size 0 from a path."""
    address = _address(model)
    source = Source(ctypes.string_at(address, size)) if size else read_source(ctypes.string_at(address).decode())
    ctypes.c_uint64.from_address(_address(handle)).value = add_context(Context(source))


def rknn_dup_context(handle: Any, copy: Any) -> None:
    """Another context with the same weights."""
    original = _context(ctypes.c_uint64.from_address(_address(handle)))
    made = Context(original.source, original.core_mask)
    ctypes.c_uint64.from_address(_address(copy)).value = add_context(made)


def rknn_destroy(handle: Any) -> None:
    """Give everything back."""
    _context(handle)
    destroy_context(int(getattr(handle, "value", handle)))


def rknn_query(handle: Any, command: int, info: Any, size: int) -> None:
    """Fill the struct that `info` points to."""
    context, number = _context(handle), int(getattr(command, "value", command))
    if number not in QUERIES:
        raise CodeError(c.RKNN_ERR_PARAM_INVALID, f"rknn_query {number} is not among {sorted(QUERIES)}")
    kind, answer = QUERIES[number]
    wanted, address = ctypes.sizeof(kind), _address(info)
    if not address or int(getattr(size, "value", size)) < wanted:
        text = f"rknn_query {number} fills {kind.__name__}, {wanted} bytes; there is room for {size}"
        raise CodeError(c.RKNN_ERR_PARAM_INVALID, text)
    with context.lock:
        filled = answer(context, ctypes.c_uint32.from_address(address).value)
    ctypes.memmove(address, ctypes.byref(filled), wanted)


def rknn_inputs_set(handle: Any, count: int, inputs: Any) -> None:
    """Copy the inputs."""
    context = _context(handle)
    given = sorted(_structs(RKNNInput, count, inputs), key=lambda entry: int(entry.index))
    ports = context.ports.inputs
    if [int(entry.index) for entry in given] != list(range(len(ports))):
        raise CodeError(c.RKNN_ERR_PARAM_INVALID, f"the model has {len(ports)} inputs; all are set together")
    passing = {bool(entry.pass_through) for entry in given}
    if len(passing) > 1:
        raise CodeError(c.RKNN_ERR_INPUT_INVALID, "all inputs pass through, or none")
    with context.lock:
        values = [_input_array(entry, port) for entry, port in zip(given, ports, strict=True)]
        context.hold(values, pass_through=passing.pop())


def _input_array(entry: Any, port: InputPort) -> Array:
    passes, kind = bool(entry.pass_through), _TYPES.get(int(entry.type))
    if not passes and kind is None:
        raise CodeError(c.RKNN_ERR_INPUT_INVALID, f"{port.name!r}: inputs cannot have type {entry.type}")
    dtype = port.dtype if passes or kind is None else np.dtype(kind)
    shape = port.native_shape if passes else port.shape
    needed = prod(shape) * dtype.itemsize
    if not entry.buf or entry.size < needed:
        text = f"{port.name!r} needs {needed} bytes of {dtype}; {entry.size} were given"
        raise CodeError(c.RKNN_ERR_PARAM_INVALID, text)
    flat = np.frombuffer(ctypes.string_at(entry.buf, needed), dtype)
    if passes or port.layout != "nhwc" or entry.fmt != c.RKNN_TENSOR_NCHW:
        return flat.reshape(shape)
    batches, height, width, channels = shape
    return flat.reshape(batches, channels, height, width).transpose(0, 2, 3, 1)


def rknn_set_input_shapes(handle: Any, count: int, attributes: Any) -> None:
    """Choose the shapes of a dynamic model."""
    context = _context(handle)
    given = sorted(_structs(RKNNRtTensorAttr, count, attributes), key=lambda entry: int(entry.index))
    context.choose_shapes(tuple(tuple(entry.dims[: entry.n_dims]) for entry in given))


def rknn_set_input_shape(handle: Any, attribute: Any) -> None:
    """The same for the only input."""
    rknn_set_input_shapes(handle, 1, attribute)


def rknn_set_core_mask(handle: Any, mask: int) -> None:
    """Say which cores work."""
    _context(handle).set_core_mask(int(getattr(mask, "value", mask)))


def rknn_run(handle: Any, extend: Any = None) -> None:
    """Run on the inputs that were set, and wait."""
    context = _context(handle)
    with context.lock:
        context.run_held()
        if extend is not None and _address(extend):
            _structs(RKNNRtRunExtend, 1, extend)[0].frame_id = context.frames


def rknn_wait(handle: Any, extend: Any = None) -> None:
    """A run has always ended when `rknn_run` returns."""
    _context(handle)


def rknn_outputs_get(handle: Any, count: int, outputs: Any, extend: Any = None) -> None:
    """Copy the outputs into the caller's memory, or into memory that lives until it is released."""
    context = _context(handle)
    with context.lock:
        for entry in _structs(RKNNOutput, count, outputs):
            _hand_out(context, entry)
        if extend is not None and _address(extend):
            _structs(RKNNOutputExtend, 1, extend)[0].frame_id = context.frames


def _hand_out(context: Context, entry: Any) -> None:
    there = len(context.ports.outputs)
    if entry.index >= there:
        raise CodeError(c.RKNN_ERR_OUTPUT_INVALID, f"output {entry.index} was asked for; there are {there}")
    array = context.output(int(entry.index), as_float=bool(entry.want_float))
    if not entry.is_prealloc:
        entry.buf, entry.size = array.ctypes.data, array.nbytes
        context.kept[array.ctypes.data] = array
        return
    if not entry.buf or entry.size < array.nbytes:
        text = f"output {entry.index} has {array.nbytes} bytes; there is room for {entry.size}"
        raise CodeError(c.RKNN_ERR_OUTPUT_INVALID, text)
    ctypes.memmove(entry.buf, array.ctypes.data, array.nbytes)


def rknn_outputs_release(handle: Any, count: int, outputs: Any) -> None:
    """Give memory of `rknn_outputs_get` back."""
    context = _context(handle)
    for entry in _structs(RKNNOutput, count, outputs):
        if not entry.is_prealloc and entry.buf:
            context.kept.pop(entry.buf, None)
            entry.buf = None


class Function:
    """A function of the C API: returns its code. `argtypes` and `restype` may be set, as on a ctypes function."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.argtypes: Any = None
        self.restype: Any = ctypes.c_int
        self._function = function

    def __call__(self, *arguments: Any) -> int:
        try:
            self._function(*arguments)
        except CAUGHT as error:
            LOGGER.error("%s: %s", self.__name__, error)
            return code_of(error)
        return c.RKNN_SUCC

    def __repr__(self) -> str:
        return f"<{self.__name__} of openrknn>"


class Library:
    """What stands where the vendor's wheel has a `ctypes.CDLL`."""

    _name = "openrknn"

    def __init__(self) -> None:
        for function in (
            rknn_init, rknn_dup_context, rknn_destroy, rknn_query, rknn_inputs_set, rknn_set_input_shapes,
            rknn_set_input_shape, rknn_set_core_mask, rknn_run, rknn_wait, rknn_outputs_get, rknn_outputs_release,
        ):  # fmt: skip
            setattr(self, function.__name__, Function(function))

    def __getattr__(self, name: str) -> Function:
        raise AttributeError(f"openrknn's rknnlite has no {name}; for zero copy see openrknn.Session.bind")
