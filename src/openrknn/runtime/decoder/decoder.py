"""`Decoder`: one token after the other, with caches that stay in the memory of the NPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.closing import AsyncClosing
from openrknn.container.sequence import read_decoder
from openrknn.device import Device
from openrknn.names import NamedOptions
from openrknn.runtime.decoder.cross import CrossAttention
from openrknn.runtime.decoder.graphs import StepGraph, sizes_of
from openrknn.runtime.decoder.many import WORTH, ManyGraph
from openrknn.runtime.decoder.rows import Table
from openrknn.runtime.errors import CacheFullError, ClosedError
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session


class Fed(NamedTuple):
    """A part of a text that was fed."""

    first: int
    """The place of its first token."""
    logits: npt.NDArray[np.float32]
    """[tokens, vocabulary]; good until the next part."""
    outputs: Mapping[str, npt.NDArray[np.float32]]


class Decoder(NamedOptions, AsyncClosing):
    """A decoder that is ready to run: made by `openrknn compile step.onnx --cache N`.

        with Decoder("decoder.rknnz") as decoder:
            decoder.start(states)                           # what the encoder gave, [1, frames, width]
            token, text = 1, []
            while token != 2:
                token = int(decoder.step(token).argmax())
                text.append(token)

    A step looks up its rows in tables, runs the NPU, and copies the new rows of the caches to their places; nothing
    else is moved. With `beams` there are several hypotheses with caches of their own and one copy of everything else.
    A file may have graphs for several numbers of frames, which share their weights: `start` takes the smallest that
    fits. The options are those of `Session`. One thread at a time.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes,
        device: str | Device = "auto",
        *,
        beams: int = 1,
        cores: int | None = None,
        core_mask: int | None = None,
        custom_ops: Mapping[str, CustomOperator] | None = None,
        strict: bool = False,
        max_work: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        options: dict[str, Any] = {
            "cores": cores, "core_mask": core_mask, "custom_ops": custom_ops, "strict": strict,
            "max_work": max_work, "max_memory": max_memory,
        }  # fmt: skip
        if beams < 1:
            raise ValueError(f"{beams} beams cannot be run")
        self.file = read_decoder(model)
        self.length = 0
        """Tokens since the last start or reset."""
        self._closed = False
        self._beams = beams
        self._session = Session(self.file.step, device, **options)
        self._cross: CrossAttention | None = None
        try:
            self._tables = [Table(entry, self.file) for entry in self.file.tables]
            self._tokens = min(len(table) for table in self._tables if table.by == "token")
            self._sizes = sizes_of(self.file, self._session)
            self._graphs: dict[int, StepGraph] = {}
            self._many: dict[int, ManyGraph] = {}
            self._graph = self._open(max(self._singles, key=lambda number: self._sizes[number].frames))
            if self.file.bound:
                self._cross = CrossAttention(self.file, self._session, self._graph, options)
            self.reset()
        except BaseException:
            self.close()
            raise

    def _open(self, number: int) -> StepGraph:
        if number not in self._graphs:
            self._graphs[number] = StepGraph(self.file, self._session, number, self._tables)
        graph = self._graphs[number]
        graph.widen(self._beams)
        return graph

    @property
    def _singles(self) -> list[int]:
        """The graphs that take one token."""
        return [number for number, size in enumerate(self._sizes) if size.tokens == 1]

    def _open_many(self) -> ManyGraph | None:
        """The graph of several tokens that belongs to the current one, if the file has one and the device shares it."""
        here = self._graph
        if not isinstance(here.program, Program):
            return None
        for number, (frames, rows, tokens) in enumerate(self._sizes):
            if tokens > 1 and (frames, rows) == (here.frames, here.capacity):
                if number not in self._many:
                    self._many[number] = ManyGraph(
                        self.file, self._session, number, here, tokens=tokens, tables=self._tables
                    )
                return self._many[number]
        return None

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def capacity(self) -> int:
        """Tokens that the caches have room for."""
        return self._graph.capacity

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
        """Hypotheses at the same time; it can be set, and resets the decoder."""
        return self._beams

    @beams.setter
    def beams(self, beams: int) -> None:
        if beams < 1:
            raise ValueError(f"{beams} beams cannot be run")
        self._beams = beams
        self._graph.widen(beams)
        self.reset()

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
        return self._graph.step_bytes

    @property
    def is_direct(self) -> bool:
        """Whether new rows go into the caches without being converted."""
        return self._graph.is_direct

    # -- running -------------------------------------------------------------------------------------------------

    def start(self, states: object = None, *, tokens: int = 1) -> None:
        """Begin an utterance: `states` of the encoder [1, frames, width], or the inputs of cross attention by name.

        A decoder without an encoder takes none. Fewer frames than `cross_capacity` are exact: the rest is masked.
        `tokens`: how many there must be room for, where the file has graphs of several sizes.
        """
        self._check_open()
        if self._cross is None:
            if states is not None:
                raise ValueError("this decoder has no cross attention: start takes nothing")
        elif states is None:
            raise ValueError("start takes the encoder's states (an array, or arrays by name)")
        else:
            if len(self._singles) > 1:
                self._choose(self._cross.frames_of(states), tokens)
            self._cross.start(states, self._graph)
        self.reset()

    def _choose(self, frames: int, tokens: int) -> None:
        """The smallest graph with room for all; if there is none, the largest, whose checks say what is wrong."""
        sizes = {number: self._sizes[number] for number in self._singles}
        fitting = [(size, number) for number, size in sizes.items() if size.frames >= frames and size.rows >= tokens]
        number = min(fitting)[1] if fitting else max(sizes, key=lambda one: sizes[one].frames)
        self._graph = self._open(number)

    def reset(self) -> None:
        """Forget all tokens; what `start` was given stays."""
        self._check_open()
        self.length = 0
        self._graph.reset()

    def rewind(self, length: int) -> None:
        """Forget all tokens but the first `length`, which all beams must have had in common; one beam goes on."""
        self._check_open()
        if not 0 <= length <= self.length:
            raise ValueError(f"{self.length} tokens cannot be rewound to {length}")
        self._beams, self.length = 1, length
        self._graph.reset(length)

    def fork(self, beams: int) -> None:
        """Go on from here with so many beams, which have seen the same until now."""
        self._check_open()
        if beams < 1 or self._beams != 1:
            raise ValueError(f"one beam can be forked into several, not {self._beams} into {beams}")
        self._graph.fork(beams)
        self._beams = beams

    def step(self, token: int | Sequence[int]) -> npt.NDArray[np.float32]:
        """Logits after one more token: float32 [vocabulary]; for several beams a token each, and [beams, vocabulary].

        The array is good until the next step.
        """
        self._check_room(1)
        is_one = isinstance(token, int | np.integer)
        tokens = [int(token)] if isinstance(token, int | np.integer) else [int(one) for one in token]
        if len(tokens) != self._beams:
            raise ValueError(f"{len(tokens)} tokens were given for {self._beams} beams")
        self._check_tokens(tokens)
        found = self._graph.step(tokens, self.length)
        self.length += 1
        return found[0] if is_one else np.stack(found)

    def feed(self, tokens: Sequence[int], outputs: Sequence[str] = ()) -> Iterator[Fed]:
        """Several tokens that are known already, in as few runs as the file has graphs for; one beam.

            for part in decoder.feed(prompt):
                logits = part.logits[-1]                # after the last token, at the end

        `outputs` are others that are wanted, whose last dimension are the tokens of a part.
        """
        if self._beams != 1:
            raise ValueError(f"a text is fed to one beam; there are {self._beams}")
        given = [int(token) for token in tokens]
        self._check_room(len(given))
        self._check_tokens(given)
        return self._fed(given, outputs)

    def _fed(self, tokens: list[int], outputs: Sequence[str]) -> Iterator[Fed]:
        at, many = 0, self._open_many() if len(tokens) >= WORTH else None
        while at < len(tokens):
            if many is not None and len(tokens) - at >= WORTH:
                part = tokens[at : at + many.tokens]
                many.run(part, self.length)
                self.length += len(part)
                others = {name: many.output(name)[..., : len(part)] for name in outputs}
                yield Fed(at, many.logits()[: len(part)], others)
            else:
                part = tokens[at : at + 1]
                logits = self.step(part[0])
                yield Fed(at, logits[None], {name: self._graph.other(name) for name in outputs})
            at += len(part)

    def output(self, name: str) -> npt.NDArray[np.float32]:
        """What the last step gave beside logits and caches, such as scores of attention. One beam only."""
        self._check_open()
        if self._beams != 1:
            raise ValueError(f"outputs beside the logits are read with one beam; there are {self._beams}")
        return self._graph.other(name)

    def reorder(self, order: Sequence[int]) -> None:
        """Beam `n` goes on from what beam `order[n]` was; caches are copied only for a beam that goes on twice."""
        self._check_open()
        chosen = [int(number) for number in order]
        if len(chosen) != self._beams or not all(0 <= number < self._beams for number in chosen):
            raise ValueError(f"an order of {self._beams} beams is wanted, each from 0 to {self._beams - 1}")
        self._graph.reorder(chosen)

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        self._closed = True
        if self._cross is not None:
            self._cross.close()
        self._session.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.length} of {self.capacity} tokens, {self.beams} beam(s)"
        return f"<Decoder {self.file.path or 'from bytes'} {state}>"

    def _check_room(self, count: int) -> None:
        self._check_open()
        if self._cross is not None and not self._cross.is_started:
            raise ValueError("a step without an encoder's states: call start first")
        if self.length + count > self.capacity:
            more = f" and {count} more do not fit into it" if count > 1 else " fill the cache"
            raise CacheFullError(f"{self.length} tokens{more}; compile with a larger one (--cache), or reset")

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        wrong = next((one for one in tokens if not 0 <= one < self._tokens), None)
        if wrong is not None:
            raise ValueError(f"token {wrong} was given; there are {self._tokens}, from 0 on")

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the decoder is closed; open another one")
