"""A compiled language model: one zip with the `.rknn` of its steps, rows of the embedding, and a manifest.

manifest.json       the configuration, what the graphs are for, the memory layout of the cache
step.rknn           graphs of one and of several tokens, which share their weights
step.1.rknn, ...    models beyond one address space: the same for further layers, from those that `cuts` names on
embedding.bin       rows of half floats, scaled as the first layer takes them
positions.bin       models of embeddings with learned positions: what is added to the rows of a text
prefix.bin          quantised models: keys, values and logits of the first position, for texts that start with `prefix`
assets/...          what generation needs besides: the tokenizer, a chat template
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from math import isfinite
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from openrknn.container.bundle import forget_pages, format_in, read_zip, write_zip
from openrknn.container.dataclass_json import from_plain
from openrknn.errors import BadTextError, FormatError
from openrknn.llm.config import LanguageConfig, Rope
from openrknn.llm.ports import Ports, makes_embeddings, part_config

FORMAT, _VERSION = "openrknn-language", 2
STEP, EMBEDDING, POSITIONS, PREFIX, ASSETS = "step.rknn", "embedding.bin", "positions.bin", "prefix.bin", "assets/"
_MOST = 1 << 31
MOST_PARTS = 16
"""Of a model: IOMMU domains of the vendor's driver."""
MOST_SEQUENCES = 16
"""Of a batch."""
_OPTIONAL = "made_by", "prefix", "cuts", "sequences", "least"
_WRONG = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class StepEntry:
    """One graph of the step."""

    tokens: int
    logits: bool
    """Whether it computes logits, of each of its tokens."""
    sequences: int = 1
    """More than one: it takes one token of each."""
    least: int = 2
    """Of several sequences: from how many on it is faster than one after the other, by estimate."""


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """Layout of rows in the cache: [layers, 2, heads, groups, blocks, kernels of a group, channels of a block].

    Keys are kernels over the numbers of a head, values are kernels over rows.
    """

    kernels: int
    key_channels: int
    value_channels: int
    atom: int = 8
    """Numbers of fp16 that lie together in maps."""


@dataclass(frozen=True)
class LanguageFile:
    """What `NpuEngine` runs."""

    target: str
    capacity: int
    graphs: tuple[StepEntry, ...]
    layout: CacheLayout
    made_by: str = ""
    prefix: int | None = None
    """The token whose first position was computed in float, once."""
    cuts: tuple[int, ...] = ()
    """First layers of the second part and of those behind it; none: the model is one part."""
    config: LanguageConfig = field(kw_only=True)
    files: Mapping[str, bytes | memoryview] = field(default_factory=dict, repr=False)
    """By name; large ones are views of the mapped file."""
    path: str | None = None
    part: int = 0
    """The number of the part that this is a view of (`parts`)."""
    first: int = 0
    """Its first layer, as the whole model counts them."""

    @property
    def batch(self) -> int:
        """Sequences of the graph that takes one token of each, or 0."""
        return max((one.sequences for one in self.graphs if one.sequences > 1), default=0)

    def ports(self, entry: StepEntry) -> Ports:
        """What one of the graphs takes and gives."""
        capacity = 0 if makes_embeddings(self.config) else self.capacity
        return Ports(self.config, capacity, entry.tokens, self.continues, entry.sequences, max(0, self.batch - 1))

    @property
    def step(self) -> bytes | memoryview:
        """The graphs of this part; of a whole file those of the first."""
        return self.files[step_name(self.part)]

    @property
    def continues(self) -> bool:
        """Whether another part goes on with what this one gives."""
        return self.part < len(self.cuts)

    def parts(self) -> list[LanguageFile]:
        """A view of each part: a configuration of its layers, and its graphs. Only the last one gives logits."""
        if not self.cuts:
            return [self]
        ends = (0, *self.cuts, self.config.layers)
        return [
            replace(
                self, part=number, first=first, config=part_config(self.config, first, end),
                graphs=self.graphs if end == ends[-1] else tuple(replace(one, logits=False) for one in self.graphs),
            )
            for number, (first, end) in enumerate(pairwise(ends))
        ]  # fmt: skip

    def forget_pages(self) -> None:
        """Give memory back that mapped files took while they were looked at; it comes back from the file."""
        forget_pages(self.files.values())

    @property
    def embedding(self) -> npt.NDArray[np.float16]:
        """[vocabulary, width]."""
        return np.frombuffer(self.files[EMBEDDING], np.float16).reshape(self.config.vocabulary, self.config.width)

    @property
    def positions(self) -> npt.NDArray[np.float16] | None:
        """[capacity, width], or None."""
        if POSITIONS not in self.files:
            return None
        return np.frombuffer(self.files[POSITIONS], np.float16).reshape(self.capacity, self.config.width)

    @property
    def prefix_rows(self) -> npt.NDArray[np.float16]:
        """[layers, 2, kv_heads, 1, head_size]: keys and values of the prefix."""
        config = self.config
        rows = np.frombuffer(self.files[PREFIX], np.float16)[: -config.vocabulary]
        rows = rows.reshape(-1, 2, config.kv_heads, 1, config.head_size)
        return rows[self.first : self.first + config.layers]

    @property
    def prefix_logits(self) -> npt.NDArray[np.float16]:
        """[vocabulary]."""
        return np.frombuffer(self.files[PREFIX], np.float16)[-self.config.vocabulary :]

    @property
    def assets(self) -> dict[str, bytes]:
        """By name."""
        return {name[len(ASSETS) :]: bytes(data) for name, data in self.files.items() if name.startswith(ASSETS)}


