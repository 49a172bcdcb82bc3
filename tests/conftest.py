"""Fixtures for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.witness.witness import Witness, WitnessMissingError

# A loaded machine must not fail a test: what is slow is told by benchmarks/.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def no_width_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries of other tests in this process may leave a width behind, and tables would be drawn for it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def witness() -> Witness:
    """The vendor's runtime on a device that computes nothing; the test is skipped where it is not set up."""
    try:
        return Witness.find()
    except WitnessMissingError as missing:
        pytest.skip(f"no vendor witness: {missing}")
