"""What queries answer, as plain objects, and how each is read from its struct."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openrknn.vendor.context.perf import PerfDetail, parse_perf_detail
from openrknn.vendor.library.structs import encoded_name
from openrknn.vendor.tables.enums import QuantizationType, QueryCommand, TensorFormat, TensorType
from openrknn.vendor.tables.versions import Version

if TYPE_CHECKING:
    import numpy as np

    from openrknn.vendor.library.structs import Structs

_DTYPES = {
    TensorType.FLOAT32: "<f4", TensorType.FLOAT16: "<f2", TensorType.INT8: "i1", TensorType.UINT8: "u1",
    TensorType.INT16: "<i2", TensorType.UINT16: "<u2", TensorType.INT32: "<i4", TensorType.UINT32: "<u4",
    TensorType.INT64: "<i8", TensorType.BOOL: "?", TensorType.INT4: "u1", TensorType.BFLOAT16: "<u2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IoCounts:
    """rknn_input_output_num."""

    inputs: int
    outputs: int


@dataclass(frozen=True, slots=True)
class TensorAttributes:
    """rknn_tensor_attr: an input or output as the library sees it."""

    index: int
    name: str
    shape: tuple[int, ...]
    """In the order of `format`."""
    format: TensorFormat
    type: TensorType
    quantization: QuantizationType = QuantizationType.NONE
    fractional_length: int = 0
    zero_point: int = 0
    scale: float = 1.0
    elements: int = 0
    size_bytes: int = 0
    """Without the padding of rows."""
    width_stride: int = 0
    """Pixels from one row to the next; 0: the width."""
    size_with_stride_bytes: int = 0
    """How long a buffer must be."""
    pass_through: bool = False
    height_stride: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """How NumPy holds it: bfloat16 as its 16-bit patterns, int4 as bytes with two numbers."""
        import numpy as np

        return np.dtype(_DTYPES[self.type])

    def bytes_as(self, kind: TensorType) -> int:
        """Bytes without padding if the elements were of another type."""
        return (self.elements * kind.bits + 7) // 8

    def replaced(self, **changes: Any) -> TensorAttributes:
        """A copy with other values."""
        return replace(self, **changes)

    @classmethod
    def from_struct(cls, raw: Any) -> TensorAttributes:
        """Read the C struct."""
        return cls(
            index=raw.index,
            name=raw.name.decode("utf-8", "replace"),
            shape=tuple(raw.dims[: min(raw.n_dims, len(raw.dims))]),
            format=TensorFormat(raw.fmt),
            type=TensorType(raw.type),
            quantization=QuantizationType(raw.qnt_type),
            fractional_length=raw.fl,
            zero_point=raw.zp,
            scale=raw.scale,
            elements=raw.n_elems,
            size_bytes=raw.size,
            width_stride=raw.w_stride,
            size_with_stride_bytes=raw.size_with_stride,
            pass_through=bool(raw.pass_through),
            height_stride=raw.h_stride,
        )

    def fill(self, raw: Any) -> None:
        """Write the C struct."""
        if len(self.shape) > len(raw.dims):
            raise ValueError(f"a tensor has at most {len(raw.dims)} dimensions, not {len(self.shape)}")
        raw.index, raw.n_dims = self.index, len(self.shape)
        raw.dims[: len(self.shape)] = self.shape
        raw.name = encoded_name(self.name)
        raw.n_elems, raw.size = self.elements, self.size_bytes
        raw.fmt, raw.type, raw.qnt_type = int(self.format), int(self.type), int(self.quantization)
        raw.fl, raw.zp, raw.scale = self.fractional_length, self.zero_point, self.scale
        raw.w_stride, raw.size_with_stride = self.width_stride, self.size_with_stride_bytes
        raw.pass_through, raw.h_stride = int(self.pass_through), self.height_stride


@dataclass(frozen=True, slots=True)
class InputRange:
    """rknn_input_range: the shapes that a dynamic model takes at one input."""

    index: int
    name: str
    format: TensorFormat
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class SdkVersion:
    """rknn_sdk_version."""

    api: str
    driver: str

    @property
    def version(self) -> Version:
        """The library's version as numbers."""
        return Version.parse(self.api)


