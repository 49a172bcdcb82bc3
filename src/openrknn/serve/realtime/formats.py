"""Sound as clients send it: 16-bit samples, and the two laws of telephony (G.711)."""

from __future__ import annotations

import base64
import binascii

import numpy as np

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError

__all__ = ["samples_of"]

_MU_BIAS = 0x84


def samples_of(audio: object, kind: str) -> Array:
    """16-bit samples of one channel, from base64."""
    if not isinstance(audio, str):
        raise BadRequestError("'audio' is sound as base64").about("audio")
    try:
        raw = base64.b64decode(audio, validate=True)
    except (ValueError, binascii.Error):
        raise BadRequestError("'audio' is not base64").about("audio") from None
    if kind == "audio/pcm":
        if len(raw) % 2:
            raise BadRequestError("the sound is 16-bit samples: an even number of bytes").about("audio")
        return np.frombuffer(raw, "<i2")
    return (_MU_LAW if kind == "audio/pcmu" else _A_LAW)[np.frombuffer(raw, np.uint8)]


def _mu_law() -> Array:
    code = ~np.arange(256, dtype=np.uint8)
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    size = (((mantissa << 3) + _MU_BIAS) << exponent) - _MU_BIAS
    return np.where(code & 0x80, -size, size).astype("<i2")


def _a_law() -> Array:
    code = np.arange(256, dtype=np.uint8) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, (code & 15).astype(np.int32)
    size = np.where(exponent == 0, (mantissa << 4) + 8, ((mantissa << 4) + 0x108) << np.maximum(exponent, 1) - 1)
    return np.where(code & 0x80, size, -size).astype("<i2")


_MU_LAW, _A_LAW = _mu_law(), _a_law()
