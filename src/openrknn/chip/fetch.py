"""What CNA's registers say beside the convolution: the use of the buffer, and sizes of what the data are a part of."""

from __future__ import annotations

from typing import NamedTuple

from openrknn.task.kinds import BufferUse

__all__ = ["Fetch"]


class Fetch(NamedTuple):
    """See `task.kinds.Convolution`; what a chip does not have is 0."""

    buffer: BufferUse
    channels: int
    reuses_weights: bool
    picture_rows: int = 0
