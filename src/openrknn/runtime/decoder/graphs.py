"""One graph of a decoder's step: for so many frames of an encoder and so many tokens, with memory of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from openrknn.container.sequence import DecoderFile
from openrknn.errors import FormatError, UnsupportedError
from openrknn.numerics import MASKED
from openrknn.runtime.binding import Binding
from openrknn.runtime.decoder.rows import FilledRow, RowWriter, Table, fill
from openrknn.runtime.engine import Runnable
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session


class _Lane:
    """One hypothesis: a program with caches of its own; everything else belongs to the first lane."""

    def __init__(self, binding: Binding, file: DecoderFile) -> None:
        program = program_of(binding)
        self.binding = binding
        inputs, outputs = stored_ports(program)
        self.caches = [inputs[one.input] for one in file.caches]
        self.writers = [RowWriter(inputs[one.input], outputs[one.output], one.axis) for one in file.caches]

    def copy(self, other: _Lane) -> None:
        """What the other one has seen."""
        for mine, given in zip(self.caches, other.caches, strict=True):
            mine.native[...] = given.native


class StepGraph:
    """A step for one choice of sizes."""

    def __init__(self, file: DecoderFile, session: Session, number: int, tables: Sequence[Table]) -> None:
        self._file, self._session, self._number = file, session, number
        first = session.bind(pixels=False, graph=number)
        self.program: Runnable = program_of(first)
        inputs, outputs = stored_ports(self.program)
        self.frames, self.capacity = check_ports(file, inputs, outputs)
        self._lanes = [_Lane(first, file)]
        self._rows = [(inputs[table.input], table) for table in tables]
        self._mask = FilledRow(inputs[file.mask], -MASKED) if file.mask else None
        self.cross_mask = FilledRow(inputs[file.cross_mask], -MASKED) if file.cross_mask else None
        self.inputs = {port.name: port for port in self.program.inputs}
        self._logits = next(port for port in self.program.outputs if port.name == "logits")
        known = {"logits", *(one.output for one in file.caches)}
        self._others = {port.name: port for port in self.program.outputs if port.name not in known}

    @property
    def writers(self) -> list[RowWriter]:
        """Of the first hypothesis."""
        return self._lanes[0].writers

    def filled(self, position: int) -> None:
        """Attention sees this row of the caches from now on."""
        if self._mask is not None:
            self._mask.add(position)

    @property
    def step_bytes(self) -> int:
        """Bytes that a step of one beam copies."""
        rows = sum(stored.native.nbytes for stored, _ in self._rows)
        new = sum(writer.row_bytes for writer in self._lanes[0].writers)
        return int(rows + new + self._logits.stored.native.nbytes)

    @property
    def is_direct(self) -> bool:
        """Whether new rows go into the caches without being converted."""
        return all(writer.is_direct for writer in self._lanes[0].writers)

    def widen(self, beams: int) -> None:
        """At least so many hypotheses."""
        while len(self._lanes) < beams:
            self._lanes.append(_Lane(self._another(), self._file))

    def _another(self) -> Binding:
        """A binding with caches of its own that shares all other memory."""
        program = self.program
        if not isinstance(program, Program):
            raise UnsupportedError(f"{self._session.device.name} runs one beam; open a decoder for each")
        own = {one.input for one in self._file.caches}
        shared = {port.name: program.buffer_of(port.name) for port in program.inputs if port.name not in own}
        outputs = {port.name: program.buffer_of(port.name) for port in program.outputs}
        return self._session.bind(pixels=False, inputs=shared, outputs=outputs, graph=self._number)

    def reset(self, length: int = 0) -> None:
        """No row is filled, or only the first ones."""
        if self._mask is not None:
            self._mask.set(length)

    def fork(self, beams: int) -> None:
        """The others go on from the first hypothesis."""
        self.widen(beams)
        for lane in self._lanes[1:beams]:
            lane.copy(self._lanes[0])

    def step(self, tokens: Sequence[int], position: int) -> list[Array]:
        """Logits of each hypothesis; a copy of each if there are several."""
        for stored, table in self._rows:
            if table.by == "position":
                fill(stored, table.row(position))
        found = []
        for lane, token in zip(self._lanes, tokens, strict=False):
            for stored, table in self._rows:
                if table.by == "token":
                    fill(stored, table.row(token))
            lane.binding.run()
            for writer in lane.writers:
                writer.write(position)
            found.append(self._logits.read("float").reshape(-1))
        self.filled(position)
        return found

    def other(self, name: str) -> Array:
        """An output of the last step beside logits and caches; of several hypotheses, that of the last one."""
        if name not in self._others:
            raise KeyError(f"the step gives no {name!r}; beside logits and caches there is {sorted(self._others)}")
        return self._others[name].read("float")

    def reorder(self, order: Sequence[int]) -> None:
        """Hypothesis `n` goes on from `order[n]`; those behind them are spare."""
        spare = [lane for number, lane in enumerate(self._lanes) if number not in order]
        taken: set[int] = set()
        made = []
        for number in order:
            if number not in taken:
                taken.add(number)
                made.append(self._lanes[number])
                continue
            lane = spare.pop()
            lane.copy(self._lanes[number])
            made.append(lane)
        self._lanes = [*made, *spare]


class Size(NamedTuple):
    """Of a graph in the step's model."""

    frames: int
    rows: int
    """Of the caches."""
    tokens: int
    """That a run takes."""


