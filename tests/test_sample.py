"""Of tests that are marked `sample`, some run, unless all are asked for or they are named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import sample


def item(node: str, model: str = "", every: int = 0) -> Any:
    mark = SimpleNamespace(args=(every,)) if every else None
    call = {"callspec": SimpleNamespace(params={"model": model})} if model else {}
    return SimpleNamespace(nodeid=node, get_closest_marker=lambda name: mark if name == "sample" else None, **call)


def chosen(items: list[Any], keyword: str = "", args: tuple[str, ...] = ("tests",)) -> list[str]:
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    options = {"keyword": keyword, "--all": False}
    config = SimpleNamespace(getoption=options.__getitem__, args=list(args), hook=hook)
    sample.choose(cast(pytest.Config, config), items)
    return [one.nodeid for one in items]


@pytest.fixture(autouse=True)
def default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sample.VARIABLE, raising=False)


def many() -> list[Any]:
    return [item("a.py::test_plain"), *(item(f"a.py::test_some[{n}]", f"net{n}", 3) for n in range(7))]


def test_every_third_of_a_marked_test() -> None:
    assert chosen(many()) == ["a.py::test_plain", *(f"a.py::test_some[{n}]" for n in (0, 3, 6))]


def test_one_of_each_kind_of_model() -> None:
    models = ["conv_rk3588_i8", "conv_rk3588_fp", "pool_rk3588_i8", "add_rk3588_i8", "conv_rk3566_i8"]
    found = chosen([item(f"a.py::test_some[{model}]", model, 9) for model in models])
    assert [node[16:-1] for node in found] == ["conv_rk3588_i8", "conv_rk3588_fp", "conv_rk3566_i8"]


def test_what_is_asked_for_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(chosen(many(), keyword="some")) == 8
    assert len(chosen(many(), args=("a.py::test_some[4]",))) == 8
    monkeypatch.setenv(sample.VARIABLE, "all")
    assert len(chosen(many())) == 8
    monkeypatch.setenv(sample.VARIABLE, "")
    assert sample.is_all(cast(pytest.Config, SimpleNamespace(getoption=lambda name: name == "--all")))
    assert len(chosen(many())) == 8
