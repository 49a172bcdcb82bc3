"""`openrknn.save`: models into files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import openrknn
from openrknn.errors import UnsupportedError
from tests.runtime.cases import GOLDENS

MODEL = GOLDENS / "residual_rk3588_i8.rknn"


def test_a_loaded_model_is_written_and_read_again(tmp_path: Path) -> None:
    model = openrknn.load(MODEL)
    openrknn.save(model, tmp_path / "new.rknn")
    again = openrknn.load(tmp_path / "new.rknn")
    assert again.graphs == model.graphs
    assert again.inputs == model.inputs


def test_the_file_of_the_model_itself_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(MODEL.read_bytes())
    path.chmod(0o640)
    model = openrknn.load(path)
    openrknn.save(model, str(path))
    openrknn.save(openrknn.load(path), path)
    assert openrknn.load(path).graphs == model.graphs
    assert path.stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["model.rknn"]


def test_what_cannot_be_written_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "model.rknn"
    path.write_bytes(b"before")
    with pytest.raises(UnsupportedError, match="only the containers 6 and 0x1004"):
        openrknn.save(replace(openrknn.load(MODEL), format_version=1), path)
    with pytest.raises(TypeError, match="save takes a Model, as load and compile return it, not str"):
        openrknn.save(str(MODEL), path)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        openrknn.save(openrknn.load(MODEL), tmp_path / "missing" / "model.rknn")
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["model.rknn"]
