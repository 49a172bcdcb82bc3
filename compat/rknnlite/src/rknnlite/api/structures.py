"""The ctypes classes of the vendor's wheel, with its names for them and for their fields.

They have the sizes and offsets of the C API v2.3.2 (`rknn_init_extend`: of 2.5.0); tests compare them with the tables
of `openrknn.vendor`. Two fields are better than the vendor's: `zp` has a sign, and `dyn_range` is an array of shapes.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int8,
    c_int32,
    c_int64,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)

from rknnlite.api.constants import RKNN_MAX_DIMS, RKNN_MAX_DYNAMIC_SHAPE_NUM, RKNN_MAX_NAME_LEN

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

_ATTRIBUTES = (
    ("index", c_uint32),
    ("n_dims", c_uint32),
    ("dims", c_uint32 * RKNN_MAX_DIMS),
    ("name", c_char * RKNN_MAX_NAME_LEN),
    ("n_elems", c_uint32),
    ("size", c_uint32),
    ("fmt", c_int),
    ("type", c_int),
    ("qnt_type", c_int),
    ("fl", c_int8),
    ("zp", c_int32),
    ("scale", c_float),
)


class RKNNInputOutputNum(Structure):
    """rknn_input_output_num."""

    _fields_ = (("n_input", c_uint32), ("n_output", c_uint32))


class RKNNTensorAttr(Structure):
    """rknn_tensor_attr of the first generation of NPUs."""

    _fields_ = _ATTRIBUTES


class RKNNRtTensorAttr(Structure):
    """rknn_tensor_attr."""

    _fields_ = (
        *_ATTRIBUTES,
        ("w_stride", c_uint32),
        ("stride_with_stride", c_uint32),
        ("pass_through", c_uint8),
        ("h_stride", c_uint32),
    )

    @property
    def size_with_stride(self) -> int:
        """The C API's name for `stride_with_stride`."""
        return int(self.stride_with_stride)


class RKNNInputRange(Structure):
    """rknn_input_range: the shapes that one input can take."""

    _fields_ = (
        ("index", c_uint32),
        ("shape_number", c_uint32),
        ("fmt", c_int),
        ("name", c_char * RKNN_MAX_NAME_LEN),
        ("dyn_range", c_uint32 * RKNN_MAX_DIMS * RKNN_MAX_DYNAMIC_SHAPE_NUM),
        ("n_dims", c_uint32),
    )


class RKNNPerfDetail(Structure):
    """rknn_perf_detail."""

    _fields_ = (("perf_data", c_char_p), ("data_len", c_uint64))


class RKNNPerfRun(Structure):
    """rknn_perf_run: microseconds of the last run."""

    _fields_ = (("run_duration", c_int64),)


class RKNNSDKVersion(Structure):
    """rknn_sdk_version."""

    _fields_ = (("api_version", c_char * 256), ("drv_version", c_char * 256))


class RKNNMemSize(Structure):
    """rknn_mem_size."""

    _fields_ = (
        ("total_weight_size", c_uint32),
        ("total_internal_size", c_uint32),
        ("total_dma_allocated_size", c_uint64),
        ("total_sram_size", c_uint32),
        ("free_sram_size", c_uint32),
        ("reserved", c_uint32 * 10),
    )


class RKNNCustomString(Structure):
    """rknn_custom_string."""

    _fields_ = (("string", c_char * 1024),)


class RKNNInput(Structure):
    """rknn_input."""

    _fields_ = (
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
        ("pass_through", c_uint8),
        ("type", c_int),
        ("fmt", c_int),
    )


class RKNNOutput(Structure):
    """rknn_output."""

    _fields_ = (
        ("want_float", c_uint8),
        ("is_prealloc", c_uint8),
        ("index", c_uint32),
        ("buf", c_void_p),
        ("size", c_uint32),
    )


class RKNNInitExtend(Structure):
    """rknn_init_extend of the first generation of NPUs."""

    _fields_ = (("device_id", c_char_p),)


class RKNNRtDecryptKeyMem(Structure):
    """rknn_decrypt_key_mem."""

    _fields_ = (("key_data", c_void_p), ("key_size", c_uint32))


class RKNNRtInitExtend(Structure):
    """rknn_init_extend."""

    _fields_ = (
        ("rknn_context", c_uint64),
        ("real_model_offset", c_int32),
        ("real_model_size", c_uint32),
        ("model_buffer_fd", c_int32),
        ("model_buffer_flags", c_uint32),
        ("user_key", POINTER(RKNNRtDecryptKeyMem)),
        ("reserved", c_uint8 * 112),
    )


class RKNNRunExtend(Structure):
    """rknn_run_extend of the first generation of NPUs."""

    _fields_ = (("frame_id", c_uint64),)


class RKNNRtRunExtend(Structure):
    """rknn_run_extend."""

    _fields_ = (("frame_id", c_uint64), ("non_block", c_int32), ("timeout_ms", c_int32), ("fence_fd", c_int32))


class RKNNOutputExtend(Structure):
    """rknn_output_extend."""

    _fields_ = (("frame_id", c_uint64),)
