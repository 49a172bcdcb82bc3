"""Messages of ModelInfer to arrays, and arrays to messages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from openrknn.serve.datatypes import Array, datatype_of, dtype_of
from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane import output_parameters
from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.classes import Labelled
from openrknn.serve.plane.job import Answer
from openrknn.serve.plane.plane import Request
from openrknn.serve.plane.signature import Signature, check_shape
from openrknn.serve.rest.infer import cast_to, from_bytes, output_kind, timeout
from openrknn.serve.shared.regions import Regions
from openrknn.serve.shared.tensor import SharedTensor, Tensor, Written

__all__ = ["answer_bytes", "build", "parse"]

_RAW_OUTPUT_CONTENTS = bytes([6 << 3 | 2])
"""Field 6, a length and as many bytes."""
_MAX_TENSORS = 256
_REGION = "shared_memory_region"
_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}


_NUMPY = {
    "bool_contents": np.bool_, "int_contents": np.int32, "int64_contents": np.int64, "uint_contents": np.uint32,
    "uint64_contents": np.uint64, "fp32_contents": np.float32, "fp64_contents": np.float64,
}  # fmt: skip
_ANSWER_BYTES = 24
"""Per element of an answer: the array, the message, and once more on its way out."""


def answer_bytes(request: Request, signature: Signature) -> int:
    """The most memory that an answer can take."""
    return output_parameters.answer_bytes(request, signature, _ANSWER_BYTES)


def parse(message: Any, seconds_left: float | None, share: Share, regions: Regions) -> Request:
    """A request; `seconds_left` is the deadline of the call."""
    started = time.perf_counter()
    raw = message.raw_input_contents
    if len(message.inputs) > _MAX_TENSORS or len(message.outputs) > _MAX_TENSORS:
        raise BadRequestError(f"a request has at most {_MAX_TENSORS} inputs and outputs")
    sent = [entry for entry in message.inputs if _REGION not in entry.parameters]
    if raw and len(raw) != len(sent):
        raise BadRequestError(f"{len(sent)} inputs and {len(raw)} raw_input_contents do not fit together")
    contents = iter(raw)
    inputs: dict[str, Tensor] = {}
    layouts: dict[str, str] = {}
    for entry in message.inputs:
        if entry.name in inputs:
            raise BadRequestError(f"input {entry.name[:80]!r} appears twice")
        given = _parameters(entry.parameters)
        inputs[entry.name] = _tensor(entry, given, contents if raw else None, regions)
        layout = given.get("layout")
        if layout is not None:
            layouts[entry.name] = str(layout)[:16]
    if not inputs:
        raise BadRequestError("the request has no inputs")
    parameters = _parameters(message.parameters)
    named = ((entry.name, _parameters(entry.parameters)) for entry in message.outputs)
    asked = output_parameters.parse(named, regions)
    share.grow(sum(tensor.nbytes for tensor in inputs.values() if isinstance(tensor, SharedTensor)))
    limits = [limit for limit in (seconds_left, timeout(parameters)) if limit is not None]
    return Request(
        inputs,
        layouts,
        outputs=[entry.name for entry in message.outputs] or None,
        kind=output_kind(parameters),
        timeout_seconds=min(limits) if limits else None,
        pre_seconds=time.perf_counter() - started,
        places=asked.places,
        classes=asked.classes,
        priority=output_parameters.priority(parameters),
    )


def _tensor(entry: Any, parameters: Mapping[str, Any], raw: Iterator[bytes] | None, regions: Regions) -> Tensor:
    name = entry.name
    dtype = dtype_of(entry.datatype, name)
    shape = check_shape(list(entry.shape), name)
    part = regions.part(parameters, f"input {name[:80]!r}")
    if part is not None:
        if entry.HasField("contents"):
            raise BadRequestError(f"input {name[:80]!r} has both contents and {_REGION}")
        return SharedTensor.at(part, dtype, shape, name)
    if raw is not None:
        if entry.HasField("contents"):
            raise BadRequestError(f"input {name[:80]!r} has both contents and raw_input_contents")
        return from_bytes(next(raw), dtype, shape, name)
    field = _CONTENTS.get(entry.datatype)
    if field is None:
        raise BadRequestError(f"input {name[:80]!r}: {entry.datatype} has to come in raw_input_contents")
    numbers = getattr(entry.contents, field)
    values: Array = np.fromiter(numbers, _NUMPY[field], len(numbers))
    if values.size != np.prod(shape, dtype=np.int64):
        raise BadRequestError(f"input {name[:80]!r}: {values.size} numbers do not fill the shape {list(shape)}")
    return cast_to(values, dtype, name).reshape(shape)


def _parameters(given: Any) -> Mapping[str, Any]:
    return {key: getattr(value, value.WhichOneof("parameter_choice") or "string_param") for key, value in given.items()}


def build(response: Any, answer: Answer, identity: str) -> bytes:
    """A ModelInferResponse as bytes; `response` is an empty one.

    The tensors are put behind the rest by hand: protobuf would copy each of them twice more.
    """
    response.model_name, response.model_version, response.id = answer.model_name, answer.model_version, identity
    parts: list[bytes | memoryview] = []
    for name, array in answer.outputs.items():
        if isinstance(array, Labelled):
            response.outputs.add(name=name, datatype="BYTES", shape=array.shape)
            texts = array.raw()
            parts += (_RAW_OUTPUT_CONTENTS + _varint(len(texts)), texts)
            continue
        made = response.outputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
        if isinstance(array, Written):
            for key, value in array.part.as_json().items():
                setattr(made.parameters[key], "string_param" if key == _REGION else "int64_param", value)
            parts.append(_RAW_OUTPUT_CONTENTS + _varint(0))  # the n-th one belongs to the n-th output
            continue
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        parts += (_RAW_OUTPUT_CONTENTS + _varint(data.nbytes), data.data)
    return b"".join([response.SerializeToString(), *parts])


def _varint(number: int) -> bytes:
    """Seven bits per byte, the lowest first; all but the last have the highest bit."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
