"""Mutations of model files: bytes, texts, protobuf fields, zip members; numbers and texts of an attacker."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

__all__ = ["mutated"]

_NUMBERS = (
    0, 1, 2, 3, 7, 8, 16, 127, 128, 255, 256, 1000, 4096, 65535, 65536, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31,
    (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
_TEXTS = (
    b"", b"\xff\xfe", b"../secret.bin", b"SECRET", b"/etc/passwd", b"x" * 300, b"Lambda", b"Loop", b"If", b"Cast",
    b"Resize", b"Gather", b"ReadFile", b"PyFunc", b"torch.os.system", b"__import__('os').system('touch SENTINEL')",
    b"Conv", b"MatMul", b"nan", b"-1", b"\x00",
)  # fmt: skip
_DEEPEST = 8


class _Evil:
    def __init__(self, sentinel: str) -> None:
        self._sentinel = sentinel

    def __reduce__(self) -> Any:
        import os

        return os.system, (f"touch '{self._sentinel}'",)


def mutated(files: dict[str, bytes], rng: random.Random, secret: str, sentinel: str) -> dict[str, bytes]:
    """New files: one of them, rarely two, changed in one to four ways."""
    made = dict(files)
    for _ in range(1 + (rng.random() < 0.1)):
        name = rng.choice(sorted(made))
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            made[name] = _change(name, made[name], rng, sentinel)
    return {name: data.replace(b"SECRET", secret.encode()).replace(b"SENTINEL", sentinel.encode())
            for name, data in made.items()}  # fmt: skip


def _change(name: str, data: bytes, rng: random.Random, sentinel: str) -> bytes:
    ways: list[Callable[[bytes, random.Random], bytes]] = [_bytes]
    suffix = name.rpartition(".")[2]
    if suffix in {"cfg", "prototxt", "json", "py"}:
        ways += [_text] * 6
    elif suffix in {"onnx", "pb", "caffemodel"}:
        ways += [_protobuf] * 8
    elif suffix in {"tflite", "ort"}:
        ways += [_words] * 3
    elif suffix in {"pt2", "pt", "keras"}:
        return _zip(data, rng, sentinel) if rng.random() < 0.9 else _bytes(data, rng)
    elif suffix == "weights":
        ways += [_words]
    return rng.choice(ways)(data, rng)


def _bytes(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return rng.randbytes(8)
    made, at = bytearray(data), rng.randrange(len(data))
    way = rng.randrange(7)
    if way == 0:
        made[at] ^= 1 << rng.randrange(8)
    elif way == 1:
        made[at] = rng.choice((0, 1, 127, 128, 255))
    elif way == 2:
        del made[at:]
    elif way == 3:
        del made[at : at + rng.choice((1, 4, 16, 200))]
    elif way == 4:
        made[at:at] = rng.choice((rng.randbytes(4), bytes(16), made[at : at + 64]))
    elif way == 5:
        other = rng.randrange(len(data))
        size = rng.choice((4, 16, 64))
        made[at : at + size] = made[other : other + size]
    else:
        size = rng.choice((1, 4, 8))
        made[at : at + size] = bytes(size)
    return bytes(made)


def _words(data: bytes, rng: random.Random) -> bytes:
    """Numbers at the places where FlatBuffers have them."""
    size = rng.choice((4, 4, 8, 2))
    if len(data) < 2 * size:
        return _bytes(data, rng)
    made, at = bytearray(data), rng.randrange(len(data) // size) * size
    number = rng.choice(_NUMBERS) if rng.random() < 0.7 else rng.getrandbits(8 * size)
    if rng.random() < 0.3:
        number = int.from_bytes(made[at : at + size], "little") + rng.choice((-4, -1, 1, 4, 8))
    made[at : at + size] = (number % (1 << (8 * size))).to_bytes(size, "little")
    return bytes(made)


def _text(data: bytes, rng: random.Random) -> bytes:
    text = data.decode("latin-1")
    way = rng.randrange(6)
    numbers = list(re.finditer(r"-?\d+(\.\d+)?", text))
    words = list(re.finditer(r"[A-Za-z_]\w*", text))
    lines = text.split("\n")
    if way <= 1 and numbers:
        found = rng.choice(numbers)
        value = rng.choice([*map(str, _NUMBERS), "-1", "-2", "1e30", "nan", "0.5", "", "x"])
        return (text[: found.start()] + value + text[found.end() :]).encode("latin-1")
    if way == 2 and words:
        found, other = rng.choice(words), rng.choice(words)
        value = other.group(0) if rng.random() < 0.7 else rng.choice(_TEXTS).decode("latin-1")
        return (text[: found.start()] + value + text[found.end() :]).encode("latin-1")
    at = rng.randrange(len(lines))
    if way == 3:
        del lines[at]
    elif way == 4:
        lines[at:at] = [lines[rng.randrange(len(lines))]] * rng.choice((1, 1, 3, 50))
    else:
        to = rng.randrange(len(lines))
        lines[at], lines[to] = lines[to], lines[at]
    return "\n".join(lines).encode("latin-1")


def _varint(value: int) -> bytes:
    value, made = value % (1 << 64), bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes((*made, value))


def _fields(data: bytes) -> list[tuple[int, int, Any]] | None:
    """(number, wire type, value), or nothing if it is no message."""
    found, at = [], 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while at < len(data) and shift < 70:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
        raise ValueError

    try:
        while at < len(data):
            key = number()
            kind = key & 7
            if not key >> 3 or kind not in {0, 1, 2, 5}:
                return None
            size = number() if kind == 2 else {1: 8, 5: 4}.get(kind, 0)
            if size > len(data) - at:
                return None
            value: Any = number() if kind == 0 else data[at : at + size]
            at += size
            found.append((key >> 3, kind, value))
    except ValueError:
        return None
    return found


def _joined(fields: list[tuple[int, int, Any]]) -> bytes:
    made = bytearray()
    for number, kind, value in fields:
        made += _varint(number << 3 | kind)
        made += _varint(value) if kind == 0 else (_varint(len(value)) if kind == 2 else b"") + value
    return bytes(made)


def _protobuf(data: bytes, rng: random.Random, depth: int = 0) -> bytes:
    """A field at any depth, with right lengths around it."""
    fields = _fields(data)
    if not fields:
        return rng.choice(_TEXTS) if rng.random() < 0.6 else _bytes(data, rng)
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    if kind == 2 and depth < _DEEPEST and value and rng.random() < 0.8:
        fields[at] = (number, kind, _protobuf(value, rng, depth + 1))
        return _joined(fields)
    way = rng.randrange(6)
    if way == 0:
        del fields[at]
    elif way == 1:
        fields[at:at] = [fields[at]] * rng.choice((1, 1, 4))
    elif way == 2:
        fields.insert(at, fields.pop(rng.randrange(len(fields))))
    elif kind == 0:
        fields[at] = (number, kind, rng.choice(_NUMBERS) if rng.random() < 0.7 else value + rng.choice((-1, 1)))
    elif kind == 2:
        fields[at] = (number, kind, rng.choice((rng.choice(_TEXTS), value[: len(value) // 2], value + value,
                                                _varint(rng.choice(_NUMBERS)) * rng.choice((1, 4)))))  # fmt: skip
    else:
        fields[at] = (number, kind, rng.choice((bytes(len(value)), b"\xff" * len(value), rng.randbytes(len(value)))))
    return _joined(fields)


def _zip(data: bytes, rng: random.Random, sentinel: str) -> bytes:
    """Members changed, added, renamed or doubled, with pickles that run a command."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    except Exception:  # noqa: BLE001  (mutated before)
        return _bytes(data, rng)
    evil = pickle.dumps(_Evil(sentinel), rng.choice((0, 2, 4)))
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("x/data.pkl", evil)
        archive.writestr("x/version", b"3\n")
    code = rng.choice((evil, inner.getvalue(), b"import os\nos.system('touch SENTINEL')\n"))
    at = rng.randrange(len(members))
    name, content = members[at]
    way = rng.randrange(9)
    if way <= 3:
        members[at] = (name, _member(name, content, rng))
    elif way == 4:
        members[at] = (name, code)
    elif way == 5:
        members.insert(rng.choice((0, len(members))), (rng.choice((name, name.upper(), name.title())), code))
    elif way == 6:
        root = name.partition("/")[0]
        extra = ("data/sample_inputs/model.PT", "data/weights/weight_0", "data/constants/opaque_obj_0", "data.pkl",
                 "constants.pkl", "../evil.py", "code/__torch__.py", "torch.py", "extra/x.py")  # fmt: skip
        members.append((f"{rng.choice((root, root.upper(), 'other'))}/{rng.choice(extra)}", code))
    elif way == 7:
        del members[at]
    else:
        members[at] = (members[rng.randrange(len(members))][0], content)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for one, value in members:
            archive.writestr(zipfile.ZipInfo(one), value)
    made = stream.getvalue()
    return _bytes(made, rng) if rng.random() < 0.1 else made


