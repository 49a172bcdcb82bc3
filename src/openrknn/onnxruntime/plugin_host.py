"""The functions that the native library calls: compiling and running parts, in this process.

The structs are those of native/ortprovider/host.h. No exception leaves a function: its text becomes the reason.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.errors import RknnError, UnsupportedError
from openrknn.onnxruntime.plugin_parts import Book

BOOK = Book()
"""Sessions and parts of this process."""
_VERSION = 1
_LOG = logging.getLogger(__name__)


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("dimensions", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_uint32),
        ("type", ctypes.c_int32),
    ]


_Why = (ctypes.c_void_p, ctypes.c_uint32)
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, *_Why)
_PLAN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_int32), ctypes.c_uint64,
    *_Why,
)  # fmt: skip
_BUILD = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint64, *_Why)
_OUTPUT = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_uint32,
    ctypes.c_uint64,
)  # fmt: skip
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(_Tensor), ctypes.c_uint32, _OUTPUT, ctypes.c_void_p, *_Why
)
_GIVE_BACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class _Host(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32), ("open", _OPEN), ("plan", _PLAN), ("build", _BUILD), ("run", _RUN),
        ("drop", _GIVE_BACK), ("close", _GIVE_BACK),
    ]  # fmt: skip


def _told(why: int, room: int, work: Callable[[], int]) -> int:
    """What it returns; or -1, and the reason in `why`."""
    try:
        return work()
    except BaseException as error:  # noqa: BLE001 - there is C above us
        expected = isinstance(error, RknnError)
        text = str(error) if expected else f"{type(error).__name__}: {error}"
        if not expected:
            _LOG.exception("a part failed")
        data = text.encode(errors="replace")[: max(room - 1, 0)]
        ctypes.memmove(why, data + b"\0", len(data) + 1 if room else 0)
        return -1


def _open(options: int | None, size: int, why: int, room: int) -> int:
    def work() -> int:
        words = ctypes.string_at(options, size).decode(errors="replace").split("\0")[:-1] if options else []
        return BOOK.open(dict(zip(words[::2], words[1::2], strict=True)))

    return _told(why, room, work)


def _plan(session: int, model: int, size: int, parts: Any, nodes: int, why: int, room: int) -> int:  # noqa: PLR0917 - as C calls it
    def work() -> int:
        found = BOOK.plan(session, ctypes.string_at(model, size))
        if len(found) != nodes:
            raise UnsupportedError(f"the graph has {nodes} nodes, and {len(found)} of them were understood")
        for index, part in enumerate(found):
            parts[index] = part
        return 0

    return _told(why, room, work)


def _build(session: int, model: int, size: int, why: int, room: int) -> int:
    return _told(why, room, lambda: BOOK.build(session, ctypes.string_at(model, size)))


def _run(  # noqa: PLR0917 - likewise
    part: int, inputs: Any, count: int, output: Any, context: int | None, why: int, room: int
) -> int:
    def work() -> int:
        arrays = [_array(inputs[index]) for index in range(count)]
        for index, array in enumerate(BOOK.run(part, arrays)):
            _give(index, array, output, context)
        return 0

    return _told(why, room, work)


def _array(tensor: _Tensor) -> Any:
    """A view: the numbers are ONNX Runtime's, and stay there until the run ends."""
    dtype = onnx_package().helper.tensor_dtype_to_np_dtype(tensor.type)
    shape = tuple(tensor.dimensions[axis] for axis in range(tensor.rank))
    if not tensor.bytes:
        return np.empty(shape, dtype)
    raw = (ctypes.c_uint8 * tensor.bytes).from_address(tensor.data)
    array = np.frombuffer(raw, dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _give(index: int, array: Any, output: Any, context: int | None) -> None:
    array = np.ascontiguousarray(array).reshape(np.shape(array))  # the first alone makes a number a list of one
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    kind = onnx_package().helper.np_dtype_to_tensor_dtype(array.dtype)
    place = output(context, index, kind, shape, array.ndim, array.nbytes)
    if place and array.nbytes:  # no place: nobody wants it, or the library says why
        ctypes.memmove(place, array.ctypes.data, array.nbytes)


def _quiet(work: Callable[[int], None]) -> Callable[[int], None]:
    def give_back(number: int) -> None:
        try:
            work(number)
        except BaseException:  # noqa: BLE001 - as above, and nobody asks
            _LOG.exception("a resource could not be released")

    return give_back


_HOST = _Host(
    _VERSION, _OPEN(_open), _PLAN(_plan), _BUILD(_build), _RUN(_run), _GIVE_BACK(_quiet(BOOK.drop)),
    _GIVE_BACK(_quiet(BOOK.close)),
)  # fmt: skip
_ATTACHED: list[ctypes.CDLL] = []


def attach(path: Path) -> None:
    """This process is the library's host from now on, until it ends."""
    loaded = ctypes.CDLL(str(path))
    loaded.openrknn_ort_host.restype = ctypes.c_int32
    loaded.openrknn_ort_host.argtypes = (ctypes.c_void_p,)
    if loaded.openrknn_ort_host(ctypes.addressof(_HOST)) != 0:
        raise UnsupportedError(f"{path} belongs to another version of openrknn: install openrknn again")
    if not _ATTACHED:
        atexit.register(detach)  # sessions may outlive the interpreter
        _ATTACHED.append(loaded)


def detach() -> None:
    """The library calls us no more."""
    for loaded in _ATTACHED:
        loaded.openrknn_ort_host(None)
