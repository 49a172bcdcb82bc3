"""Users' arrays: which axis is which, which numbers become which bytes, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.container.patch import converter_for
from openrknn.errors import BadTensorError
from openrknn.runtime.session import Session
from tests.container.places import golden
from tests.runtime.cases import GOLDENS, Array, program_of

PICTURE = np.random.default_rng(5).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
MEAN, STD = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])


@pytest.fixture(scope="module")
def image() -> Iterator[Session]:
    with Session(GOLDENS / "image_rk3588_i8.rknn") as session:
        yield session


@pytest.fixture(scope="module")
def features() -> Iterator[Session]:
    """[1, 8, 7, 5]."""
    with Session(GOLDENS / "conv_rk3588_i8.rknn") as session:
        yield session


@pytest.fixture(scope="module")
def flat() -> Iterator[Session]:
    """Two dimensions."""
    with Session(GOLDENS / "gemm_rk3588_i8.rknn") as session:
        yield session


def stored(session: Session) -> Array:
    """What the first input holds, in its original shape."""
    return program_of(session).inputs[0].stored.read()


def run(session: Session, value: object, **options: Any) -> Array:
    (output,) = session.run(value, outputs="raw", **options).values()
    return output


# ---------------------------------------------------------------- layouts


@pytest.mark.parametrize("array", [PICTURE, PICTURE[0], PICTURE.transpose(0, 3, 1, 2), PICTURE[0].transpose(2, 0, 1)])
def test_a_picture_in_any_arrangement_is_the_same_picture(image: Session, array: Array) -> None:
    assert np.array_equal(run(image, array), run(image, PICTURE))
    assert np.array_equal(stored(image).view(np.uint8), PICTURE.transpose(0, 3, 1, 2))


def test_feature_maps_in_both_layouts(features: Session) -> None:
    array = np.random.default_rng(1).standard_normal((1, 8, 7, 5)).astype(np.float32)
    want = run(features, array)
    assert np.array_equal(run(features, array.transpose(0, 2, 3, 1)), want)
    assert np.array_equal(run(features, array[0], layout="NCHW"), want)
    assert np.array_equal(run(features, {"x": array}, layout={"x": "nchw"}), want)


def test_bound_memory_takes_no_floats_for_integers(image: Session) -> None:
    view = image.bind().inputs["image"]
    with pytest.raises(TypeError, match="input 'image': the bound memory holds uint8, and float32 was written to it"):
        view[...] = PICTURE.astype(np.float32)
    with pytest.raises(TypeError, match="input 'image'"):
        view[0][:4] = np.float32(0.5)
    view[...] = PICTURE
    view[0, :2] = 7
    assert np.all(view[0, :2] == 7)
    assert np.array_equal(view[0, 2:], PICTURE[0, 2:])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int16])
def test_memory_of_another_type_is_refused(image: Session, dtype: type[np.generic]) -> None:
    with pytest.raises(TypeError, match=rf"'image': .* has to be int8 or uint8 \(bytes\), not {dtype.__name__}"):
        image.bind(inputs={"image": np.zeros(PICTURE.shape, dtype)})


def test_equal_dimensions_need_a_word() -> None:
    """[1, 3, 3, 3] could be either; pictures are NHWC, anything else has to be told."""
    from openrknn.runtime.io.arrange import arrange
    from tests.runtime.test_tensors import tensor

    cube = tensor((1, 3, 3, 3), row_alignment=16)
    array = np.arange(27).reshape(1, 3, 3, 3)
    assert np.array_equal(arrange(array, cube, None, picture=True), array)
    with pytest.raises(ValueError, match="say which with layout='nhwc' or 'nchw'"):
        arrange(array, cube, None, picture=False)
    assert np.array_equal(arrange(array, cube, "nchw", picture=False), array.transpose(0, 2, 3, 1))
    single = tensor((1, 1, 1, 1))
    assert arrange(np.ones((1, 1, 1, 1)), single, None, picture=False).shape == (1, 1, 1, 1)


def test_a_grey_picture_needs_no_channel() -> None:
    from openrknn.runtime.io.arrange import arrange
    from tests.runtime.test_tensors import tensor

    grey = tensor((1, 1, 4, 6), row_alignment=16)
    array = np.arange(24).reshape(4, 6)
    for shape in ((4, 6), (4, 6, 1), (1, 4, 6), (1, 4, 6, 1), (1, 1, 4, 6)):
        assert np.array_equal(arrange(array.reshape(shape), grey, None, picture=True)[0, :, :, 0], array)


# ---------------------------------------------------------------- numbers


def test_pixels_as_floats_are_the_same_picture(image: Session) -> None:
    """The float path uses the converter's own multiplier and offset, so that the same numbers give the same result."""
    want = run(image, PICTURE)
    for kind in (np.float32, np.float64, np.float16, np.int16, np.int32, np.uint16):
        assert np.array_equal(run(image, PICTURE.astype(kind)), want), kind


