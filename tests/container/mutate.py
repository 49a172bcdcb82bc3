"""Damaged `.rknn` files, in the ways in which files get damaged and in the ways in which attackers damage them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from openrknn.container.check import problems
from openrknn.container.link import Addresses, link, plan
from openrknn.container.load import load
from openrknn.container.outer import Flavour
from openrknn.container.patch import input_values
from openrknn.errors import RknnError

_INTERESTING = (0, 1, 4, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)


def flip_bit(data: bytearray, rng: random.Random, limit: int) -> None:
    data[rng.randrange(limit)] ^= 1 << rng.randrange(8)


def overwrite_word(data: bytearray, rng: random.Random, limit: int) -> None:
    at = rng.randrange(max(limit - 4, 1)) & ~3
    value = rng.choice(_INTERESTING) if rng.random() < 0.5 else rng.getrandbits(32)
    struct.pack_into("<I", data, at, value)


def nudge_word(data: bytearray, rng: random.Random, limit: int) -> None:
    at = rng.randrange(max(limit - 4, 1)) & ~3
    value = struct.unpack_from("<I", data, at)[0]
    struct.pack_into("<I", data, at, (value + rng.choice((-64, -8, -4, -1, 1, 4, 8, 64))) & 0xFFFFFFFF)


def copy_word(data: bytearray, rng: random.Random, limit: int) -> None:
    """One reference made to look like another: shared and cyclic tables."""
    source, target = (rng.randrange(max(limit - 4, 1)) & ~3 for _ in range(2))
    data[target : target + 4] = data[source : source + 4]


def cut(data: bytearray, rng: random.Random, limit: int) -> None:
    del data[rng.randrange(len(data)) :]


def drop_range(data: bytearray, rng: random.Random, limit: int) -> None:
    at = rng.randrange(limit)
    del data[at : at + rng.randrange(1, 64)]


MUTATIONS: tuple[Callable[[bytearray, random.Random, int], None], ...] = (
    flip_bit,
    flip_bit,
    overwrite_word,
    overwrite_word,
    nudge_word,
    copy_word,
    cut,
    drop_range,
)


def metadata_bytes(data: bytes) -> int:
    """Where the names end and the blobs begin, roughly: damage there is what a parser sees."""
    return min(len(data), 64 + max(len(data) // 3, 4096))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to four damages; most of them in the metadata."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if len(result) < 16:
            break
        limit = metadata_bytes(data) if rng.random() < 0.8 else len(result)
        rng.choice(MUTATIONS)(result, rng, min(limit, len(result) - 4))
    return bytes(result)


def exercise(data: bytes) -> str:
    """Do with the file what tools do; "refused" or "accepted". Anything but an `RknnError` passes through."""
    try:
        model = load(data, strict=False)
    except RknnError:
        return "refused"
    for _ in zip(problems(model), range(100), strict=False):
        pass
    try:
        model = load(data)
        _use(model)
    except RknnError:
        return "refused"
    return "accepted"


def _use(model: object) -> None:
    from openrknn.analysis.explain import describe
    from openrknn.container.model import Model

    assert isinstance(model, Model)
    _ = model.inputs, model.outputs, model.operators
    describe(model)
    if model.flavour is Flavour.FLATBUFFER and model.format_version == 6:
        plan(model)
        link(model, Addresses(0x10000000, 0x20000000))
    for graph in model.graphs:
        if model.chip.family in {"rk3588", "rk3566"}:
            list(input_values(model, graph, {}))
