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


def test_it_comes_back_after_sigkill(short: Path, tmp_path: Path) -> None:
    """With a claim prepared, everything deleted meanwhile, watches that break, others' slices, and no room to grow.

    benchmarks/plugin_faults.py is the long version.
    """
    rknpu_board(tmp_path)
    with Kubelet(short) as kubelet, StandInApi() as api:
        api.add_foreign(500)
        api.page, api.watch_seconds = 100, 0.3
        words = ["--root", str(tmp_path), "--kubelet-dir", str(short), "--cdi-dir", str(short / "cdi"), "--dra"]
        words += ["--node", "board1", "--api-server", api.url, "--strategy", "cores"]
        api.claim("eyes", "uid-1", "npu0-cores-012")
        for verb in ("NodePrepareResources", "NodeUnprepareResources"):
            kubelet.devices.clear()
            with subprocess.Popen([*COMMAND, *words], stderr=subprocess.PIPE) as process:
                wait_for(lambda: len(kubelet.devices) == 3 and len(api.mine()) == 2, "both registrations")
                answer = kubelet.call_driver(kubelet.find_driver().endpoint, verb, ("home", "eyes", "uid-1"))
                assert answer.claims["uid-1"].error == ""
                api.wipe()
                wait_for(lambda: len(api.mine()) == 2, "the slices again")
                resident = int(Path(f"/proc/{process.pid}/status").read_text().split("VmHWM:")[1].split()[0])
                process.kill()
            assert resident < 64 * 1024
            assert len(list(short.rglob("*-*.sock"))) == 3, "a killed process leaves its own, and no others"
            api.wipe()
        assert list((short / "cdi").glob("npu.rockchip.com-claim-*")) == []
        assert len(api.slices) == 500


def test_dra_needs_the_name_of_the_node(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run(capsys, "device-plugin", "--dra", "--root", tmp_path)
    assert (result.code, "--node NAME" in result.err) == (2, True)
    result = run(capsys, "device-plugin", "--dra", "--node", "a", "--root", tmp_path)
    assert "service account" in result.err
