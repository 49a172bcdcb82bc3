"""Many small task records can name the same long list of commands: that is refused before it is decoded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from openrknn import Session, load
from openrknn.chips import TaskList
from openrknn.errors import BudgetError

CONV = Path(__file__).resolve().parents[1] / "goldens" / "conv_rk3588_i8.rknn"


def test_tasks_that_share_their_commands_thousands_of_times_are_refused() -> None:
    model = load(CONV)
    graph = model.graphs[0]
    again = replace(graph, tasks=graph.tasks[:1] * 20_000, task_lists={TaskList(1, 0): range(20_000)})
    with pytest.raises(BudgetError, match="the file has 936"):
        Session(replace(model, graphs=(again,)), "software")
