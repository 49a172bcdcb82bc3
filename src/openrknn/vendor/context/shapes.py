"""Models that take several shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from openrknn.vendor.context.answers import InputRange, TensorAttributes
from openrknn.vendor.context.io import ContextIo
from openrknn.vendor.tables.enums import QueryCommand, TensorType

_FIXED = (
    QueryCommand.IN_OUT_NUM,
    QueryCommand.SDK_VERSION,
    QueryCommand.CUSTOM_STRING,
    QueryCommand.INPUT_DYNAMIC_RANGE,
)
"""Answers that do not depend on the shapes."""


class ContextShapes(ContextIo):
    """A context whose shapes can be chosen."""

    def set_input_shapes(
        self, shapes: Sequence[Sequence[int]] | Mapping[int | str, Sequence[int]]
    ) -> tuple[TensorAttributes, ...]:
        """`rknn_set_input_shapes`: one of `input_ranges` for each input. Returns the inputs as they are now."""
        ranges = self._dynamic_ranges("rknn_set_input_shapes")
        chosen = self._chosen(shapes, ranges)
        raw = (self.library.structs.rknn_tensor_attr * len(ranges))()
        for one, entry, shape in zip(raw, ranges, chosen, strict=True):
            TensorAttributes(entry.index, entry.name, shape, entry.format, self._input_type(entry.index)).fill(one)
        with self._lock:
            self._call("rknn_set_input_shapes", len(ranges), raw)
            self._shapes_were_set()
        return self.inputs

    def set_input_shape(self, which: int | str, shape: Sequence[int]) -> None:
        """`rknn_set_input_shape`: the function of 1.5.0 for one input; `set_input_shapes` replaced it."""
        ranges = self._dynamic_ranges("rknn_set_input_shape")
        index = self._index("input", which)
        self._check_shape(ranges[index], tuple(shape))
        raw = self.library.structs.rknn_tensor_attr()
        entry = ranges[index]
        TensorAttributes(index, entry.name, tuple(shape), entry.format, self._input_type(index)).fill(raw)
        with self._lock:
            self._call("rknn_set_input_shape", ctypes.byref(raw))
            self._shapes_were_set()

    def _dynamic_ranges(self, function: str) -> tuple[InputRange, ...]:
        self._ensure_open()
        self._require(function)
        if not self.dynamic:
            raise ValueError("the model has one shape; build it with dynamic_input to choose")
        return self.input_ranges

    def _input_type(self, index: int) -> TensorType:
        return self.inputs[index].type

    def _chosen(self, shapes: Any, ranges: tuple[InputRange, ...]) -> list[tuple[int, ...]]:
        if isinstance(shapes, Mapping):
            by_index = {self._index("input", which): tuple(shape) for which, shape in shapes.items()}
            listed = [by_index.get(entry.index) for entry in ranges]
            if None in listed:
                raise ValueError("every input of a dynamic model needs a shape")
            chosen = [shape for shape in listed if shape is not None]
        else:
            chosen = [tuple(shape) for shape in shapes]
        if len(chosen) != len(ranges):
            raise ValueError(f"the model has {len(ranges)} inputs, {len(chosen)} shapes were given")
        for entry, shape in zip(ranges, chosen, strict=True):
            self._check_shape(entry, shape)
        return chosen

    @staticmethod
    def _check_shape(entry: InputRange, shape: tuple[int, ...]) -> None:
        if shape not in entry.shapes:
            known = ", ".join(str(list(one)) for one in entry.shapes)
            raise ValueError(f"input {entry.name!r} takes {entry.format.name} {known}, not {list(shape)}")

    def _shapes_were_set(self) -> None:
        self._cache = {key: value for key, value in self._cache.items() if key[0] in _FIXED}
        self._generation += 1
        self._shaped = True
        self._runs = 0
        self._blockers.pop("shape", None)
        self._shapes_changed()