def test_the_float_path_by_hand(image: Session) -> None:
    """round(x * M / 2^n) + offset, worked out in whole numbers."""
    run(image, PICTURE.astype(np.float32))
    tensor = program_of(image).inputs[0].tensor
    lanes = converter_for(tensor, image.model.graphs[0].normalizations[0])
    for channel, lane in enumerate(lanes):
        exact = PICTURE[0, :, :, channel].astype(np.int64) * lane.multiplier
        half = 1 << (lane.shift - 1)
        assert np.all(exact % (1 << lane.shift) != half)  # no ties among these
        want = np.clip(((exact + half) >> lane.shift) + lane.offset, -128, 127)
        assert np.array_equal(stored(image)[0, channel], want)


def test_integers_of_the_models_own_type_are_stored_as_they_are(features: Session, image: Session) -> None:
    array = np.random.default_rng(2).integers(-128, 128, (1, 8, 7, 5), dtype=np.int8)
    run(features, array)
    assert np.array_equal(stored(features), array)
    pixels = np.random.default_rng(3).integers(-128, 128, (1, 16, 16, 3), dtype=np.int8)
    run(image, pixels)
    assert np.array_equal(stored(image), pixels.transpose(0, 3, 1, 2))


def test_features_are_quantized(features: Session) -> None:
    quantization = features.inputs[0].quantization
    assert quantization is not None
    array = np.random.default_rng(4).standard_normal((1, 8, 7, 5)).astype(np.float32) * 3
    run(features, array)
    want = np.rint(array / np.float32(quantization.scale[0]) + quantization.zero_point[0])
    assert np.array_equal(stored(features), np.clip(want, -128, 127))


def test_far_numbers_saturate(features: Session, flat: Session) -> None:
    """The vendor's runtime 1.5.2 lets those of two-dimensional inputs wrap around."""
    run(features, np.full((1, 8, 7, 5), -1e30, np.float32))
    assert np.all(stored(features) == -128)
    run(flat, np.full(flat.inputs[0].shape, np.inf, np.float64))
    assert np.all(stored(flat) == 127)


def test_float_models_normalize_too() -> None:
    with Session(GOLDENS / "image_rk3588_fp.rknn") as session:
        want = run(session, PICTURE)
        exact = ((PICTURE - MEAN) / STD).transpose(0, 3, 1, 2)
        np.testing.assert_allclose(stored(session).astype(np.float64), exact, rtol=1e-3, atol=1e-4)
        assert np.array_equal(run(session, PICTURE.astype(np.float32)), want)
        run(session, np.full((16, 16, 3), 1e9, np.float32))
        assert np.all(np.isinf(stored(session)))


