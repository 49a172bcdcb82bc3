"""From weights to one file: graphs of one and of several tokens, which share what they multiply with.

data = compile_language(source, "rk3588", capacity=1024)
Path("model.rknnz").write_bytes(data)
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

import openrknn
from openrknn.compiler.errors import OptionError
from openrknn.compiler.link.joined import JOINED_CORES
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.pipeline import build_graph
from openrknn.compiler.targets import Target, target_of
from openrknn.compiler.write import join_models
from openrknn.container.bundle import write_zip_to
from openrknn.container.model import Model
from openrknn.container.writer import encode_pieces
from openrknn.cost import Cost
from openrknn.llm.config import LanguageConfig
from openrknn.llm.domains import DOMAIN_BYTES, check_part, spans_of
from openrknn.llm.file import (
    ASSETS,
    EMBEDDING,
    MOST_SEQUENCES,
    POSITIONS,
    PREFIX,
    CacheLayout,
    LanguageFile,
    StepEntry,
    manifest_of,
    step_name,
)
from openrknn.llm.graph import StepGraph
from openrknn.llm.integers import IntegerProducts
from openrknn.llm.padded import padded
from openrknn.llm.ports import HEAD_GROUP, check, makes_embeddings
from openrknn.llm.quantise.engine import prefix_bytes
from openrknn.llm.quantise.model import Quantised
from openrknn.llm.ranges import measure_squares, powers, stream_factor
from openrknn.llm.resume import KeptParts
from openrknn.llm.weights import WeightSource

Progress = Callable[[str, int, int], None]
PREFILL = (32, 128)
"""Tokens of the graphs that read a prompt."""
_CHUNK = 32
_FEW = 8
"""An atom of fp16."""
_MOST_TOKENS = 1024
_ROWS = 4096
_SQUARES = "squares"
_PARTS = 100
"""Information about a graph."""


@dataclass(frozen=True, slots=True)
class CompiledLanguage:
    """The file, and what each of its graphs costs. Weights are in memory once; `save` does not copy them."""

    file: LanguageFile = field(repr=False)
    """Without contents."""
    pieces: Mapping[str, Sequence[bytes | memoryview]] = field(repr=False)
    costs: Mapping[int, Cost]
    """By tokens, on one core."""
    shared_costs: Mapping[int, Cost]
    """The same on all cores that the file has lists for."""
    batch_cost: Cost | None = None
    """One token of each sequence of the batch, on all cores that the file has lists for."""
    kept: KeptParts | None = field(default=None, repr=False)
    """What an interrupted compilation would go on from."""

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        out = BytesIO()
        write_zip_to(out, manifest_of(self.file), self.pieces, packed=False)
        return out.getvalue()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; one that is there is replaced when the new one is complete. Parts in the cache go then."""
        target = Path(path)
        part = target.with_name(f"{target.name}.part")
        try:
            with part.open("wb") as out:
                write_zip_to(out, manifest_of(self.file), self.pieces, packed=False)
            part.replace(target)
            if self.kept is not None:
                self.kept.clear(_SQUARES)
        finally:
            part.unlink(missing_ok=True)


