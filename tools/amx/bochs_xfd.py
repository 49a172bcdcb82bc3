#!/usr/bin/env python3
"""Teach a source tree of Bochs 3.0 the register IA32_XFD, without which Linux does not give tiles to programs.

The instructions themselves are not touched. Facts: Intel SDM volume 1, 13.14 (extended feature disable). With XFD[18]
set, an instruction that uses tiles is stopped by #NM, and IA32_XFD_ERR says why; Linux then makes room for the tiles.
"""

from __future__ import annotations

import sys
from pathlib import Path

TILE_DATA = 18
REGISTERS = "0x1c4", "0x1c5"

ADDITIONS = [
    ("cpu/avx/amx.cc", "void BX_CPP_AttrRegparmN(2) BX_CPU_C::check_tile(bxInstruction_c *i, unsigned tile_num)\n{\n",
     f"  if (extended_disable[0] >> {TILE_DATA} & 1) {{\n    extended_disable[1] |= 1 << {TILE_DATA};\n"
     "    exception(BX_NM_EXCEPTION, 0);\n  }\n"),
    ("cpu/avx/amx.cc", '#include "amx.h"\n', "\nBit64u extended_disable[2];\n"),
    ("cpu/cpuid.cc", "    // EAX[4] - support for XFD\n    leaf->eax = 0;\n", "    leaf->eax |= 1 << 4;\n"),
    ("cpu/cpuid.cc", "      leaf->ecx = (cpu->ia32_xss_suppmask & (1 << subfunction)) != 0;\n",
     f"      if (subfunction == {TILE_DATA}) leaf->ecx |= 1 << 2;\n"),
    ("cpu/msr.cc", "BX_CPU_C::rdmsr(Bit32u index, Bit64u *msr)\n{\n",
     f"  if (index == {REGISTERS[0]} || index == {REGISTERS[1]}) {{\n"
     f"    *msr = extended_disable[index - {REGISTERS[0]}];\n    return true;\n  }}\n"),
    ("cpu/msr.cc", "BX_CPU_C::wrmsr(Bit32u index, Bit64u val_64)\n{\n",
     f"  if (index == {REGISTERS[0]} || index == {REGISTERS[1]}) {{\n"
     f"    extended_disable[index - {REGISTERS[0]}] = val_64;\n    return true;\n  }}\n"),
    ("cpu/msr.cc", '#include "cpu.h"\n', "\nextern Bit64u extended_disable[2];\n"),
]  # fmt: skip


def main() -> int:
    """Insert each addition behind its place."""
    tree = Path(sys.argv[1])
    for name, place, addition in ADDITIONS:
        text = (tree / name).read_text()
        if addition in text:
            continue
        if text.count(place) != 1:
            sys.stderr.write(f"{name}: the place for an addition is not there once: another version of Bochs?\n")
            return 1
        (tree / name).write_text(text.replace(place, place + addition))
    return 0


if __name__ == "__main__":
    sys.exit(main())
