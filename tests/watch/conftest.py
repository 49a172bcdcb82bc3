from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.watch.demo import write_detector


@pytest.fixture(scope="session")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The detector of the squares of `test:` cameras."""
    return write_detector(tmp_path_factory.mktemp("detector") / "squares.rknn", check=False)