def test_pixels_of_fp16_pictures_are_multiplied_where_floats_are_divided() -> None:
    """Two pixels where it shows: memory of runtime 1.5.2, RK3588 and RK3568 (with 149 floats that show the other)."""
    model = openrknn.load(GOLDENS / "image_rk3588_fp.rknn")
    graph = model.graphs[0]
    mean, std = (112.91068267822266, 118.61213684082031, 126.0), (46.724945068359375, 67.18566131591797, 56.0)
    entry = replace(graph.normalizations[0], mean=(*mean, mean[0]), std=(*std, std[0]))
    pixels = np.zeros((1, 16, 16, 3), np.uint8)
    pixels[0, 0, 0] = 6, 51, 0
    with Session(replace(model, graphs=(replace(graph, normalizations=(entry,)),)), device="software") as session:
        port = program_of(session).inputs[0]
        port.feed(pixels, "nhwc")
        assert port.stored.native[0, 0, 0, :2].tolist() == [-2.2890625, -1.005859375]
        port.feed(pixels.astype(np.float32), "nhwc")
        assert port.stored.native[0, 0, 0, :2].tolist() == [-2.287109375, -1.0068359375]


def test_row_ends_are_what_padding_would_be() -> None:
    """8 pixels in rows of 16: a kernel at the right edge reads the rest. Raw pixels need the mean, others the zero."""
    with Session(GOLDENS / "dynamic_rk3588_i8.rknn") as session:
        session.set_shapes((1, 8, 8, 3))
        port = program_of(session).inputs[0]
        ends = port.stored.padding
        assert ends is not None
        session.run(np.full((8, 8, 3), 9, np.uint8))
        assert np.all(ends.view(np.uint8) == 0)  # mean 0
        session.run(np.full((8, 8, 3), 9, np.float32))
        assert np.all(ends == -128)
        ends[...] = 1
        session.run(np.full((8, 8, 3), 9, np.float32))  # nobody else writes there, so it is not done again
        assert np.all(ends == 1)


# ---------------------------------------------------------------- bytes


def test_pass_through_takes_the_native_layout(features: Session) -> None:
    array = np.random.default_rng(6).integers(-128, 128, (1, 8, 7, 5), dtype=np.int8)
    want = run(features, array)
    native = program_of(features).inputs[0].stored.native.copy()
    assert native.shape == (1, 1, 7, 5, 16)
    run(features, np.zeros_like(array))
    assert np.array_equal(run(features, native, pass_through=True), want)
    run(features, np.zeros_like(array))
    assert np.array_equal(run(features, native.tobytes(), pass_through=True), want)
    assert np.array_equal(run(features, native[0], pass_through=True), want)


def test_pass_through_of_padded_rows() -> None:
    with Session(GOLDENS / "dynamic_rk3588_i8.rknn") as session:
        session.set_shapes((1, 8, 24, 3))
        pixels = np.random.default_rng(7).integers(-128, 128, (8, 24, 3), dtype=np.int8)
        want = run(session, pixels)
        rows = np.full((8, 32, 3), -128, np.int8)
        rows[:, :24] = pixels
        assert np.array_equal(run(session, rows, pass_through=True), want)
        assert np.array_equal(run(session, pixels, pass_through=True), want)
        rows[:, 24:] = 0
        run(session, rows, pass_through=True)
        assert np.array_equal(run(session, pixels), want)  # row ends are made right again


# ---------------------------------------------------------------- refusals

