"""The generated files of native/capi: public headers, protocol, struct sizes, stubs and the version script.

    python -m tools.capi_headers native/capi

Everything follows from `openrknn.vendor.tables`, `openrknn.capi.wire` and `tools.capi_headers.marshalling`. A test
makes the files again and compares.
"""

from __future__ import annotations

from collections.abc import Mapping

from tools.capi_headers.abi import abi_header
from tools.capi_headers.protocol import protocol_header
from tools.capi_headers.public import public_headers
from tools.capi_headers.stubs import exports_map, stubs

__all__ = ["files"]


def files() -> Mapping[str, str]:
    """Path below native/capi -> text."""
    return {
        **{f"include/{name}": text for name, text in public_headers().items()},
        "abi.h": abi_header(),
        "protocol.h": protocol_header(),
        "plain.c": stubs(),
        "exports.map": exports_map(),
    }
