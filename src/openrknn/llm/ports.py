"""What graphs of a compiled language model take and give, and what cannot be compiled: one owner of both.

    x          [1, width, 1, T]                          rows of the embedding, looked up by the CPU
    cache      [1, numbers]                              keys and values of all layers, as the NPU takes weights
    mask       [1, capacity, 1, pixels]                  what is added to scores of rows: 0 for one that is seen
    near_mask  the same                                  of layers whose window is shorter than the cache
    turn       [1, size * size]                          one token: the rotation of its position, as weights
               [1, 2 * size, 1, (heads + kv_heads) * T]  several: cosines, then sines
    near_turn  the same                                  of layers with a window, where these have a base of their own
    fresh      [1, layers * 2 * kv_heads * size, 1, T]   new keys and values
    logits     [1, vocabulary, 1, T]                     of one token, or of each of a few

A model in several parts (`domains`) has such graphs for each of them. `x` is the stream that the part before gave, the
cache and `fresh` are of the layers of the part, and all parts but the last give, instead of logits:

    stream     [1, width, 1, T]                          what the next part takes as `x`

A graph of one token of each of several sequences (a batch) has a cache for each of them, and masks behind each other:

    cache1 ...  [1, numbers]                             of the sequences behind the first. Graphs of one sequence in
                                                         such a file have these inputs too, empty, and do not read them
    mask        [1, capacity, 1, pixels]                 the first sequence's, of all T tokens; then one token's each

A model of embeddings takes whole texts. It has no cache, and gives rows:

    mask       [1, T, 1, pixels]                         what each token (pixel) sees of the others (rows)
    hidden     [1, width, 1, T]                          what is pooled
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openrknn.llm.config import LanguageConfig

if TYPE_CHECKING:
    from openrknn.compiler.targets import Target

MOST_COLUMNS = 8192
"""Of one product: more of them are silently wrong on a board."""
HEAD_GROUP = 32
"""Numbers of a head are padded to multiples of it."""
_EMPTY = 32
"""Numbers of an input that nothing reads."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ports:
    """Of one graph of so many tokens; `capacity` 0: of whole texts."""

    config: LanguageConfig
    capacity: int
    tokens: int
    continues: bool = False
    """Whether another part of the model goes on with the stream."""
    sequences: int = 1
    """More than one: each has a token, in order; tokens behind these are not used."""
    others: int = 0
    """Sequences behind the first that another graph of the file takes: all graphs of a file have the same inputs."""

    @property
    def caches(self) -> list[str]:
        """Inputs that have keys and values."""
        return ["cache", *(f"cache{one}" for one in range(1, self.sequences))] if self.capacity else []

    @property
    def masks(self) -> tuple[int, ...]:
        """First pixel of each sequence's mask, where there are several."""
        first, each = mask_pixels(self.config, self.tokens), mask_pixels(self.config, 1)
        return (0, *range(first, first + (self.sequences - 1) * each, each)) if self.sequences > 1 else ()

    def mask_of(self, layer: int) -> str:
        """The input that hides rows from a layer."""
        window = self.config.window_of(layer)
        return "near_mask" if window is not None and window < (self.capacity or self.tokens) else "mask"

    def turn_of(self, layer: int) -> str | None:
        """The input that has a layer's rotation."""
        rope = self.config.rope
        if rope is None:
            return None
        return "near_turn" if rope.local_base is not None and self.config.window_of(layer) is not None else "turn"

    def inputs(self) -> dict[str, Shape]:
        """By name, in order."""
        config, size = self.config, self.config.head_size
        both = (config.heads + config.kv_heads) * self.tokens
        found: dict[str, Shape] = {"x": (1, config.width, 1, self.tokens)}
        found |= dict.fromkeys(self.caches, (1, cache_numbers(config, self.capacity)))
        found |= {f"cache{one}": (1, _EMPTY) for one in range(self.sequences, self.others + 1)}
        layers = range(config.layers)
        masks, turns = {self.mask_of(one) for one in layers}, {self.turn_of(one) for one in layers}
        for name in sorted(masks):
            pixels = mask_pixels(config, self.tokens) + (self.sequences - 1) * mask_pixels(config, 1)
            found[name] = (1, self.capacity or self.tokens, 1, pixels)
        for turn in sorted(one for one in turns if one is not None):
            found[turn] = (1, size * size) if self.tokens == 1 and self.capacity else (1, 2 * size, 1, both)
        return found

    def outputs(self, *, logits: bool) -> dict[str, Shape]:
        """By name, in order."""
        config = self.config
        if not self.capacity:
            return {"hidden": (1, config.width, 1, self.tokens)}
        fresh: dict[str, Shape] = {"fresh": (1, 2 * config.layers * config.kv_heads * config.head_size, 1, self.tokens)}
        if self.continues:
            return fresh | {"stream": (1, config.width, 1, self.tokens)}
        return fresh | ({"logits": (1, config.vocabulary, 1, self.tokens)} if logits else {})


def part_config(config: LanguageConfig, first: int, end: int) -> LanguageConfig:
    """Of the layers from `first` to before `end`, which are counted from 0 then."""
    return replace(config, layers=end - first, window_layers=config.window_layers[first:end])


def mask_pixels(config: LanguageConfig, tokens: int) -> int:
    """Of the heads that share keys; whole fours, which every chip reads in place."""
    return -(-config.heads // config.kv_heads * tokens // 4) * 4


def cache_numbers(config: LanguageConfig, capacity: int) -> int:
    """Numbers of fp16 in the cache of a sequence."""
    return 2 * config.layers * config.kv_heads * config.head_size * capacity


def makes_embeddings(config: LanguageConfig) -> bool:
    """Whether a model is compiled for whole texts, which become one vector each."""
    return not config.causal or config.pooling != "none"


def check(config: LanguageConfig, target: Target, capacity: int) -> None:
    """Raises `OptionError` that says what cannot be compiled, and what can be done."""
    from openrknn.compiler.errors import OptionError  # here: who runs a compiled model needs no compiler

    wrong = _refusal(config)
    if wrong is not None:
        raise OptionError(f"{config.architecture}: {wrong} cannot be compiled yet; use the float engine")
    if not target.has_fp16:
        raise OptionError(f"{target.name}: it has no fp16; there is rk3588, rk3576, rk3566, rk3562 and rv1126b")
    if config.width % 16 or config.hidden % 16:
        raise OptionError(
            f"a width of {config.width} and {config.hidden} between the products: they have to be multiples of 16"
        )
    columns = (config.heads + config.kv_heads) * config.head_size
    if max(config.width, columns) > MOST_COLUMNS:
        raise OptionError(
            f"a width of {config.width} and {columns} columns of queries and keys: a task can have {MOST_COLUMNS}; "
            "use the float engine"
        )
    if capacity % 32 or not 32 <= capacity <= MOST_COLUMNS:
        raise OptionError(f"a cache of {capacity} tokens: from 32 to {MOST_COLUMNS} in steps of 32 can be")


def _refusal(config: LanguageConfig) -> str | None:
    if makes_embeddings(config):
        return None
    if config.norm != "rms" or not config.norm_first:
        return "a text generator with layer norms, or with norms behind the addition,"
    if config.rope is None:
        return "a text generator with learned positions"
    return None
