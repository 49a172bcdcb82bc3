"""`InputWarning`: mistakes that arrays show. The inputs have the ranges that the vendor's toolkit gave the goldens."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.runtime.io import input_warnings
from openrknn.runtime.io.arrange import shape_hint
from openrknn.runtime.session import Session
from tests.runtime.cases import golden

PIXELS = ["image_rk3588_i8", "residual_rk3588_i8", "image_rk3588_fp"]
"""Their inputs take pixels from 0 to 255."""
SCALED = "two_inputs_rk3588_i8"
"""Its picture has no mean and no std, and was calibrated with small numbers."""


def noise(session: Session, low: float, high: float, dtype: Any) -> list[Any]:
    draw = np.random.default_rng(1).uniform
    return [draw(low, high, spec.shape).astype(dtype) for spec in session.inputs]


@contextmanager
def heard(name: str) -> Iterator[tuple[Session, list[str]]]:
    """A new session, and the texts of its warnings."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught, Session(golden(name)) as session:
        warnings.simplefilter("always")
        yield session, texts
        assert {entry.filename for entry in caught} <= {__file__}, "a warning names the line that called"
        texts += [str(entry.message) for entry in caught if issubclass(entry.category, openrknn.InputWarning)]


@pytest.mark.parametrize("name", PIXELS)
@pytest.mark.parametrize("edges", [(0, 1), (-1, 1), (-2.1, 2.6)])
def test_a_picture_that_was_normalized_before(name: str, edges: tuple[float, float]) -> None:
    with heard(name) as (session, texts):
        for _ in range(2):  # once
            session.run(noise(session, *edges, np.float32))
    (text,) = texts
    assert text.startswith("input 'image' takes pixels from 0 to 255 and normalizes them itself; the float32 array")
    assert text.endswith("Give the picture as uint8, or as floats from 0 to 255")


@pytest.mark.parametrize("name", PIXELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int32])
def test_a_picture_as_it_was_read_is_silent(name: str, dtype: Any) -> None:
    with heard(name) as (session, texts):
        session.run(noise(session, 0, 255, dtype))
        session.run(noise(session, 0, 255, dtype))
    assert texts == []


def test_each_type_is_looked_at() -> None:
    """A healthy picture as uint8 does not hide a mistake with floats."""
    with heard("image_rk3588_i8") as (session, texts):
        session.run(noise(session, 0, 255, np.uint8))
        session.run(noise(session, 0, 1, np.float64))
    assert len(texts) == 1


@pytest.mark.parametrize("name", PIXELS)
def test_divided_and_made_whole_again(name: str) -> None:
    with heard(name) as (session, texts):
        session.run(noise(session, 0, 2, np.uint8))
    (text,) = texts
    assert "holds only 0 and 1: was it divided by 255" in text


def test_pictures_of_one_colour() -> None:
    """A warm-up with zeros is silent; eight in a row are a camera that is dead."""
    with heard("image_rk3588_i8") as (session, texts):
        for _ in range(7):
            session.run(np.zeros((16, 16, 3), np.uint8))
    assert texts == []
    with heard("image_rk3588_i8") as (session, texts):
        for _ in range(20):
            session.run(np.full((16, 16, 3), 114, np.uint8))
    (text,) = texts
    assert text.startswith("input 'image' was given 8 arrays in a row that hold 114 wherever one looks")


def test_pixels_for_an_input_that_holds_small_numbers() -> None:
    with heard(SCALED) as (session, texts):
        _, most = session._program.inputs[0].limits
        assert most < 16
        session.run(noise(session, 0, 255, np.uint8))
    (text,) = texts
    assert text.startswith("input 'picture' holds numbers from -")
    assert f"to {most:.3g}; " in text
    with heard(SCALED) as (session, texts):
        session.run(noise(session, 0, most, np.float32))
    assert texts == []


