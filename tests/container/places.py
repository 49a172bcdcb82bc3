"""Where the test material is: small goldens in the repository, the big corpus beside it where there is one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openrknn.container import outer
from openrknn.container.outer import Outer

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = sorted((ROOT / "tests" / "goldens").glob("*.rknn"))
_SHARED = ROOT.parent / "shared"
CORPUS = sorted(path for folder in ("corpus/*", "models", "models/bench") for path in _SHARED.glob(f"{folder}/*.rknn"))


IS_WHOLE = os.environ.get("OPENRKNN_CORPUS") in ("all", "whole")
"""Tests that ask a choice of the corpus ask all of it."""


def golden(name: str) -> Path:
    """A golden by its name without suffix."""
    return ROOT / "tests" / "goldens" / f"{name}.rknn"


def head(path: Path) -> Outer:
    """The outer parts of a file: what a choice of files needs while tests are collected, without reading a model."""
    return outer.split(outer.open_source(path))


def chip_of(path: Path) -> str:
    """The chip that a golden is for, from its name."""
    return next(word for word in path.stem.split("_") if word.startswith(("rk", "rv")))


def need_corpus() -> list[Path]:
    """The corpus, or a skip that says why."""
    if not CORPUS:
        pytest.skip("no corpus: ../shared is not beside the repository")
    return CORPUS


def sample_of_corpus(every: int) -> list[Path]:
    """Every so many files of it, or all with OPENRKNN_CORPUS=all: for what takes long and finds little."""
    return need_corpus()[:: 1 if IS_WHOLE else every]
