"""A matrix product of a C program: `rknn_matmul_ctx`.

B in the layout [K, N] is read when it is bound, as the vendor's library does; everything else is read by each run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.capi.call import CallError, Code
from openrknn.capi.matmul_attributes import Matrix, Shape, Spec, invalid
from openrknn.capi.matmul_run import DeviceRun, DirectRun, Run
from openrknn.capi.matmul_scales import Scales
from openrknn.capi.memory import Memory
from openrknn.chips import CHIPS, Chip, chip_named
from openrknn.device import Device, open_device
from openrknn.device.automatic import AUTO, DEVICE_VARIABLE, automatic_device
from openrknn.monitor.board import soc
from openrknn.runtime.matmul import direct
from openrknn.runtime.matmul.own import has_commands
from openrknn.vendor.tables.enums import CoreMask
from openrknn.vendor.tables.names import c_name
from openrknn.vendor.tables.platforms import refusal

_DEFAULT = "rk3588"
_CORES = {CoreMask.CORE_0: 1, CoreMask.CORE_1: 2, CoreMask.CORE_2: 3, CoreMask.CORE_0_1: 2, CoreMask.CORE_0_1_2: 3}


def matmul_chip() -> Chip:
    """The chip whose layouts count: the one that OPENRKNN_DEVICE names, or the board's, or RK3588."""
    kind, _, name = os.environ.get(DEVICE_VARIABLE, AUTO).partition(":")
    if kind == "software" and name:
        return chip_named(name)
    return CHIPS[soc(Path("/")) or _DEFAULT]


def _opened(chip: Chip) -> Device | None:
    """The device of the chip where openrknn has commands for it; None: the software NPU's sums without commands."""
    text = automatic_device(chip)
    if text.partition(":")[0] != "software" and has_commands(chip):
        return open_device(text, chip)
    return None if direct.is_available() else open_device("software", CHIPS[_DEFAULT])


@dataclass(frozen=True, slots=True)
class Binding:
    """A matrix in memory."""

    matrix: Matrix
    memory: Memory
    data: npt.NDArray[np.uint8]


class MatmulContext:
    """One product, of one shape or of several."""

    def __init__(self, spec: Spec, shapes: Sequence[Shape], *, is_dynamic: bool) -> None:
        self.spec = spec
        self.shapes = tuple(shapes)
        self.scales = Scales(spec)
        self._chosen: int | None = None if is_dynamic else 0
        self._is_dynamic = is_dynamic
        self._bound: dict[str, Binding] = {}
        self._run: Run | None = None
        self._lock = threading.Lock()
        self.device = _opened(spec.chip)

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def shape(self) -> Shape:
        """The current one."""
        if self._chosen is None:
            raise invalid("choose a shape first: rknn_matmul_set_dynamic_shape")
        return self.shapes[self._chosen]

    def set_shape(self, shape: Shape) -> None:
        """rknn_matmul_set_dynamic_shape: a matrix of the same sizes, as B mostly is, stays bound."""
        if not self._is_dynamic:
            raise invalid("this product has one shape; rknn_matmul_create_dynamic_shape makes one with several")
        if shape not in self.shapes:
            known = ", ".join("x".join(map(str, one)) for one in self.shapes)
            raise invalid(f"{'x'.join(map(str, shape))} is none of its shapes, {known}")
        with self._lock:
            self._chosen = self.shapes.index(shape)
            matrices = self.spec.matrices(shape)
            self._bound = {name: one for name, one in self._bound.items() if one.matrix == matrices[name]}
            self._forget()

    def set_core_mask(self, mask: int) -> None:
        """Checked, and no more: results do not depend on it."""
        reason = refusal(self.spec.chip, "rknn_matmul_set_core_mask")
        if reason is not None and mask:
            raise invalid(reason)
        try:
            known = CoreMask(mask)
        except ValueError:
            raise invalid(f"core_mask {mask:#x} is none of rknn_core_mask") from None
        if known is CoreMask.UNDEFINED or _CORES.get(known, 0) > self.spec.chip.cores:
            raise invalid(f"{c_name(known)} does not work on {self.spec.chip.title} ({self.spec.chip.cores} cores)")

    # ------------------------------------------------------------------------------------------ matrices

    def bind(self, attributes: dict[str, Any], memory: Memory, offset: int, size_bytes: int) -> None:
        """rknn_matmul_set_io_mem."""
        matrices = self.spec.matrices(self.shape)
        name = attributes["name"]
        if name not in matrices:
            raise invalid(f"the matrices are called A, B and C, not {name!r}; pass what rknn_matmul_create answered")
        matrix = matrices[name]
        needed = matrix.size_bytes
        if attributes["size"] != needed:
            raise invalid(
                f"{name} has {needed} bytes in the current shape, and the attribute says {attributes['size']}"
            )
        if size_bytes < needed or offset < 0 or offset + needed > memory.array.nbytes:
            raise invalid(
                f"{name} needs {needed} bytes, and the memory has {size_bytes} at {offset} of {memory.array.nbytes}"
            )
        data = memory.array[offset : offset + needed]
        with self._lock:
            bound = self._bound.get(name)
            self._bound[name] = Binding(matrix, memory, data)
            if self._run is None or bound is None:
                self._forget()
            else:
                self._run.bind(name, data)

    def set_scales(self, name: str, scales: npt.NDArray[np.float32], zeros: npt.NDArray[np.int32]) -> None:
        """rknn_matmul_set_quant_params."""
        with self._lock:
            self.scales.put(name, scales, zeros, self.shapes[self._chosen or 0])
            self._forget()

    # ------------------------------------------------------------------------------------------ running

    def run(self) -> None:
        """C = A * B."""
        with self._lock:
            if self._run is None:
                self._run = self._made()
            for name, binding in self._bound.items():
                if binding.memory.fd < 0:
                    raise _unbound(name, "was destroyed; bind another one")
            self._run.run()

    def close(self) -> None:
        """rknn_matmul_destroy."""
        with self._lock:
            self._forget()
            self._bound.clear()
            if self.device is not None:
                self.device.close()

    def _made(self) -> Run:
        shape = self.shape
        for name in "ABC":
            if name not in self._bound:
                raise _unbound(name, "is missing; bind it with rknn_matmul_set_io_mem")
        made: Run
        if self.device is None:
            made = DirectRun(self.spec, shape, self.scales)
        else:
            made = DeviceRun(self.device, self.spec, shape, self.scales)
        for name, binding in self._bound.items():
            made.bind(name, binding.data)
        return made

    def _forget(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None


def _unbound(name: str, text: str) -> CallError:
    code = Code.OUTPUT_INVALID if name == "C" else Code.INPUT_INVALID
    return CallError(code, f"the memory of {name} {text}")
