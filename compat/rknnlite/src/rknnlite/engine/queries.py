"""`rknn_query`: one small function per command, from a context to the struct that the caller's memory gets."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import openrknn
from rknnlite.api import constants as c
from rknnlite.api.structures import (
    RKNNCustomString,
    RKNNInputOutputNum,
    RKNNInputRange,
    RKNNMemSize,
    RKNNPerfRun,
    RKNNRtTensorAttr,
    RKNNSDKVersion,
)
from rknnlite.engine.attributes import attribute_of, native_attribute_of
from rknnlite.engine.codes import CodeError
from rknnlite.engine.context import Context
from rknnlite.engine.outputs import OutputPort
from rknnlite.engine.ports import InputPort

__all__ = ["API_VERSION", "QUERIES", "Query", "api_version", "driver_version"]

API_VERSION = "2.3.2"
"""The version of the C API whose structs and meanings this follows."""


Query: TypeAlias = Callable[[Context, int], ctypes.Structure]
"""(context, index that the caller wrote into the struct) -> the filled struct."""


def api_version() -> str:
    """Which API, and who implements it."""
    return f"{API_VERSION} (openrknn {openrknn.__version__})"


def driver_version(context: Context) -> str:
    """What runs the model: "software:rk3588"."""
    return context.session.device.name


def _numbers(context: Context, _index: int) -> ctypes.Structure:
    return RKNNInputOutputNum(n_input=len(context.ports.inputs), n_output=len(context.ports.outputs))


def _at(ports: Sequence[InputPort] | Sequence[OutputPort], index: int) -> InputPort | OutputPort:
    if index >= len(ports):
        raise CodeError(c.RKNN_ERR_PARAM_INVALID, f"tensor {index} was asked for; there are {len(ports)}")
    return ports[index]


def _input(context: Context, index: int) -> ctypes.Structure:
    return attribute_of(_at(context.first_ports.inputs, index), index)


def _output(context: Context, index: int) -> ctypes.Structure:
    return attribute_of(_at(context.first_ports.outputs, index), index)


def _native_input(context: Context, index: int) -> ctypes.Structure:
    return native_attribute_of(_at(context.first_ports.inputs, index), index)


def _native_output(context: Context, index: int) -> ctypes.Structure:
    return native_attribute_of(_at(context.first_ports.outputs, index), index)


def _current(query: Callable[[InputPort | OutputPort, int], RKNNRtTensorAttr], *, inputs: bool) -> Query:
    def answer(context: Context, index: int) -> ctypes.Structure:
        if not context.model.is_dynamic:
            raise CodeError(c.RKNN_ERR_MODEL_INVALID, "the model has one shape; ask without CURRENT")
        if not context.has_chosen_shapes:
            raise CodeError(c.RKNN_ERR_CTX_INVALID, "no shape was chosen yet; call rknn_set_input_shapes")
        return query(_at(context.ports.inputs if inputs else context.ports.outputs, index), index)

    return answer


def _range(context: Context, index: int) -> ctypes.Structure:
    if not context.model.is_dynamic:
        raise CodeError(c.RKNN_ERR_MODEL_INVALID, "the model has one shape; it was not built with dynamic_input")
    port = _at(context.first_ports.inputs, index)
    shapes = [entry[port.name] for entry in context.session.allowed_shapes]
    found = RKNNInputRange(index=index, shape_number=len(shapes), n_dims=len(port.shape))
    found.fmt = attribute_of(port, index).fmt
    found.name = port.name.encode()[: c.RKNN_MAX_NAME_LEN - 1]
    for row, shape in zip(found.dyn_range, shapes, strict=False):
        row[: len(shape)] = shape
    return found


def _perf_run(context: Context, _index: int) -> ctypes.Structure:
    return RKNNPerfRun(run_duration=context.last_nanoseconds // 1000)


def _version(context: Context, _index: int) -> ctypes.Structure:
    return RKNNSDKVersion(api_version=api_version().encode(), drv_version=driver_version(context).encode())


def _memory(context: Context, _index: int) -> ctypes.Structure:
    report = context.session.memory()
    return RKNNMemSize(
        total_weight_size=report.weights, total_internal_size=report.internal, total_dma_allocated_size=report.total
    )


def _custom_string(context: Context, _index: int) -> ctypes.Structure:
    return RKNNCustomString(string=context.model.custom_string.encode()[:1023])


QUERIES: Mapping[int, tuple[type[ctypes.Structure], Query]] = MappingProxyType(
    {
        c.RKNN_QUERY_IN_OUT_NUM: (RKNNInputOutputNum, _numbers),
        c.RKNN_QUERY_INPUT_ATTR: (RKNNRtTensorAttr, _input),
        c.RKNN_QUERY_OUTPUT_ATTR: (RKNNRtTensorAttr, _output),
        c.RKNN_QUERY_PERF_RUN: (RKNNPerfRun, _perf_run),
        c.RKNN_QUERY_SDK_VERSION: (RKNNSDKVersion, _version),
        c.RKNN_QUERY_MEM_SIZE: (RKNNMemSize, _memory),
        c.RKNN_QUERY_CUSTOM_STRING: (RKNNCustomString, _custom_string),
        c.RKNN_QUERY_NATIVE_INPUT_ATTR: (RKNNRtTensorAttr, _native_input),
        c.RKNN_QUERY_NATIVE_OUTPUT_ATTR: (RKNNRtTensorAttr, _native_output),
        c.RKNN_QUERY_INPUT_DYNAMIC_RANGE: (RKNNInputRange, _range),
        c.RKNN_QUERY_CURRENT_INPUT_ATTR: (RKNNRtTensorAttr, _current(attribute_of, inputs=True)),
        c.RKNN_QUERY_CURRENT_OUTPUT_ATTR: (RKNNRtTensorAttr, _current(attribute_of, inputs=False)),
        c.RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR: (RKNNRtTensorAttr, _current(native_attribute_of, inputs=True)),
        c.RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR: (RKNNRtTensorAttr, _current(native_attribute_of, inputs=False)),
    }
)
"""Command -> the struct that it fills, and how."""
