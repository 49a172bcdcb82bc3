"""What an interrupted compilation has finished: packed weights of products, and what was measured, in the user's cache.

`KeptProducts` does the same for the integers of an interrupted quantisation.

    kept = KeptParts.of(source_digest(path), "rk3588")
    kept["layers.0.q"]          # as the compiler packed it, mapped from its file, or a KeyError

A part is one file, written beside its place and renamed: it is there as a whole, or not at all. Its key has everything
that it was made of: the digest of the model's files (or of its integers), the chip, and the code of this package. So a
part is never stale, only without use; `clear` removes the parts of a compilation whose result is written.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import openrknn
from openrknn.cachefiles import FileCache, code_state
from openrknn.compiler.lower.constants import Packed
from openrknn.container.parts import DataType
from openrknn.llm.files.gguf import other_parts
from openrknn.llm.quantise.model import Choice, Quantised
from openrknn.llm.quantise.products import Int4Product, Int8Product, Product

CACHE = FileCache("llm", most_bytes=64 << 30)
"""A part takes a quarter of it at the most; all parts of a model are about as large as its file."""
_FORMAT = 1
_CODE = ("chip", "compiler", "isa", "layout", "llm", "task", "chips.py", "numerics.py")
"""What makes parts, in the package."""
_PIECE = 1 << 24


def source_digest(path: str | os.PathLike[str]) -> str:
    """Of a model's file, of all its parts, or of all files in its folder."""
    state, root = hashlib.sha256(), Path(path)
    others = sorted(root.rglob("*")) if root.is_dir() else other_parts(root)
    folder = root if root.is_dir() else root.parent
    for file in [*([] if root.is_dir() else [root]), *(one for one in others if one.is_file())]:
        if file != root:
            state.update(f"{file.relative_to(folder)} {file.stat().st_size}\n".encode())
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                state.update(piece)
    return state.hexdigest()


@functools.cache
def _code() -> str:
    root = str(Path(__file__).parent.parent)
    return f"{openrknn.__version__} {np.__version__} {code_state(root, _CODE)}"


class KeptParts(MutableMapping[str, tuple[Any, ...]]):
    """By the name of a product; what is put in is written, and then mapped from its file."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._found: dict[str, tuple[Any, ...]] = {}
        self.taken = 0
        """Parts of an earlier process."""

    @classmethod
    def of(
        cls, digest: str, target: str, quantised: Quantised | None = None, start: int | None = None
    ) -> KeptParts:
        """Of the model with this digest, compiled for a chip, measured with texts that begin with a token."""
        state = hashlib.sha256(f"{_FORMAT} {digest} {target} {start} {_code()}\n".encode())
        if quantised is not None:  # products that stay in float are of the rotated model, if it was rotated
            state.update(f"{quantised.precision} {sorted(quantised.online.items())}\n".encode())
            state.update(np.ascontiguousarray(quantised.source.rows("embedding", 0, 1)).data)
        for name, one in sorted((quantised.products if quantised is not None else {}).items()):
            state.update(name.encode())
            if isinstance(one, Int8Product | Int4Product):
                arrays = (one.weights, one.scales, np.array(getattr(one, "input_scale", 0.0)))
                for array in arrays:
                    state.update(np.ascontiguousarray(array).data)
        return cls(state.hexdigest())

    def _key(self, name: str) -> str:
        return hashlib.sha256(f"{self._job} {name}".encode()).hexdigest()

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        if name not in self._found:
            self._found[name] = self._read(name)
            self.taken += 1
        return self._found[name]

    def _read(self, name: str) -> tuple[Any, ...]:
        entry = CACHE.read(self._key(name))
        if entry is None:
            raise KeyError(name)
        constants = [
            (base, entry.sections[str(number)], tuple(shape), DataType(kind), layout, tuple(native))
            for number, (base, shape, kind, layout, native) in enumerate(entry.meta["constants"])
        ]
        return Packed(**entry.meta["packed"]), *constants

    def __setitem__(self, name: str, value: tuple[Any, ...]) -> None:
        """Where nothing can be kept, it stays in memory."""
        self._found[name] = value
        packed, *constants = value
        said = [(base, shape, kind.value, layout, native) for base, _, shape, kind, layout, native in constants]
        sections = {str(number): constant[1] for number, constant in enumerate(constants)}
        if CACHE.write(self._key(name), {"packed": asdict(packed), "constants": said}, sections):
            self._found[name] = self._read(name)

    def __delitem__(self, name: str) -> None:
        self._found.pop(name, None)
        CACHE.remove(self._key(name))

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def numbers(self, name: str) -> dict[str, float] | None:
        """Those that were measured under a name."""
        entry = CACHE.read(self._key(f"numbers {name}"))
        return None if entry is None else {str(key): float(value) for key, value in entry.meta.items()}

    def put_numbers(self, name: str, numbers: dict[str, float]) -> None:
        """Keep them."""
        CACHE.write(self._key(f"numbers {name}"), dict(numbers), {})

    def clear(self, *names: str) -> None:
        """Remove the files; what is mapped from them stays valid."""
        for name in self._found:
            CACHE.remove(self._key(name))
        for name in names:
            CACHE.remove(self._key(f"numbers {name}"))


class KeptProducts:
    """Products in integers that an interrupted quantisation has finished, each with why it is as it is."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._names: set[str] = set()
        self.taken = 0
        """Products of an earlier process."""

    @classmethod
    def of(cls, digest: str, texts: Sequence[Sequence[int]], **options: object) -> KeptProducts:
        """Of the model with this digest, these calibration texts and options of `quantise_language`."""
        state = hashlib.sha256(f"{_FORMAT} quantise {digest} {_code()} {sorted(options.items())}\n".encode())
        for text in texts:
            state.update(np.array([len(text), *text], np.int64).data)
        return cls(state.hexdigest())

    def _key(self, name: str) -> str:
        return hashlib.sha256(f"{self._job} {name}".encode()).hexdigest()

    def take(self, name: str) -> tuple[Product, Choice] | None:
        """None: it is not finished."""
        entry = CACHE.read(self._key(name))
        if entry is None:
            return None
        weights = np.frombuffer(entry.sections["weights"], np.int8).reshape(entry.meta["shape"])
        scales = np.frombuffer(entry.sections["scales"], np.float32).reshape(entry.meta["scales"])
        choice, step = Choice(**entry.meta["choice"]), entry.meta["input_scale"]
        self._names.add(name)
        self.taken += 1
        return Int4Product(weights, scales) if step is None else Int8Product(weights, scales, float(step)), choice

    def keep(self, name: str, product: Product, choice: Choice) -> None:
        """For the next process, if this one is interrupted."""
        assert isinstance(product, Int8Product | Int4Product)
        meta = {
            "shape": product.weights.shape, "scales": product.scales.shape, "choice": asdict(choice),
            "input_scale": getattr(product, "input_scale", None),
        }  # fmt: skip
        sections = {"weights": np.ascontiguousarray(product.weights), "scales": np.ascontiguousarray(product.scales)}
        if CACHE.write(self._key(name), meta, sections):
            self._names.add(name)

    def clear(self) -> None:
        """Remove the files: the result is written."""
        for name in self._names:
            CACHE.remove(self._key(name))
