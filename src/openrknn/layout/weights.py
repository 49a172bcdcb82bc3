"""Weights of convolutions, direct and depthwise.

Output channels (kernels) are cut into groups, and so are input channels; the last group of either kind is short. Memory
holds one tile after the other:

    for each output group, for each input group, for ky, for kx, for each output of the group, for each input of it

A file describes the tiles in six numbers, [O1, I1, H, W, O2, I2], when all are alike, and in twelve or twenty-four when
the last group of outputs, of inputs or of both is shorter: one six for each pair of (whole, short) groups. Depthwise
weights are the same with a single output; their groups are groups of channels.

Inputs are padded to what the MAC array takes; the padding holds the kernel's zero point, so that it weighs nothing.
Padding kernels are zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from openrknn.chips import CHIPS, Chip
from openrknn.errors import UnsupportedError

__all__ = [
    "Groups",
    "WeightTiles",
    "image_row_bytes",
    "join_zero_points",
    "pack_image_weights",
    "pack_weights",
    "split_zero_points",
    "unpack_image_weights",
    "unpack_weights",
]

_Element = TypeVar("_Element", bound=np.generic)
_RK3588, _RK3566, _RK3562 = CHIPS["rk3588"], CHIPS["rk3566"], CHIPS["rk3562"]
_RV1106 = CHIPS["rv1106"]
_NUMBERS = 6
_IMAGE_ROW_UNIT = 16


class Groups(NamedTuple):
    """`amount` groups of `size` channels each."""

    amount: int
    size: int


@dataclass(frozen=True, slots=True)
class WeightTiles:
    """How an [O, I, H, W] array is cut into tiles."""

    outputs: tuple[Groups, ...]
    """Runs of equal output groups, in order: the whole ones, then the short one."""
    inputs: tuple[Groups, ...]
    height: int
    width: int

    @classmethod
    def from_native(cls, native_shape: Sequence[int]) -> WeightTiles:
        """From the six, twelve or twenty-four numbers of a weight tensor."""
        sixes = [tuple(native_shape[at : at + _NUMBERS]) for at in range(0, len(native_shape), _NUMBERS)]
        if not sixes or len(native_shape) % _NUMBERS or min(native_shape) < 0:
            raise UnsupportedError(f"weights are described by sixes of numbers, not by {list(native_shape)}")
        outputs = tuple(dict.fromkeys(Groups(six[0], six[4]) for six in sixes))
        inputs = tuple(dict.fromkeys(Groups(six[1], six[5]) for six in sixes))
        height, width = sixes[0][2:4]
        expected = [(o.amount, i.amount, height, width, o.size, i.size) for o, i in product(outputs, inputs)]
        if sixes != expected:
            raise UnsupportedError(f"{list(native_shape)} are not the tiles of one block of weights")
        return cls(outputs, inputs, height, width)

    @classmethod
    def of_rk3588(cls, shape: tuple[int, int, int, int], element_bytes: int) -> WeightTiles:
        """RK3588, direct convolution of [O, I, H, W]: 32 bytes of outputs by 32 inputs.

        int8 kernels are even, inputs are whole atoms; where three atoms are left over, they are stored as four.
        """
        kernels, channels, height, width = shape
        kernels += kernels % 2 if element_bytes == 1 else 0
        outputs, inputs = _RK3588.weight_group
        rest = _cut_atoms(channels, inputs, element_bytes, _RK3588)
        return cls(_cut(kernels, outputs // element_bytes), rest, height, width)

    @classmethod
    def of_rk3588_depthwise(cls, channels: int, height: int, width: int, element_bytes: int) -> WeightTiles:
        """RK3588, depthwise: groups of 64 bytes of channels; atoms as in direct convolutions."""
        groups = _cut_atoms(channels, _RK3588.depthwise_group // element_bytes, element_bytes, _RK3588)
        return cls((Groups(1, 1),), groups, height, width)

    @classmethod
    def of_rk3566(cls, shape: tuple[int, int, int, int], element_bytes: int) -> WeightTiles:
        """RK3566, direct convolution of [O, I, H, W]: 16 bytes of outputs by 32 bytes of inputs, whole atoms of 8."""
        kernels, channels, height, width = shape
        outputs, inputs = (size // element_bytes for size in _RK3566.weight_group)
        return cls(_cut(kernels, outputs), _cut_atoms(channels, inputs, element_bytes, _RK3566), height, width)

    @classmethod
    def of_rk3566_depthwise(cls, channels: int, height: int, width: int, element_bytes: int) -> WeightTiles:
        """RK3566, depthwise: groups of 32 bytes of channels."""
        groups = _cut_atoms(channels, _RK3566.depthwise_group // element_bytes, element_bytes, _RK3566)
        return cls((Groups(1, 1),), groups, height, width)

    @classmethod
    def of_rk3562(cls, shape: tuple[int, int, int, int], element_bytes: int) -> WeightTiles:
        """RK3562, direct convolution of [O, I, H, W]: 16 bytes of outputs by 32 inputs, the rest as on RK3588."""
        kernels, channels, height, width = shape
        kernels += kernels % 2 if element_bytes == 1 else 0
        outputs, inputs = _RK3562.weight_group
        rest = _cut_atoms(channels, inputs, element_bytes, _RK3562)
        return cls(_cut(kernels, outputs // element_bytes), rest, height, width)

    @classmethod
    def of_rk3562_picture(cls, shape: tuple[int, int, int, int], element_bytes: int) -> WeightTiles:
        """RK3562, convolution on a picture: a pixel is four numbers, whatever its channels."""
        kernels, _, height, width = shape
        kernels += kernels % 2 if element_bytes == 1 else 0
        return cls(_cut(kernels, _RK3562.weight_group[0] // element_bytes), (Groups(1, 4),), height, width)

    @classmethod
    def of_rk3562_depthwise(cls, channels: int, height: int, width: int, element_bytes: int) -> WeightTiles:
        """RK3562, depthwise: whole groups of 32 bytes of channels."""
        group = _RK3562.depthwise_group // element_bytes
        return cls((Groups(1, 1),), (Groups(-(-channels // group), group),), height, width)

    @classmethod
    def of_rv1106_depthwise(cls, channels: int, height: int, width: int, element_bytes: int) -> WeightTiles:
        """RV1106, depthwise: groups of 32 bytes of channels, whole atoms."""
        groups = _cut_atoms(channels, _RV1106.depthwise_group // element_bytes, element_bytes, _RV1106)
        return cls((Groups(1, 1),), groups, height, width)

    @classmethod
    def of_rk3576_depthwise(cls, channels: int, height: int, width: int, element_bytes: int) -> WeightTiles:
        """RK3576, depthwise: groups of 64 bytes of channels, whole atoms; three that are left over stay three."""
        atom = _RK3588.channels_per_atom(element_bytes)
        groups = _cut(_rounded(channels, atom), _RK3588.depthwise_group // element_bytes)
        return cls((Groups(1, 1),), groups, height, width)

    @classmethod
    def of_rk3576_picture(cls, shape: tuple[int, int, int, int], element_bytes: int) -> WeightTiles:
        """RK3576, convolution on a picture: 32 bytes of outputs by four channels, as on RK3562."""
        kernels, _, height, width = shape
        kernels += kernels % 2 if element_bytes == 1 else 0
        return cls(_cut(kernels, _RK3588.weight_group[0] // element_bytes), (Groups(1, 4),), height, width)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[O, I, H, W], padding included."""
        return (_total(self.outputs), _total(self.inputs), self.height, self.width)

    @property
    def elements(self) -> int:
        """Elements of all tiles together."""
        kernels, channels, height, width = self.shape
        return kernels * channels * height * width


