"""A check that crashes the library on purpose: what openrknn prevents."""

from __future__ import annotations

import ctypes

from openrknn.vendor import default_library
from tests.vendor.inside.board_tools import golden


def check_before() -> None:
    assert default_library().version


def check_crash() -> None:
    library = default_library()
    number = ctypes.c_uint64()
    path = str(golden("conv_rk3588_i8")).encode()
    assert library.rknn_init(ctypes.byref(number), path, 0, 0, None) == 0
    library.rknn_destroy(number)
    library.rknn_destroy(number)
