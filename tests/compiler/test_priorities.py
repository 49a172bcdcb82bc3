"""What the report names first: exact rules on made-up rows."""

from __future__ import annotations

import pytest

from openrknn.compiler.priorities import changes
from openrknn.compiler.rows import Row, own_noise


def _row(number: int, **more: object) -> Row:
    row = Row(number, "Conv", f"conv{number}", False, "int8", [f"conv{number}"], "1×8×4×4")
    for name, value in more.items():
        setattr(row, name, value)
    return row


def test_noise_that_came_in_is_not_the_operators_own() -> None:
    assert own_noise(20.0, [20.0]) == 0.0
    assert own_noise(20.0, []) == pytest.approx(0.01)
    assert own_noise(20.0, [30.0, 40.0]) == pytest.approx(0.01 - 0.001)
    assert own_noise(30.0, [20.0]) == 0.0  # an average takes noise away


def test_the_noisiest_and_the_slowest_are_named() -> None:
    rows = [
        _row(0, own_noise=1e-6, cycles=10, bound="memory"),
        _row(1, own_noise=1e-2, cycles=10, bound="array"),
        _row(2, own_noise=1e-3, cycles=980, bound="table", is_cpu=False),
    ]
    found = changes(rows, can_mix=True)
    assert [(entry.kind, entry.number) for entry in found] == [("accuracy", 1), ("accuracy", 2), ("time", 2)]
    assert "--fp16-layers conv1" in found[0].text
    assert found[0].size == "adds noise at 20.0 dB"
    assert found[2].size == "98% of the time"
    assert all("--fp16-layers" not in entry.text for entry in changes(rows, can_mix=False))


def test_operators_of_the_cpu_are_named_together() -> None:
    rows = [_row(0, cycles=1, bound="array"), _row(1, is_cpu=True), _row(2, is_cpu=True)]
    assert [entry.size for entry in changes(rows, can_mix=True)] == ["100% of the time", "on the CPU (and 1 more)"]
