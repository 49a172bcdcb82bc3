"""Which fields of the configurations the kernels know.

A block that learns something new gets a field with a default that means "as before". A step where such a field has
another value is left to NumPy until a kernel knows the field and it stands here.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass

from openrknn.npu.blocks import cna, core, ppu, rdma
from openrknn.npu.blocks.compression import Compression
from openrknn.npu.blocks.dpu import ew, lut, out_cvt, pipeline, stage, write
from openrknn.npu.native.places import RefusedError
from openrknn.npu.task import Convolution, Flying, Pooling

__all__ = ["refuse_unknown"]

_STEP = "task operator memory native"
_KNOWN: dict[type, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        Convolution: f"{_STEP} source array dpu reader",
        Flying: f"{_STEP} dpu reader",
        Pooling: f"{_STEP} config",
        cna.Config: (
            "feature_address height width channels packed_channels line_bytes surface_bytes precision is_unsigned "
            "converter pad_top pad_left pad_bits out_height out_width weight_address weight_bytes weight_channels "
            "weight_precision kernels kernel_height kernel_width stride_x stride_y dilation_x dilation_y spread_x "
            "spread_y depthwise atom_bytes kernel_group input_group depthwise_group inline_zero_points weight_offset "
            "packed_rows reuses_weights compression"
        ),
        Compression: "scheme streams",
        cna.Converter: "add_first rounding shifts scales offsets lanes",
        core.Config: "window_sums shift rounding",
        rdma.Config: (
            "width height channels precision proc_precision main bias_kinds bias_address norm_kinds norm_address "
            "operand combine repeat_x repeat_y repeats atom_bytes operand_block byte_corrections"
        ),
        rdma.Walk: "address line_bytes surface_bytes",
        rdma.Operand: "mode bytes_each walk",
        pipeline.Config: (
            "flying precision in_precision channels real_channels pad_bits reduction correction bias norm "
            "element_wise out write"
        ),
        pipeline.Correction: "operand",
        stage.Stage: "addend adds subtracts scaling clamp is_float adds_first",
        stage.Scaling: "operand shift shift_negative negative_only",
        stage.Clamp: "upper lower below",
        ew.Config: "table operation clamp",
        ew.Operation: "multiplies algorithm operand converter negative_only shift shift_negative",
        ew.Converter: "add_first offset scale shift rounding",
        lut.Config: "entries le_start lo_start lo_end le_select lo_select below above further_below further_above",
        lut.Piece: "start value slope",
        lut.Slope: "scale shift",
        out_cvt.Config: "precision scale shift offset add_first rounding minus_exponent",
        write.Config: (
            "address per_pixel width height line_bytes atom_step_bytes group_step_bytes packed_bytes "
            "transposes_atoms transposed_lanes atom_bytes"
        ),
        ppu.Config: (
            "method precision source_address source_line_bytes source_surface_bytes target_address "
            "target_line_bytes target_surface_bytes channels height width out_height out_width kernel_height "
            "kernel_width stride_y stride_x pad_top pad_left pad_value reciprocal_width reciprocal_height atom_bytes"
        ),
    }.items()
}


def refuse_unknown(config: object) -> None:
    """RefusedError where a configuration says something that the kernels have never heard of."""
    if not is_dataclass(config):
        return
    known = _KNOWN.get(type(config))
    if known is None:
        raise RefusedError(f"a configuration of another kind: {type(config).__qualname__}")
    for field in fields(config):
        value = getattr(config, field.name)
        if field.name not in known:
            if field.default is MISSING or value != field.default:
                raise RefusedError(f"{type(config).__module__.rpartition('.')[2]}: {field.name} = {value!r} is new")
        elif field.name not in _STEP.split():
            refuse_unknown(value)
