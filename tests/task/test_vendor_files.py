"""encode(decode(words)) == words over the vendor's files, but for the table of exceptions."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from openrknn.errors import RknnError
from tests.npu.chip_models import GOLDENS
from tests.task.exceptions import EXCEPTIONS, REFUSALS, Row
from tests.task.vendor_tasks import Seen, tasks_of

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
FAMILIES = ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106")
QUICK = ("conv", "residual", "image", "matmul", "softmax", "silu", "transpose", "bilinear", "pruned")
"""Files of the first tier: every kind of task."""
LEAST = {"rk3588": 0.7, "rk3566": 0.7, "rk3562": 0.75, "rk3576": 0.5, "rv1106": 0.6}
"""Part of the goldens' tasks that come back register for register."""


def is_in(table: tuple[Row, ...], family: str, text: str) -> bool:
    return any(family in row.families and any(fnmatchcase(text, field) for field in row.fields) for row in table)


def outside(task: Seen) -> list[str]:
    """What the table of exceptions does not have."""
    if task.refusal:
        return [] if is_in(REFUSALS, task.family, task.refusal) else [task.refusal]
    return [f"{field}: {values}" for field, values in task.differences.items()
            if not is_in(EXCEPTIONS, task.family, field)]  # fmt: skip


def compared(paths: list[Path]) -> Counter[str]:
    """How many tasks of each family come back; everything else has to be in the table."""
    found: Counter[str] = Counter()
    for path in paths:
        try:
            tasks = list(tasks_of(path))
        except (RknnError, KeyError):  # no stream for one core, or formats that the software NPU does not run
            continue
        for number, task in enumerate(tasks):
            assert outside(task) == [], f"{path.name}, task {number}"
            found[task.family] += 1
            found[f"{task.family} back"] += not task.refusal and not task.differences
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_goldens(family: str) -> None:
    files = [path for name in QUICK for path in sorted(GOLDENS.glob(f"{name}_{family}_*.rknn"))]
    found = compared(files)
    assert found[f"{family} back"] >= LEAST[family] * found[family] > 0


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus beside the repository")
def test_corpus() -> None:
    found = compared(sorted(CORPUS.rglob("*.rknn"))[::8])
    back = sum(found[f"{family} back"] for family in FAMILIES)
    assert back >= 0.85 * sum(found[family] for family in FAMILIES)
