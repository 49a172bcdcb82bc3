"""`openrknn stream` as a program, for tests that look at it from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import TracebackType


class Streaming:
    """Runs it until the end of the block; `address` is where its page is."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-W", "error", "-m", "openrknn.cli", "stream", *map(str, words)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
            env={**os.environ, "PYTHONUTF8": "1"},
        )  # fmt: skip
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        self.address = first.split("  ")[0]
        self.code: int | None = None
        self.out, self.err = first, ""
        if not self.address.startswith("http://"):
            self.wait()
            raise AssertionError(first + self.err)

    def end(self) -> None:
        """Ctrl-C."""
        if self.code is None:
            self._process.send_signal(signal.SIGINT)
            self.wait()

    def wait(self) -> None:
        """Until it ends by itself."""
        out, self.err = self._process.communicate(timeout=120)
        self.out += out
        self.code = self._process.returncode

    def __enter__(self) -> Streaming:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        assert self.code == 0, self.err
        assert "Traceback" not in self.err, self.err
