"""CTranslate2's `model.bin` (faster-whisper): variables with names of their own, attention's projections joined.

version, name of the specification, revision, then count times: name, rank, sizes, type, bytes. Names have a length of
two bytes and end with a zero. Weights of integers have a scale for every row: weight = integer / scale.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint
from openrknn.voice.make.whisper.folder import alignment

SPECIFICATION = b"WhisperSpec"
_TYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2", 5: "<u2"}
_BFLOAT, _INTEGERS = 5, (1, 2)
_MOST = 65_536
_LARGEST = 1 << 33
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(self_attention|attention|ffn)/(.+)")


def is_model(path: Path) -> bool:
    """Whether a file begins like a Whisper of CTranslate2."""
    try:
        with path.open("rb") as file:
            start = file.read(6 + len(SPECIFICATION))
    except OSError:
        return False
    return start[6:] == SPECIFICATION


class _Reader:
    def __init__(self, data: bytes, path: Path) -> None:
        self._data, self._path, self._at = data, path, 0

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise VoiceSetError(f"{self._path}: ends at byte {len(self._data)}, inside what begins at {self._at}")
        self._at += size
        return self._data[self._at - size : self._at]

    def name(self) -> str:
        return self.take(self.numbers("H")[0]).rstrip(b"\0").decode("utf-8", errors="replace")


def read(paths: list[Path]) -> Checkpoint:
    """`model.bin`, or its parts in their order."""
    first = paths[0]
    try:
        if sum(path.stat().st_size for path in paths) > _LARGEST:
            raise VoiceSetError(f"{first}: larger than {_LARGEST} bytes; not a model of CTranslate2")
        data = b"".join(path.read_bytes() for path in paths)
    except OSError as error:
        raise VoiceSetError(f"{first}: cannot be read: {error.strerror or error}") from error
    reader = _Reader(data, first)
    reader.numbers("I")
    if reader.name().encode() != SPECIFICATION:
        raise VoiceSetError(f"{first}: not a Whisper of CTranslate2")
    reader.numbers("I")
    (count,) = reader.numbers("I")
    if count > _MOST:
        raise VoiceSetError(f"{first}: {count} variables; not a Whisper of CTranslate2")
    variables = dict(_variable(reader, first) for _ in range(count))
    arrays = _renamed(_dequantised(variables, first), first)
    return Checkpoint(arrays, first.name, alignment=alignment(first.parent), heads=_heads(variables)).checked()


def _variable(reader: _Reader, path: Path) -> tuple[str, np.ndarray]:
    name = reader.name()
    (rank,) = reader.numbers("B")
    shape = reader.numbers(f"{rank}I") if rank else ()
    kind, size = reader.numbers("BI")
    if kind not in _TYPES or math.prod(shape) * np.dtype(_TYPES[kind]).itemsize != size:
        raise VoiceSetError(f"{path}: {name:.60} has the type {kind}, the shape {shape} and {size} bytes")
    array = np.frombuffer(reader.take(size), _TYPES[kind]).reshape(shape)
    return name, (array.astype(np.uint32) << 16).view(np.float32) if kind == _BFLOAT else array


def _heads(variables: Mapping[str, np.ndarray]) -> tuple[int, int]:
    found = [int(variables[key]) if key in variables and variables[key].size == 1 else 0
             for key in ("encoder/num_heads", "decoder/num_heads")]  # fmt: skip
    return (found[0], found[1]) if all(0 <= one <= 256 for one in found) else (0, 0)


def _dequantised(variables: Mapping[str, np.ndarray], path: Path) -> dict[str, Array]:
    made = {}
    for name, array in variables.items():
        floats = np.asarray(array, np.float32)
        if name.endswith("weight") and array.dtype in (np.dtype("i1"), np.dtype("<i2")):
            scale = variables.get(f"{name}_scale")
            if scale is None or scale.size not in (1, len(array)) or not np.all(scale):
                raise VoiceSetError(f"{path}: {name:.60} has integers without their scale")
            floats = floats / np.asarray(scale, np.float32).reshape(-1, *[1] * (array.ndim - 1))
        made[name] = floats
    return made


def _renamed(arrays: Mapping[str, Array], path: Path) -> dict[str, Array]:
    plain = {
        "encoder/position_encodings/encodings": "encoder.positional_embedding",
        "decoder/position_encodings/encodings": "decoder.positional_embedding",
        "decoder/embeddings/weight": "decoder.token_embedding.weight",
        **{f"encoder/conv{one}/{part}": f"encoder.conv{one}.{part}" for one in (1, 2) for part in ("weight", "bias")},
    }
    norms = {"gamma": "weight", "beta": "bias"}
    for old, new in norms.items():
        plain |= {
            f"encoder/layer_norm/{old}": f"encoder.ln_post.{new}",
            f"decoder/layer_norm/{old}": f"decoder.ln.{new}",
        }
    made: dict[str, Array] = {}
    for name, array in arrays.items():
        if name in plain:
            made[plain[name]] = array
        elif match := _LAYER.fullmatch(name):
            side, layer, kind, rest = match.groups()
            before = f"{side}.blocks.{layer}."
            block = {"self_attention": "attn", "attention": "cross_attn", "ffn": "mlp"}[kind]
            where, _, part = rest.partition("/")
            if where == "layer_norm" and part in norms:
                made[f"{before}{block}_ln.{norms[part]}"] = array
            elif part in ("weight", "bias"):
                made |= {f"{before}{place}.{part}": one for place, one in _split(block, where, array, path)}
    return {name: array for name, array in made.items() if not name.endswith(".key.bias")}


def _split(block: str, linear: str, array: Array, path: Path) -> list[tuple[str, Array]]:
    """Joined projections, one by one."""
    places = {
        ("attn", "linear_0"): ("attn.query", "attn.key", "attn.value"),
        ("attn", "linear_1"): ("attn.out",),
        ("cross_attn", "linear_0"): ("cross_attn.query",),
        ("cross_attn", "linear_1"): ("cross_attn.key", "cross_attn.value"),
        ("cross_attn", "linear_2"): ("cross_attn.out",),
        ("mlp", "linear_0"): ("mlp.0",),
        ("mlp", "linear_1"): ("mlp.2",),
    }.get((block, linear), ())
    if not places:
        return []
    if len(array) % len(places):
        raise VoiceSetError(f"{path}: {block} {linear} has {len(array)} rows, which are not {len(places)} parts")
    return list(zip(places, np.split(array, len(places)), strict=True))
