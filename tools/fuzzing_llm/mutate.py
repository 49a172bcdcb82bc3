"""Damages files: bytes, fields, numbers in JSON, lengths of the whole."""

from __future__ import annotations

import random
import re
import struct

_FIELDS = (0, 1, 2, 3, 7, 8, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63, 2**64 - 1)
_JSON = (
    b"0", b"-1", b"1e308", b"NaN", b"-Infinity", b"null", b"true", b'""', b"[]", b"{}", b"99999999999999999999",
    b"2147483648", b"[" * 2000, b"3.5", b'"x"', b"1", b"2",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(\.\d+)?(e-?\d+)?|\"[a-z_0-9A-Z.]*\"|true|false|null")


def mutant(files: dict[str, bytes], seed: int, number: int) -> dict[str, bytes]:
    """The mutant of this number: the same for ever."""
    chance = random.Random(seed * 1_000_003 + number)
    changed = dict(files)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        name = chance.choice(sorted(changed))
        data = bytearray(changed[name])
        if not data:
            continue
        if name.endswith(".json") and chance.random() < 0.7:
            changed[name] = _json(data, chance)
        else:
            changed[name] = bytes(_bytes(data, chance, name))
    return changed


def _json(data: bytearray, chance: random.Random) -> bytes:
    places = list(_NUMBER.finditer(data))
    if not places:
        return bytes(data)
    place = chance.choice(places)
    return bytes(data[: place.start()] + chance.choice(_JSON) + data[place.end() :])


def _bytes(data: bytearray, chance: random.Random, name: str) -> bytearray:
    # Weights are most of a file, and any bytes are weights: the rest is more worth while.
    limit = len(data)
    if len(data) > 8000 and chance.random() < 0.9:
        limit = 8 + struct.unpack_from("<Q", data)[0] if name.endswith(".safetensors") else limit - 6000
    at = chance.randrange(max(limit, 1)) % len(data)
    kind = chance.randrange(8)
    if kind == 0:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at] = chance.choice((0, 1, 127, 128, 255))
    elif kind in (2, 3):
        form = chance.choice(("<Q", "<I"))
        size = struct.calcsize(form)
        value = chance.choice((*_FIELDS, at, len(data), len(data) - at, chance.getrandbits(40)))
        data[at : at + size] = struct.pack(form, value % 2 ** (8 * size))
    elif kind == 4:
        del data[at:]
    elif kind == 5:
        del data[at : at + chance.randrange(1, 40)]
    elif kind == 6:
        data[at:at] = bytes(chance.getrandbits(8) for _ in range(chance.randrange(1, 40)))
    else:
        other = chance.randrange(len(data))
        size = chance.randrange(1, 60)
        data[at : at + size] = data[other : other + size]
    return data
