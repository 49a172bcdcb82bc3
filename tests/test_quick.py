"""`--quick` leaves out slow tests, those of the vendor's runtime, and all but one model of a kind."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import quick


def item(node: str, *parameters: object, marker: str = "") -> Any:
    call = {"callspec": SimpleNamespace(params=dict(enumerate(parameters)))} if parameters else {}
    return SimpleNamespace(nodeid=node, get_closest_marker=lambda name: name if name == marker else None, **call)


def chosen(*items: Any, is_quick: bool = True) -> list[str]:
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config = SimpleNamespace(getoption=lambda name: is_quick, hook=hook)
    left = list(items)
    quick.choose(cast(pytest.Config, config), left)
    return [one.nodeid for one in left]


def test_slow_tests_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "durations.json").write_text('{"a.py::test_slow": 3.5}')
    monkeypatch.setattr(quick, "RECORD", tmp_path / "durations.json")
    items = item("a.py::test_slow[1]", 1), item("a.py::test_fast[1]", 1), item("b.py::test_it", marker="witness")
    assert chosen(*items) == ["a.py::test_fast[1]"]
    assert len(chosen(*items, is_quick=False)) == 3


def test_one_model_of_a_kind() -> None:
    names = ["conv_rk3588_i8", "pool_rk3588_i8", "pool_rk3588_fp", "pool_rv1106b_i8", "pool_rk3588_i8_batch2"]
    found = chosen(*(item(f"a.py::test_x[{name}]", Path("goldens", f"{name}.rknn")) for name in names))
    assert found == ["a.py::test_x[conv_rk3588_i8]", "a.py::test_x[pool_rk3588_fp]", "a.py::test_x[pool_rv1106b_i8]"]
    # Other parameters and other tests count; parameters without models are no kind of model.
    assert len(chosen(*(item(f"a.py::test_x[{n}]", "m_rk3588_i8", n) for n in range(3)))) == 3
    assert len(chosen(*(item(f"a.py::test_{n}[m]", "m_rk3588_i8") for n in range(3)))) == 3
    assert len(chosen(*(item(f"a.py::test_x[{n}]", "same") for n in range(3)))) == 3
