"""The C API's functions as Python callables: what the vendor's wheel does not need, but programs may."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.runtime.session import Session
from rknnlite.api import constants as c
from rknnlite.api.rknn_runtime import RKNNInput, RKNNMemSize, RKNNOutput, RKNNRtRunExtend, RKNNRtTensorAttr
from rknnlite.engine.library import Library

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
PICTURE = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)
UINT8, FLOAT32 = c.rknn_input_data_type["uint8"], c.rknn_input_data_type["float32"]


class Board:
    """A C program in Python."""

    def __init__(self, name: str = "image_rk3588_i8") -> None:
        self.lib: Any = Library()
        self.context = ctypes.c_uint64()
        data = (GOLDENS / f"{name}.rknn").read_bytes()
        assert self.lib.rknn_init(ctypes.byref(self.context), data, len(data), 0, None) == 0

    def set(self, *arrays: np.ndarray, layout: int = c.RKNN_TENSOR_NHWC, pass_through: int = 0) -> int:
        inputs = (RKNNInput * len(arrays))()
        for index, array in enumerate(arrays):
            kind = c.rknn_input_data_type[array.dtype.name]
            entry = RKNNInput(index, array.ctypes.data, array.nbytes, pass_through, kind, layout)
            inputs[index] = entry
        code: int = self.lib.rknn_inputs_set(self.context, len(arrays), inputs)
        return code

    def floats(self) -> np.ndarray:
        outputs = (RKNNOutput * 1)()
        outputs[0].want_float = 1
        assert self.lib.rknn_outputs_get(self.context, 1, outputs, None) == 0
        found = np.frombuffer(ctypes.string_at(outputs[0].buf, outputs[0].size), np.float32)
        assert self.lib.rknn_outputs_release(self.context, 1, outputs) == 0
        assert not outputs[0].buf
        return found


def expected(array: np.ndarray = PICTURE) -> np.ndarray:
    with Session(GOLDENS / "image_rk3588_i8.rknn") as session:
        return session.run(array)["features"].reshape(-1)


def test_a_whole_program() -> None:
    board = Board()
    extend = RKNNRtRunExtend()
    for layout, array in ((c.RKNN_TENSOR_NHWC, PICTURE), (c.RKNN_TENSOR_NCHW, PICTURE.transpose(0, 3, 1, 2).copy())):
        assert board.set(array, layout=layout) == 0
        assert board.lib.rknn_run(board.context, ctypes.byref(extend)) == 0
        assert board.lib.rknn_wait(board.context, None) == 0
        assert (board.floats() == expected()).all()
    assert extend.frame_id == 2
    assert board.lib.rknn_destroy(board.context) == 0
    assert board.lib.rknn_destroy(board.context) == c.RKNN_ERR_CTX_INVALID


def test_a_model_by_its_path() -> None:
    library: Any = Library()
    context = ctypes.c_uint64()
    path = str(GOLDENS / "image_rk3588_i8.rknn").encode()
    assert library.rknn_init(ctypes.byref(context), path, 0, 0, None) == 0
    assert library.rknn_destroy(context.value) == 0


def test_a_copy_has_the_same_weights() -> None:
    board = Board()
    board.set(PICTURE)
    board.lib.rknn_run(board.context, None)
    twin = Board()
    assert twin.lib.rknn_dup_context(ctypes.byref(board.context), ctypes.byref(twin.context)) == 0
    assert board.lib.rknn_destroy(board.context) == 0
    assert twin.set(PICTURE) == 0
    assert twin.lib.rknn_run(twin.context, None) == 0
    assert (twin.floats() == expected()).all()


def test_cores_are_changed_between_runs() -> None:
    board = Board()
    board.set(PICTURE)
    for mask in (1, 7, 0xFFFF, 0):
        assert board.lib.rknn_set_core_mask(board.context, mask) == 0
        assert board.lib.rknn_run(board.context, None) == 0
        assert (board.floats() == expected()).all()
    assert board.lib.rknn_set_core_mask(board.context, 6) == c.RKNN_ERR_PARAM_INVALID


def test_shapes_are_chosen() -> None:
    board = Board("dynamic_rk3588_i8")
    attr = RKNNRtTensorAttr(index=0, n_dims=4, fmt=c.RKNN_TENSOR_NHWC)
    attr.dims[:4] = [1, 8, 24, 3]
    assert board.lib.rknn_set_input_shapes(board.context, 1, ctypes.byref(attr)) == 0
    assert board.lib.rknn_run(board.context, None) == c.RKNN_ERR_PARAM_INVALID  # other shapes need other inputs
    assert board.set(np.zeros((1, 8, 24, 3), np.uint8)) == 0
    assert board.lib.rknn_run(board.context, None) == 0
    assert board.floats().size == 8 * 8 * 24
    assert board.lib.rknn_set_core_mask(board.context, 1) == 0  # the shapes stay
    assert board.lib.rknn_run(board.context, None) == 0
    assert board.floats().size == 8 * 8 * 24
    attr.dims[:4] = [1, 9, 9, 3]
    assert board.lib.rknn_set_input_shape(board.context, attr) == c.RKNN_ERR_PARAM_INVALID


def test_memory_is_asked_for() -> None:
    board = Board()
    size = RKNNMemSize()
    assert board.lib.rknn_query(board.context, c.RKNN_QUERY_MEM_SIZE, ctypes.byref(size), ctypes.sizeof(size)) == 0
    assert 0 < size.total_weight_size < size.total_dma_allocated_size


def asks_for_output_7(board: Board) -> int:
    board.set(PICTURE)
    board.lib.rknn_run(board.context, None)
    outputs = (RKNNOutput * 1)(RKNNOutput(index=7))
    code: int = board.lib.rknn_outputs_get(board.context, 1, outputs, None)
    return code


def loads_garbage(board: Board) -> int:
    code: int = board.lib.rknn_init(ctypes.byref(board.context), b"hello", 5, 0, None)
    return code


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (c.RKNN_ERR_PARAM_INVALID, lambda board: board.set(PICTURE[:, :8])),
        (c.RKNN_ERR_PARAM_INVALID, lambda board: board.set(PICTURE, PICTURE)),
        (c.RKNN_ERR_PARAM_INVALID, lambda board: board.lib.rknn_inputs_set(board.context, 1, None)),
        (c.RKNN_ERR_PARAM_INVALID, lambda board: board.lib.rknn_run(board.context, None)),
        (c.RKNN_ERR_CTX_INVALID, lambda board: board.lib.rknn_outputs_get(board.context, 1, (RKNNOutput * 1)(), None)),
        (c.RKNN_ERR_OUTPUT_INVALID, asks_for_output_7),
        (c.RKNN_ERR_MODEL_INVALID, loads_garbage),
        (c.RKNN_ERR_CTX_INVALID, lambda board: board.lib.rknn_run(12345, None)),
    ],
)
def test_errors_are_codes(code: int, call: Any) -> None:
    assert call(Board()) == code


def test_functions_that_are_not_there_say_so() -> None:
    library: Any = Library()
    with pytest.raises(AttributeError, match="has no rknn_create_mem"):
        library.rknn_create_mem(0, 64)
    library.rknn_run.argtypes = (ctypes.c_uint64, ctypes.c_void_p)  # as programs do with a CDLL
    assert library.rknn_run.restype is ctypes.c_int
