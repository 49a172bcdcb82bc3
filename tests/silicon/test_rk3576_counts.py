"""The counts of `rk3576_counts`, where a clone of gahingwoo/linux-rk3576-npu is beside the recordings."""

from __future__ import annotations

import pytest

from tests.silicon.recordings import recording
from tests.silicon.rk3576_counts import COUNTS, counted, file_of


@pytest.mark.parametrize("name", COUNTS)
def test_as_many_bytes_and_channels_as_on_the_board(name: str) -> None:
    said = COUNTS[name]
    assert counted(recording(f"linux-rk3576-npu/{file_of(name)}"), said) == (said.bytes, said.channels)
