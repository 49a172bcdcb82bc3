"""The compiler names no register: lowering, costs, plans and reports read tasks."""

from __future__ import annotations

import re
from pathlib import Path

import openrknn.compiler

NAME = re.compile(r"""["'](CNA|CORE|DPU|DPU_RDMA|PPU|PPU_RDMA)\.""")
EMITS = "link/emit.py"
"""It makes words of registers, and writes lookup tables."""


def test_only_emit_names_registers() -> None:
    folder = Path(openrknn.compiler.__file__).parent
    found = [
        name
        for path in sorted(folder.rglob("*.py"))
        if (name := path.relative_to(folder).as_posix()) != EMITS
        and NAME.search(path.read_text())
    ]
    assert found == []