def test_pixels_for_floats_without_mean_and_std() -> None:
    from openrknn.container.parts import DataType
    from openrknn.runtime.io.inputs import InputPort
    from openrknn.runtime.io.tensors import StoredTensor
    from tests.runtime.test_tensors import tensor

    described = tensor((1, 3, 8, 8), dtype=DataType.FLOAT16, row_alignment=16)
    port = InputPort(StoredTensor(described, np.zeros(4096, np.uint8)), None, takes_pixels=False)
    pixels = np.random.default_rng(1).integers(0, 256, (1, 8, 8, 3), np.uint8)
    seen = input_warnings.InputWarnings()
    with pytest.warns(openrknn.InputWarning, match="takes floats, and the model has no mean and std"):
        seen.look(port, pixels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        input_warnings.InputWarnings().look(port, pixels / 255.0)
        input_warnings.InputWarnings().look(port, pixels.astype(np.float32))  # who made floats of them thought of it
        input_warnings.InputWarnings().look(port, (pixels > 128).astype(np.uint8))


def test_what_is_no_picture_is_left_alone() -> None:
    with heard("conv_rk3588_i8") as (session, texts):
        for _ in range(9):
            session.run(np.zeros((1, 8, 7, 5), np.float32))
    with heard("image_rk3588_i8") as (session, more):
        for _ in range(9):
            session.run(np.zeros((1, 16, 16, 3), np.int8))  # stored elements
            session.run(np.zeros((1, 16, 16, 3), np.int8), pass_through=True)
    assert texts == more == []


def test_it_can_be_silenced_and_made_an_error() -> None:
    with Session(golden("image_rk3588_i8")) as session, warnings.catch_warnings():
        warnings.simplefilter("error", openrknn.InputWarning)
        with pytest.raises(openrknn.InputWarning, match="was it normalized before"):
            session.run(noise(session, 0, 1, np.float32))
    with Session(golden("image_rk3588_i8")) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", openrknn.InputWarning)
        session.run(noise(session, 0, 1, np.float32))


def test_few_numbers_are_looked_at() -> None:
    large = np.lib.stride_tricks.as_strided(np.zeros(1), (1, 4000, 6000, 3), (0, 0, 0, 0))
    few = input_warnings.sample(large)
    assert few.base is not None
    assert few.size <= 16 * 16 * 3
    assert input_warnings.sample(np.full((1, 1), 7)).tolist() == [[7]]


# ---------------------------------------------------------------- wrong shapes


@pytest.mark.parametrize(
    ("given", "wanted", "hint"),
    [
        ((1, 480, 640, 3), (1, 3, 640, 640), "It is 480 x 640 pixels and the model takes 640 x 640: resize it"),
        ((3, 480, 640), (1, 3, 640, 640), "It is 480 x 640 pixels"),
        ((1, 640, 480, 3), (1, 3, 480, 640), "Height and width are exchanged: the model takes 480 rows of 640 pixels"),
        ((224, 224, 4), (1, 3, 224, 224), "It has an alpha channel"),
        ((224, 224), (1, 3, 224, 224), "It is grey and the model takes three channels"),
        ((1, 28, 28, 3), (1, 1, 28, 28), "It has colours and the model takes grey"),
        ((1, 1, 28, 28), (1, 4, 28, 28), "It has 1 channel(s) and the model takes 4"),
        ((8, 224, 224, 3), (1, 3, 224, 224), "One run takes one item: run them one after the other"),
        ((224, 224, 3), (4, 3, 224, 224), "One run takes 4 items and 1 came"),
        ((2, 3, 224, 224), (4, 3, 224, 224), "One run takes 4 items and 2 came"),
        ((5, 100), (1, 100), "One run takes one item"),
        ((100,), (2, 100), "One run takes 2 items and 1 came"),
        ((10, 10), (1, 100), "It has as many numbers: array.reshape(1, 100)"),
        ((1, 7, 5, 9), (1, 8, 7, 5), ""),
        ((), (1, 8, 7, 5), ""),
        ((0, 4), (1, 4), ""),
    ],
)  # fmt: skip
def test_hints_for_wrong_shapes(given: tuple[int, ...], wanted: tuple[int, ...], hint: str) -> None:
    found = shape_hint(given, wanted)
    assert found.startswith(hint)
    assert bool(found) == bool(hint)


def test_the_hint_is_in_the_message() -> None:
    with Session(golden("image_rk3588_i8")) as session:
        with pytest.raises(ValueError, match="16 x 20 pixels and the model takes 16 x 16: resize it, or letterbox it"):
            session.run(np.zeros((16, 20, 3), np.uint8))
        with pytest.raises(ValueError, match="It fits as nhwc: leave layout= out"):
            session.run(np.zeros((16, 16, 3), np.uint8), layout="nchw")
        with pytest.raises(ValueError, match="no input is called 'imgae'; the model has image; did you mean 'image'"):
            session.run({"imgae": np.zeros((16, 16, 3), np.uint8)})


def test_bound_memory_refuses_floats_by_every_door() -> None:
    floats = np.full((1, 16, 16, 3), 0.5, np.float32)
    with Session(golden("image_rk3588_i8")) as session:
        view = session.bind().inputs["image"]
        with pytest.raises(TypeError):
            np.copyto(view, floats)
        with pytest.raises(TypeError):
            view += floats
        with pytest.raises(TypeError, match="the bound memory holds uint8"):
            view[:] = floats
