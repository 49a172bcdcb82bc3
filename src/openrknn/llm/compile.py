"""From weights to one file: graphs of one and of several tokens, which share what they multiply with.

data = compile_language(source, "rk3588", capacity=1024)
Path("model.rknnz").write_bytes(data)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import openrknn
from openrknn.compiler.errors import OptionError
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.pipeline import build_graph
from openrknn.compiler.targets import Target, target_of
from openrknn.compiler.write import join_models
from openrknn.container.model import Model
from openrknn.container.writer import encode
from openrknn.cost import Cost
from openrknn.llm.file import ASSETS, EMBEDDING, PREFIX, STEP, CacheLayout, LanguageFile, StepEntry, write_language
from openrknn.llm.graph import StepGraph, cache_numbers, check
from openrknn.llm.integers import IntegerProducts
from openrknn.llm.quantise.engine import prefix_bytes
from openrknn.llm.quantise.model import Quantised
from openrknn.llm.ranges import measure_squares, powers
from openrknn.llm.weights import WeightSource

Progress = Callable[[str, int, int], None]
PREFILL = (32, 128)
"""Tokens of the graphs that read a prompt."""
_CHUNK = 32
_MOST_TOKENS = 1024
_ROWS = 4096
_MOST_BYTES = (1 << 32) - (1 << 26)
"""What the addresses of one domain leave for weights, cache and everything else."""


@dataclass(frozen=True, slots=True)
class CompiledLanguage:
    """The file, and what each of its graphs costs."""

    data: bytes
    costs: Mapping[int, Cost]
    """By tokens."""


def compile_language(
    source: WeightSource | Quantised,
    target: str = "rk3588",
    *,
    capacity: int = 1024,
    prefill: Sequence[int] = PREFILL,
    assets: Mapping[str, bytes] | None = None,
    progress: Progress | None = None,
) -> CompiledLanguage:
    """Compile a model for caches of `capacity` tokens: in fp16, or with the int8 products of a quantised one.

    `prefill`: numbers of tokens, multiples of 32, that a graph without logits takes at once. `progress` is called with
    (stage, done, of). Raises `OptionError` for what this chip or this version cannot do.
    """
    options = CompileOptions(target=target, cores=1, fp16=True)
    chip = target_of(options.chip)
    quantised = source if isinstance(source, Quantised) else None
    source = source.source if isinstance(source, Quantised) else source
    config, products = source.config, IntegerProducts(quantised)
    check(config, chip, capacity)
    products.check(source)
    _check_options(source, capacity, prefill)
    tell = progress or (lambda stage, done, of: None)
    sizes = [1, *sorted(set(prefill))]
    tell("measure", 0, 1)
    divisors = powers(measure_squares(source))
    models: list[Model] = []
    costs: dict[int, Cost] = {}
    for number, tokens in enumerate(sizes):
        tell("lower", number, len(sizes))
        step = StepGraph(source, chip, capacity, tokens, tokens == 1, divisors, products)
        graph = step.build()
        built = build_graph(graph, options)
        models.append(_sharing(models[0], built.model) if models else built.model)
        costs[tokens] = built.costs[1]
        del built, graph, step
    tell("write", 0, 1)
    data = encode(join_models(models))
    del models
    if len(data) + 2 * cache_numbers(config, capacity) > _MOST_BYTES:
        raise OptionError(f"weights of {len(data):,} bytes and the cache are more than the 4 GB that an NPU addresses")
    inside = {STEP: data, EMBEDDING: _embedding(source), **{ASSETS + name: one for name, one in (assets or {}).items()}}
    prefix = None if quantised is None else quantised.prefix
    if quantised is not None and prefix is not None:
        inside[PREFIX] = prefix_bytes(quantised, prefix)
    file = LanguageFile(
        options.chip.name, capacity, tuple(StepEntry(tokens, tokens == 1) for tokens in sizes),
        _layout(chip, config.head_size, capacity), f"openrknn {openrknn.__version__}", prefix, config=config,
        files=inside,
    )  # fmt: skip
    written = write_language(file)
    tell("write", 1, 1)
    return CompiledLanguage(written, costs)


def _check_options(source: WeightSource, capacity: int, prefill: Sequence[int]) -> None:
    wrong = next((one for one in prefill if one % _CHUNK or not _CHUNK <= one <= _MOST_TOKENS), None)
    if wrong is not None:
        raise OptionError(f"prefill={wrong}: multiples of {_CHUNK} up to {_MOST_TOKENS} tokens can be")
    if capacity > source.config.context:
        raise OptionError(f"capacity={capacity}: the model was trained for {source.config.context} tokens")


def _sharing(first: Model, model: Model) -> Model:
    """Constants that are equal to those of the first model are the same bytes: memory holds them once."""
    known = {tensor.name: tensor.data for tensor in first.graphs[0].tensors if tensor.data is not None}
    graph = model.graphs[0]
    tensors = tuple(
        replace(one, data=known[one.name]) if one.data is not None and known.get(one.name) == one.data else one
        for one in graph.tensors
    )
    return replace(model, graphs=(replace(graph, tensors=tensors),))


def _embedding(source: WeightSource) -> bytes:
    """All rows, some thousands at a time."""
    config, parts = source.config, []
    for first in range(0, config.vocabulary, _ROWS):
        rows = source.rows("embedding", first, min(_ROWS, config.vocabulary - first))
        parts.append((rows * np.float32(config.embedding_scale)).astype(np.float16).tobytes())
    return b"".join(parts)


def _layout(chip: Target, size: int, capacity: int) -> CacheLayout:
    keys = chip.weights((capacity, size, 1, 1), chip.fp16.element_bytes)
    values = chip.weights((size, capacity, 1, 1), chip.fp16.element_bytes)
    if {len(one) for one in (keys.outputs, keys.inputs, values.outputs, values.inputs)} != {1}:
        raise OptionError(f"{capacity} rows of {size} numbers are no whole groups of weights on {chip.name}")
    return CacheLayout(keys.outputs[0].size, keys.inputs[0].size, values.inputs[0].size)
