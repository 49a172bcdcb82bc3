"""Decoders with a cache that stays on the device: `openrknn.Decoder`."""

from __future__ import annotations

from openrknn.runtime.decoder.decoder import Decoder

__all__ = ["Decoder"]
