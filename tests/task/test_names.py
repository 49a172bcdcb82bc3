"""Only chips and the instruction set name registers: everything else reads tasks."""

from __future__ import annotations

import re
from pathlib import Path

import openrknn

NAME = re.compile(r"""["'](CNA|CMAC|CORE|DPU|DPU_RDMA|PPU|PPU_RDMA|DDMA)\.[A-Z{]""")
OWNERS = ("chip/", "isa/")
ALLOWED = {
    "compiler/link/emit.py": "writes the entries of lookup tables, which are words and no task",
    "container/mini_links.py": "finds the words of a mini file that hold addresses",
    "container/v1.py": "finds the words of a format 1 file that hold addresses",
    "runtime/matmul/commands.py": "writes the words of the vendor's matmul, register by register",
    "runtime/matmul/commands_rk3576.py": "the same for RK3576",
    "trace/replay.py": "finds the word of a recorded stream that holds the output's address",
}


def test_registers_are_named_by_their_owners() -> None:
    folder = Path(openrknn.__file__).parent
    found = {
        name
        for path in sorted(folder.rglob("*.py"))
        if not (name := path.relative_to(folder).as_posix()).startswith(OWNERS) and NAME.search(path.read_text())
    }
    assert found == ALLOWED.keys()
