"""A graph that takes several tokens at once: prompts, and texts that are already known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.container.sequence import DecoderFile
from openrknn.errors import FormatError
from openrknn.runtime.decoder.graphs import StepGraph, check_ports, program_of, stored_ports
from openrknn.runtime.decoder.rows import RowWriter, Table, fill
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session
from openrknn.runtime.state import same_memory

WORTH = 6
"""Tokens from which on this graph is faster than one step after the other."""


class ManyGraph:
    """Uses the caches, the masks and the cross attention of a `StepGraph`, in whose memory it writes new rows.

    Tokens that are missing of a run are computed as zeros: a token sees only those before it, so they change nothing.
    """

    def __init__(
        self, file: DecoderFile, session: Session, number: int, step: StepGraph, *, tokens: int, tables: Sequence[Table]
    ) -> None:
        program = step.program
        if not isinstance(program, Program):
            raise TypeError("a graph of several tokens shares the memory of a program")
        own = {table.input for table in tables}
        places = {port.name: program.buffer_of(port.name) for port in program.inputs if port.name not in own}
        self.tokens, self._binding = tokens, session.bind(pixels=False, inputs=places, graph=number)
        made = program_of(self._binding)
        self._inputs, outputs = stored_ports(made)
        check_ports(file, self._inputs, outputs, tokens)
        for name in places:
            if not same_memory(self._inputs[name], step.inputs[name].stored):
                raise FormatError(f"{file.path or 'the decoder'}: its graphs store {name!r} in different ways")
        self._step, self._tables = step, tables
        targets = stored_ports(program)[0]
        self._writers = [RowWriter(targets[one.input], outputs[one.output], one.axis) for one in file.caches]
        self._ports = {port.name: port for port in made.outputs}
        self._vocabulary = file.vocabulary

    def run(self, tokens: Sequence[int], position: int) -> None:
        """Compute these tokens, at most `self.tokens`, and keep their rows."""
        for table in self._tables:
            by = tokens if table.by == "token" else range(position, position + len(tokens))
            rows = np.zeros((*table.shape[:-1], self.tokens), np.float32)
            for number, one in enumerate(by):
                rows[..., number] = table.row(one)[..., 0]
            fill(self._inputs[table.input], rows)
        self._binding.run()
        for writer in self._writers:
            writer.write(position, len(tokens))
        for number in range(len(tokens)):
            self._step.filled(position + number)

    def output(self, name: str) -> Array:
        """Of the last run; the last dimension are its tokens."""
        if name not in self._ports:
            raise KeyError(f"the step gives no {name!r}; there is {sorted(self._ports)}")
        return self._ports[name].read("float")

    def logits(self) -> Array:
        """[tokens, vocabulary] of the last run."""
        return self.output("logits").reshape(self._vocabulary, self.tokens).T
