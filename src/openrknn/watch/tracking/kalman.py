"""A Kalman filter of one box: centre, aspect ratio and height, and how fast each of them changes.

The state is [x, y, a, h] and its rates, as in SORT, DeepSORT and ByteTrack; the noise grows with the height of the box.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BoxFilter"]

_Array = np.ndarray[Any, np.dtype[np.float64]]
_POSITION, _RATE = 1 / 20, 1 / 160
"""Standard deviations of position and rate, in heights of the box."""
_ASPECT, _ASPECT_RATE, _ASPECT_SEEN = 1e-2, 1e-5, 1e-1


def measured(box: _Array) -> _Array:
    """Left, top, right, bottom -> centre, aspect ratio, height."""
    width, height = box[2] - box[0], max(box[3] - box[1], 1e-6)
    return np.array([(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, width / height, height])


class BoxFilter:
    """Where an object is, and where it will be."""

    def __init__(self, box: _Array) -> None:
        seen = measured(box)
        height = seen[3]
        self.mean = np.concatenate([seen, np.zeros(4)])
        position, rate = 2 * _POSITION * height, 10 * _RATE * height
        deviation = np.array([position, position, _ASPECT, position, rate, rate, _ASPECT_RATE, rate])
        self.covariance = np.diag(deviation**2)

    def stop(self) -> None:
        """Forget the rate of the height: of an object that is out of sight."""
        self.mean[7] = 0.0

    def predict(self, steps: float = 1.0) -> None:
        """`steps` frame intervals later."""
        height = self.mean[3]
        motion = np.eye(8)
        motion[:4, 4:] = steps * np.eye(4)
        position, rate = _POSITION * height, _RATE * height
        noise = np.array([position, position, _ASPECT, position, rate, rate, _ASPECT_RATE, rate]) ** 2 * steps
        self.mean = motion @ self.mean
        self.covariance = motion @ self.covariance @ motion.T + np.diag(noise)

    def update(self, box: _Array) -> None:
        """It was seen there."""
        height = self.mean[3]
        noise = np.diag(np.array([_POSITION * height, _POSITION * height, _ASPECT_SEEN, _POSITION * height]) ** 2)
        spread = self.covariance[:4, :4] + noise
        gain = np.linalg.solve(spread, self.covariance[:4, :]).T
        self.mean = self.mean + gain @ (measured(box) - self.mean[:4])
        self.covariance = self.covariance - gain @ spread @ gain.T

    @property
    def box(self) -> _Array:
        """Left, top, right, bottom."""
        x, y, aspect, height = self.mean[:4]
        width = aspect * height
        return np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
