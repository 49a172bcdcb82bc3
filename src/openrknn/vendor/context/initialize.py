"""`rknn_init`: flags that fit together, and the struct that goes with them."""

from __future__ import annotations

import ctypes
from typing import Any

from openrknn.errors import UnsupportedError
from openrknn.vendor.context.source import ModelSource
from openrknn.vendor.errors import call_error
from openrknn.vendor.library.handle import Handle
from openrknn.vendor.library.library import Library
from openrknn.vendor.library.structs import CONTEXT
from openrknn.vendor.tables.enums import InitFlag
from openrknn.vendor.tables.names import since
from openrknn.vendor.tables.versions import Version

_OFFSETS = Version(1, 5)
_KEYS = Version(2, 5)


def check_flags(
    library: Library, flags: InitFlag, source: ModelSource, share_weights: bool, share_sram: bool
) -> InitFlag:
    """The flags with those that follow from the arguments; what does not fit together raises."""
    if share_weights:
        flags |= InitFlag.SHARE_WEIGHT_MEM
    elif InitFlag.SHARE_WEIGHT_MEM in flags:
        raise ValueError("SHARE_WEIGHT_MEM needs the context to share with: Context(..., share_weights=other)")
    if share_sram:
        flags |= InitFlag.SHARE_SRAM | InitFlag.ENABLE_SRAM
    elif InitFlag.SHARE_SRAM in flags:
        raise ValueError("SHARE_SRAM needs the context to share with: Context(..., share_sram=other)")
    if source.memory is not None:
        flags |= InitFlag.MODEL_BUFFER_ZERO_COPY
    elif InitFlag.MODEL_BUFFER_ZERO_COPY in flags:
        raise ValueError("MODEL_BUFFER_ZERO_COPY needs a model in a TensorMemory")
    if InitFlag.PRIOR_MEDIUM in flags and InitFlag.PRIOR_LOW in flags:
        raise ValueError("a context has one priority: PRIOR_MEDIUM or PRIOR_LOW")
    if InitFlag.MEM_ALLOC_NO_CONTEXT in flags:
        raise ValueError("MEM_ALLOC_NO_CONTEXT is for memory_without_context, not for a context")
    known = InitFlag(0)
    for flag in InitFlag:
        known |= flag
    if int(flags) & ~int(known):
        raise ValueError(f"{int(flags) & ~int(known):#x} are not flags of rknn_init")
    library.require("rknn_init", flags=flags, chip=source.chip)
    return flags


def initialize(
    library: Library, source: ModelSource, flags: InitFlag, donor: Handle | None, key: bytes | None
) -> Handle:
    """Call `rknn_init`; everything that the library may still look at is kept by the handle."""
    kept: list[object] = []
    extend = _extend(library, source, donor, key, kept)
    number = CONTEXT(0)
    code = library.function("rknn_init")(
        ctypes.byref(number), source.pointer, source.size, int(flags), ctypes.byref(extend) if extend else None
    )
    if code < 0:
        raise call_error("rknn_init", code, library.version)
    handle = Handle(library, number.value, "rknn_destroy", *([donor] if donor else []))
    if source.memory is not None:
        kept.append(source.memory.array())  # while this view lives, the memory cannot go away
    handle.kept += kept
    return handle


def _extend(
    library: Library, source: ModelSource, donor: Handle | None, key: bytes | None, kept: list[object]
) -> ctypes.Structure | None:
    if donor is None and key is None and source.memory is None and not source.length:
        return None
    extend: Any = library.structs.rknn_init_extend()
    if donor is not None:
        if donor.library is not library:
            raise ValueError("contexts can only share within one library")
        extend.ctx = donor.value
    if source.length:
        if library.version < _OFFSETS:
            raise UnsupportedError(f"a model inside a larger file needs a library of {_OFFSETS} or newer")
        extend.real_model_offset, extend.real_model_size = source.offset, source.length
    if source.memory is not None:
        first = since(InitFlag.MODEL_BUFFER_ZERO_COPY)
        if first and library.version < first:
            raise UnsupportedError(f"a model that is not copied needs a library of {first} or newer")
        extend.model_buffer_fd, extend.model_buffer_flags = source.memory.fd, source.memory.flags
    if key is not None:
        _add_key(library, extend, key, kept)
    made: ctypes.Structure = extend
    return made


def _add_key(library: Library, extend: Any, key: bytes, kept: list[object]) -> None:
    if library.version < _KEYS:
        raise UnsupportedError(f"a key needs a library of {_KEYS} or newer; {library.path} is {library.version}")
    if not key:
        raise ValueError("the key is empty")
    data = ctypes.create_string_buffer(key, len(key))
    holder: Any = library.structs.rknn_decrypt_key_mem(ctypes.addressof(data), len(key))
    extend.user_key = ctypes.addressof(holder)
    kept += [data, holder]
