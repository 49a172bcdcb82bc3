"""Tensors of PyTorch as arrays of NumPy and back; parameters that became constants, and whether they changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from openrknn.torch.options import TorchOptions


def is_constant(value: Any, node: Any) -> bool:
    """Whether an input of dynamo's graph belongs to a module: a parameter, or a buffer."""
    if isinstance(value, torch.nn.Parameter):
        return True
    tensors = node.meta.get("tensor_dict") or {}
    return isinstance(value, torch.Tensor) and bool(tensors.get("_dynamo_static_input_type"))


class ConstantWatch:
    """The state of some tensors: which ones, where their memory is, and how often they were written to."""

    def __init__(self, tensors: Sequence[Any], options: TorchOptions) -> None:
        self._has_sums = options.watch == "content"
        self._tensors = list(tensors)
        """Held: an identity is only one while its owner lives."""
        self._states = [self._state(one) for one in self._tensors]

    def difference(self, tensors: Sequence[Any]) -> str:
        """Empty if nothing changed; "other" for other tensors, "changed" for those with new contents."""
        for number, (mine, given) in enumerate(zip(self._tensors, tensors, strict=False)):
            if mine is not given:
                return "other"
            if self._states[number] != self._state(given):
                return "changed"
        return ""

    def trust(self) -> None:
        """Nothing is asked any more, and nothing is held."""
        self._tensors, self._states = [], []

    def _state(self, tensor: Any) -> tuple[Any, ...]:
        if tensor.is_inference():  # these have no counter
            return (tensor.data_ptr(), _sum(tensor))
        return (tensor.data_ptr(), tensor._version, _sum(tensor) if self._has_sums else 0)


def _sum(tensor: Any) -> int:
    """Of the bits: NaN equals itself, and minus zero is not zero."""
    plain = tensor.detach().contiguous().cpu()
    if plain.dtype == torch.bool or plain.element_size() == 1:
        return int(plain.view(torch.uint8).to(torch.int64).sum())
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(plain.element_size())
    if whole is None:  # complex128
        return _sum(torch.view_as_real(plain))
    bits = plain.view(whole).reshape(-1).to(torch.int64)
    return int((bits * torch.arange(1, bits.numel() + 1)).sum())


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
