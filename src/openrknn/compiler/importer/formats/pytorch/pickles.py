"""What a pickle would import and call, from its opcodes: nothing is run."""

from __future__ import annotations

import pickletools
from collections.abc import Iterator

from openrknn.compiler.errors import ModelError

_ALLOWED = {
    "collections OrderedDict", "torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter", "torch.storage UntypedStorage", "torch Size", "torch device",
    "torch._tensor _rebuild_from_type_v2",
}  # fmt: skip
"""Globals that a pickle of tensors has; storages and types of numbers come on top."""
_TYPES = {
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64",
    "complex128",
}  # fmt: skip
_STORAGES = {
    f"{kind}Storage"
    for kind in (
        "Float", "Double", "Half", "BFloat16", "Char", "Short", "Int", "Long", "Byte", "Bool", "ComplexFloat",
        "ComplexDouble", "Untyped",
    )
}  # fmt: skip
_MADE = {"STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}
"""Opcodes that name objects in other ways than the pickles of PyTorch do."""


def names_in(data: bytes, name: str) -> Iterator[str]:
    """ "module name" of everything that a pickle would import. Names that are made while it runs are refused."""
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name == "GLOBAL":
                yield str(argument)
            elif code.name in _MADE:
                yield f"{code.name.lower()} (a name that is made while it is loaded)"
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError, AttributeError, TypeError, KeyError) as error:
        raise ModelError(f"{name} has a pickle that is damaged: {error}") from None


def is_tensor_name(name: str) -> bool:
    """Whether a pickle of tensors has this global."""
    module, _, what = name.partition(" ")
    return name in _ALLOWED or (module == "torch" and (what in _STORAGES or what in _TYPES))


def check_tensors(data: bytes, name: str, member: str) -> None:
    """Refuse a pickle that names anything but tensors."""
    for one in names_in(data, name):
        if not is_tensor_name(one):
            raise ModelError(
                f"{name} has a pickle in {member!r} that names {one[:80]!r}; loading it could run any code. Export "
                "the model again, with tensors only"
            )
