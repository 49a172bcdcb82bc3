"""The same library a year later, after newer Immich: it asks the model for its shapes, and takes outputs unwidened."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rknnlite.api import RKNNLite, rknn_runtime
from tests.compat.programs.photos import start

OUTPUT_ATTR, CUSTOM_STRING, CURRENT_OUTPUT_ATTR = 2, 7, 15
TYPES: dict[int, type[Any]] = {0: np.float32, 1: np.float16, 2: np.int8}


class CustomString(ctypes.Structure):
    """A struct of the program's own."""

    _fields_ = (("string", ctypes.c_char * 1024),)


class TensorAttr(ctypes.Structure):
    """The program's own picture of rknn_tensor_attr."""

    _fields_ = (
        ("index", ctypes.c_uint32),
        ("n_dims", ctypes.c_uint32),
        ("dims", ctypes.c_uint32 * 16),
        ("name", ctypes.c_char * 256),
        ("n_elems", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("fmt", ctypes.c_int),
        ("type", ctypes.c_int),
        ("qnt_type", ctypes.c_int),
        ("fl", ctypes.c_int8),
        ("zp", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("w_stride", ctypes.c_uint32),
        ("size_with_stride", ctypes.c_uint32),
        ("pass_through", ctypes.c_uint8),
        ("h_stride", ctypes.c_uint32),
    )


class Model:
    """A model that describes itself."""

    def __init__(self, path: str, chip: str | None = "rk3588") -> None:
        self.lite: RKNNLite = start(path, chip)
        self.runtime: Any = self.lite.rknn_runtime
        inputs, outputs = self.runtime.get_in_out_num()
        self.inputs = [self._node(index, False) for index in range(inputs)]
        self.outputs = [self._node(index, True) for index in range(outputs)]
        text = CustomString()
        self._query(CUSTOM_STRING, text)
        self.text = text.string.decode()

    def run(self, arrays: list[Any]) -> list[Any]:
        """In the precision that the NPU computed in."""
        layouts = [self._layout(shape, array) for (_, shape), array in zip(self.inputs, arrays, strict=True)]
        self.runtime.set_inputs(arrays, None, layouts)
        self.runtime.run(False)
        count = len(self.outputs)
        buffers = (rknn_runtime.RKNNOutput * count)()
        for index, buffer in enumerate(buffers):
            buffer.index = index
        if self.runtime.lib.rknn_outputs_get(self.runtime.context, count, buffers, None) != 0:
            raise RuntimeError("RKNN inference failed!")
        found = [self._array(buffer) for buffer in buffers]
        self.runtime.lib.rknn_outputs_release(self.runtime.context, count, buffers)
        return found

    def _array(self, buffer: Any) -> Any:
        attr = TensorAttr(index=buffer.index)
        self._query(CURRENT_OUTPUT_ATTR if self.runtime.is_dynamic_shape else OUTPUT_ATTR, attr)
        data = ctypes.cast(buffer.buf, ctypes.POINTER(ctypes.c_char * buffer.size)).contents
        return np.frombuffer(data, TYPES[attr.type]).reshape(attr.dims[: attr.n_dims]).copy()

    def _query(self, number: int, struct: ctypes.Structure) -> None:
        self.runtime.lib.rknn_query(self.runtime.context, number, ctypes.byref(struct), ctypes.sizeof(struct))

    def _node(self, index: int, is_output: bool) -> tuple[str, tuple[int, ...]]:
        attr = self.runtime.get_tensor_attr(index, is_output=is_output)
        return attr.name.decode(), tuple(attr.dims[: attr.n_dims])

    @staticmethod
    def _layout(shape: tuple[int, ...], array: Any) -> str:
        return "nchw" if array.ndim == 4 and array.shape[1] == shape[3] else "nhwc"
