"""The register table of the NPU: names, natural values, command words, assembler and disassembler.

    from openrknn import isa

    for instruction in isa.disassemble(words, isa.map_for("rk3588")):
        print(isa.format_instruction(instruction))

Blocks are modules (`isa.cna`, `isa.dpu` ...), registers are classes in them, fields are attributes in natural units:

    isa.cna.ConvCon1(0x2000A000).argb_in.channels       -> 3
    isa.cna.ConvCon1.of(conv_mode=isa.ConvMode.DEPTHWISE).value

`map_for` gives the table of any chip. RK3588 is complete; the other families hold what is known, graded by evidence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openrknn.chip.maps import all_maps, map_for
    from openrknn.chip.rk3588 import cna, core, dma, dpu, dpu_lut, dpu_rdma, dpu_stages, pc, ppu, ppu_rdma
    from openrknn.chip.rk3588.registers import RK3588
    from openrknn.isa import common, enums
    from openrknn.isa.assembly import format_instruction, format_text, parse_text
    from openrknn.isa.blocks import Block, RegisterMap
    from openrknn.isa.enums import ConvMode, Precision
    from openrknn.isa.errors import (
        AssemblyError,
        DeclarationError,
        EncodingError,
        IsaError,
        UnknownCodeError,
        UnknownRegisterError,
    )
    from openrknn.isa.evidence import GRADES
    from openrknn.isa.fields import Field
    from openrknn.isa.registers import Register
    from openrknn.isa.stream import Instruction, assemble, disassemble
    from openrknn.isa.values import BitPattern, UnknownCode
    from openrknn.isa.words import (
        NOP_WORD,
        SYNC_WORD,
        TAIL_WORDS,
        WORD_BYTES,
        Command,
        Target,
        enable_word,
        fetch_amount,
    )

__all__ = [
    "GRADES",
    "NOP_WORD",
    "RK3588",
    "SYNC_WORD",
    "TAIL_WORDS",
    "WORD_BYTES",
    "AssemblyError",
    "BitPattern",
    "Block",
    "Command",
    "ConvMode",
    "DeclarationError",
    "EncodingError",
    "Field",
    "Instruction",
    "IsaError",
    "Precision",
    "Register",
    "RegisterMap",
    "Target",
    "UnknownCode",
    "UnknownCodeError",
    "UnknownRegisterError",
    "all_maps",
    "assemble",
    "cna",
    "common",
    "core",
    "disassemble",
    "dma",
    "dpu",
    "dpu_lut",
    "dpu_rdma",
    "dpu_stages",
    "enable_word",
    "enums",
    "fetch_amount",
    "format_instruction",
    "format_text",
    "map_for",
    "parse_text",
    "pc",
    "ppu",
    "ppu_rdma",
]

_BLOCKS = frozenset({
    "cna", "core", "dma", "dpu", "dpu_lut", "dpu_rdma", "dpu_stages", "pc", "ppu", "ppu_rdma",
})  # fmt: skip
"""RK3588's, in its folder."""
_NAMES = {
    "isa.assembly": "format_instruction format_text parse_text",
    "isa.blocks": "Block RegisterMap",
    "chip.maps": "all_maps map_for",
    "isa.enums": "ConvMode Precision",
    "isa.errors": "AssemblyError DeclarationError EncodingError IsaError UnknownCodeError UnknownRegisterError",
    "isa.evidence": "GRADES",
    "isa.fields": "Field",
    "isa.registers": "Register",
    "chip.rk3588.registers": "RK3588",
    "isa.stream": "Instruction assemble disassemble",
    "isa.values": "BitPattern UnknownCode",
    "isa.words": "Command NOP_WORD SYNC_WORD TAIL_WORDS Target WORD_BYTES enable_word fetch_amount",
}
"""Module -> what is exported of it. Loaded when first used: a reader of files needs words, and no register table."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _BLOCKS:
        return import_module(f"openrknn.chip.rk3588.{name}")
    if name in {"common", "enums"}:
        return import_module(f"openrknn.isa.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'openrknn.isa' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"openrknn.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
