"""From tasks to the registers of RK3566 and RK3568: RK3588's at other places, atoms of 8 bytes, half of the array.

Every difference was read from files that the vendor's converter made of the same ONNX model for both chips.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.chip.rk3588.encode import encode_pooling
from openrknn.chip.rk3588.encode_cna import PICTURES, converter_fields, encode_convolution, encode_lanes
from openrknn.chip.rk3588.encode_dpu import (
    Fields,
    conv_mode,
    encode_dpu,
    keeps_fp16,
    operation_of,
    pointers,
    table_of,
)
from openrknn.chip.rk3588.encode_rdma import encode_readers
from openrknn.chip.target import Encoded, Registers, ceil_div
from openrknn.chips import CHIPS
from openrknn.errors import UnsupportedError
from openrknn.isa.enums import (
    EwAlgorithm,
    OperandKinds,
    OperandMode,
    PoolingMethod,
    Precision,
    ShortAlgorithm,
)
from openrknn.task import ew, ppu, rdma
from openrknn.task.formats import element_bytes
from openrknn.task.kinds import Convolution, Piped, Pooling, Work
from openrknn.task.place import Address
from openrknn.task.stage import Stage

__all__ = ["PADS", "encode", "pad_sums", "signed_pad", "single_reader"]

_CHIP = CHIPS["rk3566"]
_ATOM = _CHIP.atom_bytes
_BUS = 0x171C07
_BURST = {"DPU": 4, "DPU_RDMA": 8}
_START_PIXELS = 16
"""The sequencer starts when the rows of more than so many outputs are there."""
_KIND_BYTES = {OperandKinds.ALU: 4, OperandKinds.CPEND: 2, OperandKinds.MUL: 2}
PADS = 4
"""Pad values of the PPU that streams write; there are seven."""
_LOWEST = {Precision.INT8: -128, Precision.FP16: 0xFBFF}
"""What loses against every number."""
_SIGNED19 = 0x7FFFF


def encode(task: Work) -> Encoded:
    """The blocks that work, and their registers."""
    if isinstance(task, Pooling):
        return ("PPU", "PPU_RDMA"), encode_pooling(task.pooling) | pad_sums(task.pooling) | {
            "PPU_RDMA.UNKNOWN_7018": {"bits": 1},
            "PPU_RDMA.RDMA_DATA_FORMAT": {"in_precision": task.pooling.precision},
        }
    _refuse(task)
    blocks: tuple[str, ...] = ("DPU",)
    registers = _stages(task)
    if task.reader is not None:
        blocks, registers = ("DPU", "DPU_RDMA"), registers | _readers(task, task.reader)
    if isinstance(task, Convolution):
        return ("CNA", "CMAC", "CORE", *blocks), registers | _features(task)
    return blocks, registers


def _refuse(task: Piped) -> None:
    """What RK3588 does and no stream of these chips was seen to do."""
    write, out = task.dpu.write, task.dpu.out
    unknown = {
        "nonalign (DPU.FEATURE_MODE_CFG)": write.packed_bytes is not None,
        "surf_len (DPU.FEATURE_MODE_CFG)": write.transposed_lanes is not None and task.reader is not None,
        "minus_exp (DPU.OUT_CVT_SHIFT)": bool(out.minus_exponent),
        "cvt_round (DPU.OUT_CVT_SHIFT)": bool(out.rounding),
    }
    for name, is_used in unknown.items():
        if is_used:
            raise UnsupportedError(f"RK3566 and RK3568 have no known {name}")


# -- CNA ---------------------------------------------------------------------------------------------------------


def _features(task: Convolution[Address]) -> Registers:
    """CNA, CMAC and CORE."""
    source, entries = task.source, task.buffer.entries
    height, packed, element = source.height, source.packed_channels, element_bytes(source.precision)
    line, surface, row = source.line_bytes // _ATOM, source.surface_bytes // _ATOM, source.width
    registers = encode_convolution(task)
    if packed:
        row = entries * 4
        line = ceil_div(source.line_bytes, _ATOM)
        surface = source.line_bytes // (packed * element) * task.picture_rows
        registers["CNA.IMAGE_SIZE"] = {"image_size": 9 * source.width * height if packed == 3 else 0}
    kind: Fields = {"dw_en": int(source.depthwise), "proc_precision": source.weight_precision}
    return registers | {
        **{f"{block}.S_POINTER": pointers(is_first=task.is_first) for block in ("CNA", "CMAC", "CORE")},
        "CNA.CBUF_CON0": {
            "data_bank": task.buffer.data_banks, "weight_bank": task.buffer.weight_banks,
            "weight_reuse": int(source.reuses_weights), "data_reuse": int(task.buffer.reuses_data),
        },
        "CNA.CONV_CON1": {
            "conv_mode": conv_mode(task), "in_precision": source.precision, "proc_precision": source.weight_precision,
            "deconv": int((source.spread_y, source.spread_x) != (1, 1)),
            "argb_in": PICTURES[0 if packed * element == _ATOM else packed],
        },
        "CNA.CONV_CON2": {"feature_grains": _grains(task)},
        "CNA.DATA_SIZE1": {"datain_channel": source.channels, "datain_channel_real": task.channels},
        "CNA.CBUF_CON1": {"data_entries": entries, "datain_width": row},
        "CNA.CVT_CON0": {"cvt_en": int(source.converter is not None), **converter_fields(source)},
        **encode_lanes(source),
        "CNA.PAD_CON0": {
            "pad_top": source.pad_top, "pad_left": source.pad_left,
            "pad_value": signed_pad(source.pad_bits, source.precision),
        },
        "CNA.DMA_CON0": {"bus_settings": _BUS},
        "CNA.DMA_CON1": {"line_stride": line},
        "CNA.DMA_CON2": {"surf_stride": surface},
        "CNA.FC_DATA_SIZE0": {"dma_height": height, "dma_width": row},
        "CNA.FC_DATA_SIZE1": {"dma_channel": source.channels},
        "CORE.MISC_CFG": kind,
        "CORE.CLIP_TRUNCATE": {"clip_truncate": task.array.shift},
        "CMAC.MISC_CFG": {"always": 1, **kind},
    }  # fmt: skip


def _grains(task: Convolution[Address]) -> int:
    """Rows that are fetched before the sequencer starts: what more than 16 outputs need (282 of 282 operators)."""
    source = task.source
    reach = (source.kernel_height - 1) * source.dilation_y + 1
    more = _START_PIXELS // source.out_width + 1
    return min(source.height, reach + source.stride_y * source.spread_y * more)


def signed_pad(bits: int, precision: Precision) -> int:
    """A byte, which RK3588 repeats for depthwise, or an fp16 number, as a signed number."""
    value = bits & (0xFF if precision is Precision.INT8 else 0xFFFF)
    half = 0x80 if precision is Precision.INT8 else 0x8000
    return (value ^ half) - half


# -- DPU ---------------------------------------------------------------------------------------------------------


def _stages(task: Piped) -> Registers:
    config, write, operation = task.dpu, task.dpu.write, operation_of(task)
    registers, notch = encode_dpu(task), (write.line_bytes - write.width * write.atom_bytes) // _ATOM
    for name in ("DPU.WDMA_SIZE_0", "DPU.WDMA_SIZE_1", "DPU.OUT_CVT_SCALE"):
        del registers[name]
    registers |= {
        "DPU.FEATURE_MODE_CFG": {
            "flying_mode": int(config.flying), "to_memory": 1, "conv_mode": conv_mode(task),
            "burst_len": _BURST["DPU"], "tp_en": int(write.transposes_atoms),
        },
        "DPU.DST_SURF_STRIDE": {"dst_surf_stride": write.atom_step_bytes // _ATOM},
        "DPU.SURFACE_ADD": {"surf_add": write.group_step_bytes // _ATOM},
        "DPU.DATA_CUBE_NOTCH_ADDR": dict.fromkeys(("notch_addr_0", "notch_addr_1"), notch),
        "DPU.OUT_CVT_SCALE": {"out_cvt_scale": config.out.scale},
    }  # fmt: skip
    for name, stage in (("bs", config.bias), ("bn", config.norm)):
        registers[f"DPU.{name.upper()}_CFG"][f"{name}_alu_algo"] = _algorithm(stage)
    element_wise = registers["DPU.EW_CFG"]
    element_wise.pop("edata_size", None)
    if operation is not None and not operation.multiplies:
        if operation.algorithm.name not in ShortAlgorithm.__members__:
            raise UnsupportedError(f"RK3566 and RK3568 have no element-wise {operation.algorithm.name.lower()}")
        element_wise["ew_alu_algo"] = ShortAlgorithm[operation.algorithm.name]
    if _divides(operation):  # in fp16 all the way, which the formats at both ends call INT16
        element_wise["ew_op_cvt_bypass"] = 1
        registers["DPU.DATA_FORMAT"] |= {"in_precision": Precision.INT16, "out_precision": Precision.INT16}
    if task.reader is not None and task.reader.operand is not None and _operand_pitch(task, task.reader) == 1:
        element_wise["ew_data_mode"] = OperandMode.PER_CHANNEL
    return registers


def _algorithm(stage: Stage | None) -> ShortAlgorithm:
    """Of a stage that adds nothing it is 0, as MAX is."""
    adds = stage is not None and stage.adds and not stage.takes_larger
    return ShortAlgorithm.ADD if adds else ShortAlgorithm.MAX


def _divides(operation: ew.Operation | None) -> bool:
    return operation is not None and not operation.multiplies and operation.algorithm is EwAlgorithm.DIV


# -- DPU_RDMA ----------------------------------------------------------------------------------------------------


def single_reader(task: Piped, reader: rdma.Config[Address]) -> rdma.Config[Address]:
    """Two readers that fetch a convolution's operand by turns as one, for chips where one is enough."""
    main, operand = reader.main, reader.operand
    if not isinstance(task, Convolution) or main is None or operand is None:
        return reader
    walk = replace(operand.walk, address=main.address, surface_bytes=operand.stride_bytes)
    return replace(reader, main=None, operand=replace(operand, walk=walk))


