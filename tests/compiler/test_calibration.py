"""Calibration data from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.compiler.calibration import Preprocess, feeds_for
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.ir import Array, Graph, Value
from openrknn.vision.geometry import place
from openrknn.vision.heads import Frame
from openrknn.vision.pictures import fitted

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")


def read(path: Path, channels: int = 3, order: str = "rgb") -> Array:
    graph = Graph("net", ["x"], [], {"x": Value("x", (1, channels, 32, 16))})
    (feed,) = feeds_for(path, graph, Preprocess.of(graph, None, None, order))
    return feed["x"]


def tall_picture() -> Array:
    """Red above, blue below."""
    picture = np.zeros((32, 16, 3), np.uint8)
    picture[:16, :, 0] = picture[16:, :, 2] = 250
    return picture


@pytest.mark.parametrize(("turn", "lying"), [(6, np.rot90(tall_picture())), (3, np.rot90(tall_picture(), 2))])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_photo_of_a_turned_camera_calibrates_upright(turn: int, lying: Array, channels: int, tmp_path: Path) -> None:
    """Stored as the camera was held; EXIF says how to turn it (6: a quarter clockwise, 3: by half)."""
    exif = Image.Exif()
    exif[0x0112] = turn
    Image.fromarray(lying).save(tmp_path / "turned.jpg", exif=exif, quality=95)
    Image.fromarray(tall_picture()).save(tmp_path / "upright.jpg", quality=95)
    turned, upright = (read(tmp_path / name, channels) for name in ("turned.jpg", "upright.jpg"))
    assert np.abs(turned - upright).max() <= 4, "the same picture but for what JPEG loses"
    if channels > 1:
        assert turned[0, 0, :14].min() > 240
        assert turned[0, 2, 18:].min() > 240


def test_pixels_are_planes_in_the_order_of_the_model(tmp_path: Path) -> None:
    Image.fromarray(tall_picture()).save(tmp_path / "a.png")
    wanted = tall_picture().transpose(2, 0, 1)[None]
    assert (read(tmp_path / "a.png") == wanted).all()
    assert (read(tmp_path / "a.png", order="bgr") == wanted[:, ::-1]).all()


def test_a_broken_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    with pytest.raises(CalibrationError, match=r"a\.png is not a readable picture: the picture is damaged"):
        read(tmp_path / "a.png")
    Image.new("RGB", (3, 3)).save(tmp_path / "b.png")
    with pytest.raises(CalibrationError, match=r"b\.png is a picture, but the input has 7 channels"):
        read(tmp_path / "b.png", 7)


def wide_picture() -> Array:
    """Red, green and blue from left to right, three times as wide as high."""
    picture = np.zeros((32, 96, 3), np.uint8)
    for part in range(3):
        picture[:, 32 * part : 32 * (part + 1), part] = 250
    return picture


@pytest.mark.parametrize("fit", ["letterbox", "crop", "stretch"])
def test_pictures_are_fitted_as_run_and_detect_fit_them(fit: str, tmp_path: Path) -> None:
    Image.fromarray(wide_picture()).save(tmp_path / "a.png")
    graph = Graph("net", ["x"], [], {"x": Value("x", (1, 3, 48, 40))})
    (feed,) = feeds_for(tmp_path / "a.png", graph, Preprocess.of(graph, None, None, "rgb", fit))
    placement = place(96, 32, Frame(40, 48), fit)
    assert (feed["x"].transpose(0, 2, 3, 1) == fitted(wide_picture(), placement)).all()


@pytest.mark.parametrize(
    ("outputs", "fit"), [([(1, 10)], "crop"), ([(1, 84, 100)], "letterbox"), ([(1, 4), (1, 8)], "letterbox")]
)
def test_the_fit_that_is_chosen(outputs: list[tuple[int, ...]], fit: str) -> None:
    values = {f"y{number}": Value(f"y{number}", shape) for number, shape in enumerate(outputs)}
    graph = Graph("net", ["x"], list(values), {"x": Value("x", (1, 3, 8, 8)), **values})
    assert Preprocess.of(graph, None, None, "rgb").fit == fit
