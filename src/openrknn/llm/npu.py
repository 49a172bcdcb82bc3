"""`NpuEngine`: a compiled language model on the NPU, or on the software NPU. One job per step.

The CPU looks up a row of the embedding, writes the rotation of the position, starts the job, and copies new keys and
values to their rows of the cache, which stays in the memory of the device. It holds some sequences, each with graphs
of its own; others wait here until they are used again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.container.load import load
from openrknn.device import Device, DeviceBuffer
from openrknn.device.choose import open_device
from openrknn.errors import FormatError, UnsupportedError
from openrknn.llm.batch import Batch, Turn
from openrknn.llm.config import LanguageConfig
from openrknn.llm.engine import Cache
from openrknn.llm.errors import CacheFullError, NumberRangeError
from openrknn.llm.file import LanguageFile, read_language
from openrknn.llm.npu_cache import NpuCache
from openrknn.llm.npu_limits import check_ports, least_together, most_cores, most_resident
from openrknn.llm.ports import makes_embeddings
from openrknn.llm.range_guard import wrong_logits
from openrknn.llm.resident import Half, Parked, Resident
from openrknn.llm.weights import Floats
from openrknn.runtime.binding import Binding
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session

__all__ = ["NpuCache", "NpuEngine"]

_WORTH = 4
"""Tokens from which on a graph of many is faster than one after the other."""


class NpuEngine:
    """A compiled file, ready to run; `Engine` says what it does. One thread at a time.

    with NpuEngine("model.rknnz", "auto") as engine:
        cache = engine.new_cache()
        logits = engine.forward(cache, [1, 2, 3])
    """

    def __init__(
        self, model: LanguageFile | str | os.PathLike[str] | bytes, device: str | Device | Sequence[Device] = "auto", *,
        cores: int | None = None, resident: int | None = None, batch: int | None = None,
    ) -> None:  # fmt: skip
        """`device`: a name, or open devices, one for each part of the model; each has an address space of its own.

        `cores`: of the NPU that share each step; None for all that the driver and the file can use.

        `resident`: sequences whose keys and values stay in the memory of the NPU; others are copied when it is their
        turn. None: one on the software NPU, which prepares the graphs of each for seconds; on a board as many as fit
        into 256 MB, up to eight. `batch`: from how many sequences on the file's graph of several is used, if it has
        one; 0 for never, which takes less memory; None where it is faster by estimate.
        """
        if resident is not None and resident < 1:
            raise ValueError(f"resident={resident}: at least one sequence is in the memory of the NPU")
        self.file = model if isinstance(model, LanguageFile) else read_language(model)
        self._part, *further = [self.file] if self.file.part else self.file.parts()
        devices = list(device) if isinstance(device, Sequence) and not isinstance(device, str) else [device]
        if isinstance(device, str):
            devices *= 1 + len(further)
        if len(devices) != 1 + len(further):
            raise ValueError(f"{self.file.path or 'the language model'} has {1 + len(further)} parts, and "
                             f"{len(devices)} devices were given: each part needs one")  # fmt: skip
        self._config = config = self.file.config
        if makes_embeddings(config):
            raise UnsupportedError(
                f"{self.file.path or 'the language model'} makes embeddings and no text: open it with "
                "openrknn.llm.embedder.NpuEmbedder"
            )
        self._embedding = self.file.embedding
        given = load(self._part.step)
        first = devices[0]
        opened = open_device(first, given.chip, domain=self._part.part) if isinstance(first, str) else first
        self._npu, self._device = opened, opened if isinstance(first, str) else None
        try:
            self._session = Session(given, opened, cores=most_cores(given, opened) if cores is None else cores)
        except BaseException:
            if self._device is not None:
                self._device.close()
            raise
        self._places: list[Resident] = []
        self._held: dict[NpuCache, Resident] = {}
        """Sequences in the memory of the NPU; the one that was used last is the last one."""
        self._further: list[NpuEngine] = []
        """Parts of the model behind this one, each with an address space of its own."""
        try:
            self.graphs = self._open()
            for part, one in zip(further, devices[1:], strict=True):
                self._further.append(NpuEngine(part, one, cores=cores, resident=resident))
        except BaseException:
            self.close()
            raise
        singles = [entry for entry in self.file.graphs if entry.sequences == 1]
        self._few = max((entry.tokens for entry in singles if entry.logits and entry.tokens > 1), default=0)
        self._most = resident if resident is not None else most_resident(self._part, opened)
        self._places.append(Resident(self._part, 0, self.graphs[1].inputs["cache"], lambda: self.graphs))
        self._batch: Batch | None = None
        try:
            self._batch = self._open_batch(batch) if batch != 0 else None
        except BaseException:
            self.close()
            raise

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> LanguageConfig:
        return self._config

    @property
    def capacity(self) -> int:
        return self.file.capacity

    @property
    def session(self) -> Session:
        """The steps as a model, to look at or to profile."""
        return self._session

    def new_cache(self) -> NpuCache:
        return NpuCache(self, behind=[one.new_cache() for one in self._further])

    # -- running ---------------------------------------------------------------------------------------------------

    def forward(self, cache: Cache, tokens: Sequence[int], *, all_logits: bool = False) -> Floats:
        """Append tokens; the logits after the last one, or after each."""
        mine, given = self._checked(cache, tokens)
        place = self._activate(mine, self._most)
        found = []
        at = 0
        if not mine.tokens and given[0] == self.file.prefix:
            at = self._start(mine, place)
            if all_logits or at == len(given):
                found.append(self._scaled(self.file.prefix_logits.astype(np.float32)))
        while at < len(given):
            left = len(given) - at - 1
            if self._few and left and (all_logits or left < self._few):
                part = given[at : at + self._few]
                rows = self._step(mine, place, part, self._few)
                at += len(part)
                if rows is not None:
                    found += list(rows) if all_logits else [rows[-1]]
                continue
            size = 1 if all_logits or left < _WORTH else self._chunk(left)
            count = min(size, left) if size > 1 else 1
            logits = self._step(mine, place, given[at : at + count], size)
            at += count
            if logits is not None and (all_logits or at == len(given)):
                found.append(logits[0])
        return np.stack(found)

    def forward_batch(self, caches: Sequence[Cache], tokens: Sequence[int]) -> Floats:
        """One token for each sequence: together where the file has a graph for that, else one after the other.

        Logits of a sequence that cannot be computed (`NumberRangeError`) are NaN; the others have theirs.
        """
        if len(caches) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens were given for {len(caches)} sequences")
        given = [self._checked(cache, [token]) for cache, token in zip(caches, tokens, strict=True)]
        if len({id(cache) for cache, _ in given}) != len(given):
            raise ValueError("forward_batch was given a sequence twice")
        found: list[Floats | None] = [None] * len(given)
        together = []
        for at, (cache, (token,)) in enumerate(given):
            is_constant = not cache.tokens and token == self.file.prefix  # nothing is computed for it
            if self._batch is None or is_constant:
                found[at] = self._alone(cache, token)[None]
            else:
                together.append(at)
        most = 1 if self._batch is None else self._batch.sequences
        for first in range(0, len(together), most):
            some = together[first : first + most]
            rows = self._together([given[at][0] for at in some], [given[at][1][0] for at in some])
            for at, row in zip(some, rows, strict=True):
                found[at] = row[None]
        return np.concatenate([one for one in found if one is not None])

    def _checked(self, cache: Cache, tokens: Sequence[int]) -> tuple[NpuCache, list[int]]:
        """What `forward` was given, if it can be computed."""
        mine, given = self._mine(cache), [int(token) for token in tokens]
        if not given:
            raise ValueError("forward was given no token")
        wrong = next((one for one in given if not 0 <= one < self._config.vocabulary), None)
        if wrong is not None:
            raise ValueError(f"token {wrong} was given; there are {self._config.vocabulary}, from 0 on")
        if len(mine.tokens) + len(given) > self.capacity:
            raise CacheFullError(
                f"{len(mine.tokens)} and {len(given)} tokens do not fit into a cache of {self.capacity}; compile with "
                "a larger capacity, or shorten the text"
            )
        return mine, given

    def _together(self, caches: list[NpuCache], tokens: list[int]) -> Floats:
        """As many sequences as the graph takes at most; few are faster one after the other.

        An infinite number would reach the others (`batch`): then each is computed alone, and so only its own.
        """
        batch = self._batch
        if batch is not None and len(caches) >= batch.least:
            places = [self._activate(cache, batch.sequences, caches) for cache in caches]
            lengths = {place: len(cache.tokens) for cache, place in self._held.items()}
            for place in self._places[: batch.sequences]:  # the graph also reads those without a sequence
                place.clear_behind(lengths.get(place, 0))
            turns = {
                place.number: Turn(self._embedding[token], len(cache.tokens))
                for place, cache, token in zip(places, caches, tokens, strict=True)
            }
            if batch.run(turns):
                rows: Floats = self._logits(batch.bound, batch.tokens, batch.tokens)[[one.number for one in places]]
                for row, place, cache, token in zip(rows, places, caches, tokens, strict=True):
                    wrong = place.store(batch.bound, batch.tokens, len(cache.tokens), 1, place.number)
                    cache._tokens.append(token)
                    if wrong or wrong_logits(row):
                        row[:] = np.nan
                return rows
        return np.stack([self._alone(cache, token) for cache, token in zip(caches, tokens, strict=True)])

    def _alone(self, cache: NpuCache, token: int) -> Floats:
        try:
            row: Floats = self.forward(cache, [token])[0]
        except NumberRangeError:
            row = np.full(self._config.vocabulary, np.nan, np.float32)
        return row

    def _start(self, cache: NpuCache, place: Resident) -> int:
        """The first position of a quantised model is a constant; the tokens that are done then."""
        rows = self._part.prefix_rows
        place.write(rows[:, 0], rows[:, 1], 0)
        for engine, behind in zip(self._further, cache._behind, strict=True):
            engine._start(behind, engine._activate(behind, engine._most))
        cache._tokens += [self.file.prefix or 0]
        return 1

    def _chunk(self, left: int) -> int:
        """The smallest graph that takes all of them, or the largest."""
        sizes = sorted(size for size in self.graphs if size > 1 and size != self._few)
        return next((size for size in sizes if size >= left), sizes[-1] if sizes else 1)

    def _step(self, cache: NpuCache, place: Resident, tokens: list[int], size: int) -> Floats | None:
        count, bound, rows = len(tokens), place.graphs[size], self._embedding[tokens]
        x = bound.inputs["x"]
        if size == 1:
            x.reshape(-1)[:] = rows[0]
        else:
            filled = x.reshape(-1, size, self.file.layout.atom)
            filled[:, :count] = rows.reshape(count, *filled.shape[::2]).transpose(1, 0, 2)
            filled[:, count:] = 0
        wrong = self._advance(cache, place, size, count)
        for engine, behind in zip(self._further, cache._behind, strict=True):
            place = engine._activate(behind, engine._most)
            stream, bound = bound.outputs["stream"], place.graphs[size]
            bound.inputs["x"].reshape(-1)[:] = stream.reshape(-1)
            wrong = engine._advance(behind, place, size, count) or wrong
        for one in (cache, *cache._behind):
            one._tokens += tokens
        logits = self._logits(bound, size, count) if "logits" in bound.outputs else None
        wrong = wrong or (None if logits is None else wrong_logits(logits))
        if wrong:
            raise wrong
        return logits

    def _advance(self, cache: NpuCache, place: Resident, size: int, count: int) -> NumberRangeError | None:
        """The layers of this part, for tokens whose rows are in `x`."""
        position = len(cache.tokens)
        place.clear_behind(position)
        place.rotations[size].write(position)
        place.masks[size].show(position)
        self._run(place, size)
        return place.store(place.graphs[size], size, position, count)

    def _run(self, place: Resident, size: int) -> None:
        """Once more, or for the first time.

        On the software NPU the graph of one token runs first: what is kept of the others depends on what ran before,
        and their weights are then in its file, whatever the first prompt was. Weights in the file of the model are not
        needed after that.
        """
        if size in place.begun:
            place.graphs[size].run()
            return
        if size > 1 and 1 not in place.begun and self._session.device.name.startswith("software"):
            self._run(place, 1)
        place.graphs[size].run()
        place.begun.add(size)
        self.file.forget_pages()

    def _logits(self, bound: Binding, size: int, count: int) -> Floats:
        """[count, vocabulary]."""
        atoms = bound.outputs["logits"].reshape(-1, size, self.file.layout.atom)[:, :count]
        rows = atoms.transpose(1, 0, 2).reshape(count, -1)[:, : self._config.vocabulary]
        return self._scaled(rows.astype(np.float32))

    def _scaled(self, logits: Floats) -> Floats:
        config = self._config
        if config.logit_scale != 1.0:
            logits *= np.float32(config.logit_scale)
        if config.logit_softcap is not None:
            logits = np.float32(config.logit_softcap) * np.tanh(logits / np.float32(config.logit_softcap))
        return logits

    # -- caches ----------------------------------------------------------------------------------------------------

    def rows_of(self, cache: NpuCache) -> Half:
        """A copy of a sequence's keys and values: [layers, 2, heads, tokens, size]."""
        count, rows = len(cache.tokens), cache._rows
        if rows is not None:
            found = rows[:, :, :, :count].copy()
        else:
            found = self._held.get(cache, self._places[0]).rows(count, cache._parked)
        further = [engine.rows_of(one) for engine, one in zip(self._further, cache._behind, strict=True)]
        return np.concatenate([found, *further]) if further else found

    def parked_of(self, cache: NpuCache) -> Parked | None:
        """A copy of a sequence that is on the device, in its layout; of others what they have."""
        place = self._held.get(cache)
        return cache._parked if place is None else place.park(len(cache.tokens))

    def restore(self, tokens: Sequence[int], rows: npt.NDArray[Any]) -> NpuCache:
        """A sequence with keys and values as `rows_of` gave them."""
        config = self._config
        wanted = (config.layers, 2, config.kv_heads, len(tokens), config.head_size)
        if rows.shape != wanted or len(tokens) > self.file.capacity:
            raise ValueError(f"rows of the shape {rows.shape} are no cache of {len(tokens)} tokens: {wanted}")
        first, *further = np.split(rows.astype(np.float16), self.file.cuts if not self.file.part else ())
        behind = [engine.restore(tokens, one) for engine, one in zip(self._further, further, strict=True)]
        return NpuCache(self, tokens, first, behind=behind)

    def forget(self, cache: NpuCache) -> None:
        """It is closed."""
        self._held.pop(cache, None)

    def _mine(self, cache: Cache) -> NpuCache:
        if not isinstance(cache, NpuCache) or cache._engine is not self:
            raise ValueError("this cache belongs to another engine, or is closed; make one with new_cache")
        return cache

    def _activate(self, cache: NpuCache, most: int, beside: Sequence[NpuCache] = ()) -> Resident:
        """Its rows to one of the first `most` places on the device; not to one of a sequence `beside` it.

        Those of the sequence that was not used for the longest time make room.
        """
        place = self._held.pop(cache, None)
        if place is not None and place.number >= most:
            cache._parked, place = place.park(len(cache.tokens)), None
        if place is None:
            place = self._free(most, beside)
            if cache._rows is not None:
                place.write(cache._rows[:, 0], cache._rows[:, 1], 0)
            elif cache._parked is not None:
                place.unpark(cache._parked, len(cache.tokens))
            cache._rows, cache._parked = None, None
        self._held[cache] = place
        return place

    def _free(self, most: int, beside: Sequence[NpuCache]) -> Resident:
        """One of the first `most` places, without a sequence."""
        used = list(self._held.values())
        free = next((place for place in self._places[:most] if place not in used), None)
        if free is not None:
            return free
        if len(self._places) < most:
            self._places.append(self._another())
            return self._places[-1]
        oldest = next(one for one, place in self._held.items() if place.number < most and one not in beside)
        oldest._parked = self.parked_of(oldest)
        return self._held.pop(oldest)

    # -- opening and closing ---------------------------------------------------------------------------------------

    def _open(self) -> dict[int, Binding]:
        """A binding for each graph; the cache is the same memory in all of them."""
        file, name = self._part, self.file.path or "the language model"
        if len(self._session.model.graphs) != len(file.graphs):
            raise FormatError(f"{name} has {len(self._session.model.graphs)} graphs, and says {len(file.graphs)}")
        singles = [number for number, entry in enumerate(file.graphs) if entry.sequences == 1]
        order = sorted(singles, key=lambda number: file.graphs[number].tokens)
        found: dict[int, Binding] = {}
        for number in order:
            tokens = file.graphs[number].tokens
            shared: dict[str, object] = {}
            if found:
                program = found[1].program
                if not isinstance(program, Program):
                    raise UnsupportedError(f"{self._session.device.name} runs no graphs that share a cache")
                shared = {one: program.buffer_of(one) for one in ("cache",)}
            found[tokens] = self._session.bind(pixels=False, inputs=shared, graph=number)
            check_ports(file.ports(file.graphs[number]), found[tokens], name, logits=file.graphs[number].logits)
        atom = found[1].inputs["x"].shape[-1]
        if atom != file.layout.atom:
            raise FormatError(f"{name} has {file.layout}, and its graphs have {atom} numbers that lie together")
        return found

    def _open_batch(self, least: int | None) -> Batch | None:
        """The graph of several sequences, and memory for each of them. Other graphs are bound to it when they run."""
        file, first = self.file, self.graphs[1]
        number = next((at for at, entry in enumerate(file.graphs) if entry.sequences > 1), None)
        if number is None:
            return None
        entry, size = file.graphs[number], first.inputs["cache"].nbytes
        ports = file.ports(entry)
        assert isinstance(first.program, Program)
        memories = [self._npu.allocate(size, "cache") for _ in ports.caches[1:]]
        shared = dict(zip(ports.caches, [first.program.buffer_of("cache"), *memories], strict=True))
        try:
            bound = self._session.bind(pixels=False, inputs=shared, graph=number)
            check_ports(ports, bound, file.path or "the language model", logits=True)
        except BaseException:
            for memory in memories:
                self._npu.free(memory)
            raise
        for at, (name, memory) in enumerate(zip(ports.caches[1:], memories, strict=True), 1):
            self._places.append(Resident(file, at, bound.inputs[name], partial(self._bound_to, memory), memory))
        return Batch(file, entry, bound, least_together(entry, self._npu) if least is None else max(2, least))

    def _another(self) -> Resident:
        """Memory for one more sequence, and all graphs on it."""
        memory = self._npu.allocate(self.graphs[1].inputs["cache"].nbytes, "cache")
        try:
            graphs = self._bound_to(memory)
        except BaseException:
            self._npu.free(memory)
            raise
        return Resident(self._part, len(self._places), graphs[1].inputs["cache"], lambda: graphs, memory)

    def _bound_to(self, memory: DeviceBuffer) -> dict[int, Binding]:
        """All graphs of one sequence, on this memory."""
        return {
            entry.tokens: self._session.bind(pixels=False, inputs={"cache": memory}, graph=number)
            for number, entry in enumerate(self.file.graphs)
            if entry.sequences == 1
        }

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        self._held.clear()
        for engine in self._further:
            engine.close()
        self._session.close()
        while self._places:
            owned = self._places.pop().owned
            if owned is not None:
                self._npu.free(owned)
        if self._device is not None:
            self._device.close()

    def __enter__(self) -> NpuEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
