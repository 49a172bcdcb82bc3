"""Sizes of decoded tasks, on the goldens of every chip."""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.container.load import load
from openrknn.runtime.cost import cost_of, task_works
from tests.container.places import golden


@pytest.mark.parametrize("chip", ["rk3588", "rk3576", "rk3566", "rk3562", "rv1106", "rv1126b"])
def test_a_convolution_of_every_chip(chip: str) -> None:
    """Tables and settings that lie in memory need not be there."""
    path = Path(golden(f"conv_{chip}_i8"))
    if not path.exists():
        pytest.skip("no such golden")
    model = load(path)
    cost = cost_of(model)
    assert (cost.unknown, cost.cpu_operators, cost.submits) == (0, 0, 1)
    (work,) = task_works(model).values()
    assert work.array_cycles * model.chip.array_macs >= work.macs > 0
    assert cost.tasks == 1
    assert cost.moved_bytes == work.moved_bytes > len(model.graphs[0].commands) // 2


def test_operators_of_the_cpu_are_counted() -> None:
    cost = cost_of(load(golden("cpu_sin_rk3588_i8")))
    assert (cost.cpu_operators, cost.submits, len(cost.operators)) == (1, 2, 2)


def test_what_cannot_be_decoded_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.errors import UnsupportedError
    from openrknn.npu import Machine

    def refuse(*_: object) -> None:
        raise UnsupportedError("a mode that nobody knows")

    model = load(golden("conv_rk3588_i8"))
    monkeypatch.setattr(Machine, "prepare", refuse)
    cost = cost_of(model)
    assert (cost.unknown, cost.operators, cost.cycles) == (1, (), 0)
