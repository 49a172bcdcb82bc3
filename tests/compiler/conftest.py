"""A board for the vendor's runtime; every pass of the compiler is followed by a look at the graph."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openrknn.compiler.normalise import verify_passes
from openrknn.fakekernel.device import Device


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """A file for another chip has one of its own."""
    with Device("rk3588") as made:
        yield made


@pytest.fixture(autouse=True)
def _verified() -> Iterator[None]:
    """A pass that leaves a broken graph is named, whatever the test is about."""
    with verify_passes():
        yield
