"""The one reader of picture files. What is built on it is tested in vision, compiler and serve."""

import io
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from openrknn.pictures import FORMATS, PictureError, decoded_bytes, read_picture

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
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)  # Pillow warns from here on, and refuses twice as many
    assert read_picture(io.BytesIO(encoded()), most_pixels=54).shape == PATTERN.shape, "our own limit decides"
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    with pytest.raises(PictureError, match="too many pixels; scale it down"):
        read_picture(io.BytesIO(encoded()))


def test_what_decoding_takes_is_asked_for_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read_picture(io.BytesIO(encoded()), admit=asked.append)
    assert asked == [decoded_bytes("PNG", 9, 6)] == [54 * 16]

    def refuse(size: int) -> None:
        raise MemoryError(f"{size} bytes are too many")

    content = io.BytesIO(encoded("WEBP"))
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    with pytest.raises(PictureError, match="1296 bytes are too many"):
        read_picture(content, admit=refuse)


@pytest.mark.parametrize("form", ["PNG", "WEBP", "GIF"])
def test_a_picture_bomb_is_refused_unseen(form: str) -> None:
    """A few kilobytes; decoded they would take more than a gigabyte."""
    stream = io.BytesIO()
    Image.new("L" if form != "WEBP" else "RGB", (9000, 9000)).save(stream, form)
    assert len(stream.getvalue()) < 200_000
    with pytest.raises(PictureError, match="9000x9000 pixels; scale it down"):
        read_picture(io.BytesIO(stream.getvalue()))


def test_decoding_takes_no_more_than_was_said() -> None:
    """Each format in a process of its own: the peak of the whole process counts."""
    pytest.importorskip("resource")
    program = """
import io, resource, sys
from PIL import Image
from openrknn.pictures import decoded_bytes, read_picture
form, mode = sys.argv[1:]
stream = io.BytesIO()
Image.new(mode, (8, 8)).save(stream, form)
read_picture(stream)
stream = io.BytesIO()
Image.new(mode, (2000, 2000)).save(stream, form)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_picture(stream)
taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(taken / decoded_bytes(form, 2000, 2000))
"""
    for form, mode in (("JPEG", "CMYK"), ("PNG", "RGBA"), ("WEBP", "RGBA")):
        done = subprocess.run([sys.executable, "-c", program, form, mode], capture_output=True, text=True, check=True)
        assert float(done.stdout) <= 1.0


def test_a_format_hides_behind_no_name(tmp_path: Path) -> None:
    """Pillow hands EPS to Ghostscript, whatever the file is called."""
    (tmp_path / "a.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(PictureError, match="not a picture in a known format"):
        read_picture(tmp_path / "a.jpg")
    assert not set(FORMATS) & {"EPS", "PDF", "FPX", "MIC"}


def test_only_wanted_formats_are_decoded() -> None:
    assert read_picture(io.BytesIO(encoded("PNG")), formats=("PNG",)).shape == PATTERN.shape
    with pytest.raises(PictureError, match="not a picture in a known format; known are JPEG, GIF"):
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
