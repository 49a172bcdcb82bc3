"""Readings as Prometheus reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openrknn import monitor
from openrknn.chips import CHIPS
from openrknn.device import SoftwareDevice
from openrknn.monitor import prometheus
from tests.machines import rknpu_board, rocket_board

LINE = re.compile(r'openrknn_[a-z_]+(\{([a-z]+="[^"]*",?)+\})? -?[0-9.e+-]+')


def test_every_line_is_well_formed_and_names_stand_together(tmp_path: Path) -> None:
    rknpu_board(tmp_path)
    rocket_board(tmp_path / "other")
    both = monitor.Reading(0, "rk3588", (*monitor.read(tmp_path).npus, *monitor.read(tmp_path / "other").npus))
    text = prometheus.text(both)
    names = []
    for line in text.splitlines():
        if not line.startswith("# "):
            assert LINE.fullmatch(line), line
            names.append(line.partition("{")[0])
    assert len(list(dict.fromkeys(names))) == len([one for at, one in enumerate(names) if names[at - 1 : at] != [one]])
    assert 'openrknn_npu_clock_hertz{npu="fdab0000.npu",driver="rknpu"} 1000000000\n' in text
    assert 'openrknn_npu_temperature_celsius{npu="fdab0000.npu",driver="rknpu",zone="npu-thermal"} 48\n' in text
    assert 'openrknn_npu_memory_bytes{npu="fdab0000.npu",driver="rknpu",kind="cma_free"} 251658240\n' in text
    assert 'openrknn_npu_interrupts_total{npu="fdab0000.npu",driver="rocket",core="1"} 11\n' in text


def test_labels_are_escaped() -> None:
    assert prometheus.labelled("n", {"a": 'x"\\\n'}) == r'n{a="x\"\\\n"}'


def test_no_series_comes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FINDINGS 28: two sessions of one process are two software NPUs with the same labels."""
    monkeypatch.setenv("OPENRKNN_STATUS", str(tmp_path))
    with SoftwareDevice(CHIPS["rk3588"]) as first, SoftwareDevice(CHIPS["rk3588"]) as second:
        first.allocate(1, "room")
        second.allocate(5000, "room")
        own = [npu for npu in monitor.read().npus if npu.clients[0].node.startswith(str(tmp_path))]
        lines = prometheus.text(monitor.Reading(0, None, tuple(own))).splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(own) == 2
    assert len(series) == len(set(series)) > 0
    assert next(line for line in lines if 'kind="used"' in line).endswith(" 12288")