def compile_language(
    source: WeightSource | Quantised,
    target: str = "rk3588",
    *,
    capacity: int = 1024,
    prefill: Sequence[int] = PREFILL,
    few: int = 0,
    batch: int = 0,
    cores: int | None = None,
    assets: Mapping[str, bytes] | None = None,
    progress: Progress | None = None,
    resume: str | None = None,
    domain_bytes: int = DOMAIN_BYTES,
    start: int | None = None,
) -> CompiledLanguage:
    """Compile a model for caches of `capacity` tokens: in fp16, or with the int8 products of a quantised one.

    `prefill`: numbers of tokens, multiples of 32, that a graph without logits takes at once. A model of embeddings has
    graphs of whole texts instead, of these sizes and of `capacity`. `few`: 8 for a graph of eight tokens that gives
    the logits of each, for drafts and short prompts; 0 for none. `batch`: from 2 to 16 for a graph that takes one token
    of each of so many sequences and reads the weights once for all of them; 0 for none. `cores`: 1 for no task lists of
    several cores, 3 for lists that share all that can be shared; None shares what is faster by estimate. `progress` is
    called with (stage, done, of). `resume`: a digest of the model's files (`resume.source_digest`); parts that are
    finished are kept in the user's cache until `CompiledLanguage.save` has written the file, and a compilation that was
    interrupted takes them from there. `domain_bytes`: what one address space of the NPU has room for; a model that
    needs more is compiled in several parts, each of which is a job of a step (`domains`). `start`: the token that
    texts start with (`Tokenizer.start`), for ranges of numbers that only it has. Raises `OptionError` for what this
    chip or this version cannot do.
    """
    options = CompileOptions(target=target, cores=cores, fp16=True)
    chip = target_of(options.chip)
    quantised = source if isinstance(source, Quantised) else None
    source = source.source if isinstance(source, Quantised) else source
    products = IntegerProducts(quantised)
    check(source.config, chip, capacity)
    _check_products(source, products, target)
    _check_options(source, capacity, prefill, few)
    _check_batch(source, products, capacity, batch, domain_bytes)
    spans = spans_of(source.config, products, capacity, domain_bytes,
                     can_int8=quantised is None and chip.scales_tables)  # fmt: skip
    is_text = makes_embeddings(source.config)
    tell = progress or (lambda stage, done, of: None)
    entries = _entries(capacity if is_text else 0, prefill, few, batch)
    kept = None if resume is None else KeptParts.of(resume, options.chip.name, quantised, start)
    tell("measure", 0, 1)
    squares = _squares(source, kept, start)
    divisors, stream = powers(squares), stream_factor(squares)
    numbers, source = source.config.head_size, padded(source)
    config = source.config
    costs: dict[int, Cost] = {}
    shared: dict[int, Cost] = {}
    packed: MutableMapping[str, Any] = {} if kept is None else kept
    inside: dict[str, Sequence[bytes | memoryview]] = {}
    batch_cost: Cost | None = None
    for part, span in enumerate(spans):
        models: list[Model] = []
        for entry in entries:
            number, every = part * len(entries) + len(models), len(entries) * len(spans)
            tell("lower", number * _PARTS, every * _PARTS)
            shape = source, chip, 0 if is_text else capacity, entry.tokens, entry.logits and span == spans[-1]
            step = StepGraph(*shape, divisors, products, packed, numbers, stream, span, entry.sequences,
                             max(0, batch - 1))  # fmt: skip
            step.constants.watch = partial(_tell_share, tell, number, every)
            built = build_graph(step.build(), options, packed, joined=True)
            models.append(built.model)
            alone, together = built.costs[1], built.costs.get(JOINED_CORES, built.costs[1])
            batch_cost = together if entry.sequences > 1 else None
            for sums, cost in ((costs, alone), (shared, together)) if batch_cost is None else ():
                sums[entry.tokens] = sums[entry.tokens] + cost if part else cost
            del built, step
        inside[step_name(part)] = graphs = encode_pieces(join_models(models))
        check_part(sum(map(len, graphs)), config, span, max(1, batch) * capacity, domain_bytes)
    if batch_cost is not None:  # the last graph of the only part
        entries[-1] = replace(entries[-1], least=_least(batch, batch_cost, shared[1]))
    tell("write", 0, 1)
    inside[EMBEDDING] = list(_embedding(source, stream))
    inside |= {POSITIONS: [_positions(source, capacity)]} if "positions" in source.names() else {}
    inside |= {ASSETS + name: [one] for name, one in (assets or {}).items()}
    prefix = None if quantised is None else quantised.prefix
    inside |= {} if quantised is None or prefix is None else {PREFIX: [prefix_bytes(quantised, prefix)]}
    file = LanguageFile(
        options.chip.name, capacity, tuple(entries),
        _layout(chip, config.head_size, capacity), f"openrknn {openrknn.__version__}", prefix,
        tuple(first for first, _ in spans[1:]), config=config,
    )  # fmt: skip
    tell("write", 1, 1)
    return CompiledLanguage(file, inside, costs, shared, batch_cost, kept)


