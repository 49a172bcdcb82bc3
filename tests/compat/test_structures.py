"""The ctypes classes lie in memory as the tables of the C API say."""

from __future__ import annotations

import ctypes

import pytest

from openrknn.vendor.tables.layouts import LP64, place
from openrknn.vendor.tables.versions import Version
from rknnlite.api import structures

NAMES = {
    "RKNNInputOutputNum": "rknn_input_output_num",
    "RKNNRtTensorAttr": "rknn_tensor_attr",
    "RKNNInputRange": "rknn_input_range",
    "RKNNPerfDetail": "rknn_perf_detail",
    "RKNNPerfRun": "rknn_perf_run",
    "RKNNSDKVersion": "rknn_sdk_version",
    "RKNNMemSize": "rknn_mem_size",
    "RKNNCustomString": "rknn_custom_string",
    "RKNNInput": "rknn_input",
    "RKNNOutput": "rknn_output",
    "RKNNRtDecryptKeyMem": "rknn_decrypt_key_mem",
    "RKNNRtInitExtend": "rknn_init_extend",
    "RKNNRtRunExtend": "rknn_run_extend",
    "RKNNOutputExtend": "rknn_output_extend",
}
OTHER_NAMES = {"rknn_context": "ctx", "stride_with_stride": "size_with_stride"}


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != LP64, reason="a 64-bit machine is needed")
@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_offsets(name: str) -> None:
    kind = getattr(structures, name)
    wanted = place(NAMES[name], Version.parse("2.5.0"))
    assert ctypes.sizeof(kind) == wanted.size_bytes
    offsets = {OTHER_NAMES.get(field[0], field[0]): getattr(kind, field[0]).offset for field in kind._fields_}
    assert offsets == dict(wanted.offsets)


def test_the_attribute_struct_has_both_names() -> None:
    attribute = structures.RKNNRtTensorAttr(stride_with_stride=64, zp=-14)
    assert (attribute.size_with_stride, attribute.zp) == (64, -14)
