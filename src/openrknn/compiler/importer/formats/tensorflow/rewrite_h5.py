"""In the child process: an HDF5 file copied group by group. Links to other files and outside storage are refused."""

from __future__ import annotations

import os
import zipfile
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tensorflow.keras_config import checked_config

_DEEPEST, _MOST_ENTRIES = 64, 200_000
_FREE_BYTES, _BYTES_PER_BYTE = 64 << 20, 4


def keras_path(path: str) -> str:
    """The model that Keras may open, from `weights.h5` beside `config.json`, or from `whole.h5`."""
    folder = os.path.dirname(path)
    if os.path.basename(path) == "whole.h5":
        target = os.path.join(folder, "model.h5")
        _rewrite(path, target, is_whole=True)
        return target
    weights, target = os.path.join(folder, "model.weights.h5"), os.path.join(folder, "model.keras")
    _rewrite(path, weights, is_whole=False)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.0.0", "date_saved": "2026-01-01@00:00:00"}')
        archive.write(os.path.join(folder, "config.json"), "config.json")
        archive.write(weights, "model.weights.h5")
    return target


def _rewrite(path: str, target: str, *, is_whole: bool) -> None:
    import h5py

    with h5py.File(path, "r") as source, h5py.File(target, "w") as made:
        if is_whole:
            if "model_config" not in source.attrs:
                raise ModelError("cannot be converted: it is an HDF5 file without a model of Keras (weights only)")
            made.attrs["model_config"] = checked_config(source.attrs["model_config"], "")
        _Copier(h5py, os.path.getsize(path)).group(source, made, 0)


class _Copier:
    def __init__(self, h5py: Any, size: int) -> None:
        self._h5py = h5py
        self._left = _FREE_BYTES + _BYTES_PER_BYTE * size
        self._entries = 0

    def group(self, source: Any, made: Any, depth: int) -> None:
        if depth > _DEEPEST:
            raise ModelError("cannot be converted: its groups are nested too deep, or in a circle")
        self._attributes(source, made)
        for name in source:
            self._entries += 1
            if self._entries > _MOST_ENTRIES:
                raise ModelError(f"cannot be converted: it has more than {_MOST_ENTRIES} groups and arrays")
            if not isinstance(source.get(name, getlink=True), self._h5py.HardLink):
                raise ModelError(f"cannot be converted: {name[:60]!r} is a link to another place or file")
            entry = source[name]
            if isinstance(entry, self._h5py.Group):
                self.group(entry, made.create_group(name), depth + 1)
            elif isinstance(entry, self._h5py.Dataset):
                self._dataset(name, entry, made)

    def _dataset(self, name: str, entry: Any, made: Any) -> None:
        if entry.external or entry.is_virtual:
            raise ModelError(f"cannot be converted: the numbers of {name[:60]!r} are in another file")
        self._take(entry.nbytes, name)
        self._check_type(entry.dtype, name)
        copy = made.create_dataset(name, data=entry[()])
        self._attributes(entry, copy)

    def _attributes(self, source: Any, made: Any) -> None:
        for name in source.attrs:
            if name not in made.attrs and name != "training_config":
                value = source.attrs[name]
                self._take(getattr(value, "nbytes", 64), name)
                made.attrs[name] = value

    def _take(self, size: int, name: str) -> None:
        self._left -= size
        if self._left < 0:
            raise ModelError(f"cannot be converted: {name[:60]!r} unpacks to more than a file of this size has")

    def _check_type(self, dtype: Any, name: str) -> None:
        if dtype.kind not in "biufSUO" or self._h5py.check_ref_dtype(dtype) is not None:
            raise ModelError(f"cannot be converted: {name[:60]!r} has no numbers but {dtype}")
