"""RGA in readings, in `top`, for Prometheus and for the doctor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openrknn import monitor
from openrknn.doctor.checks.nodes import check_nodes
from openrknn.doctor.facts import Facts, Who
from openrknn.monitor import prometheus

LOAD = """num of scheduler = 3
================= load ==================
scheduler[0]: rga3_core0
\t load = 42%
-----------------------------------
scheduler[1]: rga3_core1
\t load = 27%
-----------------------------------
scheduler[2]: rga2
\t load = 0%
-----------------------------------
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    folder = tmp_path / "sys" / "kernel" / "debug" / "rkrga"
    folder.mkdir(parents=True)
    (folder / "load").write_text(LOAD)
    (folder / "driver_version").write_text("RGA multicore Device Driver: v1.3.1\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "rga").write_text("")
    return tmp_path


def test_a_reading_has_the_load_of_each_core(board: Path) -> None:
    rga = monitor.read(board).rga
    assert rga is not None
    assert (rga.version, rga.node.exists) == ("1.3.1", True)
    assert [(engine.name, engine.load_percent) for engine in rga.engines] == [
        ("rga3_core0", 42), ("rga3_core1", 27), ("rga2", 0),
    ]  # fmt: skip
    assert 'openrknn_rga_load_ratio{engine="rga3_core1",number="1"} 0.27' in prometheus.text(monitor.read(board))
    assert monitor.read(board / "nothing").rga is None


@pytest.mark.parametrize(("mode", "code"), [(0o666, "rga"), (0o600, "rga-no-permission"), (None, "rga-no-node")])
def test_the_doctor_says_who_converts(board: Path, mode: int | None, code: str) -> None:
    node = board / "dev" / "rga"
    node.unlink() if mode is None else node.chmod(mode)
    stranger = Who(os.getuid() + 4711, frozenset({4711}))
    codes = [finding.code for finding in check_nodes(Facts(board, stranger))]
    assert [one for one in codes if one.startswith("rga")] == [code]
