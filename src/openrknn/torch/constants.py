"""Parameters that became constants: whether they are still those that were compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from openrknn.torch.options import TorchOptions

__all__ = ["ConstantWatch", "is_constant"]


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
