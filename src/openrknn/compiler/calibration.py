"""Calibration data: pictures and arrays in many forms become what the float model is fed with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from openrknn.compiler.errors import CalibrationError, CompileError, MisfitError
from openrknn.compiler.ir import Array, Graph
from openrknn.errors import FormatError
from openrknn.numpyfiles import NpzFile, read_npy
from openrknn.pictures import GRAY, SUFFIXES, PictureError, crop_offsets, letterbox_box, pillow, read_picture

Calibration: TypeAlias = "str | os.PathLike[str] | Sequence[Any] | Array | None"

FITS = ("auto", "letterbox", "crop", "stretch")
"""How pictures are made to fit an input. auto: as `run` and `detect` do, the middle for classifiers, else letterbox."""

_LARGEST_ARRAY = 1 << 32
_KINDS = {*SUFFIXES, ".npy", ".npz"}


@dataclass(frozen=True, slots=True)
class Preprocess:
    """mean and std of each input, per channel, in the order of the model's channels."""

    pairs: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]]
    order: str
    fit: str = "stretch"

    @classmethod
    def of(cls, graph: Graph, mean: Any, std: Any, order: str, fit: str = "auto") -> Preprocess:
        """From what users write: nothing, one number, one per channel, or these by input name."""
        pairs = {}
        for name in graph.inputs:
            pair = []
            for what, given, default in (("mean", mean, 0.0), ("std", std, 1.0)):
                values = given.get(name) if isinstance(given, Mapping) else given
                numbers = [default] if values is None else [float(v) for v in np.atleast_1d(values)]
                channels = graph.values[name].shape[1] if len(graph.values[name].shape) == 4 else 1
                if len(numbers) not in {1, channels}:
                    raise CompileError(f"{what} has {len(numbers)} numbers, input {name!r} has {channels} channels")
                if what == "std" and not all(numbers):
                    raise CompileError(f"std of input {name!r} is 0; pixels are divided by it")
                pair.append(tuple(numbers))
            if (mean is not None or std is not None) and channels > 4:
                raise CompileError(f"mean and std are for pictures; input {name!r} has {channels} channels")
            pairs[name] = (pair[0], pair[1])
        if fit == "auto":
            counts = [sum(size > 1 for size in graph.shape(name)) for name in graph.outputs]
            fit = "crop" if counts == [1] else "letterbox"
        return cls(pairs, order, fit)

    def apply(self, name: str, values: Array) -> Array:
        """[N, C, H, W] raw numbers to what the ONNX model takes."""
        mean, std = (np.array(numbers, np.float32) for numbers in self.pairs[name])
        if values.ndim == 4:
            mean, std = mean.reshape(1, -1, 1, 1), std.reshape(1, -1, 1, 1)
        elif mean.size == 1:
            mean, std = mean.reshape(()), std.reshape(())
        result: Array = (values.astype(np.float32) - mean) / std
        return result

    def undo(self, name: str, values: Array) -> Array:
        """The other way round: what a `Session` is fed with, because the compiled model applies mean and std itself."""
        if values.dtype.kind != "f":  # indices and truths
            return values
        mean, std = (np.array(numbers, np.float32) for numbers in self.pairs[name])
        if values.ndim == 4:
            mean, std = mean.reshape(1, -1, 1, 1), std.reshape(1, -1, 1, 1)
        elif mean.size == 1:
            mean, std = mean.reshape(()), std.reshape(())
        result: Array = values * std + mean
        return result


