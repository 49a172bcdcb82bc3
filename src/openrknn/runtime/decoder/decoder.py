"""`Decoder`: one token after the other, with caches that stay in the memory of the NPU."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.closing import Closing
from openrknn.container.sequence import DecoderFile, read_decoder
from openrknn.device import Device
from openrknn.errors import FormatError, UnsupportedError
from openrknn.runtime.binding import Binding
from openrknn.runtime.decoder.cross import CrossAttention
from openrknn.runtime.decoder.rows import FilledRow, RowWriter, fill
from openrknn.runtime.decoder.tables import Table
from openrknn.runtime.engine import Runnable
from openrknn.runtime.errors import CacheFullError, ClosedError
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session

__all__ = ["Decoder"]

_FAR = -30000.0
"""What a mask adds to scores of rows that are not filled: a half float holds it, and its exponential is 0."""

_SPARE = 15
"""Rows that a cache may have beyond its capacity: products take whole groups of 16."""


class _Lane:
    """One hypothesis: a program with caches of its own; everything else belongs to the first lane."""

    def __init__(self, binding: Binding, file: DecoderFile) -> None:
        program = binding.program
        if program is None:
            raise ClosedError("the decoder's session is closed")
        self.binding = binding
        inputs, outputs = _stored(program)
        self.caches = [inputs[one.input] for one in file.caches]
        self.writers = [RowWriter(inputs[one.input], outputs[one.output], one.axis) for one in file.caches]

    def copy(self, other: _Lane) -> None:
        """What the other one has seen."""
        for mine, given in zip(self.caches, other.caches, strict=True):
            mine.native[...] = given.native


class Decoder(Closing):
    """A decoder that is ready to run: made by `openrknn compile step.onnx --cache N`.

        with Decoder("decoder.rknnz") as decoder:
            decoder.start(states)                           # what the encoder gave, [1, frames, width]
            token, text = 1, []
            while token != 2:
                token = int(decoder.step(token).argmax())
                text.append(token)

    A step looks up its rows in tables, runs the NPU, and copies the new rows of the caches to their places; nothing
    else is moved. With `beams` there are several hypotheses with caches of their own and one copy of everything else.
    The options are those of `Session`. One thread at a time.
    """

    def __init__(
        self, model: str | os.PathLike[str] | bytes, device: str | Device = "auto", *, beams: int = 1, **options: Any
    ) -> None:
        if beams < 1:
            raise ValueError(f"{beams} beams cannot be run")
        self.file = read_decoder(model)
        self.length = 0
        """Tokens since the last start or reset."""
        self._closed = False
        self._session = Session(self.file.step, device, **options)
        self._cross: CrossAttention | None = None
        try:
            self._set_up(beams)
            if self.file.bound:
                self._cross = CrossAttention(self.file, self._session, self._program, options)
            self.reset()
        except BaseException:
            self.close()
            raise

    def _set_up(self, beams: int) -> None:
        file = self.file
        first = self._session.bind(pixels=False)
        if first.program is None:
            raise ClosedError("the decoder's session is closed")
        self._program: Runnable = first.program
        inputs, outputs = _stored(self._program)
        _check_ports(file, inputs, outputs)
        self._tables = [Table(entry, file) for entry in file.tables]
        self._lanes = [_Lane(first, file)]
        for _ in range(beams - 1):
            self._lanes.append(_Lane(self._another(), file))
        self._rows = [(inputs[table.input], table) for table in self._tables]
        self._tokens = min(len(table) for table in self._tables if table.by == "token")
        self._mask = FilledRow(inputs[file.mask], _FAR) if file.mask else None
        self._logits = next(port for port in self._program.outputs if port.name == "logits")

    def _another(self) -> Binding:
        """The same memory but for the caches."""
        if not isinstance(self._program, Program):
            raise UnsupportedError(f"{self._session.device.name} runs one beam; open a decoder for each")
        own = {one.input for one in self.file.caches}
        inputs = {port.name: self._program.buffer_of(port.name) for port in self._program.inputs}
        outputs = {port.name: self._program.buffer_of(port.name) for port in self._program.outputs}
        shared = {name: buffer for name, buffer in inputs.items() if name not in own}
        return self._session.bind(pixels=False, inputs=shared, outputs=outputs)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """Tokens that the caches have room for."""
        return self.file.capacity

    @property
    def vocabulary(self) -> int:
        """How many logits a step gives."""
        return self.file.vocabulary

    @property
    def cross_capacity(self) -> int:
        """Frames that an encoder can give; 0: there is no encoder."""
        return self.file.frames

    @property
    def beams(self) -> int:
        """Hypotheses at the same time."""
        return len(self._lanes)

    @property
    def session(self) -> Session:
        """The step as a model, to look at or to profile."""
        return self._session

    @property
    def device(self) -> Any:
        """Where it runs."""
        return self._session.device

    @property
    def step_bytes(self) -> int:
        """Bytes that a step of one beam copies: rows of tables, new rows of caches, logits."""
        rows = sum(stored.native.nbytes for stored, _ in self._rows)
        new = sum(writer.row_bytes for writer in self._lanes[0].writers)
        return int(rows + new + self._logits.stored.native.nbytes)

    # -- running -------------------------------------------------------------------------------------------------

    def start(self, states: object = None) -> None:
        """Begin an utterance: `states` of the encoder [1, frames, width], or the inputs of cross attention by name.

        A decoder without an encoder takes none. Fewer frames than `cross_capacity` are exact: the rest is masked.
        """
        self._check_open()
        if self._cross is None:
            if states is not None:
                raise ValueError("this decoder has no cross attention: start takes nothing")
        elif states is None:
            raise ValueError("start takes the encoder's states (an array, or arrays by name)")
        else:
            self._cross.start(states)
        self.reset()

    def reset(self) -> None:
        """Forget all tokens; what `start` was given stays."""
        self._check_open()
        self.length = 0
        if self._mask is not None:
            self._mask.set(0)

    def step(self, token: int | Sequence[int]) -> Array:
        """Logits after one more token: float32 [vocabulary]; for several beams a token each, and [beams, vocabulary].

        The array is good until the next step.
        """
        self._check_open()
        if self._cross is not None and not self._cross.is_started:
            raise ValueError("a step without an encoder's states: call start first")
        if self.length >= self.capacity:
            raise CacheFullError(f"{self.length} tokens fill the cache; compile with a larger one (--cache), or reset")
        tokens = [token] if isinstance(token, int | np.integer) else list(token)
        if len(tokens) != len(self._lanes):
            raise ValueError(f"{len(tokens)} tokens were given for {len(self._lanes)} beams")
        wrong = next((one for one in tokens if not 0 <= int(one) < self._tokens), None)
        if wrong is not None:
            raise ValueError(f"token {wrong} was given; there are {self._tokens}, from 0 on")
        for stored, table in self._rows:
            if table.by == "position":
                fill(stored, table.row(self.length))
        if len(self._lanes) == 1:
            logits = self._run(self._lanes[0], int(tokens[0])).reshape(-1)
        else:
            logits = np.stack(
                [self._run(lane, int(one)).reshape(-1) for lane, one in zip(self._lanes, tokens, strict=True)]
            )
        if self._mask is not None:
            self._mask.add(self.length)
        self.length += 1
        return logits

    def _run(self, lane: _Lane, token: int) -> Array:
        for stored, table in self._rows:
            if table.by == "token":
                fill(stored, table.row(token))
        lane.binding.run()
        for writer in lane.writers:
            writer.write(self.length)
        return self._logits.read("float")

    def reorder(self, order: Sequence[int]) -> None:
        """Beam `n` goes on from what beam `order[n]` was; caches are copied only for a beam that goes on twice."""
        self._check_open()
        chosen = [int(number) for number in order]
        if len(chosen) != len(self._lanes) or not all(0 <= number < len(self._lanes) for number in chosen):
            raise ValueError(f"an order of {len(self._lanes)} beams is wanted, each from 0 to {len(self._lanes) - 1}")
        free = [lane for number, lane in enumerate(self._lanes) if number not in chosen]
        taken: set[int] = set()
        made = []
        for number in chosen:
            if number not in taken:
                taken.add(number)
                made.append(self._lanes[number])
                continue
            lane = free.pop()
            lane.copy(self._lanes[number])
            made.append(lane)
        self._lanes = made

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        self._closed = True
        if self._cross is not None:
            self._cross.close()
        self._session.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.length} of {self.capacity} tokens, {self.beams} beam(s)"
        return f"<Decoder {self.file.path or 'from bytes'} {state}>"

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the decoder is closed; open another one")


def _stored(program: Runnable) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    inputs = {port.name: port.stored for port in program.inputs}
    return inputs, {port.name: port.stored for port in program.outputs}


def _check_ports(file: DecoderFile, inputs: Mapping[str, StoredTensor], outputs: Mapping[str, StoredTensor]) -> None:
    """The manifest and the model have to agree: a file is not to be trusted."""
    name = file.path or "the decoder"
    shapes = {table.input: table.shape for table in file.tables}
    for given, shape in shapes.items():
        if given not in inputs or inputs[given].tensor.elements != int(np.prod(shape)):
            raise FormatError(f"{name}: its table for {given!r} does not fit an input of the step")
    for cache in file.caches:
        _check_axis(name, inputs, cache.input, cache.axis, file.capacity, is_least=True)
        _check_axis(name, outputs, cache.output, cache.axis, 1)
    for one in file.bound:
        _check_axis(name, inputs, one.input, one.axis, file.frames)
    for mask, length in ((file.mask, file.capacity), (file.cross_mask, file.frames)):
        if mask and (mask not in inputs or not length <= inputs[mask].tensor.elements <= length + _SPARE):
            raise FormatError(f"{name}: {mask!r} is no mask over {length} rows")
    fed = {*shapes, *(one.input for one in file.caches), *(one.input for one in file.bound), file.mask, file.cross_mask}
    unknown = next((given for given in inputs if given not in fed), None)
    if unknown is not None:
        raise FormatError(f"{name}: nothing says what to feed {unknown!r} with")
    if "logits" not in outputs or outputs["logits"].tensor.elements != file.vocabulary:
        raise FormatError(f"{name}: its step does not give {file.vocabulary} logits")


def _check_axis(
    name: str, tensors: Mapping[str, StoredTensor], given: str, axis: int, size: int, *, is_least: bool = False
) -> None:
    shape = tensors[given].tensor.shape if given in tensors else ()
    if axis >= len(shape) or not size <= shape[axis] <= size + (_SPARE if is_least else 0):
        raise FormatError(f"{name}: {given!r} has not {size} rows on dimension {axis}, but {list(shape)}")
