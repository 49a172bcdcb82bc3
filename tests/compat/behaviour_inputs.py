"""What `inference` takes and refuses: table A.3 of the facts about the vendor's wheel."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from tests.compat.lab import Lab, listening, refuses

PICTURE = np.arange(768, dtype=np.uint8).reshape(1, 16, 16, 3)
MODEL = "image_rk3588_i8"


def check_element_types(lab: Lab) -> None:
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    for name in ("float32", "float16", "uint8", "int32", "int64"):
        outputs = lite.inference([PICTURE.astype(name)])
        assert outputs is not None, name
        lab.save(f"type_{name}", outputs)
    assert (lite.inference([PICTURE.astype(np.float32)])[0] == expected).all()
    for name in ("int8", "bool"):
        assert lite.inference([PICTURE.astype(name)]) is not None, name
    for name in ("float64", "uint64", "complex64"):
        refuses(lite, f"Unsupport inputs[0].dtype: {name}", [PICTURE.astype(name)])


def check_the_rank_has_to_fit(lab: Lab) -> None:
    lite = lab.open(MODEL)
    for array in (PICTURE[None], PICTURE.reshape(1, -1)):
        refuses(lite, f"The input[0] need 4dims input, but {array.ndim}dims input buffer feed.", [array])
    lite = lab.open("layer_norm_rk3588_fp")
    array = np.zeros((1, 16, 32), np.float32)
    assert lite.inference([array])[0].shape == (1, 16, 32)
    refuses(lite, "The input[0] need 3dims input, but 2dims input buffer feed.", [array[0]])


def check_inputs_are_a_list(lab: Lab) -> None:
    lite = lab.open(MODEL)
    with listening(lite) as heard:
        outputs = lite.inference(PICTURE)
    assert outputs is not None
    assert "Inputs should be placed in a list" in heard.text(logging.WARNING)
    several: list[Any] = [(PICTURE,), None, {"image": PICTURE}, [PICTURE.tolist()], [None], "picture"]
    for wrong in several:
        assert lite.inference(wrong) is None, wrong
    refuses(lite, "Inputs are invalid", [])


def check_the_number_of_inputs_has_to_fit(lab: Lab) -> None:
    assert lab.open(MODEL).inference([PICTURE, PICTURE]) is None
    lite = lab.open("two_inputs_rk3588_i8")
    assert lite.inference([np.zeros((1, 8, 8, 3), np.uint8)]) is None


def check_nchw_is_transposed(lab: Lab) -> None:
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    planes = np.ascontiguousarray(PICTURE.transpose(0, 3, 1, 2))
    for option in ("nchw", ["nchw"]):
        assert (lite.inference([planes], data_format=option)[0] == expected).all()
    for usual in ("nhwc", ["nhwc"], None):
        assert (lite.inference([PICTURE], data_format=usual)[0] == expected).all()


def check_two_inputs_of_two_formats(lab: Lab) -> None:
    name = "two_inputs_rk3588_i8"
    golden, lite = lab.golden(name), lab.open(name)
    picture, features = golden["x0"].astype(np.float32), golden["x1"].astype(np.float32)
    outputs = lite.inference([picture, features], data_format="nchw")
    assert np.abs(outputs[0] - golden["o0"]).max() < 0.1
    mixed = lite.inference([picture.transpose(0, 2, 3, 1), features], data_format=["nhwc", "nchw"])
    assert (mixed[0] == outputs[0]).all()
    lab.save(name, outputs)


def check_data_formats_that_are_refused(lab: Lab) -> None:
    lite = lab.open(MODEL)
    for wrong in ("NHWC", "abc", "undefined"):
        refuses(lite, f"Unsupport data format: {wrong}", [PICTURE], data_format=wrong)
    for many in ([], ["nhwc", "nhwc"]):
        refuses(lite, "The lengths of data_format and inputs are not equal.", [PICTURE], data_format=many)


def check_data_type_only_confirms(lab: Lab) -> None:
    lite = lab.open(MODEL)
    for right in ("uint8", ["uint8"]):
        assert lite.inference([PICTURE], data_type=right) is not None
    refuses(lite, "inputs[0].dtype: uint8 is not same as data_type", [PICTURE], data_type="float32")
    refuses(lite, "Unsupport data type: abc", [PICTURE], data_type="abc")


def check_too_few_elements(lab: Lab) -> None:
    lite = lab.open(MODEL)
    assert lite.inference([PICTURE[:, :8]]) is None
    assert lite.inference([PICTURE]) is not None


def check_another_shape_with_as_many_elements(lab: Lab) -> None:
    """Only bytes are counted: a mistake that the vendor's wheel does not see, and that programs may live with."""
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    assert (lite.inference([PICTURE.reshape(1, 3, 16, 16)])[0] == expected).all()