def unpack_weights(memory: npt.NDArray[_Element], tiles: WeightTiles) -> npt.NDArray[_Element]:
    """Tiles to [O, I, H, W], padding included; what follows the last tile is ignored."""
    flat = _enough(memory, tiles.elements)
    weights = np.empty(tiles.shape, flat.dtype)
    for block, kernels, channels in _blocks(flat, tiles):
        ordered = block.transpose(0, 4, 1, 5, 2, 3)
        weights[kernels, channels] = ordered.reshape(weights[kernels, channels].shape)
    return weights


def pack_weights(
    weights: npt.NDArray[_Element], tiles: WeightTiles, padding: npt.ArrayLike = 0
) -> npt.NDArray[_Element]:
    """[O, I, H, W] to tiles.

    Missing inputs of a kernel get `padding` (a number, or one per kernel: its zero point), missing kernels get 0.
    """
    full = _padded(weights, tiles.shape, padding)
    memory = np.empty(tiles.elements, weights.dtype)
    for block, kernels, channels in _blocks(memory, tiles):
        outer = (block.shape[0], block.shape[4], block.shape[1], block.shape[5], block.shape[2], block.shape[3])
        block[...] = full[kernels, channels].reshape(outer).transpose(0, 2, 4, 5, 1, 3)
    return memory


def _blocks(flat: npt.NDArray[_Element], tiles: WeightTiles) -> Iterator[tuple[npt.NDArray[_Element], slice, slice]]:
    """Views of the memory as [O1, I1, H, W, O2, I2] with the kernels and channels that they hold.

    At most four: (whole, short) output groups by (whole, short) input groups.
    """
    _, channels, height, width = tiles.shape
    at = kernel = 0
    for outputs in tiles.outputs:
        size = outputs.size * channels * height * width
        rows = flat[at : at + outputs.amount * size].reshape(outputs.amount, size)
        column = channel = 0
        for inputs in tiles.inputs:
            length = outputs.size * inputs.amount * inputs.size * height * width
            shape = (outputs.amount, inputs.amount, height, width, outputs.size, inputs.size)
            # Cutting one axis into several never copies, so writing into the block writes into the memory.
            block = rows[:, column : column + length].reshape(shape)
            next_kernel, next_channel = kernel + outputs.amount * outputs.size, channel + inputs.amount * inputs.size
            if block.size:
                yield block, slice(kernel, next_kernel), slice(channel, next_channel)
            column, channel = column + length, next_channel
        at, kernel = at + outputs.amount * size, kernel + outputs.amount * outputs.size


