"""Requests and answers of models: JSON, with tensors inside it or as bytes behind it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import orjson

from openrknn.serve.datatypes import Array, datatype_of, dtype_of
from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane import output_parameters
from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.classes import Labelled
from openrknn.serve.plane.job import Answer, OutputKind
from openrknn.serve.plane.plane import Request
from openrknn.serve.plane.signature import Signature, check_shape
from openrknn.serve.shared.regions import Regions
from openrknn.serve.shared.tensor import SharedTensor, Tensor, Written

__all__ = ["Parsed", "answer_bytes", "build", "json_bytes", "parse"]

_MAX_TENSORS = 256
_MAX_ID = 1024
_COUNTED_BYTES, _OBJECT_BYTES = 72, 256
_BINARY_BYTES, _TEXT_BYTES = 24, 48
_NOWHERE = Regions(refusal="its location was not given")
_NUMBERS = frozenset({int, float, bool})


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request, and how its answer shall look."""

    request: Request
    id: str | None = None
    all_binary: bool = False
    binary: Mapping[str, bool] = field(default_factory=dict)
    """Output -> as bytes; what is not named follows `all_binary`."""


def json_bytes(text: bytes | bytearray | memoryview) -> int:
    """The most memory that JSON can take as Python objects, from what can be counted in its text.

    Every value but the first follows a comma, a bracket or a brace: a float and its place in a list take 32 bytes, an
    empty list 64, a short text 64, an object 232 with its first entry. Text is stored with up to 4 bytes per character.
    """
    data = bytes(text)
    values = _COUNTED_BYTES * (data.count(b",") + data.count(b"[") + data.count(b":") + 1)
    return values + _OBJECT_BYTES * data.count(b"{") + (4 if data.count(b'"') else 1) * len(data)


def answer_bytes(parsed: Parsed, signature: Signature) -> int:
    """The most memory that an answer can take: its arrays, and twice its body."""
    is_binary = parsed.all_binary and all(parsed.binary.values())
    return output_parameters.answer_bytes(parsed.request, signature, _BINARY_BYTES if is_binary else _TEXT_BYTES)


def parse(
    body: bytes | bytearray, header_length: str | None, share: Share | None = None, regions: Regions = _NOWHERE
) -> Parsed:
    """The body of a request. With `Inference-Header-Content-Length` bytes follow the JSON."""
    started = time.perf_counter()
    view = memoryview(body)
    size = len(view)
    if header_length is not None:
        if not header_length.isascii() or not header_length.isdigit() or len(header_length) > 18:
            raise BadRequestError("Inference-Header-Content-Length is not a number")
        size = int(header_length)
        if size > len(view):
            raise BadRequestError(f"Inference-Header-Content-Length is {size}, and the body has {len(view)} bytes")
    if share is not None:
        share.grow(json_bytes(view[:size]))
    words = load_json(view[:size])
    tail = _Tail(view[size:])
    inputs: dict[str, Tensor] = {}
    layouts: dict[str, str] = {}
    for entry in _objects(words, "inputs"):
        name = _text(entry, "name", "an input")
        if name in inputs:
            raise BadRequestError(f"input {name[:80]!r} appears twice")
        inputs[name] = _tensor(entry, name, tail, regions)
        layout = _parameters(entry).get("layout")
        if layout is not None:
            layouts[name] = str(layout)[:16]
    tail.check_empty()
    parameters = _parameters(words)
    outputs = _objects(words, "outputs") if words.get("outputs") else []
    names = [_text(entry, "name", "an output") for entry in outputs]
    identity = words.get("id")
    if identity is not None and (not isinstance(identity, str) or len(identity) > _MAX_ID):
        raise BadRequestError(f"id is a text of at most {_MAX_ID} characters")
    named = ((name, _parameters(entry)) for name, entry in zip(names, outputs, strict=True))
    asked = output_parameters.parse(named, regions)
    if share is not None:
        share.grow(sum(tensor.nbytes for tensor in inputs.values() if isinstance(tensor, SharedTensor)))
    request = Request(
        inputs,
        layouts,
        outputs=names or None,
        kind=output_kind(parameters),
        timeout_seconds=timeout(parameters),
        pre_seconds=time.perf_counter() - started,
        places=asked.places,
        classes=asked.classes,
        priority=output_parameters.priority(parameters),
    )
    binary = {name: flag(_parameters(entry), "binary_data") for name, entry in zip(names, outputs, strict=True)}
    return Parsed(request, identity, flag(parameters, "binary_data_output"), binary)


