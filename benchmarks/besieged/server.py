"""A server as it is shipped, started as a program."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Protocol

__all__ = ["EFFICIENT", "ROOT", "SHIPPED", "SMALL", "Served"]

ROOT = Path(__file__).parents[2]
EFFICIENT = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn"
SMALL = ROOT / "tests/goldens/image_rk3588_i8.rknn"
SHIPPED = ["--host=0.0.0.0", "--log-format=json", "--fixed"]
"""What deploy/kubernetes/serve/base says, beside its drain times."""


class Starter(Protocol):
    """Whatever starts a process: `Cage.start`, or `subprocess.Popen`."""

    def __call__(self, command: list[str], **options: Any) -> subprocess.Popen[str]: ...


class Served:
    """`openrknn serve` until `stop`. Its log is read by a thread; the last lines are kept, and its complaints."""

    def __init__(self, start: Starter, sources: list[Path], *more: str, token: str | None = None) -> None:
        command = [sys.executable, "-m", "openrknn.cli", "serve", *map(str, sources), *SHIPPED,
                   "--port=0", "--grpc-port=0", *more]  # fmt: skip
        environment = {"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}
        if token is not None:
            environment["OPENRKNN_TOKEN"] = token
        self.process = start(command, stderr=subprocess.PIPE, env=environment)
        self.http, self.grpc = 0, 0
        self.lines: deque[str] = deque(maxlen=200)
        self.complaints: list[str] = []
        self.requests = 0
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._hear(line)
            words = json.loads(line)["message"].split()
            if words[:2] == ["listening", "on"]:
                self.http, self.grpc = int(words[2].rpartition(":")[2]), int(words[-1].rpartition(":")[2])
            if words == ["ready"]:
                break
        else:
            raise SystemExit(f"the server did not start: {''.join(self.lines)}")
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self.process.stderr or ():
            self._hear(line)

    def _hear(self, line: str) -> None:
        self.lines.append(line)
        if "request_id" in line or '"gRPC' in line:
            self.requests += 1
        elif '"ERROR"' in line or '"error"' in line or not line.startswith("{"):
            self.complaints.append(line.strip()[:300])

    def stop(self, seconds: float = 60.0) -> int:
        """SIGTERM, and its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self._listener.join(5)
