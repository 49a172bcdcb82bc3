"""A board ends with whoever plays its NPU: QEMU alone would wait for ever."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from openrknn.board import run
from openrknn.board.npu_device import NpuCore, Shared
from openrknn.chips import chip_named

SECONDS = 20
STARTER = """
import subprocess
from openrknn.board.run import _ends_with_this_process
print(subprocess.Popen([*_ends_with_this_process(), "sleep", "100"]).pid, flush=True)
input()
"""


def test_a_core_that_fails_ends_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __init__(self, connection: socket.socket, core: NpuCore) -> None:
            self._connection = connection

        def serve(self) -> None:
            raise ImportError("no such name")

    monkeypatch.setattr(run, "DeviceServer", Failing)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)
    with (
        run._served(tmp_path, Shared(chip_named("rk3588")), 1) as servers,
        subprocess.Popen(["sleep", "100"]) as process,
        socket.socket(socket.AF_UNIX) as client,
    ):
        servers.serve(process)
        client.connect(str(tmp_path / "core0"))
        assert process.wait(SECONDS) != 0
    assert isinstance(servers.error, ImportError)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv (util-linux)")
def test_qemu_ends_with_a_process_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        time.sleep(0.2)  # setpriv becomes the program
        starter.kill()
        starter.stdout.close()
    end = time.monotonic() + SECONDS
    with contextlib.suppress(ProcessLookupError):
        while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < end, "it is still there"
            os.kill(child, 0)
            time.sleep(0.01)
