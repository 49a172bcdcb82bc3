"""A board for the vendor's runtime; a look at the graph after every pass; and compiling without the check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from openrknn.compiler import api
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.passes import verify_passes
from openrknn.compiler.result import Compiled
from openrknn.fakekernel.device import Device


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """A file for another chip has one of its own."""
    with Device("rk3588") as made:
        yield made


@pytest.fixture(autouse=True)
def _verified() -> Iterator[None]:
    """A pass that leaves a broken graph is named, whatever the test is about."""
    with verify_passes():
        yield


@pytest.fixture(autouse=True)
def _no_check_where_the_test_compares(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests marked `unchecked` compare with the float model themselves: the check would only do so once more."""
    if request.node.get_closest_marker("unchecked") is None:
        return
    compile_with = api.compile_with

    def unchecked(onnx: Any, options: CompileOptions) -> Compiled:
        return compile_with(onnx, replace(options, check=False))

    monkeypatch.setattr(api, "compile_with", unchecked)
