"""Engines for tests: each has its own socket, and ends with the test. And the library, with programs that use it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.capi.parts import library_for
from openrknn.errors import UnsupportedError
from tests.capi.asking import Vendor
from tests.capi.building import Programs
from tests.capi.client import Client
from tests.capi.products import Products
from tests.witness.testimony import WitnessMissingError


class RunningEngine:
    """An engine in the foreground."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.path = folder / "engine.socket"
        self._clients: list[Client] = []
        self.log = folder / "engine.log"
        command = [sys.executable, "-m", "openrknn.capi.engine", "--foreground", "--socket", str(self.path)]
        given = {**os.environ, "OPENRKNN_ENGINE_IDLE": "3600", **environment}  # other tests may take a while
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(command, stderr=stream, stdout=stream, env=given)
        self._wait()

    def _wait(self) -> None:
        """Until it listens: a descriptor of the process tells if it ends instead."""
        over = os.pidfd_open(self.process.pid)
        try:
            while True:
                probe = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                try:
                    probe.connect(str(self.path))
                    return
                except OSError:
                    if select.select([over], [], [], 0.005)[0]:
                        raise RuntimeError(self.log.read_text()) from None
                finally:
                    probe.close()
        finally:
            os.close(over)

    def client(self, **options: object) -> Client:
        """A program."""
        self._clients.append(Client(self.path, **options))  # type: ignore[arg-type]
        return self._clients[-1]

    def stop(self) -> None:
        """End it, if it has not ended yet."""
        for client in self._clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[RunningEngine]:
    """One engine for all tests that do it no harm; each program has a process of its own in it."""
    with tempfile.TemporaryDirectory(prefix="orknn") as folder:  # short: paths of sockets have 107 bytes
        engine = RunningEngine(Path(folder))
        yield engine
        engine.stop()


@pytest.fixture
def engine() -> Iterator[RunningEngine]:
    """An engine that a test may kill."""
    with tempfile.TemporaryDirectory(prefix="orknn") as folder:
        made = RunningEngine(Path(folder))
        yield made
        made.stop()


@pytest.fixture
def client(shared_engine: RunningEngine) -> Iterator[Client]:
    """A program that talks to an engine."""
    made = shared_engine.client()
    yield made
    made.close()


@pytest.fixture(scope="session")
def library() -> Path:
    """The built librknnrt.so; the test is skipped where there is none."""
    try:
        return library_for()
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture
def programs(tmp_path: Path, library: Path, shared_engine: RunningEngine) -> Iterator[Programs]:
    """C programs with an engine that they may share with others."""
    with tempfile.TemporaryDirectory(prefix="orknn") as folder:
        yield Programs(tmp_path, library, Path(folder), {"OPENRKNN_ENGINE_SOCKET": str(shared_engine.path)})


@pytest.fixture(scope="session")
def vendor() -> Vendor:
    """The vendor's library, to be asked; the test is skipped where it is not set up."""
    try:
        return Vendor.find()
    except WitnessMissingError as missing:
        pytest.skip(f"no vendor witness: {missing}")


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Iterator[Products]:
    monkeypatch.delenv("OPENRKNN_DEVICE", raising=False)
    made = Products()
    yield made
    made.close()
