"""`NpuEngine`: a compiled language model on the NPU, or on the software NPU. One job per step.

The CPU looks up a row of the embedding, writes the rotation of the position, starts the job, and copies new keys and
values to their rows of the cache, which stays in the memory of the device. It holds some sequences, each with graphs
of its own; others wait here until they are used again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.device import Device
from openrknn.device.choose import open_device
from openrknn.device.rknpu import RknpuDevice
from openrknn.device.rocket import RocketDevice
from openrknn.errors import FormatError, UnsupportedError
from openrknn.llm.config import LanguageConfig
from openrknn.llm.engine import Cache
from openrknn.llm.errors import CacheFullError
from openrknn.llm.file import LanguageFile, read_language
from openrknn.llm.limits import joined_cores
from openrknn.llm.ports import Ports, cache_numbers, makes_embeddings
from openrknn.llm.resident import Half, Parked, Resident
from openrknn.llm.weights import Floats
from openrknn.runtime.binding import Binding
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.program.program import Program
from openrknn.runtime.session import Session

_MOST_RESIDENT = 8
_RESIDENT_BYTES = 1 << 28
"""Limit of all resident caches together, unless `resident` is given."""
_WORTH = 4
"""Tokens from which on a graph of many is faster than one after the other."""


class NpuCache:
    """Keys and values of one sequence: in the memory of the NPU, or here until it is used again."""

    def __init__(
        self, engine: NpuEngine, tokens: Sequence[int] = (), rows: Half | None = None, parked: Parked | None = None,
        behind: Sequence[NpuCache] = (),
    ) -> None:  # fmt: skip
        self._engine: NpuEngine | None = engine
        self._behind = tuple(behind)
        """Of the same sequence, in further parts of the model."""
        self._tokens = list(tokens)
        self._rows = rows
        """[layers, 2, kv_heads, tokens, size], of a cache that was restored."""
        self._parked = parked
        """In the layout of the device. Neither: they are on the device, or there are none."""

    @property
    def tokens(self) -> tuple[int, ...]:
        return tuple(self._tokens)

    def truncate(self, length: int) -> None:
        """Forget what is behind `length` tokens; nothing is copied."""
        if not 0 <= length <= len(self._tokens):
            raise ValueError(f"{length} tokens of {len(self._tokens)} cannot be kept")
        del self._tokens[length:]
        if self._rows is not None:
            self._rows = self._rows[:, :, :, :length]
        for one in self._behind:
            one.truncate(length)

    def copy(self) -> NpuCache:
        engine = self._engine
        if engine is None:
            raise ClosedError("this cache is closed; ask the engine for another one")
        behind = [one.copy() for one in self._behind]
        return NpuCache(engine, self._tokens, self._rows, engine.parked_of(self), behind)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.forget(self)
        self._engine, self._rows, self._parked = None, None, None
        self._tokens.clear()
        for one in self._behind:
            one.close()


class NpuEngine:
    """A compiled file, ready to run; `Engine` says what it does. One thread at a time.

    with NpuEngine("model.rknnz", "auto") as engine:
        cache = engine.new_cache()
        logits = engine.forward(cache, [1, 2, 3])
    """

    def __init__(
        self, model: LanguageFile | str | os.PathLike[str] | bytes, device: str | Device | Sequence[Device] = "auto", *,
        cores: int | None = None, resident: int | None = None,
    ) -> None:  # fmt: skip
        """`device`: a name, or open devices, one for each part of the model; each has an address space of its own.

        `cores`: of the NPU that share each step; None for all that the driver and the file can use.

        `resident`: sequences whose keys and values stay in the memory of the NPU; others are copied when it is their
        turn. None: one on the software NPU, which prepares the graphs of each for seconds; on a board as many as fit
        into 256 MB, up to eight.
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
            self._session = Session(given, opened, cores=_most_cores(given, opened) if cores is None else cores)
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
        self._few = max((entry.tokens for entry in self.file.graphs if entry.logits and entry.tokens > 1), default=0)
        self._places.append(Resident(self._part, self.graphs))
        self._most = resident if resident is not None else _most_resident(self._part, opened)

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
        place = self._activate(mine)
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
        """One token for each sequence, one after the other: no graph takes tokens of several sequences."""
        if len(caches) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens were given for {len(caches)} sequences")
        return np.concatenate([self.forward(cache, [token]) for cache, token in zip(caches, tokens, strict=True)])

    def _start(self, cache: NpuCache, place: Resident) -> int:
        """The first position of a quantised model is a constant; the tokens that are done then."""
        rows = self._part.prefix_rows
        place.write(rows[:, 0], rows[:, 1], 0)
        for engine, behind in zip(self._further, cache._behind, strict=True):
            engine._start(behind, engine._activate(behind))
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
        self._advance(cache, place, size, count)
        for engine, behind in zip(self._further, cache._behind, strict=True):
            place = engine._activate(behind)
            stream, bound = bound.outputs["stream"], place.graphs[size]
            bound.inputs["x"].reshape(-1)[:] = stream.reshape(-1)
            engine._advance(behind, place, size, count)
        for one in (cache, *cache._behind):
            one._tokens += tokens
        return self._logits(bound, size, count) if "logits" in bound.outputs else None

    def _advance(self, cache: NpuCache, place: Resident, size: int, count: int) -> None:
        """The layers of this part, for tokens whose rows are in `x`."""
        position = len(cache.tokens)
        place.rotations[size].write(position)
        place.masks[size].show(position)
        self._run(place, size)
        place.store(place.graphs[size], size, position, count)

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

    def _activate(self, cache: NpuCache) -> Resident:
        """Its rows to the device; those of the sequence that was not used for the longest time make room."""
        place = self._held.pop(cache, None)
        if place is None:
            place = self._free()
            if cache._rows is not None:
                place.write(cache._rows[:, 0], cache._rows[:, 1], 0)
            elif cache._parked is not None:
                place.unpark(cache._parked, len(cache.tokens))
            cache._rows, cache._parked = None, None
        self._held[cache] = place
        return place

    def _free(self) -> Resident:
        """A place without a sequence."""
        used = list(self._held.values())
        free = next((place for place in self._places if place not in used), None)
        if free is not None:
            return free
        if len(self._places) < self._most:
            self._places.append(self._another())
            return self._places[-1]
        oldest = next(iter(self._held))
        oldest._parked = self.parked_of(oldest)
        return self._held.pop(oldest)

    # -- opening and closing ---------------------------------------------------------------------------------------

    def _open(self) -> dict[int, Binding]:
        """A binding for each graph; the cache is the same memory in all of them."""
        file, name = self._part, self.file.path or "the language model"
        if len(self._session.model.graphs) != len(file.graphs):
            raise FormatError(f"{name} has {len(self._session.model.graphs)} graphs, and says {len(file.graphs)}")
        order = sorted(range(len(file.graphs)), key=lambda number: file.graphs[number].tokens)
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
            logits = file.graphs[number].logits
            ports = Ports(file.config, file.capacity, tokens, continues=file.continues)
            check_ports(ports, found[tokens], name, logits=logits)
        return found

    def _another(self) -> Resident:
        """Memory for one more sequence, and all graphs on it."""
        device, numbers = self._npu, {entry.tokens: at for at, entry in enumerate(self.file.graphs)}
        memory = device.allocate(self.graphs[1].inputs["cache"].nbytes, "cache")
        try:
            graphs = {
                size: self._session.bind(pixels=False, inputs={"cache": memory}, graph=numbers[size])
                for size in self.graphs
            }
        except BaseException:
            device.free(memory)
            raise
        return Resident(self._part, graphs, memory)

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