def step_name(part: int) -> str:
    """The file with the graphs of a part."""
    return f"step.{part}.rknn" if part else STEP


def is_language(source: object) -> bool:
    """Whether a path or bytes hold such a file."""
    return format_in(source) == FORMAT


def write_language(file: LanguageFile) -> bytes:
    """The file. The same model gives the same bytes; nothing is packed, so that it opens quickly."""
    return write_zip(manifest_of(file), file.files, packed=False)


def manifest_of(file: LanguageFile) -> dict[str, Any]:
    """All but the contents."""
    manifest: dict[str, Any] = {"format": FORMAT, "version": _VERSION}
    manifest.update({name: getattr(file, name) for name in ("target", "capacity", "made_by", "prefix", "cuts")})
    manifest.update(graphs=[asdict(one) for one in file.graphs], layout=asdict(file.layout), config=asdict(file.config))
    return manifest


def read_language(source: str | os.PathLike[str] | bytes) -> LanguageFile:
    """Read and check: sizes, names, that the table is as long as it says."""
    manifest, files, path = read_zip(source, FORMAT, _VERSION, "a language model", maps=True)
    name = path or "the language model"
    try:
        config = _config(manifest["config"])
        given = {"config": config, "files": files, "path": path, "part": 0, "first": 0}
        file = from_plain(LanguageFile, manifest, _OPTIONAL, **given)
    except _WRONG as error:
        raise BadTextError(f"the manifest of {name} is not one of a language model: {error!r}") from None
    _check(file, name)
    return file