def sizes_of(file: DecoderFile, session: Session) -> list[Size]:
    """Of each graph in the step's model."""
    found = []
    for graph in session.model.graphs:
        shapes = {graph.tensors[index].name: graph.tensors[index].shape for index in (*graph.inputs, *graph.outputs)}
        try:
            cache = file.caches[0]
            rows, tokens = (shapes[name][cache.axis] for name in (cache.input, cache.output))
            frames = shapes[file.bound[0].input][file.bound[0].axis] if file.bound else 0
        except (KeyError, IndexError):
            raise FormatError(f"{file.path or 'the decoder'}: its step has other inputs than it says") from None
        found.append(Size(int(frames), min(int(rows), file.capacity), int(tokens)))
    if all(size.tokens != 1 for size in found):
        raise FormatError(f"{file.path or 'the decoder'}: it has no graph for one token")
    return found


def program_of(binding: Binding) -> Runnable:
    """What runs; a closed session has nothing."""
    if binding.program is None:
        raise ClosedError("the decoder's session is closed")
    return binding.program


def stored_ports(program: Runnable) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    """Inputs and outputs by name."""
    inputs = {port.name: port.stored for port in program.inputs}
    return inputs, {port.name: port.stored for port in program.outputs}


def check_ports(
    file: DecoderFile, inputs: Mapping[str, StoredTensor], outputs: Mapping[str, StoredTensor], tokens: int = 1
) -> tuple[int, int]:
    """(frames, rows) of a graph for so many tokens.

    The manifest and the model have to agree: a file is not to be trusted.
    """
    name = file.path or "the decoder"
    shapes = {table.input: table.shape for table in file.tables}
    for given, shape in shapes.items():
        if given not in inputs or inputs[given].tensor.elements != tokens * int(np.prod(shape)):
            raise FormatError(f"{name}: its table for {given!r} does not fit an input of the step")
    rows = {_rows(name, inputs, cache.input, cache.axis) for cache in file.caches}
    frames = {_rows(name, inputs, one.input, one.axis) for one in file.bound} or {0}
    made = {_rows(name, outputs, cache.output, cache.axis) for cache in file.caches}
    if len(rows) != 1 or len(frames) != 1 or made != {tokens}:
        raise FormatError(
            f"{name}: its caches have {sorted(rows)} rows, {sorted(made)} new ones, and {sorted(frames)} frames"
        )
    for mask, length in ((file.mask, max(rows)), (file.cross_mask, max(frames))):
        if mask and (mask not in inputs or inputs[mask].tensor.elements != length):
            raise FormatError(f"{name}: {mask!r} is no mask over {length} rows")
    fed = {*shapes, *(one.input for one in file.caches), *(one.input for one in file.bound), file.mask, file.cross_mask}
    unknown = next((given for given in inputs if given not in fed), None)
    if unknown is not None:
        raise FormatError(f"{name}: nothing says what to feed {unknown!r} with")
    if "logits" not in outputs or outputs["logits"].tensor.elements != tokens * file.vocabulary:
        raise FormatError(f"{name}: its step does not give {file.vocabulary} logits")
    return max(frames), min(max(rows), file.capacity)


def _rows(name: str, tensors: Mapping[str, StoredTensor], given: str, axis: int) -> int:
    shape = tensors[given].tensor.shape if given in tensors else ()
    if axis >= len(shape):
        raise FormatError(f"{name}: {given!r} has no rows on dimension {axis}, but {list(shape)}")
    return int(shape[axis])
