"""A tensor that is read in another layout than it is stored in."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.analysis.lint.context import Context, Rule, place
from openrknn.analysis.lint.finding import Finding, Severity
from openrknn.container.parts import Layout, Tensor
from openrknn.npu.accesses import Access

__all__ = ["RULE", "is_picture"]

_NATIVE_RANK = 5
_CHANGE = (
    "put a 1x1 convolution with the identity as its weights between the input and this operator, which then reads a "
    "copy (a second input of the same shape does not help: it is a picture too)"
)
_WHY = (
    "pixels lie packed, {pixel} bytes each, and the unit takes {atom} bytes for each: from the second pixel on it "
    "computes with other pixels, and near the end with memory behind the picture; the simulator does not show it"
)


def is_picture(tensor: Tensor, atom_bytes: int) -> bool:
    """Whether the pixels of a tensor lie packed: [N, 1, H, W, C] with fewer bytes than an atom has."""
    native = tensor.native_shape
    if tensor.layout is not Layout.NC1HWC2 or len(native) != _NATIVE_RANK or not tensor.row_alignment:
        return False
    return native[1] == 1 and native[-1] * tensor.dtype.bits // 8 < atom_bytes


def _is_wrong(access: Access, tensor: Tensor, atom_bytes: int) -> bool:
    """Only reads of the whole pixel count; a single pixel is the same in both layouts."""
    _, rows, columns, _ = access.shape
    reads_atoms = not access.is_picture and access.channels > 0
    return reads_atoms and rows * columns > 1 and access.steps[2] == atom_bytes and is_picture(tensor, atom_bytes)


def _check(context: Context) -> Iterator[Finding]:
    decoded, atom = context.decoded, context.model.chip.atom_bytes
    if decoded is None:
        return
    told = set()
    for work, step, access in context.accesses():
        region = decoded.region_at(access.first)
        tensor = region.tensor if region is not None else None
        if access.writes or tensor is None or not tensor.kind.is_activation:
            continue
        if _is_wrong(access, tensor, atom) and (work.operator.index, tensor.name) not in told:
            told.add((work.operator.index, tensor.name))
            pixel = tensor.native_shape[-1] * tensor.dtype.bits // 8
            yield Finding(
                RULE.code,
                RULE.severity,
                place(work.operator, step, access, tensor),
                f"{work.operator.type} reads the picture {tensor.name!r} {list(tensor.shape)} as a feature map",
                _WHY.format(pixel=pixel, atom=atom),
                _CHANGE,
            )


RULE = Rule(
    "layout-mismatch",
    Severity.ERROR,
    "a tensor is read in another layout than it was written in",
    "An input of 1, 3 or 4 channels is stored as a picture, pixel behind pixel. Only the first unit of a convolution "
    "can read that. A residual Add or Mul whose operand is the network's input reads it through ERDMA, which knows "
    "feature maps only. The converter inserts a copying convolution on RK3588; on RK3562 and RV1106 it forgets it "
    "where the operation is fused into a convolution.",
    _CHANGE,
    "toolkit 2.5.0, RK3562 (int8 and fp16) and RV1106: Mul(Conv(x), x) with three channels: -1.5 dB, and "
    "66.8 dB with the convolution in between",
    _check,
)