def build(parsed: Parsed, answer: Answer) -> tuple[bytes, int | None]:
    """The body of an answer; the length of its JSON where bytes follow it."""
    outputs: list[dict[str, Any]] = []
    tail: list[memoryview | bytes] = []
    for name, array in answer.outputs.items():
        if isinstance(array, Labelled):
            outputs.append(_labelled(name, array, tail if parsed.binary.get(name, parsed.all_binary) else None))
            continue
        entry: dict[str, Any] = {"name": name, "datatype": datatype_of(array.dtype), "shape": list(array.shape)}
        if isinstance(array, Written):
            entry["parameters"] = array.part.as_json()
        elif parsed.binary.get(name, parsed.all_binary):
            data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            entry["parameters"] = {"binary_data_size": data.nbytes}
            tail.append(data.reshape(-1).view(np.uint8).data)
        else:
            entry["data"] = np.ascontiguousarray(array).reshape(-1)
        outputs.append(entry)
    words: dict[str, Any] = {"model_name": answer.model_name, "model_version": answer.model_version}
    if parsed.id is not None:
        words["id"] = parsed.id
    words["outputs"] = outputs
    # float32 in its shortest form, which reads back as the same float32; NaN and infinity become null.
    text = orjson.dumps(words, option=orjson.OPT_SERIALIZE_NUMPY)
    return (b"".join([text, *tail]), len(text)) if tail else (text, None)


def _labelled(name: str, output: Labelled, tail: list[memoryview | bytes] | None) -> dict[str, Any]:
    """Texts, in the JSON or behind it."""
    entry: dict[str, Any] = {"name": name, "datatype": "BYTES", "shape": list(output.shape)}
    if tail is None:
        return {**entry, "data": output.texts}
    tail.append(output.raw())
    return {**entry, "parameters": {"binary_data_size": len(tail[-1])}}


