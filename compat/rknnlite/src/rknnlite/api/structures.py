"""The ctypes classes of the vendor's wheel, with its names for them and for their fields.

Their fields are those of the C API 2.5.0 in the tables of `openrknn.vendor`, under the wheel's names where these
differ. Two are better than the vendor's: `zp` has a sign, and `dyn_range` is an array of shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import POINTER, Structure, c_char_p
from typing import Any

from openrknn.vendor import Version, structs_for

__all__ = [
    "RKNNCustomString",
    "RKNNInitExtend",
    "RKNNInput",
    "RKNNInputOutputNum",
    "RKNNInputRange",
    "RKNNMemSize",
    "RKNNOutput",
    "RKNNOutputExtend",
    "RKNNPerfDetail",
    "RKNNPerfRun",
    "RKNNRtDecryptKeyMem",
    "RKNNRtInitExtend",
    "RKNNRtRunExtend",
    "RKNNRtTensorAttr",
    "RKNNRunExtend",
    "RKNNSDKVersion",
    "RKNNTensorAttr",
]

_STRUCTS = structs_for(Version.parse("2.5.0"))
_OTHER_NAMES = {"ctx": "rknn_context", "size_with_stride": "stride_with_stride"}
"""Fields of the C API -> what the wheel calls them."""


def _fields(name: str, types: Mapping[str, Any] | None = None) -> tuple[tuple[str, Any], ...]:
    """The fields of a C struct; `types` replaces pointers, which the tables do not distinguish."""
    fields = getattr(_STRUCTS, name)._fields_
    return tuple((_OTHER_NAMES.get(field, field), (types or {}).get(field, kind)) for field, kind in fields)


class RKNNInputOutputNum(Structure):
    """rknn_input_output_num."""

    _fields_ = _fields("rknn_input_output_num")


class RKNNRtTensorAttr(Structure):
    """rknn_tensor_attr."""

    _fields_ = _fields("rknn_tensor_attr")

    @property
    def size_with_stride(self) -> int:
        """The C API's name for `stride_with_stride`."""
        return int(self.stride_with_stride)


class RKNNTensorAttr(Structure):
    """rknn_tensor_attr of the first generation of NPUs: it ends with the scale."""

    _fields_ = RKNNRtTensorAttr._fields_[: [name for name, _ in _fields("rknn_tensor_attr")].index("scale") + 1]


class RKNNInputRange(Structure):
    """rknn_input_range: the shapes that one input can take."""

    _fields_ = _fields("rknn_input_range")


class RKNNPerfDetail(Structure):
    """rknn_perf_detail."""

    _fields_ = _fields("rknn_perf_detail", {"perf_data": c_char_p})


class RKNNPerfRun(Structure):
    """rknn_perf_run: microseconds of the last run."""

    _fields_ = _fields("rknn_perf_run")


class RKNNSDKVersion(Structure):
    """rknn_sdk_version."""

    _fields_ = _fields("rknn_sdk_version")


class RKNNMemSize(Structure):
    """rknn_mem_size."""

    _fields_ = _fields("rknn_mem_size")


class RKNNCustomString(Structure):
    """rknn_custom_string."""

    _fields_ = _fields("rknn_custom_string")


class RKNNInput(Structure):
    """rknn_input."""

    _fields_ = _fields("rknn_input")


class RKNNOutput(Structure):
    """rknn_output."""

    _fields_ = _fields("rknn_output")


class RKNNInitExtend(Structure):
    """rknn_init_extend of the first generation of NPUs."""

    _fields_ = (("device_id", c_char_p),)


class RKNNRtDecryptKeyMem(Structure):
    """rknn_decrypt_key_mem."""

    _fields_ = _fields("rknn_decrypt_key_mem")


class RKNNRtInitExtend(Structure):
    """rknn_init_extend."""

    _fields_ = _fields("rknn_init_extend", {"user_key": POINTER(RKNNRtDecryptKeyMem)})


class RKNNRtRunExtend(Structure):
    """rknn_run_extend."""

    _fields_ = _fields("rknn_run_extend")


class RKNNRunExtend(Structure):
    """rknn_run_extend of the first generation of NPUs."""

    _fields_ = RKNNRtRunExtend._fields_[:1]


class RKNNOutputExtend(Structure):
    """rknn_output_extend."""

    _fields_ = _fields("rknn_output_extend")