def _entries(text: int, prefill: Sequence[int], few: int, batch: int) -> list[StepEntry]:
    """Graphs of the file, that of one token first; `text`: tokens of the longest whole text, 0 of a text generator."""
    if text:
        return [StepEntry(one, logits=False) for one in sorted({one for one in prefill if one < text} | {text})]
    steps = [StepEntry(one, logits=True) for one in (1, few) if one]
    chunks = [StepEntry(one, logits=False) for one in sorted(set(prefill))]
    together = [StepEntry(-(-batch // _FEW) * _FEW, logits=True, sequences=batch)] if batch else []
    return [*steps, *chunks, *together]


def _squares(source: WeightSource, kept: KeptParts | None, start: int | None) -> dict[str, float]:
    found = None if kept is None else kept.numbers(_SQUARES)
    if found is None:
        found = measure_squares(source, start)
        if kept is not None:
            kept.put_numbers(_SQUARES, found)
    return found


def _check_batch(
    source: WeightSource, products: IntegerProducts, capacity: int, batch: int, domain_bytes: int
) -> None:
    if not batch:
        return
    if not 2 <= batch <= MOST_SEQUENCES:
        raise OptionError(f"batch={batch}: 2 to {MOST_SEQUENCES} sequences can be, or 0 for no such graph")
    if makes_embeddings(source.config) or source.config.attention_softcap:
        raise OptionError(f"batch={batch}: models of embeddings and models with soft caps of scores have no such graph")
    if len(spans_of(source.config, products, batch * capacity, domain_bytes)) > 1:
        raise OptionError(
            f"batch={batch}: the weights and the keys and values of so many sequences do not fit into one address "
            "space; choose a smaller batch or capacity, or 0"
        )


def _least(sequences: int, together: Cost, alone: Cost) -> int:
    """Sequences from which on a batch is faster than one after the other."""
    if not together.time_ms or not alone.time_ms:
        return 2
    return min(sequences, max(2, math.floor(together.time_ms / alone.time_ms) + 1))


def _tell_share(tell: Progress, number: int, graphs: int, share: float) -> None:
    tell("lower", number * _PARTS + int(share * (_PARTS - 1)), graphs * _PARTS)


def check_target(config: LanguageConfig, target: str, capacity: int) -> None:
    """Raises `OptionError` for what this chip or this version cannot do, before anything is computed."""
    check(config, target_of(CompileOptions(target=target).chip), capacity)


def check_int4(target: str) -> None:
    """Raises `OptionError` for a chip that does not multiply fp16 by int4."""
    chip = target_of(CompileOptions(target=target).chip)
    if not chip.narrow_weights:
        raise OptionError(f"{chip.name}: it has no int4 weights for fp16; rk3576 and rv1126b have")


def _check_products(source: WeightSource, products: IntegerProducts, target: str) -> None:
    if products.has_int4:
        check_int4(target)
    if products.has_any and source.config.head_size % HEAD_GROUP:
        raise OptionError(f"heads of {source.config.head_size} in int8: they have to be multiples of {HEAD_GROUP}")


def _check_options(source: WeightSource, capacity: int, prefill: Sequence[int], few: int) -> None:
    if few not in (0, _FEW) or (few and makes_embeddings(source.config)):
        raise OptionError(f"few={few}: {_FEW} can be, or 0 for no such graph; models of embeddings have none")
    wrong = next((one for one in prefill if one % _CHUNK or not _CHUNK <= one <= _MOST_TOKENS), None)
    if wrong is not None:
        raise OptionError(f"prefill={wrong}: multiples of {_CHUNK} up to {_MOST_TOKENS} tokens can be")
    if makes_embeddings(source.config) and capacity > _MOST_TOKENS:
        raise OptionError(f"capacity={capacity}: a whole text is one graph, of {_MOST_TOKENS} tokens at most")
    if capacity > source.config.context:
        raise OptionError(f"capacity={capacity}: the model was trained for {source.config.context} tokens")


def _embedding(source: WeightSource, stream: float) -> Iterator[bytes]:
    """All rows, some thousands at a time."""
    config = source.config
    for first in range(0, config.vocabulary, _ROWS):
        rows = source.rows("embedding", first, min(_ROWS, config.vocabulary - first))
        yield (rows * np.float32(config.embedding_scale * stream)).astype(np.float16).tobytes()


def _positions(source: WeightSource, capacity: int) -> bytes:
    """Of a text, with the row of its type: all tokens have the first one."""
    rows = source.rows("positions", 0, capacity)
    return (rows + (source.get("types")[:1] if "types" in source.names() else 0)).astype(np.float16).tobytes()


def _layout(chip: Target, size: int, capacity: int) -> CacheLayout:
    keys = chip.weights((capacity, size, 1, 1), chip.fp16.element_bytes)
    values = chip.weights((size, capacity, 1, 1), chip.fp16.element_bytes)
    if {len(one) for one in (keys.outputs, keys.inputs, values.outputs, values.inputs)} != {1}:
        raise OptionError(f"{capacity} rows of {size} numbers are no whole groups of weights on {chip.name}")
    return CacheLayout(keys.outputs[0].size, keys.inputs[0].size, values.inputs[0].size, chip.fp16.atom)