def _config(data: Mapping[str, Any]) -> LanguageConfig:
    """Numbers, texts and truths as they are; whatever has another type is refused."""
    given = {one.name: data[one.name] for one in fields(LanguageConfig) if one.name in data}
    rope = given.pop("rope", None)
    if rope is not None:
        known = {one.name: rope[one.name] for one in fields(Rope) if one.name in rope}
        known["divisors"] = tuple(float(one) for one in known.get("divisors", ()))
        given["rope"] = Rope(**known)
    given["window_layers"] = tuple(bool(one) for one in given.get("window_layers", ()))
    config = LanguageConfig(**given)
    _check_types(config)
    for name in ("vocabulary", "width", "layers", "heads", "kv_heads", "head_size", "hidden", "context"):
        value = getattr(config, name)
        if not 0 < value < _MOST:
            raise ValueError(f"{name} is {value!r}")
    if config.window is not None and config.window < 1:
        raise ValueError(f"window is {config.window}")
    if config.rope is not None:
        _check_types(config.rope)
        size, divisors = config.rope.size, config.rope.divisors
        if not 0 < size <= config.head_size or size % 2 or len(divisors) not in (0, size // 2) or 0 in divisors:
            raise ValueError(f"{size} of {config.head_size} numbers are rotated, with {len(divisors)} divisors")
        if min(config.rope.base, config.rope.local_base or 1) <= 0:
            raise ValueError(f"rotations with the bases {config.rope.base} and {config.rope.local_base}")
    return config


def _check_types(config: LanguageConfig | Rope) -> None:
    for name, hint in get_type_hints(type(config)).items():
        value = getattr(config, name)
        if not _fits(hint, value):
            raise ValueError(f"{name} is {value!r:.60}")


def _fits(hint: Any, value: object) -> bool:
    """Whether it is a number, a text or a truth as the field has it. What holds others was made with their types."""
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        return value in inner
    if NoneType in inner:
        return value is None or any(_fits(one, value) for one in inner if one is not NoneType)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return hint not in {bool, str} or isinstance(value, hint)


def _check(file: LanguageFile, name: str) -> None:
    ends = (0, *file.cuts, file.config.layers)
    if len(file.cuts) >= MOST_PARTS or any(one >= two for one, two in pairwise(ends)):
        raise FormatError(f"{name} has parts from the layers {ends[:-1]} on, of {file.config.layers}")
    wanted_files = (*map(step_name, range(len(file.cuts) + 1)), EMBEDDING)
    missing = next((one for one in wanted_files if one not in file.files), None)
    if missing is not None:
        raise FormatError(f"{name} has no {missing}")
    if file.cuts and makes_embeddings(file.config):
        raise FormatError(f"{name} makes embeddings and has {len(file.cuts) + 1} parts; such a model has one")
    if not 0 < file.capacity < _MOST or not all(0 < one.tokens < _MOST for one in file.graphs):
        raise FormatError(f"{name} has a capacity of {file.capacity}, and graphs of {[g.tokens for g in file.graphs]}")
    if makes_embeddings(file.config):
        _check_texts(file, name)
    elif not any(one.tokens == 1 and one.logits for one in file.graphs):
        raise FormatError(f"{name} has no graph for one token")
    batches = [one for one in file.graphs if one.sequences != 1]
    if len(batches) > (0 if file.cuts else 1) or not all(
        2 <= one.least <= one.sequences <= min(one.tokens, MOST_SEQUENCES) and one.logits for one in batches
    ):
        raise FormatError(
            f"{name} has graphs of {[g.sequences for g in file.graphs]} sequences: one of 2 to {MOST_SEQUENCES} can "
            "be; compile the model again"
        )
    wanted = 2 * file.config.vocabulary * file.config.width
    if len(file.files[EMBEDDING]) != wanted:
        raise FormatError(f"{EMBEDDING} in {name} has {len(file.files[EMBEDDING])} bytes, not {wanted}")
    config = file.config
    numbers = 2 * config.layers * config.kv_heads * config.head_size + config.vocabulary
    if file.prefix is not None and (
        not 0 <= file.prefix < config.vocabulary or len(file.files.get(PREFIX, b"")) != 2 * numbers
    ):
        raise FormatError(f"{name} starts with token {file.prefix}, and {PREFIX} is not that of {numbers} numbers")
    size, layout = file.config.head_size, file.layout
    whole = (file.capacity, layout.kernels), (size, layout.key_channels), (size, layout.kernels), (size, layout.atom)
    if any(
        part <= 0 or many % part
        for many, part in (*whole, (file.capacity, layout.value_channels), (config.width, layout.atom))
    ):
        raise FormatError(f"{name}: {layout} does not fit heads of {size} and {file.capacity} rows")


def _check_texts(file: LanguageFile, name: str) -> None:
    """Of a model of embeddings."""
    if max((one.tokens for one in file.graphs), default=0) != file.capacity:
        raise FormatError(f"{name} says {file.capacity} tokens, and its graphs {[one.tokens for one in file.graphs]}")
    wanted = 2 * file.capacity * file.config.width if file.config.rope is None else 0
    if len(file.files.get(POSITIONS, b"")) != wanted:
        raise FormatError(f"{POSITIONS} in {name} has {len(file.files.get(POSITIONS, b''))} bytes, not {wanted}")
