"""Fixtures for the vendor's library: a recording one for every machine, the real one where it can run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from openrknn.vendor import Context
from tests.vendor.board import Board, BoardMissingError
from tests.vendor.recording import Recorder


@pytest.fixture
def recorder() -> Recorder:
    """A library of version 2.3.2 that has all 35 functions and records its arguments."""
    return Recorder.build()


@pytest.fixture
def context(recorder: Recorder) -> Iterator[Context]:
    """A context of the recording library's made-up model."""
    with Context(b"model", library=recorder.library, check=False) as made:
        recorder.clear()
        yield made


@pytest.fixture(scope="session")
def board() -> Board:
    """The vendor's own library in a Python process; the test is skipped where it cannot run."""
    try:
        return Board.find()
    except BoardMissingError as missing:
        pytest.skip(f"the vendor's library cannot run here: {missing}")
