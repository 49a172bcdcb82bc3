"""Tensors in device memory: read and written as arrays of their original shape, viewed as they lie there."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from openrknn.container.model import Model
from openrknn.container.parts import DataType, Layout, Tensor
from openrknn.errors import UnsupportedError
from openrknn.layout.features import FeatureLayout, ImageRows

Array: TypeAlias = npt.NDArray[Any]

_NATIVE_RANK = 5
DTYPES: dict[DataType, type[np.generic]] = {
    DataType.FLOAT32: np.float32,
    DataType.UINT8: np.uint8,
    DataType.INT8: np.int8,
    DataType.UINT16: np.uint16,
    DataType.INT16: np.int16,
    DataType.INT32: np.int32,
    DataType.INT64: np.int64,
    DataType.BOOL: np.bool_,
    DataType.FLOAT16: np.float16,
    DataType.FLOAT64: np.float64,
    DataType.UINT32: np.uint32,
    DataType.UINT64: np.uint64,
}


def stored_type(tensor: Tensor) -> np.dtype[Any]:
    """The NumPy type of a tensor's elements."""
    if tensor.dtype not in DTYPES:
        raise UnsupportedError(f"tensor {tensor.name!r} holds {tensor.dtype.label}, which NumPy has no type for")
    return np.dtype(DTYPES[tensor.dtype])


def stored_bytes(tensor: Tensor) -> int:
    """What a tensor takes in memory. Some files for RV1103/06 give activations a size without their spare channels.

    Their surfaces are rounded up to whole runs of pixels all the same.
    """
    needed = math.prod(tensor.native_shape) * stored_type(tensor).itemsize
    if tensor.size_bytes >= needed or tensor.layout is not Layout.NC1HWC2 or len(tensor.native_shape) != _NATIVE_RANK:
        return max(tensor.size_bytes, needed)
    try:
        pitch = _feature_layout(tensor).surface_pitch
    except ValueError:  # whoever wants to see it as a map says what is wrong
        return needed
    return needed // max(math.prod(tensor.native_shape[2:4]), 1) * pitch


def row_bytes(tensor: Tensor) -> int | None:
    """How far the rows of an image input are apart in memory; None for tensors without rows."""
    if tensor.layout is not Layout.NC1HWC2 or not tensor.row_alignment:
        return None
    batches, channels, height, width = tensor.shape
    rows = ImageRows.aligned((batches, height, width, channels), tensor.row_alignment)
    return rows.row_pixels * channels * stored_type(tensor).itemsize


def constant(model: Model, tensor: Tensor) -> Array:
    """The contents of a constant; graphs of dynamic shapes share those of graph 0."""
    if not tensor.elements:
        return np.empty(tensor.shape, stored_type(tensor))
    data = tensor.data
    if not data:
        shared = model.graphs[0].tensor_named(tensor.name)
        data = shared.data if shared is not None else None
    if not data:
        raise UnsupportedError(f"constant {tensor.name!r} has no data in this file (its weights were removed)")
    dtype = stored_type(tensor)
    if len(data) < tensor.elements * dtype.itemsize:
        raise UnsupportedError(f"constant {tensor.name!r} has {len(data)} bytes, fewer than {list(tensor.shape)} needs")
    return np.frombuffer(data, dtype, tensor.elements).reshape(tensor.shape)


