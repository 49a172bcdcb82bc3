"""One server for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.serve.page.report import report
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Settings
from tests.serve.parts import fill


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def server(repository: Path) -> Iterator[Server]:
    settings = Settings([repository], http_port=0, grpc_port=0, instances=2, queue_size=128, describe=report)
    with running(settings) as started:
        assert started.plane.ready_problem() == ""
        yield started
