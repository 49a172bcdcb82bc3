"""Fixtures for all tests."""

from __future__ import annotations

import pytest

from tests.witness.witness import Witness, WitnessMissingError


@pytest.fixture(scope="session")
def witness() -> Witness:
    """The vendor's runtime on a device that computes nothing; the test is skipped where it is not set up."""
    try:
        return Witness.find()
    except WitnessMissingError as missing:
        pytest.skip(f"no vendor witness: {missing}")
