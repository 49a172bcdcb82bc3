"""From output buffers to users' arrays, and `Outputs`: what a run gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, get_args

import numpy as np

from openrknn import numerics
from openrknn.errors import UnknownNameError
from openrknn.layout.arrange import Arrangement, Dequantization
from openrknn.names import meant
from openrknn.runtime.io.spares import Spares
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.runtime.io.values import decode

OutputKind: TypeAlias = Literal["float", "raw", "native"]
"""float: float32 in the original shape; raw: stored elements in the original shape; native: the memory itself."""


_KINDS = frozenset(get_args(OutputKind))


def check_kind(kind: str) -> None:
    """Refuse anything else."""
    if kind not in _KINDS:
        raise ValueError(f"outputs={kind!r} is unknown; the choices are {', '.join(map(repr, get_args(OutputKind)))}")


Way: TypeAlias = Arrangement | Dequantization


class OutputPort:
    """One output and its buffer."""

    def __init__(self, stored: StoredTensor) -> None:
        self.stored = stored
        self.name = stored.tensor.name
        self._readers: dict[OutputKind, Callable[[], Array]] = {}
        self._ways: dict[OutputKind, Way | None] = {}

    def read(self, kind: OutputKind) -> Array:
        """The output as an array. A native one is the buffer itself: the next run writes into it."""
        reader = self._readers.get(kind)
        if reader is None:
            reader = self._readers[kind] = self._reader(kind)
        return reader()

    def read_into(self, kind: OutputKind, out: Array) -> None:
        """Read into a contiguous array of the original shape and of the right type."""
        way = self._way(kind)
        if way is not None and way.dtype == out.dtype:
            way.read(out.reshape(way.shape))
        else:
            out[...] = self.read(kind)

    def _reader(self, kind: OutputKind) -> Callable[[], Array]:
        """How this output is read; worked out once."""
        stored, tensor = self.stored, self.stored.tensor
        if kind == "native":
            return lambda: stored.native
        way = self._way(kind)
        if way is not None:
            return self._large(way)
        return stored.read if kind == "raw" else lambda: decode(stored.read(), tensor)

    def _way(self, kind: OutputKind) -> Way | None:
        """Rearranging and converting in one step, where there is one."""
        if kind not in self._ways:
            self._ways[kind] = self._find_way(kind)
        return self._ways[kind]

    def _find_way(self, kind: OutputKind) -> Way | None:
        stored = self.stored
        quantization = stored.tensor.quantization if stored.dtype.kind == "i" else None
        scale = quantization.scale[0] if quantization is not None else 1.0
        zero = quantization.zero_point[0] if quantization is not None else 0
        floats = kind == "float" and (quantization is not None or stored.dtype.kind == "f")
        known = stored.dtype in numerics.FORMATS and abs(zero) < 1 << 31
        if known and stored.is_feature:
            return Arrangement(stored.native, stored.channels, scale=scale if floats else None, zero_point=zero)
        if known and floats and not stored.is_image:
            return Dequantization(stored.native, scale, zero)
        return None

    def _large(self, way: Way) -> Callable[[], Array]:
        """Large results are made in memory that was used before."""
        shape = self.stored.tensor.shape
        spares = Spares(way.shape, way.dtype)
        if not spares.is_small:
            return lambda: way.read(spares.take()).reshape(shape)
        return way.read if way.shape == shape else lambda: way.read().reshape(shape)


class Outputs(dict[str, Array]):
    """The results of a run: a dict, name -> array, in the order of the model, that takes a number as well.

        outputs = session.run(picture)
        outputs["logits"]                       # by name
        outputs[0], outputs[-1]                 # by number
        boxes, scores = outputs.values()        # all of them, in order (a dict itself unpacks to its names)

    It equals a plain dict of the same arrays, and pickles. A name that is not there raises `UnknownNameError` (a
    KeyError) with the names that are, a number that is too large `IndexError`.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        def __getitem__(self, key: str | SupportsIndex) -> Array: ...

    def __missing__(self, key: Any) -> Array:
        """Numbers, and names that are not there: what is found never comes here, so a name costs nothing more."""
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise IndexError(f"there is no output {key}; there are {len(self)}: {', '.join(self)}")
            return tuple(self.values())[key]
        raise UnknownNameError(f"no output is called {key!r}; there are {', '.join(self)}{meant(key, self)}")
