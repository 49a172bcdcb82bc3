"""Text: groups of pixels, boxes of lines, and reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from openrknn.vision.decoders import text_boxes, text_lines
from openrknn.vision.decoders.text_boxes import components
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.labels import ppocr_characters
from openrknn.vision.ocr import parts_of_line
from tests.vision import slow
from tests.vision.tensors import Array, plain, quantized

FRAME = Frame(160, 96)
SETTINGS = Settings(threshold=0.7)


@settings(deadline=None, max_examples=100)
@given(some.integers(0, 2**32), some.floats(0.02, 0.9), some.integers(1, 25), some.integers(1, 25))
def test_groups_are_those_of_filling(seed: int, density: float, rows: int, columns: int) -> None:
    mask = np.random.default_rng(seed).random((rows, columns)) < density
    found = [set(zip(y.tolist(), x.tolist(), strict=True)) for y, x in components(mask)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, slow.flood(mask)))


def page(*bars: tuple[float, float, float, float, float], strength: float = 0.95) -> Array:
    """Bars of text: centre, size and angle."""
    y, x = np.mgrid[: FRAME.height, : FRAME.width] + 0.5
    picture = np.zeros((FRAME.height, FRAME.width), np.float32)
    for cx, cy, w, h, turn in bars:
        u = (x - cx) * np.cos(turn) + (y - cy) * np.sin(turn)
        v = (y - cy) * np.cos(turn) - (x - cx) * np.sin(turn)
        picture[(np.abs(u) < w / 2) & (np.abs(v) < h / 2)] = strength
    return picture[None, None]


@pytest.mark.parametrize("way", [plain, quantized])
def test_a_level_line_grows_by_area_over_perimeter(way: object) -> None:
    """By hand: 80 x 8 grows on every side by 80 * 8 * 1.6 / (2 * 88) = 5.818."""
    assert callable(way)
    head = way(page((60, 40, 80, 8, 0)))
    assert text_boxes.matches([head.shape], FRAME)
    found = text_boxes.decode([head], FRAME, SETTINGS)
    growth = 80 * 8 * 1.6 / (2 * (80 + 8))
    assert found.boxes[0] == pytest.approx([20 - growth, 36 - growth, 100 + growth, 44 + growth], abs=1e-3)
    assert found.scores[0] == pytest.approx(0.95, abs=0.01)
    assert found.corners is not None
    left, top, right, bottom = found.boxes[0]
    assert found.corners[0] == pytest.approx(np.array([(left, top), (right, top), (right, bottom), (left, bottom)]))


@pytest.mark.parametrize("turn", [-0.6, -0.2, 0.1, 0.5])
def test_a_slanted_line_keeps_its_angle_and_starts_at_its_upper_left(turn: float) -> None:
    found = text_boxes.decode([plain(page((80, 48, 70, 10, turn)))], FRAME, SETTINGS)
    assert len(found) == 1
    assert found.corners is not None
    corners = found.corners[0].astype(float)
    along = corners[1] - corners[0]
    assert np.arctan2(along[1], along[0]) == pytest.approx(turn, abs=0.04)
    growth = 70 * 10 * 1.6 / (2 * 80)
    assert np.linalg.norm(along) == pytest.approx(70 + 2 * growth, abs=4)
    assert np.linalg.norm(corners[3] - corners[0]) == pytest.approx(10 + 2 * growth, abs=4)
    assert corners.mean(axis=0) == pytest.approx([80, 48], abs=1)


def test_lines_come_in_the_order_of_reading_and_noise_is_left_out() -> None:
    value = page((110, 20, 60, 8, 0), (30, 21, 40, 8, 0), (60, 60, 90, 8, 0))
    value[0, 0, 80:82, 100:102] = 0.99   # too small
    value[0, 0, 85:90, 20:60] = 0.4      # too weak
    found = text_boxes.decode([plain(value)], FRAME, SETTINGS)
    centres = [(float(box[0] + box[2]) / 2, float(box[1] + box[3]) / 2) for box in found.boxes]
    assert centres == [pytest.approx(c, abs=0.6) for c in ((30, 21), (110, 20), (60, 60))]
    assert len(text_boxes.decode([plain(np.zeros((1, 1, 96, 160)))], FRAME, SETTINGS)) == 0


def test_a_smaller_output_is_scaled_to_the_frame() -> None:
    small = page((60, 40, 80, 8, 0))[:, :, ::2, ::2]
    found = text_boxes.decode([plain(small)], FRAME, SETTINGS)
    assert (found.boxes[0][:2] + found.boxes[0][2:]) / 2 == pytest.approx([60, 40], abs=2)


@settings(deadline=None, max_examples=200)
@given(some.lists(some.integers(0, 4), max_size=30))
def test_folding_and_dropping(best: list[int]) -> None:
    reading = text_lines.read_steps(best, [0.5] * len(best), "abcd")
    assert reading.text == slow.ctc(best, "abcd")
    assert reading.score == (0.5 if reading.text else 0.0)


@pytest.mark.parametrize("way", [plain, quantized])
def test_reading_a_line(way: object) -> None:
    """h, h, blank, e, l, blank, l, l, o: folded 'hello'."""
    assert callable(way)
    steps = [1, 1, 0, 2, 3, 0, 3, 3, 4]
    values = np.full((1, len(steps), 12), 0.01, np.float32)
    for at, number in enumerate(steps):
        values[0, at, number] = 0.9 - at / 100
    head: Head = way(values)
    assert text_lines.matches([head.shape], Frame(320, 48))
    reading = text_lines.decode_with("helo", [head])
    assert reading.text == "hello"
    kept = [0, 3, 4, 6, 8]
    assert reading.score == pytest.approx(np.mean([0.9 - at / 100 for at in kept]), abs=0.01)


def test_the_characters_of_ppocr() -> None:
    characters = ppocr_characters()
    assert len(characters) == 6624  # and the blank: 6625 outputs
    assert characters[-1] == " "
    assert len(set(characters)) > 6600
    assert set("abcXYZ0123!?") <= set(characters)


def test_long_lines_are_cut_between_words() -> None:
    """Black words of 60 pixels with gaps of 20, on white: 240 pixels wide, 20 high, read 80 pixels at a time."""
    line = np.full((20, 240, 3), 255, np.uint8)
    for start in (0, 80, 160):
        line[4:16, start : start + 60 : 3] = 0
        line[4:16, start + 1 : start + 60 : 3] = 0
    parts = parts_of_line(line, Frame(80, 20))
    assert [part.shape[1] for part, _ in parts] != []
    assert np.concatenate([part for part, _ in parts], axis=1).shape == line.shape
    edges = np.cumsum([part.shape[1] for part, _ in parts])[:-1]
    assert all(any(60 + 80 * k <= edge <= 80 + 80 * k for k in range(3)) for edge in edges)
    assert [space for _, space in parts] == ["", *[" "] * (len(parts) - 1)]
    assert [space for _, space in parts_of_line(line[:, :60], Frame(80, 20))] == [""]
