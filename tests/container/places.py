"""Where the test material is: small goldens in the repository, the big corpus beside it where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = sorted((ROOT / "tests" / "goldens").glob("*.rknn"))
_SHARED = ROOT.parent / "shared"
CORPUS = sorted(path for folder in ("corpus/*", "models", "models/bench") for path in _SHARED.glob(f"{folder}/*.rknn"))


def golden(name: str) -> Path:
    """A golden by its name without suffix."""
    return ROOT / "tests" / "goldens" / f"{name}.rknn"


def need_corpus() -> list[Path]:
    """The corpus, or a skip that says why."""
    if not CORPUS:
        pytest.skip("no corpus: ../shared is not beside the repository")
    return CORPUS