def check_arrays_that_are_not_contiguous(lab: Lab) -> None:
    lite = lab.open(MODEL)
    expected = lite.inference([PICTURE])[0]
    wide = np.repeat(PICTURE, 2, axis=2)
    assert (lite.inference([wide[:, :, ::2]])[0] == expected).all()
    planes = PICTURE.transpose(0, 3, 1, 2)
    assert (lite.inference([planes], data_format="nchw")[0] == expected).all()


def check_pass_through(lab: Lab) -> None:
    lite = lab.open(MODEL)  # a fresh one: the vendor's runtime takes what passes through as pixels after it saw pixels
    stored = PICTURE.view(np.int8)
    outputs = lite.inference([stored], inputs_pass_through=[1])
    assert (outputs[0] == lite.inference([PICTURE], inputs_pass_through=[1])[0]).all()
    lab.save("pass_through", outputs)
    expected = lite.inference([PICTURE])[0]
    assert (lite.inference([PICTURE], inputs_pass_through=[0])[0] == expected).all()
    for wrong in ([], [0, 1]):
        words = "The lengths of inputs_pass_through and inputs are not equal."
        refuses(lite, words, [PICTURE], inputs_pass_through=wrong)


def check_dynamic_shapes_follow_the_arrays(lab: Lab) -> None:
    lite = lab.open("dynamic_rk3588_i8")
    assert lite.rknn_runtime.is_dynamic_shape is True
    for index, (height, width) in enumerate(((16, 16), (8, 24), (8, 8), (16, 16))):
        picture = np.arange(height * width * 3, dtype=np.uint8).reshape(1, height, width, 3)
        outputs = lite.inference([picture])
        assert outputs[0].shape == (1, 8, height, width)
        planes = lite.inference([picture.transpose(0, 3, 1, 2)], data_format="nchw")
        assert (planes[0] == outputs[0]).all()
        lab.save(f"dynamic_{index}", outputs)
    assert lite.inference([np.zeros((1, 20, 20, 3), np.uint8)]) is None
    assert lite.inference([PICTURE])[0].shape == (1, 8, 16, 16)


def check_a_batch(lab: Lab) -> None:
    lite = lab.open("image_rk3588_i8_batch2")
    outputs = lite.inference([np.concatenate([PICTURE, 255 - PICTURE])])
    assert outputs[0].shape == (2, 16, 16, 16)
    lab.save("batch", outputs)


def check_integers_come_out_as_floats(lab: Lab) -> None:
    lite = lab.open("cpu_argmax_rk3588_i8")
    x = np.linspace(-1, 1, 1024, dtype=np.float32).reshape(1, 8, 8, 16)
    outputs = lite.inference([x])
    assert [output.dtype for output in outputs] == [np.float32, np.float32]
    assert (outputs[1][:, 0] == outputs[0].argmax(axis=1)).all()


def check_two_outputs_and_fewer_dimensions(lab: Lab) -> None:
    for name in ("two_outputs_rk3588_i8", "gemm_rk3588_i8"):
        golden = lab.golden(name)
        outputs = lab.open(name).inference([golden["x0"]], data_format="nchw")
        wanted = [golden[key] for key in sorted(golden) if key.startswith("o")]
        assert [output.shape for output in outputs] == [answer.shape for answer in wanted]
        lab.save(name, outputs)
