"""Inputs and outputs that are copied: what goes to the library, and what never gets there."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from openrknn.vendor import CallError, Context, InitFlag, TensorAttributes, TensorFormat, TensorType, Version
from openrknn.vendor.context.io_rules import check_input_type, input_bytes, output_as
from tests.vendor.recording import Recorder

IMAGE = (1, 4, 6, 3)
FEATURES = (1, 2, 2, 8)


def arrays(kind: type = np.uint8) -> list[np.ndarray]:
    return [np.full(IMAGE, 7, kind), np.full(FEATURES, 9, kind)]


def test_inputs_reach_the_library(recorder: Recorder, context: Context) -> None:
    context.set_inputs(arrays())
    assert recorder.log("rknn_inputs_set") == [
        "rknn_inputs_set n=2 [index=0 size=72 pass_through=0 type=3 fmt=1 first=7] "
        "[index=1 size=32 pass_through=0 type=3 fmt=1 first=9]"
    ]


def test_types_are_named_by_their_numbers(recorder: Recorder, context: Context) -> None:
    for number, kind in enumerate((np.float32, np.float16, np.int8, np.uint8)):
        context.set_inputs({"features": np.zeros(FEATURES, kind)})
        assert f"type={number} " in recorder.log("rknn_inputs_set")[0]


def test_some_inputs_by_name_or_number(recorder: Recorder, context: Context) -> None:
    context.set_inputs({1: np.zeros(FEATURES, np.int8)})
    assert "n=1 [index=1 " in recorder.log("rknn_inputs_set")[0]
    with pytest.raises(KeyError, match="there is no input 'nobody'; there are image, features"):
        context.set_inputs({"nobody": np.zeros(3)})
    with pytest.raises(IndexError, match="there is no input 7"):
        context.set_inputs({7: np.zeros(3)})
    with pytest.raises(ValueError, match="no inputs were given"):
        context.set_inputs({})


def test_the_batch_dimension_may_be_left_out(recorder: Recorder, context: Context) -> None:
    context.set_inputs([np.zeros(IMAGE[1:], np.uint8), np.zeros(FEATURES, np.uint8)])
    assert len(recorder.log("rknn_inputs_set")) == 1


def test_raw_inputs_have_the_size_of_the_native_tensor(recorder: Recorder, context: Context) -> None:
    context.set_inputs([np.zeros(192, np.uint8), np.zeros((1, 1, 2, 2, 8), np.int8)], pass_through=True)
    assert recorder.log("rknn_inputs_set")[0].count("pass_through=1") == 2
    context.set_inputs([np.zeros(IMAGE, np.uint8), np.zeros(32, np.int8)], pass_through=[False, True])
    line = recorder.log("rknn_inputs_set")[0]
    assert "index=0 size=72 pass_through=0" in line
    assert "index=1 size=32 pass_through=1" in line
    with pytest.raises(ValueError, match=r"to the NPU as it is, so it has 192 bytes \(NHWC \[1, 4, 6, 3\]\), not 72"):
        context.set_inputs(arrays(), pass_through=True)
    with pytest.raises(ValueError, match="has 1 entries"):
        context.set_inputs(arrays(), pass_through=[True])


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        ([1, 2, 3], TypeError, "must be a NumPy array, not list"),
        (np.zeros(IMAGE), TypeError, "the C API has no float64; convert the array to one of float32"),
        (np.zeros(IMAGE, complex), TypeError, "complex128"),
        (np.zeros(IMAGE, object), TypeError, "object"),
        (np.zeros(IMAGE, ">f4"), TypeError, "bytes swapped"),
        (np.zeros((1, 4, 6, 6), np.uint8)[..., ::2], ValueError, "not contiguous"),
        (np.zeros((1, 3, 4, 6), np.uint8), ValueError, r"does not turn NCHW: pass .*transpose\(0, 2, 3, 1\)"),
        (np.zeros((1, 4, 6, 4), np.uint8), ValueError, r"is NHWC \[1, 4, 6, 3\], the array is \[1, 4, 6, 4\]"),
        (np.zeros(72, np.uint8), ValueError, r"the array is \[72\]"),
    ],
)
def test_wrong_arrays(
    recorder: Recorder, context: Context, image: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        context.set_inputs([image, arrays()[1]])  # type: ignore[list-item]
    assert recorder.log("rknn_inputs_set") == []


def test_too_few_and_too_many_inputs(context: Context) -> None:
    for given in (arrays()[:1], [*arrays(), *arrays()], np.zeros(IMAGE, np.uint8)):
        with pytest.raises(ValueError, match="the model has 2 inputs"):
            context.set_inputs(given)


def test_types_that_1_5_2_ignores() -> None:
    """It logs them, returns 0 and runs with the old contents."""
    with Context(b"m", library=Recorder.build("1.5.2").library, check=False) as old:
        message = r"library 1\.5\.2 converts float16, float32, int8, uint8 to it and ignores int64"
        with pytest.raises(TypeError, match=message):
            old.set_inputs(arrays(np.int64))
        old.set_inputs(arrays(np.float32))


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        (TensorType.INT8, {"FLOAT32", "FLOAT16", "INT8", "UINT8"}),
        (TensorType.FLOAT16, {"FLOAT32", "FLOAT16", "UINT8"}),
        (TensorType.INT32, {"INT32"}),
    ],
)
def test_conversions(model: TensorType, taken: set[str]) -> None:
    tensor = TensorAttributes(0, "x", (4,), TensorFormat.UNDEFINED, model)
    found = set()
    for kind in TensorType:
        try:
            check_input_type(tensor, kind, Version(1, 5, 2))
            found.add(kind.name)
        except TypeError:
            pass
        check_input_type(tensor, kind, Version(2, 3, 2))  # nobody has looked: the library decides
    assert found == taken


def test_prepared_inputs_are_set_again_and_again(recorder: Recorder, context: Context) -> None:
    given = arrays()
    prepared = context.prepare_inputs(given)
    recorder.clear()
    for value in (1, 2, 3):
        given[0][...] = value
        prepared.set()
    assert [line.split("first=")[1][0] for line in recorder.log()] == ["1", "2", "3"]


# -------------------------------------------------------------------------------------------------- outputs


def test_outputs_as_floats_and_as_they_are(recorder: Recorder, context: Context) -> None:
    context.run()
    map_, scores = context.get_outputs()
    assert (map_.shape, scores.shape) == ((1, 8, 2, 2), (1, 10))
    assert map_.dtype == np.float32
    assert map_.reshape(-1).tolist() == [(index + 3) * 0.5 for index in range(32)]
    assert recorder.log("rknn_outputs_get", "rknn_outputs_release") == [
        "rknn_outputs_get n=2 [index=0 want_float=1 is_prealloc=1 size=128] "
        "[index=1 want_float=1 is_prealloc=1 size=40]",
        "rknn_outputs_release n=2",
    ]
    stored, _ = context.get_outputs(want_float=False)
    assert stored.dtype == np.int8
    assert stored.reshape(-1).tolist() == list(range(32))


def test_outputs_into_arrays_of_the_caller(context: Context) -> None:
    context.run()
    mine = [np.zeros((1, 8, 2, 2), np.float32), np.zeros((1, 10), np.float32)]
    given = context.get_outputs(out=mine)
    assert given[0] is mine[0]
    assert mine[1][0, 9] == 6
    prepared = context.prepare_outputs()
    assert prepared.get()[0] is prepared.get()[0]
    assert prepared.frame_id == 1


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([np.zeros((1, 8, 2, 2), np.float32)], ValueError, "2 outputs, 1 arrays"),
        ([np.zeros((1, 8, 2, 2)), np.zeros((1, 10))], ValueError, "output 0 is float32"),
        ([np.zeros((1, 8, 2, 1), np.float32), np.zeros((1, 10), np.float32)], ValueError, "the array is float32"),
        ([bytearray(128), bytearray(40)], TypeError, "needs a NumPy array, not bytearray"),
        ([np.zeros((1, 8, 2, 4), np.float32)[..., ::2], np.zeros((1, 10), np.float32)], ValueError, "contiguous"),
    ],
)
def test_wrong_output_arrays(
    recorder: Recorder, context: Context, out: list[np.ndarray], error: type[Exception], message: str
) -> None:
    context.run()
    with pytest.raises(error, match=message):
        context.get_outputs(out=out)
    assert recorder.log("rknn_outputs_get") == []


def test_read_only_output_arrays(context: Context) -> None:
    context.run()
    mine = [np.zeros((1, 8, 2, 2), np.float32), np.zeros((1, 10), np.float32)]
    mine[0].flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        context.get_outputs(out=mine)


def test_there_are_no_outputs_before_a_run(recorder: Recorder, context: Context) -> None:
    with pytest.raises(ValueError, match="no outputs before the first run"):
        context.get_outputs()
    assert recorder.log("rknn_outputs_get") == []


def test_errors_of_the_library(recorder: Recorder, context: Context) -> None:
    for name, call in (
        ("rknn_inputs_set", lambda: context.set_inputs(arrays())),
        ("rknn_run", context.run),
        ("rknn_outputs_get", context.get_outputs),
    ):
        recorder.fail(name, -5)
        with pytest.raises(CallError, match=f"{name} returned -5 RKNN_ERR_PARAM_INVALID"):
            call()


def test_inputs_with_memory_outside(recorder: Recorder) -> None:
    with (
        Context(b"m", InitFlag.MEM_ALLOC_OUTSIDE, library=recorder.library, check=False) as context,
        pytest.raises(ValueError, match="takes inputs by bind_input"),
    ):
        context.set_inputs(arrays())


def test_a_loop_leaves_no_garbage(context: Context) -> None:
    inputs, outputs = context.prepare_inputs(arrays()), context.prepare_outputs()

    def step() -> None:
        inputs.set()
        context.run()
        outputs.get()

    step()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(1000):
            step()
        assert gc.collect() == 0
        assert abs(len(gc.get_objects()) - before) < 10
    finally:
        gc.enable()


# -------------------------------------------------------------------------------------------------- rules


def test_how_much_memory_an_input_needs() -> None:
    picture = TensorAttributes(0, "p", (2, 8, 8, 3), TensorFormat.NHWC, TensorType.INT8, elements=384, width_stride=16)
    assert input_bytes(picture, TensorType.UINT8) == 2 * 8 * 16 * 3
    assert input_bytes(picture, TensorType.FLOAT32) == 2 * 8 * 16 * 3 * 4
    assert input_bytes(picture, TensorType.UINT8, height_stride=10) == 2 * 10 * 16 * 3
    vector = TensorAttributes(0, "v", (1, 10), TensorFormat.UNDEFINED, TensorType.FLOAT16, elements=10)
    assert input_bytes(vector, TensorType.FLOAT16) == 20


def test_ways_to_give_out_an_output() -> None:
    plain = TensorAttributes(0, "y", (1, 12, 7, 5), TensorFormat.NCHW, TensorType.FLOAT16, elements=420, size_bytes=840)
    native = TensorAttributes(
        0, "y", (1, 2, 1, 36, 8), TensorFormat.NC1HWC2, TensorType.FLOAT16, elements=576, size_with_stride_bytes=1152
    )
    last = plain.replaced(shape=(1, 7, 5, 12), format=TensorFormat.NHWC)
    tensors = (plain, native, last)
    assert output_as(*tensors, None, None) == (native.replaced(size_bytes=1152), 1152)
    assert output_as(*tensors, None, TensorType.FLOAT32)[1] == 1680
    assert output_as(*tensors, TensorFormat.NHWC, TensorType.FLOAT32)[0].shape == (1, 7, 5, 12)
    assert output_as(*tensors, TensorFormat.NCHW, None)[1] == 840
    with pytest.raises(TypeError, match="can be float16 or float32, not int8"):
        output_as(*tensors, None, TensorType.INT8)
    with pytest.raises(ValueError, match="as NC1HWC2 keeps the type float16"):
        output_as(*tensors, TensorFormat.NC1HWC2, TensorType.FLOAT32)
    with pytest.raises(ValueError, match="can be NC1HWC2, NCHW, NHWC, not UNDEFINED"):
        output_as(*tensors, TensorFormat.UNDEFINED, None)