class StoredTensor:
    """A tensor's place in device memory.

    `native` is the memory itself: [N, C1, H, W, C2] for feature maps, [N, H, W, C] for pictures, else the shape.
    """

    def __init__(self, tensor: Tensor, memory: npt.NDArray[np.uint8]) -> None:
        self.tensor = tensor
        self.dtype = stored_type(tensor)
        elements = memory[: memory.nbytes // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)
        self.elements = elements
        """The memory without its layout."""
        self.padding: Array | None = None
        """Pictures: the ends of the rows, [N, H, rest, C]."""
        self.channels = _channels(tensor)
        self._spare: Sequence[Array] | None = None
        self.is_image = tensor.layout is Layout.NC1HWC2 and bool(tensor.row_alignment)
        self.is_feature = tensor.layout is Layout.NC1HWC2 and not self.is_image
        try:
            self.native = self._view(elements)
        except ValueError as error:
            raise UnsupportedError(f"tensor {tensor.name!r}: {error}") from None

    def _view(self, elements: Array) -> Array:
        tensor = self.tensor
        if self.is_image:
            return self._rows(elements)
        if self.is_feature:
            return _surfaces(tensor, elements)
        if elements.size < tensor.elements:
            raise ValueError(f"{elements.size} elements do not hold {list(tensor.shape)}")
        return elements[: tensor.elements].reshape(tensor.shape)

    def _rows(self, elements: Array) -> Array:
        batches, channels, height, width = self.tensor.shape
        rows = ImageRows.aligned((batches, height, width, channels), self.tensor.row_alignment)
        if elements.size < rows.elements:
            raise ValueError(f"{elements.size} elements do not hold {rows.elements}")
        whole = elements[: rows.elements].reshape(batches, height, rows.row_pixels, channels)
        if rows.row_pixels > width:
            self.padding = whole[:, :, width:]
        return whole[:, :, :width]

    def read(self) -> Array:
        """A copy in the original shape, elements as they are stored."""
        shape = self.tensor.shape
        if self.is_image:
            return np.ascontiguousarray(self.native.transpose(0, 3, 1, 2))
        if not self.is_feature:
            return self.native.copy()
        batches, surfaces, height, width, atom = self.native.shape
        planes = np.empty((batches, surfaces, atom, height, width), self.dtype)
        planes[...] = self.native.transpose(0, 1, 4, 2, 3)
        merged = planes.reshape(batches, surfaces * atom, height, width)
        return np.ascontiguousarray(merged[:, : _channels(self.tensor)]).reshape(shape)

    def places(self) -> Array:
        """Where in `elements` each element is, in the original shape."""
        shadow = copy.copy(self)
        shadow.dtype = np.dtype(np.int64)
        shadow.native = shadow._view(np.arange(self.elements.size))
        return shadow.read()

    def write(self, values: Array) -> None:
        """Store an array of the original shape; lanes that hold no channel stay as they are."""
        if self.is_image:
            self.native[...] = values.transpose(0, 2, 3, 1)
        elif self.is_feature:
            self.write_channels_last(_four(self.tensor, values).transpose(0, 2, 3, 1))
        else:
            self.native[...] = values.reshape(self.native.shape)

    def spare_lanes(self) -> Sequence[Array]:
        """The lanes that hold no channel, in memory."""
        if self._spare is None:
            whole, rest = divmod(self.channels, self.native.shape[4]) if self.is_feature else (0, 0)
            parts = [self.native[:, whole + bool(rest) :]] if self.is_feature else []
            parts += [self.native[:, whole, :, :, rest:]] if rest else []
            self._spare = [part for part in parts if part.size]
        return self._spare

    def clear_lanes(self) -> None:
        """Zero the lanes that hold no channel. A NaN in them would survive the zero weights that it meets."""
        for lanes in self.spare_lanes():
            lanes[...] = 0

    def write_channels_last(self, values: Array) -> None:
        """Store a feature map or picture that comes as [N, H, W, C]."""
        if self.is_image:
            self.native[...] = values
            return
        batches, height, width, channels = values.shape
        atom = self.native.shape[4]
        whole, rest = divmod(channels, atom)
        if whole:
            split = values[..., : whole * atom].reshape(batches, height, width, whole, atom)
            self.native[:, :whole] = split.transpose(0, 3, 1, 2, 4)
        if rest:
            self.native[:, whole, :, :, :rest] = values[..., whole * atom :]


def _surfaces(tensor: Tensor, elements: Array) -> Array:
    """[N, C1, H, W, C2] over the buffer. Surfaces are rounded up to whole runs of pixels where the DPU writes them."""
    native = tensor.native_shape
    batches, _, height, width, _ = native if len(native) == _NATIVE_RANK else (0,) * _NATIVE_RANK
    if batches * _channels(tensor) * height * width != tensor.elements:
        raise ValueError(f"{list(tensor.native_shape)} in memory are not the {list(tensor.shape)} of the model")
    layout = _feature_layout(tensor)
    atom = tensor.native_shape[4]
    surfaces = tensor.native_shape[1]
    if surfaces * atom < _channels(tensor):
        raise ValueError(f"{surfaces} surfaces of {atom} lanes do not hold {_channels(tensor)} channels")

    def reach_of(count: int) -> int:
        return (layout.batches * count - 1) * layout.surface_pitch + height * width

    if elements.size < reach_of(surfaces) * atom and batches == 1:
        # Toolkit 1.6.0 counts one surface too many for maps of an odd number of pixels; the memory has the real ones.
        surfaces = min(surfaces, -(-_channels(tensor) // atom))
    reach = reach_of(surfaces)
    if elements.size < reach * atom:
        raise ValueError(f"{elements.size} elements do not hold {reach * atom}")
    steps = (surfaces * layout.surface_pitch, layout.surface_pitch, layout.line_pitch, 1)
    strides = (*(step * atom * elements.itemsize for step in steps), elements.itemsize)
    return as_strided(elements, shape=(batches, surfaces, *tensor.native_shape[2:]), strides=strides)


def _feature_layout(tensor: Tensor) -> FeatureLayout:
    return FeatureLayout.from_native(
        tensor.native_shape, channels=_channels(tensor), pixel_alignment=tensor.pixel_alignment
    )


def _channels(tensor: Tensor) -> int:
    return tensor.shape[1] if len(tensor.shape) > 1 else 1


def _four(tensor: Tensor, values: Array) -> Array:
    """[N, C, H, W]; feature maps of fewer dimensions have a height and width of their own in memory."""
    batches, _, height, width, _ = tensor.native_shape
    return values.reshape(batches, _channels(tensor), height, width)