def _to_bytes(task: Piped, reader: rdma.Config[Address]) -> bool:
    """Both readers have one tensor, as far from surface to surface as it is."""
    return not isinstance(task, Convolution) and bool(reader.combine)


def _operand_pitch(task: Piped, reader: rdma.Config[Address]) -> int:
    """Atoms from surface to surface of the operand."""
    assert reader.operand is not None
    return reader.operand.stride_bytes // reader.atom_bytes // (2 if _to_bytes(task, reader) else 1)


def _readers(task: Piped, given: rdma.Config[Address]) -> Registers:
    reader, is_convolution = single_reader(task, given), isinstance(task, Convolution)
    registers, has_floats = encode_readers(task, reader), reader.proc_precision is not Precision.INT8
    registers.pop("DPU_RDMA.RDMA_EW_SURF_NOTCH", None)
    for letter, kinds in (("b", reader.bias_kinds), ("n", reader.norm_kinds)):
        start = f"DPU_RDMA.RDMA_{letter.upper()}RDMA_"
        registers[f"{start}CFG"] = {f"{letter}rdma_data_use": kinds, f"{letter}rdma_disable": int(not kinds)}
        size = sum(count for kind, count in _KIND_BYTES.items() if kinds & kind)
        registers[f"{start}CHANNEL"] = {f"{letter}rdma_channel": max(1, size * reader.channels // _ATOM)}
    precision, to_bytes = reader.precision, _to_bytes(task, reader)
    if _divides(operation_of(task)) or keeps_fp16(task):
        precision = Precision.INT16
    if is_convolution and has_floats and reader.operand is None and table_of(task.dpu) is None:
        precision = Precision.FP32  # the bias
    if reader.operand is not None:
        _operand(task, reader, registers)
    registers["DPU_RDMA.RDMA_FEATURE_MODE_CFG"] = {
        "flying_mode": int(task.dpu.flying), "conv_mode": conv_mode(task), "proc_precision": reader.proc_precision,
        "in_precision": precision, "burst_len": _BURST["DPU_RDMA"], "to_bytes": int(to_bytes),
    }  # fmt: skip
    return registers


def _operand(task: Piped, reader: rdma.Config[Address], registers: Registers) -> None:
    pitch, (rows, columns) = _operand_pitch(task, reader), task.size
    notch, is_convolution = pitch - rows * columns, isinstance(task, Convolution)
    has_floats = reader.proc_precision is not Precision.INT8
    if reader.main is not None and not is_convolution:
        line = reader.main.line_bytes // reader.atom_bytes
        notch = reader.main.surface_bytes // reader.atom_bytes - (reader.height - 1) * line - reader.width
        if _to_bytes(task, reader):
            notch -= pitch
            registers["DPU_RDMA.RDMA_EW_BASE_ADDR"] = {"ew_base_addr": reader.main.address}
        has_several = reader.channels * (2 if has_floats else 1) > _ATOM  # one surface has no next one to be apart from
        if has_several and pitch > 1 and pitch - rows * columns != notch:
            raise UnsupportedError("RK3566 and RK3568 read two operands only if their surfaces are alike")
    registers["DPU_RDMA.RDMA_SURF_NOTCH"] = {"surf_notch_addr": notch}
    registers["DPU_RDMA.RDMA_ERDMA_CFG"]["erdma_data_size"] = int(has_floats)
    if pitch == 1:
        registers["DPU_RDMA.RDMA_ERDMA_CFG"]["erdma_data_mode"] = OperandMode.PER_CHANNEL
    registers["DPU_RDMA.RDMA_EW_SURF_STRIDE"] = {"ew_surf_stride": pitch}
    registers["DPU_RDMA.RDMA_EW_SURF_LAST"] = {"ew_surf_last": pitch - 1}


# -- PPU ---------------------------------------------------------------------------------------------------------


def pad_sums(config: ppu.Config[Address]) -> Registers:
    """What one to four padding pixels of a mean add up to; maxima have the lowest number."""
    if config.precision not in _LOWEST:
        raise UnsupportedError(f"pad values of {config.precision.name} are unknown")
    values = [_LOWEST[config.precision]] * PADS
    if config.method is PoolingMethod.AVERAGE:
        pad = signed_pad(config.pad_value, Precision.INT8) if config.precision is Precision.INT8 else 0
        values = [number * pad for number in range(1, PADS + 1)]
    return {
        f"PPU.PADDING_VALUE_{number}": {"pad_value": value & _SIGNED19} for number, value in enumerate(values, 1)
    }
