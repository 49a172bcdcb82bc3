"""OSNet on crops of one photo: the distances between people that a board printed.

Stands for CLIP_TRUNCATE of RK3566 (CORE 0x302C is 1 and 2 in two layers): without the shift the mean error is 0.27. The
board is an RK3588 with the same network compiled for it, so the numbers are near, not equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.silicon.recordings import Picture, answer, board_says, recording

cv2: Any = pytest.importorskip("cv2", reason="the extra 'video' (OpenCV) is not installed")

MODEL = "osnet-market1501-batch8-rk3566.rknn"


def boxes() -> list[tuple[int, ...]]:
    """The four people to compare, then the four to compare them with."""
    lines = recording("reid-objects.dat").read_text().splitlines()
    return [tuple(map(int, line.split(","))) for line in lines if line[:1].isdigit()]


def crops() -> Picture:
    """RGB. The demo swaps width and height when it scales: rows of 256 pixels go into memory for rows of 128."""
    photo = cv2.cvtColor(cv2.imread(str(recording("reid-walking.jpg"))), cv2.COLOR_BGR2RGB)
    scaled = [
        cv2.resize(photo[top:bottom, left:right], (256, 128), interpolation=cv2.INTER_AREA).reshape(256, 128, 3)
        for left, top, right, bottom in boxes()
    ]
    return np.stack(scaled)


def test_people_are_as_far_apart_as_on_the_board() -> None:
    said = board_says("reid_rk3566.board.json")["distances"]
    (features,) = answer(MODEL, crops())
    unit = features.reshape(8, -1) / np.linalg.norm(features.reshape(8, -1), axis=1, keepdims=True)
    distances = np.linalg.norm(unit[:4, None] - unit[None, 4:], axis=2).reshape(-1)
    errors = np.abs(distances - said)
    assert distances[0] == 0.0  # the same crop twice
    assert errors.mean() <= 0.006
    assert errors.max() <= 0.015
