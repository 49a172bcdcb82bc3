"""Where a model comes from, checked before the library sees it.

The library is careless with files: runtime 1.5.2 crashes on a folder, on a damaged table and on a cut-off end, and
reads past a buffer that is too short. So our own reader looks first (`check=False` leaves that out).
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.container.load import load
from openrknn.container.outer import Flavour
from openrknn.container.parts import Kind, Placement
from openrknn.errors import EmptyFileError, EncryptedModelError, FormatError
from openrknn.vendor.memory.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from openrknn.container.model import Model

Source: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | npt.NDArray[Any] | TensorMemory
_LARGEST = 2**32 - 1
_LARGEST_OFFSET = 2**31 - 1
_NEW_FORMAT = 6
"""The model format, and the container version, of toolkit 1.5 and newer."""


@dataclass
class ModelSource:
    """A model as `rknn_init` takes it: a path with size 0, or an address with a size."""

    pointer: Any
    size: int
    data: memoryview
    """The model's own bytes."""
    offset: int = 0
    length: int = 0
    """Offset and size of the model in a larger file or memory; both 0: it is all of it."""
    memory: TensorMemory | None = None
    """The memory that holds it, if the library is not to copy it."""
    chip: Chip | None = None
    """What it was built for, if our reader looked."""
    custom_operators: frozenset[str] = frozenset()
    constants: Mapping[str, int] = field(default_factory=dict)
    """Weights and their bytes."""
    lacking: frozenset[str] = frozenset()
    """Those of them that are not in the file (remove_weight): another context has to share them."""

    @classmethod
    def open(cls, source: Source, *, offset: int = 0, length: int | None = None, check: bool = True) -> ModelSource:
        """Accept a path, bytes, any buffer, or a `TensorMemory` that holds the model."""
        if not 0 <= offset <= _LARGEST_OFFSET or (length is not None and not 0 < length <= _LARGEST):
            raise ValueError(f"a model cannot lie at {offset} with {length} bytes")
        if isinstance(source, str | os.PathLike):
            made = cls._from_path(os.fspath(source), offset, length)
        elif isinstance(source, TensorMemory):
            made = cls._from_memory(source, offset, length)
        else:
            view = source.data if isinstance(source, np.ndarray) else memoryview(source)
            made = cls._from_buffer(view, offset, length)
        if check:
            made.look()
        return made

    @classmethod
    def _from_path(cls, path: str, offset: int, length: int | None) -> ModelSource:
        if os.path.isdir(path):
            raise IsADirectoryError(f"{path} is a folder, not a .rknn")
        with open(path, "rb") as stream:
            total = os.fstat(stream.fileno()).st_size
            wanted = _length(total, offset, length)
            data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))[offset : offset + wanted]
        whole = wanted == total
        return cls(os.fsencode(path), 0, data, 0 if whole else offset, 0 if whole else wanted)

    @classmethod
    def _from_buffer(cls, view: memoryview, offset: int, length: int | None) -> ModelSource:
        if not view.c_contiguous:
            raise ValueError("the model's bytes must lie one after the other")
        wanted = _length(view.nbytes, offset, length)
        data = view.cast("B")[offset : offset + wanted]
        if data.readonly:  # ctypes gives out the address of bytes and of writable buffers only
            whole = view.obj if isinstance(view.obj, bytes) and len(view.obj) == wanted else bytes(data)
            return cls(ctypes.cast(ctypes.c_char_p(whole), ctypes.c_void_p), wanted, memoryview(whole))
        return cls(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(data))), wanted, data)

    @classmethod
    def _from_memory(cls, memory: TensorMemory, offset: int, length: int | None) -> ModelSource:
        wanted = _length(memory.size_bytes, offset, length)
        data = memory.array(offset=offset)[:wanted].data
        address = memory.virtual_address + max(memory.offset, 0) + offset
        return cls(ctypes.c_void_p(address), wanted, data, offset, wanted, memory)

    def look(self) -> None:
        """Let our reader find what would crash the library, and remember what it needs to know later.

        What our reader does not know raises too, as the library aborts on most of it; `check=False` lets it through.
        """
        try:
            model = load(self.data)
        except EncryptedModelError:
            return  # only the library has the key
        new = model.flavour is Flavour.FLATBUFFER and model.format_version == _NEW_FORMAT
        if new and model.container_version < _NEW_FORMAT:
            raise FormatError(
                f"container version {model.container_version:#x} with model format {model.format_version}: the library "
                "crashes on it", offset=8, section="header",
            )  # fmt: skip
        _ = model.legacy_json  # the library aborts if this part cannot be read
        self.chip = model.chip
        self.custom_operators = _custom_operators(model)
        weights = [tensor for tensor in model.graphs[0].tensors if tensor.kind is Kind.WEIGHT]
        self.constants = {tensor.name: tensor.size_bytes for tensor in weights}
        self.lacking = frozenset(tensor.name for tensor in weights if tensor.size_bytes and not tensor.data)


def _length(total: int, offset: int, length: int | None) -> int:
    if total == 0:
        raise EmptyFileError("there is no model: the file or buffer is empty")
    wanted = total - offset if length is None else length
    if wanted <= 0 or offset + wanted > total or wanted > _LARGEST:
        raise ValueError(f"there is no model of {wanted} bytes at {offset} in {total} bytes")
    return wanted


def _custom_operators(model: Model) -> frozenset[str]:
    """The types of operators that only a registered callback can execute."""
    return frozenset(
        operator.type
        for graph in model.graphs
        for operator in model.operators_of(graph)
        if operator.placement is Placement.CUSTOM
    )
