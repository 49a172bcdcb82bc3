"""Calibration data from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.compiler.calibration import Preprocess, feeds_for
from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.ir import Array, Graph, Value

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
