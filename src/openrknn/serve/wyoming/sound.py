"""Samples as a client says it sends them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError

__all__ = ["Form"]

_MOST_CHANNELS = 8


@dataclass(frozen=True, slots=True)
class Form:
    """Samples a second, bytes a sample, channels."""

    rate: int
    width: int
    channels: int

    @classmethod
    def of(cls, data: dict[str, Any]) -> Form:
        """As an event says it."""
        rate, width, channels = (data.get(name) for name in ("rate", "width", "channels"))
        if (
            type(rate) is not int
            or type(width) is not int
            or type(channels) is not int
            or not 4000 <= rate <= 384_000
            or width not in {2, 3, 4}
            or not 1 <= channels <= _MOST_CHANNELS
        ):
            raise BadRequestError(
                f"sound of rate {rate!r:.20}, width {width!r:.20} and {channels!r:.20} channels is not understood; "
                f"16000, 2 and 1 are best"
            )
        return cls(rate, width, channels)

    def samples(self, payload: bytes) -> Array:
        """16 bits and one channel of it; a frame that is cut off is left out."""
        frame = self.width * self.channels
        payload = payload[: len(payload) // frame * frame]
        # The two highest bytes of each sample are its 16-bit value.
        raw = np.frombuffer(payload, np.uint8).reshape(-1, self.channels, self.width)
        values = np.ascontiguousarray(raw[:, :, self.width - 2 :]).view("<i2")[:, :, 0]
        return values[:, 0] if self.channels == 1 else np.round(values.mean(axis=1)).astype("<i2")
