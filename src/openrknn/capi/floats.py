"""Outputs as float32, bit by bit as runtime 1.5.2 makes them (`want_float`, or bound as float32).

It has three ways for int8; all were fitted to its answers for 105 outputs of goldens and corpus files, without a rest:

    exact    (q - zp) * scale, each step rounded: tensors of the CPU, and the rest of a map that is not a whole group
    fused    q * scale + bias with bias = -zp * scale, rounded once: groups of 64 bytes of a map, which are C2 channels
             of 4 pixels (RK3588) or 8 (RK3566)
    coarse   (q - zp) * float16(scale): maps of RK3566 and RK3568 whose width is a multiple of 8, which the NPU converts

They differ in the last bit, the last one in the fourth digit. `Session` gives the exact numbers, and so does the
library for chips that 1.5.2 does not know.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.runtime.io.outputs import OutputPort
from openrknn.runtime.io.tensors import Array, StoredTensor

_KNOWN = frozenset({"rk3588", "rk3566", "rk3568"})

_GROUP_BYTES = 64
_SMALL_ATOM = 8

Table = npt.NDArray[np.float32]


def read_into(port: OutputPort, out: Array, chip: Chip, *, is_float: bool) -> None:
    """An output in the model's order of dimensions, as it is stored or as float32."""
    if not is_float:
        port.read_into("raw", out)
        return
    stored = port.stored
    is_map = stored.dtype == np.int8 and stored.is_feature and stored.tensor.quantization is not None
    if not is_map or chip.name not in _KNOWN:
        port.read_into("float", out)
        return
    exact, other, is_coarse = _tables(stored)
    if np.array_equal(exact, other):
        port.read_into("float", out)
        return
    planes = np.empty(out.shape, np.int8)
    port.read_into("raw", planes)
    codes = planes.view(np.uint8)
    np.take(other, codes, out=out, mode="clip")
    if not is_coarse:
        _rest(stored, codes, exact, out)


def _tables(stored: StoredTensor) -> tuple[Table, Table, bool]:
    """For each byte: the exact number, and the one of the way that is taken; whether that is the coarse one."""
    assert stored.tensor.quantization is not None
    scale, zero = np.float32(stored.tensor.quantization.scale[0]), np.float32(stored.tensor.quantization.zero_point[0])
    codes = np.arange(256, dtype=np.uint8).view(np.int8)
    offsets = codes.astype(np.float32) - zero
    exact = offsets * scale
    if stored.native.shape[4] == _SMALL_ATOM and stored.native.shape[3] % _SMALL_ATOM == 0:
        return exact, offsets * np.float32(np.float16(scale)), True
    bias = np.float32(-zero * scale)
    # Products of 8 and 24 bits are exact in float64, so the sum is rounded once.
    return exact, (codes.astype(np.float64) * np.float64(scale) + np.float64(bias)).astype(np.float32), False


def _rest(stored: StoredTensor, codes: npt.NDArray[np.uint8], exact: Table, out: Array) -> None:
    """What is not a whole group: the last pixels of each plane, and on RK3588 the last channels."""
    batches, channels = codes.shape[0], stored.channels
    lanes = stored.native.shape[4]
    flat, target = codes.reshape(batches, channels, -1), out.reshape(batches, channels, -1)
    pixels = flat.shape[2] // (_GROUP_BYTES // lanes) * (_GROUP_BYTES // lanes)
    target[:, :, pixels:] = exact[flat[:, :, pixels:]]
    if lanes > _SMALL_ATOM:
        whole = channels // lanes * lanes
        target[:, whole:] = exact[flat[:, whole:]]