@dataclass(frozen=True, slots=True)
class MemorySize:
    """rknn_mem_size, in bytes."""

    weights_bytes: int
    internal_bytes: int
    allocated_bytes: int = 0
    sram_bytes: int = 0
    free_sram_bytes: int = 0


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """The rknn_tensor_mem that RKNN_QUERY_DEVICE_MEM_INFO answers."""

    virtual_address: int
    physical_address: int
    fd: int
    offset: int
    size_bytes: int
    flags: int


@dataclass(frozen=True, slots=True)
class Query:
    """One command: its struct, whether it is asked per tensor, and how its answer is read."""

    struct: str
    read: Callable[[Any], Any]
    tensor: str = ""
    """"input" or "output" if the command takes an index."""

    def make(self, structs: Structs, index: int) -> ctypes.Structure:
        """An empty struct; all bytes are 0 but the index."""
        made: ctypes.Structure = getattr(structs, self.struct)()
        if self.tensor:
            made.index = index
        return made


def _range(raw: Any) -> InputRange:
    count, rank = min(raw.shape_number, len(raw.dyn_range)), min(raw.n_dims, len(raw.dyn_range[0]))
    shapes = tuple(tuple(raw.dyn_range[row][:rank]) for row in range(count))
    return InputRange(raw.index, raw.name.decode("utf-8", "replace"), TensorFormat(raw.fmt), shapes)


def _memory_size(raw: Any) -> MemorySize:
    more = ("total_dma_allocated_size", "total_sram_size", "free_sram_size")
    return MemorySize(raw.total_weight_size, raw.total_internal_size, *(getattr(raw, name, 0) for name in more))


def _memory_info(raw: Any) -> MemoryInfo:
    return MemoryInfo(raw.virt_addr or 0, raw.phys_addr, raw.fd, raw.offset, raw.size, raw.flags)


def _perf(raw: Any) -> PerfDetail:
    data = ctypes.string_at(raw.perf_data, raw.data_len) if raw.perf_data and raw.data_len else b""
    return parse_perf_detail(data.rstrip(b"\0").decode("utf-8", "replace"))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _attribute(tensor: str) -> Query:
    return Query("rknn_tensor_attr", TensorAttributes.from_struct, tensor)


QUERIES: Mapping[QueryCommand, Query] = MappingProxyType(
    {
        QueryCommand.IN_OUT_NUM: Query("rknn_input_output_num", lambda raw: IoCounts(raw.n_input, raw.n_output)),
        QueryCommand.INPUT_ATTR: _attribute("input"),
        QueryCommand.OUTPUT_ATTR: _attribute("output"),
        QueryCommand.PERF_DETAIL: Query("rknn_perf_detail", _perf),
        QueryCommand.PERF_RUN: Query("rknn_perf_run", lambda raw: int(raw.run_duration)),
        QueryCommand.SDK_VERSION: Query(
            "rknn_sdk_version", lambda raw: SdkVersion(_text(raw.api_version), _text(raw.drv_version))
        ),
        QueryCommand.MEM_SIZE: Query("rknn_mem_size", _memory_size),
        QueryCommand.CUSTOM_STRING: Query("rknn_custom_string", lambda raw: _text(raw.string)),
        QueryCommand.NATIVE_INPUT_ATTR: _attribute("input"),
        QueryCommand.NATIVE_OUTPUT_ATTR: _attribute("output"),
        QueryCommand.NATIVE_NHWC_INPUT_ATTR: _attribute("input"),
        QueryCommand.NATIVE_NHWC_OUTPUT_ATTR: _attribute("output"),
        QueryCommand.DEVICE_MEM_INFO: Query("rknn_tensor_mem", _memory_info),
        QueryCommand.INPUT_DYNAMIC_RANGE: Query("rknn_input_range", _range, "input"),
        QueryCommand.CURRENT_INPUT_ATTR: _attribute("input"),
        QueryCommand.CURRENT_OUTPUT_ATTR: _attribute("output"),
        QueryCommand.CURRENT_NATIVE_INPUT_ATTR: _attribute("input"),
        QueryCommand.CURRENT_NATIVE_OUTPUT_ATTR: _attribute("output"),
    }
)
"""Every command; the NC1HWC2 ones are other names for the native ones."""
