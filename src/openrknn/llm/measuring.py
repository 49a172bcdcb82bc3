"""How fast a model is, and how well it predicts a text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openrknn.container.load import load
from openrknn.llm.engine import Engine
from openrknn.llm.file import LanguageFile
from openrknn.llm.generation.errors import ContextFullError, PromptError
from openrknn.llm.limits import joined_cores, weight_bytes
from openrknn.llm.weights import Floats
from openrknn.runtime.cost import Cost, cost_of

__all__ = ["BoardCosts", "Perplexity", "Speed", "board_costs", "measure_batch", "measure_perplexity", "measure_speed"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Speed:
    """The best of several runs."""

    prompt_tokens: int
    prompt_seconds: float
    generated_tokens: int
    generation_seconds: float

    @property
    def prompt_rate(self) -> float:
        """Tokens a second."""
        return self.prompt_tokens / self.prompt_seconds

    @property
    def generation_rate(self) -> float:
        """Tokens a second."""
        return self.generated_tokens / self.generation_seconds


@dataclass(frozen=True, slots=True)
class Perplexity:
    """exp of the mean negative log-likelihood of tokens."""

    tokens: int
    """That were predicted."""
    value: float
    uncertainty: float
    """One standard error."""


@dataclass(frozen=True, slots=True)
class BoardCosts:
    """What a compiled file costs on a board."""

    chip: str
    cores: int
    """That work together."""
    costs: Mapping[int, Cost]
    """By tokens of a graph of one sequence."""
    batch: int
    """Sequences of the graph that takes one token of each, or 0."""
    batch_cost: Cost | None
    """Of one run of it."""
    weight_bytes: int
    """That a token reads."""


def board_costs(file: LanguageFile, cores: int | None = None) -> BoardCosts:
    """Decoded from the tasks in the file. `cores`: None for as many as can do a step together."""
    models = [load(part.step) for part in file.parts()]
    chosen = min(map(joined_cores, models)) if cores is None else cores
    costs: dict[int, Cost] = {}
    together: Cost | None = None
    for model in models:
        for entry, graph in zip(file.graphs, model.graphs, strict=True):
            cost = cost_of(model, chosen, graph)
            if entry.sequences > 1:
                together = cost
            else:
                costs[entry.tokens] = costs[entry.tokens] + cost if entry.tokens in costs else cost
    return BoardCosts(models[0].chip.name, chosen, costs, file.batch, together, sum(map(weight_bytes, models)))


def measure_speed(
    engine: Engine, *, prompt: int = 128, tokens: int = 64, repeats: int = 3, progress: Progress | None = None
) -> Speed:
    """Compute a prompt of that many tokens, then one token at a time. What it is about does not matter."""
    if prompt + tokens > engine.capacity:
        raise ContextFullError(
            f"{prompt} + {tokens} tokens do not fit into the context of {engine.capacity}; measure fewer"
        )
    if min(prompt, tokens, repeats) < 1:
        raise ValueError("prompt, tokens and repeats are 1 or more")
    tell = progress or (lambda *_: None)
    numbers = np.random.default_rng(0).integers(0, engine.config.vocabulary, prompt + tokens).tolist()
    best_prompt = best_rest = math.inf
    for repeat in range(repeats):
        tell("measuring", repeat, repeats)
        cache = engine.new_cache()
        try:
            started = time.perf_counter()
            engine.forward(cache, numbers[:prompt])
            between = time.perf_counter()
            for token in numbers[prompt:]:
                engine.forward(cache, [token])
            best_rest = min(best_rest, time.perf_counter() - between)
            best_prompt = min(best_prompt, between - started)
        finally:
            cache.close()
    tell("measuring", repeats, repeats)
    return Speed(prompt, best_prompt, tokens, best_rest)


def measure_batch(
    engine: Engine, sequences: int, *, tokens: int = 64, repeats: int = 3, progress: Progress | None = None
) -> float:
    """One token after the other of so many sequences together: tokens a second of all of them, in the best run."""
    if tokens + sequences > engine.capacity:
        raise ContextFullError(f"{tokens + sequences} tokens do not fit into the context of {engine.capacity}")
    tell = progress or (lambda *_: None)
    numbers = np.random.default_rng(0).integers(0, engine.config.vocabulary, (tokens + 1, sequences)).tolist()
    best = math.inf
    for repeat in range(repeats):
        tell("measuring together", repeat, repeats)
        caches = [engine.new_cache() for _ in range(sequences)]
        try:
            for cache in caches:
                engine.forward(cache, [0])
            engine.forward_batch(caches, numbers[0])  # prepares the graph
            started = time.perf_counter()
            for row in numbers[1:]:
                engine.forward_batch(caches, row)
            best = min(best, time.perf_counter() - started)
        finally:
            for cache in caches:
                cache.close()
    tell("measuring together", repeats, repeats)
    return tokens * sequences / best


def measure_perplexity(
    engine: Engine, tokens: Sequence[int], *, window: int = 512, progress: Progress | None = None
) -> Perplexity:
    """Windows of a text one after the other.

    Of each window the second half is counted: those tokens have seen at least half a window.
    """
    window = min(window, engine.capacity)
    if window < 4 or len(tokens) < window:
        raise PromptError(f"the text has {len(tokens)} tokens; at least one window of {window} (4 or more) is needed")
    tell = progress or (lambda *_: None)
    starts = range(0, len(tokens) - window + 1, window)
    losses: list[float] = []
    for number, start in enumerate(starts):
        tell("reading", number, len(starts))
        piece = list(tokens[start : start + window])
        cache = engine.new_cache()
        try:
            logits = engine.forward(cache, piece, all_logits=True)
        finally:
            cache.close()
        half = window // 2
        losses += _losses(logits[half - 1 : -1], piece[half:])
    tell("reading", len(starts), len(starts))
    mean = float(np.mean(losses))
    error = float(np.std(losses)) / math.sqrt(len(losses))
    return Perplexity(len(losses), math.exp(mean), math.exp(mean) * error)


def _losses(logits: Floats, targets: Sequence[int]) -> list[float]:
    rows = logits.astype(np.float64)
    highest = rows.max(axis=1, keepdims=True)
    totals = highest[:, 0] + np.log(np.exp(rows - highest).sum(axis=1))
    return [float(total - row[target]) for total, row, target in zip(totals, rows, targets, strict=True)]
