"""BS, BN and the lookup tables of RK3576 and RV1126B.

Operands that are the same for all channels, and the shifts, stand in small tensors ("..._BScfgTensor"), which registers
of DPU_RDMA point at. A tensor holds the kinds that its register names, one after another:

    addend       32 bytes; int32 or fp32 at the start
    correction   16 bytes; int16
    multiplier   16 bytes; int16, fp16 or bf16
    shifts       16 bytes; one byte for values that are not negative, one for the others
"""

from __future__ import annotations

from openrknn.chip.rk3562.decode_named_dpu import Operands, read_stage, stage_fields
from openrknn.chip.task_registers import NamedRegisters, Registers
from openrknn.errors import UnknownModeError
from openrknn.isa import BitPattern, Precision
from openrknn.isa.enums import OperandKinds
from openrknn.task import lut
from openrknn.task.stage import Stage

__all__ = ["configure_bn", "configure_bs", "configure_table", "tables_of"]

_KIND_BYTES = {OperandKinds.ALU: 32, OperandKinds.CPEND: 16, OperandKinds.MUL: 16, OperandKinds.TRT: 16}
_LOOKUP = {"mode": 6, "load": 0, "ranges": 2}


def tables_of(registers: Registers) -> tuple[Operands, Operands]:
    """The tensors of BS and BN."""
    reader = registers.named("DPU_RDMA")
    return (
        _operands(registers, reader("RDMA_BRDMA_CFG", "config_use"), reader("RDMA_BS_CONFIG_ADDR", "bs_config_addr")),
        _operands(registers, reader("RDMA_NRDMA_CFG", "config_use"), reader("RDMA_BN_CONFIG_ADDR", "bn_config_addr")),
    )


def _operands(registers: Registers, use: int, address: int) -> Operands:
    found: dict[OperandKinds, bytes] = {}
    for kind, size in _KIND_BYTES.items():
        if use & kind:
            found[kind] = registers.memory.view(address, size, "operand tensor")[:4].tobytes()
            address += size
    halves = {kind: int.from_bytes(data[:2], "little") for kind, data in found.items()}
    shifts = found.get(OperandKinds.TRT, bytes(2))
    return Operands(
        BitPattern(int.from_bytes(found.get(OperandKinds.ALU, bytes(4)), "little")),
        BitPattern(halves.get(OperandKinds.CPEND, 0)).int16,
        BitPattern(halves.get(OperandKinds.MUL, 0)),
        shifts[0],
        shifts[1],
    )


def configure_bs(dpu: NamedRegisters, precision: Precision, table: Operands) -> Stage | None:
    """BS without the correction; None if it is bypassed."""
    return read_stage(dpu, precision, table, stage_fields(dpu, "bs", "BS_CFG", "BS_OW_CFG", "BS_MUL_CFG"))


def configure_bn(dpu: NamedRegisters, precision: Precision, table: Operands) -> Stage | None:
    """BN; None if it is bypassed."""
    return read_stage(dpu, precision, table, stage_fields(dpu, "bn", "BN_CFG"), is_norm=True)


def configure_table(dpu: NamedRegisters, tables: lut.Tables | None) -> lut.Config | None:
    """The lookup tables; None where they are not used. `tables` may be None for tasks that cannot use them."""
    info, mode = dpu.fields("LUT_INFO"), dpu.fields("LUT_CFG")
    places = {
        name: [dpu(f"LUT_{name}_{number}", "x") for number in range(4)]
        for name in ("LE_START", "LE_END", "LO_START", "LO_END")
    }
    scales = {
        name: [value for number in range(2) for value in dpu.fields(f"LUT_{name}_SCALE_{number}").values()]
        for name in ("LE_UFLOW", "LE_OFLOW", "LO_UFLOW", "LO_OFLOW")
    }
    shifts = {name: list(dpu.fields(f"LUT_{name}_SHIFT").values()) for name in scales}
    values = {
        name: [value for number in range(2) for value in dpu.fields(f"LUT_{name}_VALUE_{number}").values()]
        for name in ("LE", "LO")
    }
    dpu.waive("LUT_ACCESS_CFG", "LUT_ACCESS_DATA")
    if dpu("EW_CFG", "ew_bypass") or dpu("EW_CFG", "ew_lut_bypass"):
        return None
    if mode != _LOOKUP or places["LE_END"] != places["LO_START"] or len(set(places["LE_END"])) > 1:
        raise UnknownModeError("this division of the tables is not implemented", register="LUT_CFG")
    if tables is None:
        raise UnknownModeError("a table in a task of this kind is not implemented", register="EW_CFG")
    below = _pieces(places["LE_START"], values["LE"], scales["LE_UFLOW"], shifts["LE_UFLOW"])
    above = _pieces(places["LO_END"], values["LO"], scales["LO_OFLOW"], shifts["LO_OFLOW"])
    return lut.Config(
        entries=tables.snapshot(),
        le_start=places["LE_START"][0],
        lo_start=places["LO_START"][0],
        lo_end=places["LO_END"][0],
        le_select=info["lut_le_index_select"],
        lo_select=info["lut_lo_index_select"],
        below=below[0].slope,
        above=above[0].slope,
        further_below=below[1:],
        further_above=above[1:],
    )


def _pieces(starts: list[int], values: list[int], scales: list[int], shifts: list[int]) -> tuple[lut.Piece, ...]:
    """Of pieces that start at one place only the last counts. The first piece starts at the end of the table."""
    pieces = [
        lut.Piece(start, value, lut.Slope(scale, shift))
        for start, value, scale, shift in zip(starts, values, scales, shifts, strict=True)
    ]
    last = {piece.start: piece for piece in pieces}
    return tuple(last[start] for start in dict.fromkeys(starts))
