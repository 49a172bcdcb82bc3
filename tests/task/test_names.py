"""The compiler names no register: lowering, costs, plans and reports read tasks."""

from __future__ import annotations

import re
from pathlib import Path

import openrknn.compiler

NAME = re.compile(r"""["'](CNA|CORE|DPU|DPU_RDMA|PPU|PPU_RDMA)\.""")
TRANSLATED = ("targets/", "link/emit.py")
"""Other chips are translated from RK3588's registers; `emit` writes lookup tables."""


def test_only_translations_name_registers() -> None:
    folder = Path(openrknn.compiler.__file__).parent
    found = [
        name
        for path in sorted(folder.rglob("*.py"))
        if not (name := path.relative_to(folder).as_posix()).startswith(TRANSLATED)
        and ("task.registers" in (text := path.read_text()) or NAME.search(text))
    ]
    assert found == ["link/__init__.py", "rows.py"], "these hand registers on, and count them"