class _Tail:
    """The bytes behind the JSON, taken from the front."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def take(self, size: object, name: str) -> memoryview:
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= len(self._view):
            raise BadRequestError(
                f"input {name[:80]!r}: binary_data_size is {str(size)[:20]}, and {len(self._view)} bytes are left"
            )
        part, self._view = self._view[:size], self._view[size:]
        return part

    def check_empty(self) -> None:
        if len(self._view):
            raise BadRequestError(f"{len(self._view)} bytes at the end belong to no input")


def load_json(view: memoryview | bytes | bytearray) -> dict[str, Any]:
    """JSON from the network: an object."""
    try:
        words = orjson.loads(view)
    except ValueError as error:  # also what is nested too deeply
        raise BadRequestError(f"the body is not JSON: {error}") from None
    if not isinstance(words, dict):
        raise BadRequestError("the JSON is not an object")
    return words


def _tensor(entry: Mapping[str, Any], name: str, tail: _Tail, regions: Regions) -> Tensor:
    dtype = dtype_of(entry.get("datatype"), name)
    shape = check_shape(entry.get("shape"), name)
    elements = math.prod(shape)
    parameters = _parameters(entry)
    part = regions.part(parameters, f"input {name[:80]!r}")
    if part is not None:
        if "data" in entry or "binary_data_size" in parameters:
            raise BadRequestError(f"input {name[:80]!r} has both data and shared_memory_region")
        return SharedTensor.at(part, dtype, shape, name)
    if "binary_data_size" in parameters:
        if "data" in entry:
            raise BadRequestError(f"input {name[:80]!r} has both data and binary_data_size")
        data = tail.take(parameters["binary_data_size"], name)
        return from_bytes(data, dtype, shape, name)
    if "data" not in entry:
        raise BadRequestError(f"input {name[:80]!r} has neither data nor binary_data_size")
    given = np.array(_flat(entry["data"], name))
    if given.size != elements:
        raise BadRequestError(f"input {name[:80]!r}: {given.size} numbers do not fill the shape {list(shape)}")
    return cast_to(given, dtype, name).reshape(shape)


def _flat(data: object, name: str) -> list[Any]:
    """The numbers of nested lists. NumPy never sees anything else: of one long text and many short ones it would make
    an array of so many long ones."""
    if not isinstance(data, list):
        raise BadRequestError(f"input {name[:80]!r}: the data are not a list of numbers")
    while data and type(data[0]) is list:
        if set(map(type, data)) != {list} or len(set(map(len, data))) != 1:
            raise BadRequestError(f"input {name[:80]!r}: the rows of the data have different lengths")
        data = list(chain.from_iterable(data))
    if not set(map(type, data)) <= _NUMBERS:
        raise BadRequestError(f"input {name[:80]!r}: the data are not numbers")
    return data


def cast_to(given: Array, dtype: np.dtype[Any], name: str) -> Array:
    """Numbers of JSON in the type that they are said to have."""
    allowed = {"f": "iufb", "b": "b"}.get(dtype.kind, "iu")
    if given.dtype.kind not in allowed:
        raise BadRequestError(f"input {name[:80]!r}: the data are not numbers of type {datatype_of(dtype)}")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if given.size and (int(given.min()) < limits.min or int(given.max()) > limits.max):
            raise BadRequestError(f"input {name[:80]!r}: a number is out of the range of {datatype_of(dtype)}")
    if dtype.kind == "b":
        return given.astype(np.uint8)
    with np.errstate(over="ignore"):
        return given.astype(dtype)


def from_bytes(data: memoryview | bytes, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> Array:
    """A tensor as bytes, without a copy."""
    wanted = math.prod(shape) * dtype.itemsize
    if len(data) != wanted:
        raise BadRequestError(
            f"input {name[:80]!r}: {datatype_of(dtype)}{list(shape)} has {wanted} bytes, and {len(data)} were sent"
        )
    # What Session takes has no booleans; one byte each is what they are.
    return np.frombuffer(data, np.dtype(np.uint8) if dtype.kind == "b" else dtype).reshape(shape)


def _objects(words: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = words.get(key)
    if not isinstance(entries, list) or not entries or len(entries) > _MAX_TENSORS:
        raise BadRequestError(f"{key!r} has to be a list of one to {_MAX_TENSORS} objects")
    if not all(isinstance(entry, dict) for entry in entries):
        raise BadRequestError(f"{key!r} has an entry that is not an object")
    return entries


def _text(entry: Mapping[str, Any], key: str, what: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise BadRequestError(f"{what} has no {key}")
    return value


def _parameters(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    value = entry.get("parameters")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequestError("parameters have to be an object")
    return value


def flag(parameters: Mapping[str, Any], key: str) -> bool:
    """A parameter that is true or false."""
    value = parameters.get(key, False)
    if not isinstance(value, bool):
        raise BadRequestError(f"parameter {key!r} is true or false")
    return value


def output_kind(parameters: Mapping[str, Any]) -> OutputKind:
    """`raw_outputs`: stored elements instead of floats."""
    return "raw" if flag(parameters, "raw_outputs") else "float"


def timeout(parameters: Mapping[str, Any]) -> float | None:
    """`timeout`: microseconds, as Triton's clients send it."""
    value = parameters.get("timeout")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise BadRequestError("parameter 'timeout' is a number of microseconds")
    return value / 1e6 or None