def _member(name: str, data: bytes, rng: random.Random) -> bytes:
    if name.endswith(".json"):
        try:
            return json.dumps(_json(json.loads(data), rng)).encode()
        except (ValueError, RecursionError):
            return _text(data, rng)
    if name.endswith(".py"):
        return _text(data, rng)
    if name.endswith(".pkl") and rng.random() < 0.3:
        numbers = [struct.pack("<I", number & 0xFFFFFFFF) for number in _NUMBERS]
        at = rng.randrange(max(len(data) - 4, 1))
        return data[:at] + rng.choice(numbers) + data[at + 4 :]
    return _bytes(data, rng)


def _json(value: Any, rng: random.Random) -> Any:
    """One place of a tree changed."""
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {one: entry for one, entry in value.items() if one != key}
        return {**value, key: _json(value[key], rng)}
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        if rng.random() < 0.15:
            return value[:at] + value[at + 1 :]
        return [*value[:at], _json(value[at], rng), *value[at + 1 :]]
    if isinstance(value, str) and value[:1] in "[{" and rng.random() < 0.7:
        try:
            return json.dumps(_json(json.loads(value), rng))
        except (ValueError, RecursionError):
            pass
    return rng.choice([None, True, -1, 1e30, [], {}, "", *_NUMBERS, *(text.decode("latin-1") for text in _TEXTS)])
