"""What compiled parts are kept by: everything that can change them."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

import openrknn
from openrknn.partition import cache


def test_every_module_of_the_package_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is new, changed, moved or gone is another compiler, whichever package it is in."""
    for name in ("__init__.py", "chips.py", "chip/rk3588/cna.py", "cost/boards.py", "compiler/api.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"# {name}")
    monkeypatch.setattr(openrknn, "__file__", str(tmp_path / "__init__.py"))
    version = cache.compiler_version.__wrapped__
    seen = {version()}
    for number, name in enumerate(["chip/rk3588/cna.py", "chips.py", "chip/new.py", "npu/new.py", "cost/boards.py"], 2):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("changed")
        seen.add(version())
        assert len(seen) == number, name
    (tmp_path / "chip/new.py").rename(tmp_path / "chip/newer.py")
    seen.add(version())
    (tmp_path / "npu/new.py").unlink()
    seen.add(version())
    assert len(seen) == 8


def test_so_do_the_packages_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    version = cache.compiler_version.__wrapped__
    before = version()
    known = metadata.version
    for changed in ("numpy", "onnx", "onnxruntime"):
        monkeypatch.setattr(
            metadata, "version", lambda name, changed=changed: "99" if name == changed else known(name)
        )
        assert version() != before
