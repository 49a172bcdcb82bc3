"""What programs reach for inside: `rknn_runtime`, its methods, its library and its ctypes classes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.compat.lab import Array, Lab

PICTURE = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)
MODEL = "image_rk3588_i8"


def check_numbers_and_attributes(lab: Lab) -> None:
    runtime = lab.open("two_inputs_rk3588_i8").rknn_runtime
    assert runtime.get_in_out_num() == (2, 1)
    picture, features = (runtime.get_tensor_attr(index) for index in range(2))
    output = runtime.get_tensor_attr(0, is_output=True)
    assert _facts(picture) == (0, [1, 8, 8, 3], b"picture", 192, 192, 1, 2, 2, 0, 14, 16)
    assert _facts(features) == (1, [1, 8, 8, 16], b"features", 1024, 1024, 1, 2, 2, 0, 1, 8)
    assert _facts(output) == (0, [1, 16, 8, 8], b"y", 1024, 1024, 0, 2, 2, 0, 14, 0)
    assert abs(picture.scale - 0.02298378385603428) < 1e-9
    assert picture.stride_with_stride == 384  # rows of 16 pixels
    assert runtime.get_output_shape(0) == [1, 16, 8, 8]


def _facts(attr: Any) -> tuple[Any, ...]:
    dims = list(attr.dims[: attr.n_dims])
    kinds = (attr.fmt, attr.type, attr.qnt_type, attr.fl, attr.zp, attr.w_stride)
    return (attr.index, dims, attr.name, attr.n_elems, attr.size, *kinds)


def check_attributes_of_floats_integers_and_batches(lab: Lab) -> None:
    output = lab.open("image_rk3588_fp").rknn_runtime.get_tensor_attr(0, is_output=True)
    assert _facts(output) == (0, [1, 16, 16, 16], b"features", 4096, 8192, 0, 1, 2, 0, 0, 0)
    assert output.scale == 1
    classes = lab.open("cpu_argmax_rk3588_i8").rknn_runtime.get_tensor_attr(1, is_output=True)
    assert _facts(classes) == (1, [1, 1, 8, 8], b"classes", 64, 512, 0, 8, 2, 0, 0, 0)
    rows = lab.open("layer_norm_rk3588_fp").rknn_runtime.get_tensor_attr(0)
    assert _facts(rows) == (0, [1, 16, 32], b"x", 512, 1024, 3, 1, 2, 0, 0, 0)
    scores = lab.open("gemm_rk3588_i8").rknn_runtime.get_tensor_attr(0, is_output=True)
    assert _facts(scores) == (0, [1, 10], b"y", 10, 10, 3, 2, 2, 0, 13, 0)
    batch = lab.open("image_rk3588_i8_batch2").rknn_runtime.get_tensor_attr(0, is_output=True)
    assert list(batch.dims[: batch.n_dims]) == [2, 16, 16, 16]


def check_an_index_that_is_not_there_raises(lab: Lab) -> None:
    runtime = lab.open(MODEL).rknn_runtime
    for index, is_output in ((1, False), (5, True)):
        text = "nothing was raised"
        try:
            runtime.get_tensor_attr(index, is_output=is_output)
        except Exception as error:  # noqa: BLE001 - the vendor's wheel has no class for its errors
            text = str(error)
        assert "RKNN_ERR_PARAM_INVALID" in text


def check_three_steps_are_one_inference(lab: Lab) -> None:
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    runtime = lite.rknn_runtime
    picture = PICTURE.copy()
    assert runtime.set_inputs([picture], None, "nhwc", inputs_pass_through=None) == 0
    picture[:] = 0  # the inputs were copied
    assert runtime.run(False) == 0
    outputs = runtime.get_outputs(False)
    assert (outputs[0] == expected).all()
    code, frame = runtime.run(True)
    assert (code, type(frame)) == (0, int)
    assert len(runtime.get_outputs(True)) == 2
    assert int(runtime.get_run_perf()) >= 0
    assert runtime.set_core_mask(1) == 0


def check_outputs_through_the_library(lab: Lab) -> None:
    for name, stored in (("image_rk3588_i8", np.int8), ("image_rk3588_fp", np.float16)):
        lite = lab.open(name)
        x = lab.golden(name)["x0"]
        expected = lite.inference([x])[0]
        runtime = lite.rknn_runtime
        runtime.set_inputs([x], None, "nhwc")
        runtime.run(False)
        attr = runtime.get_tensor_attr(0, is_output=True)
        raw = _outputs(runtime, want_float=0)[0].view(stored).reshape(attr.dims[: attr.n_dims])
        zero = np.uint32(attr.zp & 0xFFFFFFFF).view(np.int32)  # the vendor's class has it without a sign
        scaled = (raw.astype(np.float32) - np.float32(zero)) * np.float32(attr.scale)
        assert (scaled == expected).all()
        floats = _outputs(runtime, want_float=1)[0].view(np.float32).reshape(expected.shape)
        assert (floats == expected).all()


def _outputs(runtime: Any, want_float: int) -> list[Array]:
    """As Immich does it."""
    from rknnlite.api import rknn_runtime

    count = runtime.get_in_out_num()[1]
    buffers = (rknn_runtime.RKNNOutput * count)()
    for index, buffer in enumerate(buffers):
        buffer.index = index
        buffer.want_float = want_float
    assert runtime.lib.rknn_outputs_get(runtime.context, count, buffers, None) == 0
    found = []
    for buffer in buffers:
        data = ctypes.cast(buffer.buf, ctypes.POINTER(ctypes.c_char * buffer.size)).contents
        found.append(np.frombuffer(data, np.uint8).copy())
    assert runtime.lib.rknn_outputs_release(runtime.context, count, buffers) == 0
    return found


def check_outputs_into_the_callers_memory(lab: Lab) -> None:
    from rknnlite.api import rknn_runtime

    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    place = np.zeros(expected.shape, np.float32)
    buffers = (rknn_runtime.RKNNOutput * 1)()
    buffers[0].want_float = buffers[0].is_prealloc = 1
    buffers[0].buf, buffers[0].size = place.ctypes.data, place.nbytes
    runtime = lite.rknn_runtime
    assert runtime.lib.rknn_outputs_get(runtime.context, 1, buffers, None) == 0
    assert (place == expected).all()


def check_queries(lab: Lab) -> None:
    from rknnlite.api import rknn_runtime

    runtime = lab.open("image_rk3588_i8_custom_string").rknn_runtime
    text = ctypes.create_string_buffer(1024)
    assert runtime.lib.rknn_query(runtime.context, 7, text, 1024) == 0
    assert "é" in text.value.decode() or text.value
    lab.save("custom_string", [np.frombuffer(text.value, np.uint8)])
    attr = rknn_runtime.RKNNRtTensorAttr(index=0)
    for query, dims in ((1, [1, 16, 16, 3]), (2, [1, 16, 16, 16]), (8, [1, 16, 16, 3])):
        assert runtime.lib.rknn_query(runtime.context, query, ctypes.byref(attr), ctypes.sizeof(attr)) == 0
        assert list(attr.dims[: attr.n_dims]) == dims
    numbers = rknn_runtime.RKNNInputOutputNum()
    assert runtime.lib.rknn_query(runtime.context, 0, ctypes.byref(numbers), 8) == 0
    assert (numbers.n_input, numbers.n_output) == (1, 1)


def check_queries_that_fail(lab: Lab) -> None:
    from rknnlite.api import rknn_runtime

    runtime = lab.open(MODEL).rknn_runtime
    attr = rknn_runtime.RKNNRtTensorAttr()

    def query(context: int, number: int, size: int = ctypes.sizeof(attr)) -> int:
        code: int = runtime.lib.rknn_query(context, number, ctypes.byref(attr), size)
        return code

    assert query(runtime.context, 99) == -5
    assert query(runtime.context, 1, 4) == -5
    assert query(0, 1) == -7
    assert query(runtime.context, 14) == query(runtime.context, 15) == -6
    attr.index = 3
    assert query(runtime.context, 1) == -5


def check_queries_of_a_dynamic_model(lab: Lab) -> None:
    from rknnlite.api import rknn_runtime

    lite = lab.open("dynamic_rk3588_i8")
    runtime = lite.rknn_runtime
    shapes = rknn_runtime.RKNNInputRange()
    size = ctypes.sizeof(shapes)
    assert runtime.lib.rknn_query(runtime.context, 13, ctypes.byref(shapes), size) == 0
    assert (shapes.shape_number, shapes.n_dims, shapes.fmt, shapes.name) == (3, 4, 1, b"image")
    table = np.frombuffer(bytes(shapes), np.uint32, 3 * 16, rknn_runtime.RKNNInputRange.dyn_range.offset)
    assert table.reshape(3, 16)[:, :4].tolist() == [[1, 16, 16, 3], [1, 8, 24, 3], [1, 8, 8, 3]]
    attr = rknn_runtime.RKNNRtTensorAttr(index=0)

    def current() -> int:
        code: int = runtime.lib.rknn_query(runtime.context, 15, ctypes.byref(attr), ctypes.sizeof(attr))
        return code

    assert current() == -7
    lite.inference([np.zeros((1, 8, 24, 3), np.uint8)])
    assert current() == 0
    assert list(attr.dims[: attr.n_dims]) == [1, 8, 8, 24]


def check_names_beside_the_runtime(lab: Lab) -> None:
    from rknnlite.api import rknn_runtime

    sizes = {
        "RKNNInput": 32,
        "RKNNOutput": 24,
        "RKNNRtTensorAttr": 376,
        "RKNNTensorAttr": 360,
        "RKNNInputRange": 33040,
        "RKNNInputOutputNum": 8,
        "RKNNPerfRun": 8,
        "RKNNPerfDetail": 16,
        "RKNNSDKVersion": 512,
        "RKNNRtInitExtend": 144,
        "RKNNRtDecryptKeyMem": 16,
        "RKNNRtRunExtend": 24,
        "RKNNRunExtend": 8,
        "RKNNInitExtend": 8,
        "RKNNOutputExtend": 8,
    }
    assert {name: ctypes.sizeof(getattr(rknn_runtime, name)) for name in sizes} == sizes
    assert rknn_runtime.RKNN_QUERY_CUSTOM_STRING == 7
    assert rknn_runtime.rknn_input_data_type["bool"] == 9
    assert rknn_runtime.rknn_runtime_api_ret_code["-16"] == "RKNN_ERR_SOC_BIND_FAILED"
    assert callable(rknn_runtime.RKNNRuntime._get_rknn_api_lib_path)