@dataclass(slots=True)
class Feeds:
    """Calibration inputs, loaded one by one."""

    items: list[Any]
    graph: Graph
    preprocess: Preprocess
    batch: int = 1
    """Arrays with so many items are taken apart: the graph is that of one item."""
    is_choosy: bool = False
    """Pass over arrays of other shapes: they may belong to another graph of the same file."""
    used: set[int] = field(default_factory=set)
    """Numbers of the inputs that fitted."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for number, item in enumerate(self.items, start=1):
            try:
                feed = self._feed(item, number)
            except MisfitError:
                if not self.is_choosy:
                    raise
                continue
            self.used.add(number)
            yield from self._items(feed)

    def _items(self, feed: dict[str, Array]) -> Iterator[dict[str, Array]]:
        counts = {name: values.shape[0] // self.graph.values[name].shape[0] for name, values in feed.items()}
        for item in range(max(counts.values()) if self.batch > 1 else 0):
            yield {name: values[item : item + 1] if counts[name] > 1 else values for name, values in feed.items()}
        if self.batch <= 1:
            yield feed

    def _feed(self, item: Any, number: int) -> dict[str, Array]:
        names = self.graph.inputs
        if isinstance(item, Mapping):
            missing = [name for name in names if name not in item]
            if missing:
                raise CalibrationError(f"calibration input {number} has no array for {missing[0]!r}")
            parts = [item[name] for name in names]
        elif isinstance(item, list | tuple):
            parts = list(item)
        else:
            parts = [item]
        if len(parts) != len(names):
            raise CalibrationError(
                f"calibration input {number} has {len(parts)} arrays, the model {len(names)} inputs: {', '.join(names)}"
            )
        return {name: self._array(name, part, number) for name, part in zip(names, parts, strict=True)}

    def _array(self, name: str, part: Any, number: int) -> Array:
        shape = self.graph.values[name].shape
        is_path = isinstance(part, str | os.PathLike)
        where = str(part) if is_path else f"calibration input {number}"
        values = _read(Path(part), shape, self.preprocess) if is_path else np.asarray(part)
        if values.dtype.kind not in "iufb":
            raise CalibrationError(f"{where}: {values.dtype} is not a numeric type")
        arranged = _arranged(values, shape, where, self.batch)
        if self.graph.values[name].integer:  # indices and truths: no picture, and no float
            return arranged.astype(self.graph.values[name].integer)
        return self.preprocess.apply(name, arranged)


def feeds_for(
    calibration: Calibration, graph: Graph, preprocess: Preprocess, *, batch: int = 1, is_choosy: bool = False
) -> Feeds:
    """A folder, a list file, one array or path, or a sequence of arrays, paths, tuples or dicts."""
    items: list[Any]
    if isinstance(calibration, str | os.PathLike):
        items = _from_path(Path(calibration))
    elif isinstance(calibration, np.ndarray):
        items = [calibration]
    else:
        items = list(calibration or ())
    if not items:
        raise CalibrationError("no calibration data in what was given")
    return Feeds(items, graph, preprocess, batch, is_choosy)


def _from_path(path: Path) -> list[Any]:
    if path.is_dir():
        found = sorted(entry for entry in path.rglob("*") if entry.suffix.lower() in _KINDS)
        if not found:
            kinds = ", ".join(sorted(_KINDS))
            raise CalibrationError(f"the folder {path} has no calibration data; wanted are files of {kinds}")
        return list(found)
    if not path.exists():
        raise CalibrationError(f"calibration data not found: {path}")
    if path.suffix.lower() == ".txt":  # one input per line, several files side by side, as the vendor's toolkit wants
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
        return [[path.parent / name for name in line] for line in lines]
    return [path]


def _read(path: Path, shape: tuple[int, ...], preprocess: Preprocess) -> Array:
    try:
        if path.suffix.lower() == ".npy":
            return read_npy(path)
        if path.suffix.lower() == ".npz":
            with NpzFile(path, largest_bytes=_LARGEST_ARRAY) as archive:
                return archive.read(archive.names[0])
    except (OSError, FormatError, IndexError) as error:
        raise CalibrationError(f"{path} is not a readable array: {error}") from None
    return _picture(path, shape, preprocess)


def _picture(path: Path, shape: tuple[int, ...], preprocess: Preprocess) -> Array:
    """As large as the input, in the model's channel order, [1, C, H, W]."""
    if len(shape) != 4:
        raise CalibrationError(f"{path} is a picture, but the input has the shape {list(shape)}; give .npy files")
    mode = {1: "L", 3: "RGB", 4: "RGBA"}.get(shape[1])
    if mode is None:
        raise CalibrationError(f"{path} is a picture, but the input has {shape[1]} channels; give .npy files")
    try:
        upright = read_picture(path, mode)
    except PictureError as error:
        raise CalibrationError(f"{path} is not a readable picture: {error}") from None
    pixels = _fitted(upright, shape[3], shape[2], preprocess.fit)
    planes = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    if preprocess.order == "bgr" and shape[1] == 3:
        planes = planes[::-1]
    return np.ascontiguousarray(planes)[None]


def _fitted(pixels: Array, width: int, height: int, fit: str) -> Array:
    image, bilinear = pillow().fromarray(pixels), pillow().Resampling.BILINEAR
    if fit == "crop":
        scale, left, top = crop_offsets(image.width, image.height, width, height)
        box = (-left / scale, -top / scale, (width - left) / scale, (height - top) / scale)
        inside = (max(box[0], 0.0), max(box[1], 0.0), min(box[2], image.width), min(box[3], image.height))
        return np.asarray(image.resize((width, height), bilinear, box=inside))
    if fit == "stretch":
        return np.asarray(image.resize((width, height), bilinear))
    left, top, inner_width, inner_height = letterbox_box(image.width, image.height, width, height)
    sheet = np.full((height, width, *pixels.shape[2:]), GRAY, np.uint8)
    inner = image.resize((inner_width, inner_height), bilinear)
    sheet[top : top + inner_height, left : left + inner_width] = np.asarray(inner)
    return sheet


def _arranged(values: Array, shape: tuple[int, ...], where: str, batch: int) -> Array:
    """As the model wants it: batch added, NHWC pictures turned."""
    full = values[None] if values.ndim == len(shape) - 1 else values
    for count in dict.fromkeys((1, batch)):
        wanted = (shape[0] * count, *shape[1:])
        if full.shape == wanted:
            return full
        if len(shape) == 4 and full.ndim == 4 and full.shape == (wanted[0], shape[2], shape[3], shape[1]):
            return np.ascontiguousarray(full.transpose(0, 3, 1, 2))
    raise MisfitError(f"{where} has the shape {list(values.shape)}, the model wants {[shape[0] * batch, *shape[1:]]}")
