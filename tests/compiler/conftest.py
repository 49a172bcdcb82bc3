"""A board for the vendor's runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openrknn.fakekernel.device import Device


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """A file for another chip has one of its own."""
    with Device("rk3588") as made:
        yield made
