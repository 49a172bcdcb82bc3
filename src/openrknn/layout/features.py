"""Feature maps (NC1HWC2) and image rows.

A feature map is cut into surfaces of C2 channels. The C2 channels of one pixel lie side by side (an atom), pixels make
lines, lines make a surface, surfaces make the map:

    element(n, c, y, x) = ((n * surfaces + c div C2) * surface_pitch + y * line_pitch + x) * C2 + c mod C2

Pitches count pixels. A compiler rounds a surface up to 4 pixels where the DPU writes it; cropped reads have lines that
are longer than they are wide.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from openrknn.errors import UnsupportedError
from openrknn.records import dataclass

__all__ = ["FeatureLayout", "ImageRows"]

_Element = TypeVar("_Element", bound=np.generic)
_FEATURE_RANK = 5


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """The address of each element of an [N, C, H, W] map. Make one with `dense` or `from_native`."""

    batches: int
    channels: int
    height: int
    width: int
    atom_channels: int
    """C2: channels per atom."""
    surfaces: int
    """C1: surfaces per batch, at least enough for the channels."""
    line_pitch: int
    """Pixels from one line to the next."""
    surface_pitch: int
    """Pixels from one surface to the next."""

    def __post_init__(self) -> None:
        sizes = (self.batches, self.channels, self.height, self.width, self.atom_channels)
        if min(sizes) < 1 or min(self.line_pitch, self.surface_pitch) < 0:
            raise ValueError(f"sizes must be positive and pitches not negative: {self}")
        if self.surfaces * self.atom_channels < self.channels:
            raise ValueError(f"{self.surfaces} surfaces of {self.atom_channels} do not hold {self.channels} channels")

    @classmethod
    def dense(
        cls,
        shape: tuple[int, int, int, int],
        atom_channels: int,
        *,
        pixel_alignment: int = 1,
        line_pitch: int = 0,
        surfaces: int = 0,
    ) -> FeatureLayout:
        """The usual layout of an [N, C, H, W] map; each surface rounded up to `pixel_alignment` pixels."""
        batches, channels, height, width = shape
        pitch = line_pitch or width
        plane = -(-height * pitch // pixel_alignment) * pixel_alignment
        return cls(
            batches=batches,
            channels=channels,
            height=height,
            width=width,
            atom_channels=atom_channels,
            surfaces=surfaces or -(-channels // atom_channels),
            line_pitch=pitch,
            surface_pitch=plane,
        )

    @classmethod
    def from_native(
        cls, native_shape: tuple[int, ...], *, channels: int | None = None, pixel_alignment: int = 1
    ) -> FeatureLayout:
        """From [N, C1, H, W, C2]; `channels` where the last atom is not full."""
        if len(native_shape) != _FEATURE_RANK:
            raise UnsupportedError(f"a feature map has five native dimensions, not {list(native_shape)}")
        batches, surfaces, height, width, atom = native_shape
        return cls.dense(
            (batches, surfaces * atom if channels is None else channels, height, width),
            atom,
            pixel_alignment=max(pixel_alignment, 1),
            surfaces=surfaces,
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[N, C, H, W]."""
        return (self.batches, self.channels, self.height, self.width)

    @property
    def elements(self) -> int:
        """How long a buffer must be: whole surfaces, or as far as the last pixel where lines overlap them."""
        return max(self.batches * self.surfaces * self.surface_pitch * self.atom_channels, self._reach)

    @property
    def _reach(self) -> int:
        last_surface = self.batches * self.surfaces - 1
        last_pixel = last_surface * self.surface_pitch + (self.height - 1) * self.line_pitch + self.width - 1
        return (last_pixel + 1) * self.atom_channels

    def pack(self, values: npt.NDArray[_Element], fill: float = 0) -> npt.NDArray[_Element]:
        """[N, C, H, W] to a flat buffer; lanes, pixels and surfaces that hold no channel get `fill`."""
        if values.shape != self.shape:
            raise ValueError(f"the array is {list(values.shape)}, the layout holds {list(self.shape)}")
        memory = np.full(self.elements, fill, values.dtype)
        atoms = np.full((self.batches, self.surfaces * self.atom_channels, self.height, self.width), fill, values.dtype)
        atoms[:, : self.channels] = values
        split = (self.batches, self.surfaces, self.atom_channels, self.height, self.width)
        self._view(memory)[...] = atoms.reshape(split).transpose(0, 1, 3, 4, 2)
        return memory

    def unpack(self, memory: npt.NDArray[_Element]) -> npt.NDArray[_Element]:
        """A flat buffer to [N, C, H, W]; always a copy."""
        view = self._view(np.ascontiguousarray(memory).reshape(-1))
        merged = view.transpose(0, 1, 4, 2, 3).reshape(self.batches, -1, self.height, self.width)
        return merged[:, : self.channels].copy()

    def _view(self, memory: npt.NDArray[_Element]) -> npt.NDArray[_Element]:
        """[N, C1, H, W, C2] over the flat buffer, after making sure that it stays inside."""
        if memory.size < self._reach:
            raise ValueError(f"a buffer of {memory.size} elements does not hold {list(self.shape)}: {self._reach}")
        surface, line, pixel = (count * self.atom_channels for count in (self.surface_pitch, self.line_pitch, 1))
        return as_strided(
            memory,
            shape=(self.batches, self.surfaces, self.height, self.width, self.atom_channels),
            strides=tuple(step * memory.itemsize for step in (self.surfaces * surface, surface, line, pixel, 1)),
        )


@dataclass(frozen=True, slots=True)
class ImageRows:
    """Packed pixels as cameras deliver them: [N, H, W, C], each row padded to `row_pixels`."""

    batches: int
    height: int
    width: int
    channels: int
    row_pixels: int
    """`w_stride`: pixels from one row to the next."""

    def __post_init__(self) -> None:
        if min(self.batches, self.height, self.width, self.channels) < 1 or self.row_pixels < self.width:
            raise ValueError(f"sizes must be positive and rows at least as long as they are wide: {self}")

    @classmethod
    def aligned(cls, shape: tuple[int, int, int, int], row_alignment: int) -> ImageRows:
        """Rows of an [N, H, W, C] picture rounded up to `row_alignment` pixels."""
        batches, height, width, channels = shape
        return cls(batches, height, width, channels, -(-width // max(row_alignment, 1)) * max(row_alignment, 1))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[N, H, W, C]."""
        return (self.batches, self.height, self.width, self.channels)

    @property
    def elements(self) -> int:
        """How long a buffer must be."""
        return self.batches * self.height * self.row_pixels * self.channels

    def pack(self, values: npt.NDArray[_Element], fill: float = 0) -> npt.NDArray[_Element]:
        """[N, H, W, C] to a flat buffer; the ends of the rows get `fill`."""
        if values.shape != self.shape:
            raise ValueError(f"the array is {list(values.shape)}, the layout holds {list(self.shape)}")
        rows: npt.NDArray[Any] = np.full(
            (self.batches, self.height, self.row_pixels, self.channels), fill, values.dtype
        )
        rows[:, :, : self.width] = values
        return rows.reshape(-1)

    def unpack(self, memory: npt.NDArray[_Element]) -> npt.NDArray[_Element]:
        """A flat buffer to [N, H, W, C]; always a copy."""
        flat = np.ascontiguousarray(memory).reshape(-1)
        if flat.size < self.elements:
            raise ValueError(f"a buffer of {flat.size} elements does not hold {self.elements}")
        rows = flat[: self.elements].reshape(self.batches, self.height, self.row_pixels, self.channels)
        return rows[:, :, : self.width].copy()
