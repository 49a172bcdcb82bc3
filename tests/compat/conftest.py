"""Fixtures for the tests of the vendor's API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rknnlite.api.rknn_log import LOGGER


@pytest.fixture(autouse=True)
def _logger_as_it_was() -> Iterator[None]:
    """Programs set the level of the package's logger, as Immich does; the next test shall not notice."""
    level = LOGGER.level
    yield
    LOGGER.setLevel(level)
