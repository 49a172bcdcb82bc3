"""CDI files: their content, their version, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openrknn.kubernetes import cdi
from openrknn.kubernetes.inventory import Settings, offers, units
from tests.cli.run import run
from tests.machines import Machine, rknpu_board


def made(root: Path, **more: Any) -> dict[str, Any]:
    settings = Settings(root, strategy="cores")
    return cdi.specification(offers(settings, units(settings)), **more)


def test_names_and_edits(tmp_path: Path) -> None:
    machine = rknpu_board(tmp_path)
    machine.write({"/sys/firmware/devicetree/base/compatible": "rockchip,rk3588\0"})
    content = made(tmp_path)
    devices = {device["name"]: device["containerEdits"] for device in content["devices"]}
    assert list(devices) == [*(f"npu0-fdab0000-npu-core{core}" for core in range(3)), "npu0", "0", "all"]
    assert content["kind"] == "rockchip.com/npu"
    assert devices["npu0-fdab0000-npu-core1"]["env"][0] == "OPENRKNN_CORE_MASK=2"
    assert devices["0"]["deviceNodes"] == [
        {"path": "/dev/dri/card1", "permissions": "rw"},
        {"path": "/dev/dri/renderD129", "permissions": "rw"},
    ]
    assert devices["0"]["mounts"][0]["containerPath"] == "/run/openrknn/compatible"


@pytest.mark.parametrize(
    ("change", "version"),
    [
        ({}, "0.3.0"),
        ({"devices": [{"name": "0", "containerEdits": {}}]}, "0.5.0"),
        ({"kind": "a.b/c.d"}, "0.6.0"),
        ({"containerEdits": {"mounts": [{"hostPath": "/a", "containerPath": "/a", "type": "bind"}]}}, "0.4.0"),
        ({"containerEdits": {"deviceNodes": [{"path": "/a", "hostPath": "/b"}]}}, "0.5.0"),
        ({"containerEdits": {"additionalGids": [105]}}, "0.7.0"),
    ],
)
def test_the_lowest_version_that_fits(change: dict[str, Any], version: str) -> None:
    plain = {"kind": "rockchip.com/npu", "devices": [{"name": "a", "containerEdits": {"env": ["A=b"]}}]}
    assert cdi.needed_version({**plain, **change}) == version


def test_a_group_needs_a_newer_runtime(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    assert made(tmp_path)["cdiVersion"] == "0.5.0"
    content = made(tmp_path, group_ids=[105])
    assert content["cdiVersion"] == "0.7.0"
    assert content["devices"][0]["containerEdits"]["additionalGids"] == [105]


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rknpu_board(tmp_path / "root")
    printed = run(capsys, "cdi", "generate", "--root", tmp_path / "root").out
    target = tmp_path / "cdi/openrknn.json"
    result = run(capsys, "cdi", "generate", "--root", tmp_path / "root", "--output", target)
    assert "with 6 devices, CDI 0.5.0" in result.out
    assert json.loads(target.read_text()) == json.loads(printed)
    assert target.stat().st_mode & 0o777 == 0o644
    assert "rockchip.com/npu=all" in run(capsys, "cdi", "list", "--root", tmp_path / "root").out


def test_without_an_npu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Machine(tmp_path)
    assert "--software 1" in run(capsys, "cdi", "list", "--root", tmp_path).out


def test_what_a_node_would_offer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    answer = json.loads(run(capsys, "device-plugin", "--list", "--json", "--root", tmp_path).out)
    assert answer["resource"] == "rockchip.com/npu"
    assert len(answer["devices"]) == 3
    assert answer["labels"]["rockchip.com/npu.soc"] == "rk3588"
