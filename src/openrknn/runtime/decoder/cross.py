"""Cross attention: keys and values of an encoder's states, computed once and left on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openrknn.container.sequence import DecoderFile
from openrknn.device import Device
from openrknn.errors import FormatError
from openrknn.layout.arrange import narrowed
from openrknn.runtime.binding import Binding
from openrknn.runtime.decoder.graphs import StepGraph
from openrknn.runtime.decoder.rows import fill
from openrknn.runtime.engine import Runnable
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session
from openrknn.runtime.state import alike

_PREFIX = "cross."
_COLUMNS, _GROUP = 3, 16


class CrossAttention:
    """The inputs of a step that an encoder gives.

    A graph of its own computes them; if an output has the memory layout that the step expects, it is written in place.
    """

    def __init__(self, file: DecoderFile, session: Session, graph: StepGraph, options: Mapping[str, Any]) -> None:
        self._file, self._graph = file, graph
        self._inputs = graph.inputs
        self._axes = {one.input: one.axis for one in file.bound}
        self._session: Session | None = None
        self.is_started = False
        if file.cross is None:
            return
        device: Any = session.device if isinstance(session.device, Device) else "auto"
        self._session = Session(file.cross, device, **options)
        try:
            self._bind(self._session, self._session.bind(pixels=False), graph.program)
        except BaseException:
            self._session.close()
            raise

    def _bind(self, session: Session, binding: Binding, program: Runnable) -> None:
        file, own = self._file, binding.program
        if own is None:
            raise ClosedError("the decoder's session is closed")
        made = {port.name: port for port in own.outputs}
        missing = next((name for name in self._axes if name not in made), None)
        if missing is not None or [port.name for port in own.inputs] != [file.states]:
            raise FormatError(f"{file.path or 'the decoder'}: cross.rknn does not make {missing or 'what it should'!r}")
        self.joined: tuple[str, ...] = ()
        if isinstance(program, Program) and isinstance(own, Program):
            self.joined = tuple(name for name in self._axes if alike(made[name], self._inputs[name]))
        if self.joined and isinstance(program, Program):
            places = {name: program.buffer_of(name) for name in self.joined}
            binding = session.bind(pixels=False, outputs=places)
            own = binding.program or own
        self._binding = binding
        self._made = {port.name: port for port in own.outputs if port.name in self._axes}
        self._states = own.inputs[0].stored

    def frames_of(self, states: object) -> int:
        """How many frames are given; 0 where that cannot be told."""
        if not isinstance(states, Mapping):
            shape = np.shape(np.asarray(states))
            return int(shape[1]) if len(shape) > 1 else 0
        for name, value in states.items():
            shape = np.shape(np.asarray(value))
            axis = self._axes.get(str(name), self._axes.get(_PREFIX + str(name)))
            if axis is not None and axis < len(shape):
                return int(shape[2] if axis == _COLUMNS and shape[2] != 1 else shape[axis])
        return 0

    def start(self, states: object, graph: StepGraph) -> None:
        """An array of states, or arrays by name, with or without `cross.` before it, for this graph of the step."""
        if graph is not self._graph and self._session is not None:
            raise FormatError("a decoder with a graph for cross attention has one size of it")
        self._graph, self._inputs = graph, graph.inputs
        if isinstance(states, Mapping):
            frames = self._start_with(states)
        elif self._session is None and len(self._axes) == 1:
            frames = self._start_with({next(iter(self._axes)): states})
        elif self._session is None:
            raise ValueError(
                "this decoder has no graph for cross attention (compile with --first): start takes arrays by name: "
                f"{', '.join(name.removeprefix(_PREFIX) for name in self._axes)}"
            )
        else:
            frames = self._compute(np.asarray(states, np.float32))
        if graph.cross_mask is not None:
            graph.cross_mask.set(frames)
        self.is_started = True

    def _compute(self, states: Array) -> int:
        shape = self._states.tensor.shape
        axis = next(place for place, size in enumerate(shape) if size == self._file.frames)
        frames = self._check(self._file.states, states, shape, axis)
        _check_finite(self._file.states, states)
        fill(self._states, _grown(states, axis, shape[axis]))
        self._binding.run()
        for name, port in self._made.items():
            if name not in self.joined:
                fill(self._inputs[name].stored, port.read("float"))
        return frames

    def _start_with(self, given: Mapping[Any, object]) -> int:
        arrays = {str(name): np.asarray(value, np.float32) for name, value in given.items()}
        arrays = {name if name in self._axes else _PREFIX + name: value for name, value in arrays.items()}
        arrays = {name: self._arranged(name, self._narrowed(name, value)) for name, value in arrays.items()}
        missing = next((name for name in self._axes if name not in arrays), None)
        unknown = next((name for name in arrays if name not in self._axes), None)
        if missing or unknown:
            known = ", ".join(name.removeprefix(_PREFIX) for name in self._axes)
            raise ValueError(f"start takes {known}; {(missing or unknown or '').removeprefix(_PREFIX)!r} is "
                             f"{'missing' if missing else 'not one of them'}")  # fmt: skip
        lengths = set()
        for name, value in arrays.items():
            stored, axis = self._inputs[name].stored, self._axes[name]
            lengths.add(self._check(name.removeprefix(_PREFIX), value, stored.tensor.shape, axis))
            grown = _grown(value, axis, stored.tensor.shape[axis])
            if grown.dtype == stored.dtype:
                stored.clear_lanes()
                stored.write(grown)
            else:
                fill(stored, grown)
        if len(lengths) != 1:
            raise ValueError(f"the arrays given to start have different numbers of frames: {sorted(lengths)}")
        return int(lengths.pop())

    def _narrowed(self, name: str, value: Array) -> Array:
        """Numbers as they are stored, where that is fp16: half of the bytes to arrange."""
        _check_finite(name.removeprefix(_PREFIX), value)
        port = self._inputs.get(name)
        return narrowed(value) if port is not None and port.stored.dtype == np.float16 else value

    def _arranged(self, name: str, value: Array) -> Array:
        """[1, heads, frames, numbers] of the exported model, where the step has [1, heads * room, 1, frames]."""
        shape = self._inputs[name].stored.tensor.shape if name in self._inputs else ()
        if self._axes.get(name) != _COLUMNS or value.ndim != len(shape) or value.shape[1] == shape[1]:
            return value
        heads, frames, size = value.shape[1:]
        room = shape[1] // heads if heads and shape[1] % heads == 0 else 0
        if room - size not in range(_GROUP):
            return value
        filled = np.pad(value, ((0, 0), (0, 0), (0, 0), (0, room - size))) if room > size else value
        return np.ascontiguousarray(filled.transpose(0, 1, 3, 2)).reshape(1, shape[1], 1, frames)

    def _check(self, name: str, value: Array, shape: tuple[int, ...], axis: int) -> int:
        wanted = [size if place != axis else f"1 to {size}" for place, size in enumerate(shape)]
        fits = value.ndim == len(shape) and all(
            0 < size <= other if place == axis else size == other
            for place, (size, other) in enumerate(zip(value.shape, shape, strict=True))
        )
        if not fits:
            raise ValueError(f"{name!r} is {wanted}; {list(value.shape)} was given")
        return int(value.shape[axis])

    def close(self) -> None:
        """The memory of its graph."""
        if self._session is not None:
            self._session.close()


def _check_finite(name: str, value: Array) -> None:
    if not np.isfinite(value).all():
        raise ValueError(f"{name!r} has numbers that are NaN or infinite")


def _grown(value: Array, axis: int, size: int) -> Array:
    """With frames of zeros behind it; they are masked."""
    if value.shape[axis] == size:
        return value
    more = [(0, 0)] * value.ndim
    more[axis] = (0, size - value.shape[axis])
    return np.pad(value, more)
