"""One server for all tests that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.serve.page.report import report
from openrknn.serve.server import Server, running
from openrknn.serve.settings import Limits, Settings
from tests.serve.bombs import MIB
from tests.serve.parts import FILES, fill
from tests.serve.sessions import until


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def server(repository: Path) -> Iterator[Server]:
    settings = Settings([repository], http_port=0, grpc_port=0, instances=2, queue_size=128, describe=report)
    with running(settings) as started:
        assert started.plane.ready_problem() == ""
        yield started


@pytest.fixture(scope="session")
def small() -> Iterator[Server]:
    """A server with little memory and few places."""
    limits = Limits(body_bytes=8 * MIB, total_bytes=32 * MIB, connections=16, streams=4, header_bytes=16384)
    settings = Settings([FILES["picture"]], http_port=0, grpc_port=0, instances=1, limits=limits)
    with running(settings) as server:
        yield server
        until(lambda: server.plane.budget.used_bytes == 0)