def _most_cores(model: Model, device: Device) -> int:
    """Of the vendor's driver, which starts cores together. The software NPU does one task after the other anyway."""
    if not isinstance(device, RknpuDevice):
        return 1
    cores = joined_cores(model)
    return cores if cores <= device.cores else 1


def _most_resident(file: LanguageFile, device: Device) -> int:
    if not isinstance(device, RknpuDevice | RocketDevice):
        return 1
    return min(_MOST_RESIDENT, max(1, _RESIDENT_BYTES // (2 * cache_numbers(file.config, file.capacity))))


def check_ports(ports: Ports, bound: Binding, name: str, *, logits: bool) -> None:
    """The manifest and the model have to agree: a file is not to be trusted."""
    inputs, outputs = (
        {one: prod(shape) for one, shape in shapes.items()} for shapes in (ports.inputs(), ports.outputs(logits=logits))
    )
    for wanted, there in ((inputs, bound.inputs), (outputs, bound.outputs)):
        found = {one: (there[one].size, there[one].dtype) for one in there}
        fits = wanted.keys() == found.keys() and all(found[one][1] == np.float16 for one in wanted)
        # Channels are padded to whole atoms, for each of the tokens.
        room = {one: 32 * (ports.tokens if one == "logits" else 1) for one in wanted}
        if not fits or any(not numbers <= found[one][0] < numbers + room[one] for one, numbers in wanted.items()):
            raise FormatError(f"{name}: the graph of {ports.tokens} token(s) takes and gives {found}, not {wanted}")
