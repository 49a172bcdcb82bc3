"""Where the time of a run went."""

from __future__ import annotations

from typing import NamedTuple


class RunTimes(NamedTuple):
    """Seconds of one run: arrays into the input buffers, the model itself, output buffers to arrays."""

    feed_seconds: float = 0.0
    run_seconds: float = 0.0
    read_seconds: float = 0.0
