"""What a PyTorch file is, without running any of it; and whether what PyTorch would unpickle is harmless.

`.pt2`, TorchScript and `torch.save` all write zips. Pickles inside them are programs: here they are only listed
(`pickletools`), and a `.pt2` whose pickles name anything but tensors is refused before PyTorch sees it.
"""

from __future__ import annotations

import io
import json
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.pairs import Source, name_of

__all__ = ["check_harmless", "kind_of", "names_in"]

_MOST_MEMBERS = 100_000
_MOST_PICKLE = 64 * 2**20
_ALLOWED = {
    "collections OrderedDict", "torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_parameter", "torch.storage UntypedStorage", "torch Size", "torch device",
    "torch._tensor _rebuild_from_type_v2",
}  # fmt: skip
"""Globals that a pickle of tensors has; storages and types of numbers come on top."""


def kind_of(source: Source) -> str:
    """pt2, script, state, module (pickled classes), ultralytics or legacy."""
    try:
        with zipfile.ZipFile(_stream(source)) as archive:
            names = _members(archive, name_of(source))
            inner = {name.partition("/")[2] for name in names} | set(names)
            if any(one == "archive_format" or one.startswith("serialized_exported_program") for one in inner):
                return "pt2"
            if "constants.pkl" in inner and any(one.startswith("code/") for one in inner):
                return "script"
            pickles = [name for name in names if name.rpartition("/")[2] == "data.pkl"]
            if not pickles:
                return "unknown"
            found = set(names_in(_bounded(archive, pickles[0], name_of(source)), name_of(source)))
    except zipfile.BadZipFile:
        return "legacy"
    if any(one.startswith("ultralytics") for one in found):
        return "ultralytics"
    return "state" if all(_is_allowed(one) for one in found) else "module"


def check_harmless(source: Source) -> None:
    """Refuse a `.pt2` in which PyTorch would unpickle anything but tensors."""
    name = name_of(source)
    with zipfile.ZipFile(_stream(source)) as archive:
        for member in _pickled(archive, name):
            data = _bounded(archive, member, name)
            try:
                with zipfile.ZipFile(io.BytesIO(data)) as inner:
                    texts = [one for one in _members(inner, name) if one.endswith(".pkl")]
                    found = [one for text in texts for one in names_in(_bounded(inner, text, name), name)]
            except zipfile.BadZipFile:
                raise ModelError(
                    f"{name} has a pickle in {member!r} that is not a file of tensors; loading it could run any code. "
                    "Export the model again without objects of its own"
                ) from None
            for one in found:
                if not _is_allowed(one):
                    raise ModelError(
                        f"{name} has a pickle in {member!r} that names {one!r}; loading it could run any code. Export "
                        "the model again, with tensors only"
                    )


def names_in(data: bytes, name: str) -> Iterator[str]:
    """ "module name" of everything that a pickle would import. Names that are made while it runs are refused."""
    try:
        for code, argument, _ in pickletools.genops(data):
            if code.name == "GLOBAL":
                yield str(argument)
            elif code.name in {"STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"}:
                yield f"{code.name.lower()} (a name that is made while it is loaded)"
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError) as error:
        raise ModelError(f"{name} has a pickle that is damaged: {error}") from None


def _pickled(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """Members that PyTorch would unpickle."""
    members = _members(archive, name)
    for member in members:
        if member.endswith((".pt", ".pkl", ".pickle")):
            yield member
        elif member.endswith("_config.json"):
            folder = member.rpartition("/")[0]
            for path in _payloads(_bounded(archive, member, name), name):
                at = f"{folder}/{path}"
                if at in members and not at.endswith((".pt", ".pkl", ".pickle")):
                    yield at


def _payloads(data: bytes, name: str) -> Iterator[str]:
    """Paths of the weights and constants that are pickled."""
    try:
        entries = json.loads(data)["config"].values()
        for entry in entries:
            if entry.get("use_pickle", True):
                yield str(entry["path_name"])
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise ModelError(f"{name} has a list of weights that is damaged; export it again") from None


def _is_allowed(name: str) -> bool:
    module, _, what = name.partition(" ")
    return name in _ALLOWED or (module == "torch" and (what.endswith("Storage") or what in _TYPES))


_TYPES = {
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64",
    "complex128",
}  # fmt: skip


def _members(archive: zipfile.ZipFile, name: str) -> list[str]:
    found = archive.namelist()
    if len(found) > _MOST_MEMBERS:
        raise ModelError(f"{name} has {len(found)} members; a model has at most {_MOST_MEMBERS}")
    return found


def _bounded(archive: zipfile.ZipFile, member: str, name: str) -> bytes:
    with archive.open(member) as file:
        data = file.read(_MOST_PICKLE + 1)
    if len(data) > _MOST_PICKLE:
        raise ModelError(f"{name}: {member!r} has over {_MOST_PICKLE >> 20} MB, too much to be looked through")
    return data


def _stream(source: Source) -> Any:
    return io.BytesIO(source) if isinstance(source, bytes) else Path(str(source))