# -------------------------------------------------------------------------------------------------- special forms


def split_zero_points(
    memory: npt.NDArray[_Element], run: int, elements: int
) -> tuple[npt.NDArray[_Element], npt.NDArray[_Element]]:
    """Depthwise int8 weights of RK3562, RK3576 and RV110x: `run` weights, then `run` negated zero points, and so on.

    Returns the tiles of the weights and, in the same order, those of the negated zero points.
    """
    pairs = _enough(memory, 2 * elements)[: 2 * elements].reshape(-1, 2, run)
    return pairs[:, 0].reshape(-1).copy(), pairs[:, 1].reshape(-1).copy()


def join_zero_points(weights: npt.NDArray[_Element], negated: npt.NDArray[_Element], run: int) -> npt.NDArray[_Element]:
    """The inverse of `split_zero_points`."""
    return np.stack([weights.reshape(-1, run), negated.reshape(-1, run)], axis=1).reshape(-1)


def unpack_image_weights(memory: npt.NDArray[_Element], tiles: WeightTiles) -> npt.NDArray[_Element]:
    """First int8 convolution of RK3576 and RV1126B on an image: each row of a kernel fills whole 16 bytes of its own.

    for each output group, for ky, for each output of the group: kx and input side by side, then zeros up to 16
    """
    kernels, channels, height, width = tiles.shape
    group, row = _image_group(tiles), image_row_bytes(tiles)
    rows = _enough(memory, kernels * height * row)[: kernels * height * row]
    taps = rows.reshape(-1, height, group, row)[..., : width * channels]
    ordered = taps.reshape(-1, height, group, width, channels).transpose(0, 2, 4, 1, 3)
    return ordered.reshape(tiles.shape).copy()


def pack_image_weights(
    weights: npt.NDArray[_Element], tiles: WeightTiles, padding: npt.ArrayLike = 0
) -> npt.NDArray[_Element]:
    """The inverse of `unpack_image_weights`; the memory is twice as long as the rows, as the compiler makes it."""
    kernels, channels, height, width = tiles.shape
    group, row = _image_group(tiles), image_row_bytes(tiles)
    full = _padded(weights, tiles.shape, padding)
    memory = np.zeros(2 * kernels * height * row, weights.dtype)
    rows = memory[: memory.size // 2].reshape(-1, height, group, row)
    taps = full.reshape(-1, group, channels, height, width).transpose(0, 3, 1, 4, 2)
    rows[..., : width * channels] = taps.reshape(-1, height, group, width * channels)
    return memory


def image_row_bytes(tiles: WeightTiles) -> int:
    """What a row of an image kernel takes."""
    return _rounded(tiles.width * tiles.shape[1], _IMAGE_ROW_UNIT)


def _image_group(tiles: WeightTiles) -> int:
    if len(tiles.outputs) != 1:
        raise UnsupportedError(f"the kernels of {list(tiles.shape)} are not whole groups of image kernels")
    return tiles.outputs[0].size


# -------------------------------------------------------------------------------------------------- helpers


def _total(runs: tuple[Groups, ...]) -> int:
    return sum(run.amount * run.size for run in runs)


def _rounded(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _cut(number: int, group: int) -> tuple[Groups, ...]:
    """Whole groups, then the short one."""
    whole, rest = divmod(number, group)
    return tuple(run for run in (Groups(whole, group), Groups(1, rest)) if run.amount and run.size)


def _cut_atoms(channels: int, group: int, element_bytes: int, chip: Chip) -> tuple[Groups, ...]:
    atom = chip.channels_per_atom(element_bytes)
    stored = _rounded(channels, atom)
    if stored % group == 3 * atom:
        stored += atom
    return _cut(stored, group)


def _enough(memory: npt.NDArray[_Element], elements: int) -> npt.NDArray[_Element]:
    flat = np.ascontiguousarray(memory).reshape(-1)
    if not elements:
        raise UnsupportedError("weights of a shape that holds nothing")
    if flat.size < elements:
        raise UnsupportedError(f"{flat.size} stored elements are fewer than the {elements} that the shape needs")
    return flat


def _padded(
    weights: npt.NDArray[_Element], shape: tuple[int, int, int, int], padding: npt.ArrayLike
) -> npt.NDArray[_Element]:
    kernels, channels = weights.shape[:2]
    if weights.ndim != len(shape) or weights.shape[2:] != shape[2:] or kernels > shape[0] or channels > shape[1]:
        raise ValueError(f"weights of {list(weights.shape)} do not fit into tiles of {list(shape)}")
    full = np.zeros(shape, weights.dtype)
    full[:kernels, channels:] = np.asarray(padding, weights.dtype).reshape(-1, 1, 1, 1)
    full[:kernels, :channels] = weights
    return full
