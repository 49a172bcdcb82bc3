"""The length regulator: what a phoneme is, for as many frames as it lasts, with noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import PhonemeError

Floats = npt.NDArray[np.float32]
LONGEST = 1 << 16
"""Frames of one sentence: twelve minutes. More is a length scale that went wrong, and would fill the memory."""


def whole_frames(durations: npt.NDArray[Any], valid: int) -> npt.NDArray[np.int64]:
    """Frames of each phoneme, from what the predictor says; at least one frame in all."""
    flat = np.asarray(durations, np.float64).reshape(-1)[:valid]
    if not np.isfinite(flat).all() or flat.sum() > LONGEST:
        raise PhonemeError(
            f"the voice wants {flat.sum():.0f} frames for one sentence, at most {LONGEST} are made; take a smaller "
            "length scale (1 is usual)"
        )
    frames = np.maximum(flat, 0).astype(np.int64)
    if frames.sum() < 1:
        frames[0] = 1
    return frames


def regulate(
    mean: Floats, logs: Floats, frames: npt.NDArray[np.int64], noise: Floats, noise_scale: float
) -> Floats:  # fmt: skip
    """[1, C, T] of phonemes to the latent, [1, C, F] of frames: mean + noise * exp(logs) * scale."""
    wide_mean, wide_logs = (np.repeat(array[:, :, : len(frames)], frames, axis=2) for array in (mean, logs))
    latent: Floats = wide_mean + noise * np.exp(wide_logs) * np.float32(noise_scale)
    return latent
