"""`openrknn exporter`: the numbers of `top` for Prometheus."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.run import run
from tests.machines import rknpu_board


def test_one_reading(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    result = run(capsys, "exporter", "--once", "--root", tmp_path)
    assert 'openrknn_npu_load_ratio{npu="fdab0000.npu",driver="rknpu",core="0"} 0\n' in result.out


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    command = [sys.executable, "-m", "openrknn.cli", "exporter", "--port", "0", "--root", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(url) as answer:
            assert b"openrknn_npu_temperature_celsius" in answer.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
