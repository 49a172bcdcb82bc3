"""Reads safetensors files, also those in parts: the header at once, tensors when they are asked for."""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

from openrknn.errors import BadTableError, BadTensorError, OutOfBoundsError, TruncatedError, UnsupportedError
from openrknn.llm.errors import NotWeightsError
from openrknn.llm.files.gguf import map_file
from openrknn.llm.files.jsonfile import parse_object, read_object
from openrknn.llm.files.types import SAFETENSORS_FORMATS, Bytes, StoredTensor

_LONGEST_HEADER = 16 << 20
_MOST_TENSORS = 65_536
_MOST_PARTS = 1024
INDEX = "model.safetensors.index.json"
WHOLE = "model.safetensors"


def folder_tensors(folder: Path) -> dict[str, StoredTensor]:
    """All tensors of a folder: of model.safetensors, or of the files that its index names."""
    if (folder / INDEX).is_file():
        return _indexed(folder)
    if (folder / WHOLE).is_file():
        return read_safetensors(folder / WHOLE)
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        raise UnsupportedError(
            f"{folder} has weights as Python pickles, which can run programs and are not read; save them "
            "as safetensors (transformers: save_pretrained)"
        )
    raise NotWeightsError(f"{folder} has neither {WHOLE} nor {INDEX}")


def _indexed(folder: Path) -> dict[str, StoredTensor]:
    places = read_object(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise BadTableError(f"{INDEX} has no weight_map of names of files")
    names = sorted(set(places.values()))
    if len(names) > _MOST_PARTS:
        raise BadTableError(f"{INDEX} names {len(names)} files; at most {_MOST_PARTS} are read")
    tensors: dict[str, StoredTensor] = {}
    for name in names:
        if Path(name).name != name or name in ("", ".", ".."):
            raise OutOfBoundsError(f"{INDEX} names {name!r}, which is not in the folder")
        for tensor in read_safetensors(folder / name).values():
            if places.get(tensor.name) == name:
                tensors[tensor.name] = tensor
    gone = places.keys() - tensors.keys()
    if gone:
        raise BadTableError(f"{INDEX} says that {places[min(gone)]} has the tensor {min(gone)!r}, which it has not")
    return tensors


_NO_WEIGHTS = "position_ids"
"""0, 1, 2, ... as integers: older files of BERT have saved them."""


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """The tensors of one file."""
    data = map_file(path)
    if len(data) < 8:
        raise TruncatedError(f"{path.name} ends inside its header", offset=len(data))
    (length,) = struct.unpack("<Q", data[:8].tobytes())
    if length > _LONGEST_HEADER:
        raise BadTableError(f"{path.name} has a header of {length} bytes; at most {_LONGEST_HEADER} are read", offset=0)
    if length > len(data) - 8:
        raise TruncatedError(f"{path.name} ends inside its header of {length} bytes", offset=len(data))
    table = parse_object(data[8 : 8 + length].tobytes(), f"the header of {path.name}")
    table.pop("__metadata__", None)
    if len(table) > _MOST_TENSORS:
        raise BadTableError(f"{path.name} has {len(table)} tensors; at most {_MOST_TENSORS} are read")
    body = data[8 + length :]
    return {
        name: _tensor(name, entry, body, path.name) for name, entry in table.items() if not name.endswith(_NO_WEIGHTS)
    }


def _tensor(name: str, entry: Any, body: Bytes, file: str) -> StoredTensor:
    section = f"{file}, tensor {name[:80]!r}"
    if not isinstance(entry, dict):
        raise BadTableError("its entry is no object", section=section)
    kind: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    places: Any = entry.get("data_offsets")
    if not isinstance(kind, str) or kind not in SAFETENSORS_FORMATS:
        known = ", ".join(SAFETENSORS_FORMATS)
        raise UnsupportedError(
            f"{section} has the type {str(kind)[:20]!r}; weights may be {known}: use a model in one of them"
        )
    if not _whole(shape, len(body) + 1) or not 0 < len(shape) <= 4 or 0 in shape:
        raise BadTensorError(f"its shape is {str(shape)[:80]}, which is none of this file", section=section)
    if not _whole(places, len(body) + 1) or len(places) != 2 or places[0] > places[1]:
        raise OutOfBoundsError(f"its bytes {str(places)[:80]} are not in the file", section=section)
    form = SAFETENSORS_FORMATS[kind]
    if prod(shape) * form.size != places[1] - places[0]:
        raise BadTensorError(
            f"its shape {shape} needs {prod(shape) * form.size} bytes, not {places[1] - places[0]}", section=section
        )
    data = body[places[0] : places[1]].reshape(prod(shape[:-1]), -1)
    return StoredTensor(name, tuple(shape), form, data)


def _whole(values: Any, below: int) -> bool:
    """Whether it is a list of whole numbers that can be in the file."""
    return isinstance(values, list) and all(type(value) is int and 0 <= value < below for value in values)
