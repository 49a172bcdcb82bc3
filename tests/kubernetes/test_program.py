"""`openrknn device-plugin` as the program that a node runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import run
from tests.kubernetes.api_server import StandInApi
from tests.kubernetes.kubelet import Kubelet, wait_for
from tests.machines import rknpu_board

COMMAND = [sys.executable, "-m", "openrknn.cli", "device-plugin", "--interval", "0.1"]


def test_both_interfaces_from_one_program_until_sigterm(short: Path, tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    with Kubelet(short) as kubelet, StandInApi() as api:
        words = ["--root", str(tmp_path), "--kubelet-dir", str(short), "--cdi-dir", str(short / "cdi"), "--dra"]
        words += ["--node", "board1", "--api-server", api.url, "--strategy", "cores"]
        with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            wait_for(lambda: len(kubelet.devices) == 3 and len(api.slices) == 2, "both registrations")
            info = kubelet.find_driver()
            api.claim("eyes", "uid-1", "npu0-cores-012")
            answer = kubelet.call_driver(info.endpoint, "NodePrepareResources", ("home", "eyes", "uid-1"))
            assert answer.claims["uid-1"].error == ""
            process.send_signal(signal.SIGTERM)
            log = process.stderr.read()
            assert process.wait() == 0, log
        assert "registered rockchip.com/npu" in log
        assert "published 5 devices, generation 1" in log
        assert not list(short.rglob("openrknn-*.sock"))
        wait_for(lambda: set(kubelet.devices.values()) == {"Unhealthy"}, "the end of the stream")


def test_dra_needs_the_name_of_the_node(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run(capsys, "device-plugin", "--dra", "--root", tmp_path)
    assert (result.code, "--node NAME" in result.err) == (2, True)
    result = run(capsys, "device-plugin", "--dra", "--node", "a", "--root", tmp_path)
    assert "service account" in result.err
