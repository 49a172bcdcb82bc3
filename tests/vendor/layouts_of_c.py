"""Asks a C compiler for the sizes, offsets and values of `capi.h`.

The C program prints them; no number in it is written down. A compiler for another machine can be asked too: then the
numbers are read from the assembly that it makes.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from openrknn.vendor.tables.layouts import STRUCTS, struct_named
from openrknn.vendor.tables.names import ENUMS, members
from openrknn.vendor.tables.versions import Version
from tests.vendor.compiler import HERE


def expressions(version: Version) -> dict[str, str]:
    """Key -> C expression, for everything that can be asked."""
    found: dict[str, str] = {}
    for name in STRUCTS:
        found[f"sizeof {name}"] = f"sizeof({name})"
        found |= {
            f"offset {name}.{field.name}": f"offsetof({name}, {field.name})"
            for field in struct_named(name, version).fields
        }
    for kind, _ in ENUMS.values():
        found |= {f"value {name}": f"(unsigned long){name}" for name, _ in members(kind)}
    return found


def api_number(version: Version) -> int:
    """1.5.2 -> 152."""
    return version.major * 100 + version.minor * 10 + version.patch


def ask(
    compiler: str, version: Version, folder: Path, options: Iterable[str] = (), headers: Iterable[str] = ("capi.h",)
) -> Mapping[str, int]:
    """What the compiler says, from the assembly that it makes of an array of constants."""
    includes = "".join(f'#include "{name}"\n' for name in headers)
    wanted = expressions(version)
    rows = "".join(f"    {text}, /* {key} */\n" for key, text in wanted.items())
    source = folder / "ask.c"
    source.write_text(f"#include <stddef.h>\n{includes}const unsigned answers[] = {{\n{rows}    0xfeedbeef,\n}};\n")
    command = [compiler, "-S", "-O0", f"-DAPI={api_number(version)}", f"-I{HERE}", *options, "-o", "-", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return dict(zip(wanted, _numbers(result.stdout), strict=True))


def _numbers(assembly: str) -> list[int]:
    """The words of the array; a run of zeros is written as one line."""
    body = assembly[assembly.index("answers:") :]
    numbers: list[int] = []
    for directive, value in re.findall(r"^\s*\.(long|word|zero|space|4byte)\s+(-?\w+)", body, re.MULTILINE):
        count = int(value, 0)
        numbers += [0] * (count // 4) if directive in ("zero", "space") else [count & 0xFFFFFFFF]
        if numbers[-1] == 0xFEEDBEEF:
            return numbers[:-1]
    raise AssertionError(f"no end of the answers in {json.dumps(body[:500])}")