NAN = np.full((1, 8, 7, 5), 1.0, np.float32)
NAN[0, 3, 2, 1] = np.nan


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros((1, 8, 7, 6), np.float32), ValueError, r"\(1, 8, 7, 6\) was given; it has to be \(1, 7, 5, 8\)"),
        (np.zeros((2, 8, 7, 5), np.float32), ValueError, r"\(2, 8, 7, 5\) was given"),
        (np.zeros(0, np.float32), ValueError, r"shape \(0,\) was given"),
        (np.float32(3), ValueError, r"shape \(\) was given"),
        (NAN, ValueError, "1 of 280 numbers are NaN"),
        (np.zeros((1, 8, 7, 5), complex), TypeError, "array of complex128 was given; wanted is uint8"),
        (np.zeros((1, 8, 7, 5), "U3"), TypeError, "<U3"),
        (np.zeros((1, 8, 7, 5), object), TypeError, "object"),
        ("x.npy", TypeError, "an array is needed, not str"),
        (b"bytes", TypeError, "an array is needed, not bytes"),
        (None, TypeError, "an array is needed, not NoneType"),
        ([], ValueError, "0 inputs were given; the model has 1: x"),
        ([NAN, NAN], ValueError, "2 inputs were given; the model has 1: x"),
        ({}, ValueError, "input 'x' is missing"),
        ({"y": NAN}, ValueError, "no input is called 'y'; the model has x"),
        ({"x": NAN, "z": NAN}, ValueError, "no input is called 'z'"),
        ([[[1, 2], [3]]], TypeError, "list does not make an array"),
    ],
    ids=range(17),
)  # fmt: skip
def test_wrong_inputs_are_named_and_the_session_goes_on(
    features: Session, value: object, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        features.run(value)
    assert run(features, np.ones((1, 8, 7, 5), np.float32)).shape == (1, 12, 7, 5)


def test_truths_are_0_and_1(features: Session) -> None:
    truths = np.arange(280).reshape(1, 8, 7, 5) % 3 == 0
    assert (run(features, truths) == run(features, truths.astype(np.float32))).all()


def test_wrong_words_are_named(features: Session) -> None:
    array = np.zeros((1, 8, 7, 5), np.float32)
    with pytest.raises(ValueError, match="layout 'chwn' is unknown"):
        features.run(array, layout="chwn")
    with pytest.raises(ValueError, match=r"as nhwc it has to be \(1, 7, 5, 8\)"):
        features.run(array, layout="nhwc")
    with pytest.raises(ValueError, match="layout= names 'y', but the inputs are x"):
        features.run(array, layout={"y": "nhwc"})
    with pytest.raises(ValueError, match="outputs='fp16' is unknown"):
        features.run(array, outputs="fp16")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.zeros(3, np.int8), ValueError),
        (np.zeros((1, 8, 7, 5), np.float32), ValueError),
        ("text", TypeError),
        (3, TypeError),
    ],
)
def test_wrong_bytes_are_named(features: Session, value: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="pass_through takes"):
        features.run(value, pass_through=True)


def test_arrays_need_not_be_contiguous_or_writable(features: Session) -> None:
    array = np.random.default_rng(8).standard_normal((1, 8, 7, 5)).astype(np.float32)
    want = run(features, array)
    wide = np.zeros((1, 8, 14, 10), np.float32)
    wide[:, :, ::2, ::2] = array
    assert np.array_equal(run(features, wide[:, :, ::2, ::2]), want)
    frozen = array.copy()
    frozen.flags.writeable = False
    assert np.array_equal(run(features, frozen), want)
    assert np.array_equal(run(features, np.asfortranarray(array)), want)
    assert np.array_equal(run(features, array.astype(">f4")), want)
    assert np.array_equal(run(features, [array.tolist()]), want)
    spread = np.zeros((1, 8, 7, 10), np.int8)[:, :, :, ::2]
    with pytest.raises(ValueError, match="contiguous bytes"):
        features.run(spread.reshape(1, 8, 7, 5)[:, ::-1], pass_through=True)


def test_a_file_whose_input_has_height_and_width_swapped() -> None:
    """The number of elements is right, so that only the first run failed: with NumPy's error about broadcasting."""
    model = openrknn.load(golden("conv_rk3588_i8"))
    graph = model.graphs[0]
    number = next(number for number, tensor in enumerate(graph.tensors) if tensor.name == "x")
    batches, surfaces, height, width, atom = graph.tensors[number].native_shape
    swapped = replace(graph.tensors[number], native_shape=(batches, surfaces, width, height, atom))
    tensors = (*graph.tensors[:number], swapped, *graph.tensors[number + 1 :])
    wrong = replace(model, graphs=(replace(graph, tensors=tensors),))
    with pytest.raises(BadTensorError, match=r"\[1, 8, 7, 5\] \(NCHW\) in the model .* height and width are swapped"):
        openrknn.Session(wrong)
