"""The one reader of picture files. What is built on it is tested in vision, compiler and serve."""

import io
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from openrknn.pictures import PictureError, read_picture

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
PATTERN = np.random.default_rng(0).integers(0, 256, (6, 9, 3), np.uint8)
# What a camera writes beside the picture, and the quarters to the left that turn it upright (EXIF 2.3, tag 0x112).
QUARTERS = {1: 0, 3: 2, 6: -1, 8: 1}


def encoded(form: str = "PNG", turn: int = 1) -> bytes:
    exif, stream = Image.Exif(), io.BytesIO()
    exif[0x0112] = turn
    Image.fromarray(PATTERN).save(stream, form, exif=exif)
    return stream.getvalue()


@pytest.mark.parametrize("turn", QUARTERS)
def test_pictures_come_upright_in_every_mode(turn: int, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encoded(turn=turn))
    upright = np.rot90(PATTERN, QUARTERS[turn])
    assert (read_picture(tmp_path / "a.png") == upright).all()
    four = read_picture(io.BytesIO(encoded(turn=turn)), "RGBA")
    assert (four[:, :, :3] == upright).all()
    assert (four[:, :, 3] == 255).all()
    assert read_picture(io.BytesIO(encoded(turn=turn)), "L").shape == upright.shape[:2]


def test_limits_are_looked_at_before_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PictureError, match="9x6 pixels; scale it down"):
        read_picture(io.BytesIO(encoded()), most_pixels=53)
    assert read_picture(io.BytesIO(encoded()), most_pixels=54).shape == PATTERN.shape
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)  # from here on Pillow warns
    with pytest.raises(PictureError, match="too many pixels; scale it down"):
        read_picture(io.BytesIO(encoded()))
    assert read_picture(io.BytesIO(encoded()), most_pixels=54).shape == PATTERN.shape, "a limit of one's own rules"


def test_only_wanted_formats_are_decoded() -> None:
    assert read_picture(io.BytesIO(encoded("PNG")), formats=("PNG",)).shape == PATTERN.shape
    with pytest.raises(PictureError, match="no picture; known are JPEG, GIF"):
        read_picture(io.BytesIO(encoded("PNG")), formats=("JPEG", "GIF"))


def test_what_cannot_be_read_is_one_kind_of_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PictureError, match="no such file"):
        read_picture(tmp_path / "a.png")
    with pytest.raises(PictureError, match=r"(?i)directory"):
        read_picture(tmp_path)
    for length in range(0, len(whole := encoded("JPEG")), 7):
        with pytest.raises(PictureError):
            read_picture(io.BytesIO(whole[:length]))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(PictureError, match=r"pip install 'openrknn\[images\]'"):
        read_picture(tmp_path / "a.png")


def test_threads_leave_the_filters_of_warnings_as_they_were() -> None:
    """They belong to the whole process; two threads that put them back in the wrong order would leave them changed."""
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: read_picture(io.BytesIO(encoded())), range(200)))
    assert warnings.filters == before
