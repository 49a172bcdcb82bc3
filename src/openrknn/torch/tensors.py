"""Tensors of PyTorch as arrays of NumPy, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

__all__ = ["HALVES", "of_array", "to_array"]

HALVES = (torch.float16, torch.bfloat16)
"""Types that are computed in float outside the NPU: NumPy has no bfloat16, and ONNX Runtime few operators for them."""


def to_array(tensor: Any) -> npt.NDArray[np.generic]:
    """The values, in order, whatever strides, device or lazy sign the tensor has."""
    plain = tensor.detach()
    if plain.dtype in HALVES:
        plain = plain.float()
    array: npt.NDArray[np.generic] = plain.cpu().resolve_conj().resolve_neg().contiguous().numpy()
    return array


def of_array(array: npt.NDArray[np.generic], like: Any) -> Any:
    """A tensor of its own memory with type, device and strides of `like` (a fake one is enough).

    Nothing is shared with the array: its memory may be written again by the next run.
    """
    source = torch.from_numpy(np.array(array, order="C", copy=True))
    if like is None:
        return source
    shape, strides = tuple(source.shape), tuple(like.stride())
    if tuple(like.shape) == shape and source.stride() != strides and _is_dense(shape, strides):
        return torch.empty_strided(shape, strides, dtype=like.dtype, device=like.device).copy_(source)
    return source.to(device=like.device, dtype=like.dtype)


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether each element has its own place and none is left out: channels last, transposed."""
    expected = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True
