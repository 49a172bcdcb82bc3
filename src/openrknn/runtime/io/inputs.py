"""From users' arrays to the bytes of an input buffer.

    uint8 for a quantized picture   raw pixels; the NPU normalizes and quantizes them itself (`container.patch`)
    the model's own integer type    stored values, already quantized
    any other number                normalized with the model's mean and std, then quantized or rounded to float16

Numbers become what the vendor's runtime 1.5.2 makes of them (tests/runtime/test_witness.py): for pictures with the
multiplier and the whole-number offset of the NPU's converter in one fused multiply-add, so that the same picture as
float and as uint8 gives the same result; so too for what the CPU reads first (plain NCHW) with up to four channels. For
other inputs it is, with each operation rounded to float32 and ties to even:

    feature maps                    round(((x - mean) / std + zero point * scale) / scale)
    flat inputs                     round(((x - mean) / std + zero point * scale) * (1 / scale))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn import numerics
from openrknn.container.parts import Layout, Normalization, Tensor
from openrknn.container.patch import Lane, converter_for
from openrknn.errors import BadTensorError, UnsupportedError
from openrknn.layout.arrange import narrowed
from openrknn.runtime.io.arrange import arrange
from openrknn.runtime.io.tensors import Array, StoredTensor

_UINT8 = np.dtype(np.uint8)
_PICTURE_CHANNELS = (1, 3, 4)
_NORMALIZED_CHANNELS = 4
"""The file has mean and std for four channels."""
_MAP_DIMENSIONS = 4
"""NC1HWC2, and plain NCHW that the CPU reads first."""


def as_numbers(value: object, name: str) -> Array:
    """Whatever the user gave as an array of numbers."""
    if value is None or isinstance(value, str | bytes | bytearray | memoryview | dict | set):
        raise TypeError(f"input {name!r}: an array is needed, not {type(value).__name__}")
    try:
        array = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise TypeError(f"input {name!r}: {type(value).__name__} does not make an array: {error}") from None
    if array.dtype.kind == "b":  # numbers: int8 would be taken for stored elements
        return array.astype(np.int32)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"input {name!r}: an array of {array.dtype} was given; wanted is uint8, int8, int16, float16, float32 "
            "or another type of integers or floats"
        )
    return array


def _check_memory(stored: StoredTensor) -> None:
    """Height and width of an input are the same in the model and in memory: arrays are stored row by row."""
    shape, native = stored.tensor.shape, stored.native.shape
    if not stored.is_feature or len(shape) != 4 or (native[0], *native[2:4]) == (shape[0], *shape[2:]):
        return
    swapped = "height and width are swapped" if native[2:4] == (shape[3], shape[2]) else "the file is damaged"
    raise BadTensorError(
        f"input {stored.tensor.name!r} is {list(shape)} (NCHW) in the model and {[native[0], *native[2:4]]} (items, "
        f"rows, columns) in memory: {swapped}; convert the model again"
    )


class InputPort:
    """One input: its buffer, and everything about it that can be worked out before the first run."""

    def __init__(self, stored: StoredTensor, normalization: Normalization | None, *, takes_pixels: bool) -> None:
        self.stored = stored
        self.tensor = tensor = stored.tensor
        self.name = tensor.name
        _check_memory(stored)
        self.takes_pixels = takes_pixels
        """Whether the NPU can be given raw uint8 pixels."""
        self.pixels: Array = stored.native.view(np.uint8) if takes_pixels else stored.native
        self._mean, self._std = _normalization(tensor, normalization)
        quantization = tensor.quantization if stored.dtype.kind == "i" else None
        self._limits = np.iinfo(stored.dtype) if quantization is not None else None
        self._factor: Array | None = None
        self._offset: Any = np.float32(0)
        if quantization is not None:
            self._zero = quantization.zero_point[0]
            self._scale = np.float32(quantization.scale[0])
            self._offset = np.float32(self._zero)
            if normalization is not None and (stored.is_image or _is_plain_picture(tensor)):
                lanes = _lanes(tensor, normalization)
                self._factor = np.array([lane.multiplier / 2**lane.shift for lane in lanes])
                self._offset = np.array([lane.offset for lane in lanes], np.float64)
        else:
            self._zero = 0
        self.keeps_numbers = not self._mean.any() and bool((self._std == 1).all()) and self._factor is None
        """Whether stored elements stand for the numbers that are fed, without normalization."""
        self._row_ends: str | None = None
        # An ordinary picture needs no further thought.
        self._picture = self.pixels.shape if takes_pixels else None

    def feed(self, value: object, layout: str | None = None) -> bool:
        """Convert and store an array; whether it went in as raw pixels."""
        if layout is None and type(value) is np.ndarray and value.dtype is _UINT8 and value.shape == self._picture:
            if self._row_ends != "pixels":
                self.fill_row_ends("pixels")
            self.pixels[...] = value
            return True
        array = as_numbers(value, self.name)
        as_pixels = self.takes_pixels and array.dtype == np.uint8
        values = arrange(array, self.tensor, layout, picture=self.stored.is_image and array.dtype == np.uint8)
        if as_pixels:
            self.fill_row_ends("pixels")
            self.pixels[...] = values
        else:
            self._store(values if array.dtype == self.stored.dtype and array.dtype.kind in "iu" else self._real(values))
        return as_pixels

    def feed_native(self, value: object) -> None:
        """Store bytes as they are: an array of the native shape and type, or the whole buffer."""
        array = np.asarray(value) if isinstance(value, np.ndarray) else np.frombuffer(_bytes_of(value, self), np.uint8)
        native = self.stored.native
        if array.dtype == native.dtype and array.shape in {native.shape, native.shape[1:]}:
            self.fill_row_ends("stored")
            native[...] = array
            return
        memory = self._whole()
        if array.nbytes != memory.nbytes or not array.flags.c_contiguous:
            raise ValueError(
                f"input {self.name!r}: pass_through takes {native.dtype} of shape {native.shape}, or {memory.nbytes} "
                f"contiguous bytes; {array.dtype} of shape {array.shape} was given"
            )
        self._row_ends = None
        memory.reshape(-1).view(np.uint8)[...] = array.reshape(-1).view(np.uint8)

    def numbers(self) -> Array:
        """What a picture in memory stands for: the numbers that `feed` would store as these elements."""
        values: Array = self.stored.native.astype(np.float64)
        if self._factor is not None and self.stored.is_image:
            unscaled: Array = (values - self._offset) / self._factor
            return unscaled.astype(np.float32)
        if self._limits is not None:
            values = (values - self._zero) * self._scale
        return (values * self._std + self._mean).astype(np.float32)

    def unnormalized(self, values: Array) -> Array:
        """Numbers of the stored elements, in the tensor's shape, as the numbers that `feed` would store as these."""
        if self.keeps_numbers:
            return values
        if self._factor is not None:
            steps = values.astype(np.float64) / self._scale + self._zero
            real: Array = ((np.moveaxis(steps, 1, -1) - self._offset) / self._factor).astype(np.float32)
            return real.transpose(0, 3, 1, 2)
        if values.ndim == 4:
            return (np.moveaxis(values, 1, -1) * self._std + self._mean).astype(np.float32).transpose(0, 3, 1, 2)
        return (values * self._std + self._mean).astype(np.float32)

    def fill_row_ends(self, kind: str) -> None:
        """What a kernel sees beyond the right edge of a padded picture has to be what padding would be."""
        padding = self.stored.padding
        if padding is None or kind == self._row_ends:
            return
        if kind == "pixels":
            padding.view(np.uint8)[...] = np.clip(np.rint(self._mean), 0, 255).astype(np.uint8)
        else:
            padding[...] = self._zero
        self._row_ends = kind

    def renew_row_ends(self, kind: str) -> None:
        """`fill_row_ends` again, for memory that others may have written since."""
        self._row_ends = None
        self.fill_row_ends(kind)

    @property
    def is_picture(self) -> bool:
        """Whether the input is for pictures of one, three or four channels, by its shape and memory."""
        shape = self.tensor.shape
        is_one = len(shape) == 4 and shape[1] in _PICTURE_CHANNELS and min(shape[2:]) > 1
        return is_one and (self.stored.is_image or not self.is_quantized)

    @property
    def is_quantized(self) -> bool:
        """Whether integers stand for real numbers."""
        return self._limits is not None

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest number, before normalization, that the input can hold.

        Of floats, those that become -1 and 1.
        """
        least, most = -1.0, 1.0
        if self._limits is not None:
            least, most = ((edge - self._zero) * float(self._scale) for edge in (self._limits.min, self._limits.max))
        ends = np.concatenate([np.ravel(least * self._std + self._mean), np.ravel(most * self._std + self._mean)])
        return float(ends.min()), float(ends.max())

    @property
    def reach(self) -> float:
        """The larger of the limits without its sign: 64 and more are meant for pixels from 0 to 255."""
        return max(map(abs, self.limits))

    def _whole(self) -> Array:
        """The native memory with the ends of the rows."""
        native, padding = self.stored.native, self.stored.padding
        if padding is None:
            return native
        rest = (*native.shape[:2], native.shape[2] + padding.shape[2], native.shape[3])
        return np.lib.stride_tricks.as_strided(native, rest, native.strides)

    def _store(self, values: Array) -> None:
        self.fill_row_ends("stored")
        if len(self.tensor.shape) == 4 and (self.stored.is_image or self.stored.native.ndim == 5):
            self.stored.write_channels_last(values)
        else:
            self.stored.write(values.transpose(0, 3, 1, 2) if len(self.tensor.shape) == 4 else values)

    def _real(self, values: Array) -> Array:
        """Numbers to stored elements."""
        if values.dtype.kind == "f" and values.size and np.isnan(values.min()):
            raise ValueError(f"input {self.name!r}: {np.isnan(values).sum()} of {values.size} numbers are NaN")
        if self.stored.dtype.kind in "iu" and self._limits is None:
            return self._whole_numbers(values)
        is_half = self.stored.dtype == np.float16
        if is_half and self.keeps_numbers and self._limits is None and values.dtype == np.float32:
            return narrowed(values)
        with np.errstate(over="ignore"):
            steps = self._steps(values)
        if self._limits is None:
            return numerics.encode_fp16(steps).view(np.float16) if is_half else steps
        np.rint(steps, out=steps)
        np.clip(steps, self._limits.min, self._limits.max, out=steps)
        return steps.astype(self.stored.dtype)

    def _steps(self, values: Array) -> Array:
        """Normalized and scaled, before rounding; float32, always a fresh array."""
        if self._factor is not None:
            # A fused multiply-add rounds once: products of float32 are exact in float64.
            exact = np.multiply(values, self._factor, dtype=np.float64, casting="same_kind")
            exact += self._offset
            return exact.astype(np.float32)
        steps = np.subtract(values, self._mean, dtype=np.float32, casting="same_kind")
        if values.dtype == np.uint8 and self._limits is None:
            steps *= np.float32(1) / self._std  # pixels of fp16 pictures, in runtime 1.5.2; it divides floats
        else:
            steps /= self._std
        if self._limits is not None:
            # As the vendor's runtime 1.5.2 does it, step by step in float32: this decides at ties.
            steps += self._offset * self._scale
            if self.stored.native.ndim >= _MAP_DIMENSIONS:
                steps /= self._scale
            else:
                steps *= np.float32(1) / self._scale
        return steps

    def _whole_numbers(self, values: Array) -> Array:
        """An input of plain integers, such as indices."""
        if values.dtype.kind == "f":
            raise TypeError(f"input {self.name!r} holds {self.stored.dtype}; {values.dtype} was given")
        return values.astype(self.stored.dtype)


def _is_plain_picture(tensor: Tensor) -> bool:
    return tensor.layout is Layout.NCHW and len(tensor.shape) == 4 and tensor.shape[1] <= _NORMALIZED_CHANNELS


def _lanes(tensor: Tensor, normalization: Normalization) -> tuple[Lane, ...]:
    try:
        return converter_for(tensor, normalization)[: tensor.shape[1]]
    except (ArithmeticError, IndexError) as error:  # numbers that no converter can be made of
        raise UnsupportedError(f"input {tensor.name!r}: mean, std and scale make no converter: {error}") from None


def _normalization(tensor: Tensor, normalization: Normalization | None) -> tuple[Array, Array]:
    """Mean and std, shaped to go with [N, H, W, C] or with the tensor's own shape."""
    if normalization is None:
        return np.zeros((), np.float32), np.ones((), np.float32)
    mean, std = (np.array(part, np.float32) for part in (normalization.mean, normalization.std))
    if min(mean.size, std.size) < _NORMALIZED_CHANNELS:
        raise UnsupportedError(f"input {tensor.name!r}: {mean.size} means and {std.size} stds are not four each")
    if np.all(mean == mean[0]) and np.all(std == std[0]):
        return mean[0].reshape(()), std[0].reshape(())
    channels = tensor.shape[1] if len(tensor.shape) > 1 else 0
    if not 1 <= channels <= _NORMALIZED_CHANNELS:
        raise UnsupportedError(f"input {tensor.name!r}: mean and std of {channels} channels cannot be in the file")
    shape = (channels,) if len(tensor.shape) == 4 else (channels, *[1] * (len(tensor.shape) - 2))
    return mean[:channels].reshape(shape), std[:channels].reshape(shape)


def _bytes_of(value: object, port: InputPort) -> bytes | bytearray | memoryview:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"input {port.name!r}: pass_through takes an array or bytes, not {type(value).__name__}")
    return value
