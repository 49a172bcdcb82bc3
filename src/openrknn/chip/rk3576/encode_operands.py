"""BS and BN of RK3576 and RV1126B: what is the same for all channels goes into a tensor that registers point at.

`operand_tensors` reads it back with its layout.
"""

from __future__ import annotations

from functools import cached_property

from openrknn.chip.rk3562.encode_stages import bounds
from openrknn.chip.rk3588.encode_dpu import bits16, bits32
from openrknn.chip.target import Registers
from openrknn.isa.enums import OperandKinds, Precision
from openrknn.task.kinds import Piped
from openrknn.task.place import Place
from openrknn.task.stage import Stage

__all__ = ["StageOperands"]


class StageOperands:
    """One stage: what is added and multiplied, and from where."""

    def __init__(self, name: str, stage: Stage | None, uses: OperandKinds, task: Piped) -> None:
        self._name, self._stage, self._precision = name, stage, task.dpu.precision
        self._scaling = None if stage is None else stage.scaling
        self.is_on = stage is not None
        self.adds = stage is not None and stage.adds
        self.multiplies = self._scaling is not None
        self.prelu = int(self._scaling is not None and self._scaling.negative_only)
        self.alu_source, self.mul_source = (int(bool(uses & kind)) for kind in (OperandKinds.ALU, OperandKinds.MUL))
        self.data = uses & ~OperandKinds.CPEND if task.depthwise else uses
        is_whole = self._precision is not Precision.FP16
        self._correction = None if name != "BS" or task.dpu.correction is None else task.dpu.correction.operand
        is_first = name == "BS" and (task.depthwise or self._correction is not None)
        self.shifts = self.is_on and ((self.multiplies and is_whole) or is_first)
        self.config = OperandKinds(0) if self._correction is None else OperandKinds.CPEND
        if self.adds and not self.alu_source:
            self.config |= OperandKinds.ALU
        if self.multiplies and not self.mul_source:
            self.config |= OperandKinds.MUL
        if self.shifts:
            self.config |= OperandKinds.TRT

    @property
    def bounds(self) -> Registers:
        """The clamp behind the stage."""
        return bounds(self._name, None if self._stage is None else self._stage.clamp, self._precision)

    @property
    def address(self) -> Registers:
        """Where the tensor is, if there is one."""
        if not self.config:
            return {}
        return {f"DPU_RDMA.RDMA_{self._name}_CONFIG_ADDR": {f"{self._name.lower()}_config_addr": self._place}}

    @cached_property
    def _place(self) -> Place:
        """The kinds that are there, one after the other; each at the start of 16 bytes, the addend twice."""
        addend, scaling = None if self._stage is None else self._stage.addend, self._scaling
        factor = 0 if scaling is None or scaling.operand is None else bits16(scaling.operand, self._precision)
        shifts = bytes(2) if scaling is None else bytes((scaling.shift, scaling.shift_negative))
        parts = {
            OperandKinds.ALU: 2 * bits32(addend or 0, self._precision).to_bytes(4, "little").ljust(16, b"\0"),
            OperandKinds.CPEND: ((self._correction or 0) & 0xFFFF).to_bytes(2, "little").ljust(16, b"\0"),
            OperandKinds.MUL: factor.to_bytes(2, "little").ljust(16, b"\0"),
            OperandKinds.TRT: shifts.ljust(16, b"\0"),
        }
        data = b"".join(part for kind, part in parts.items() if kind & self.config)
        return Place(f"{self._name}cfgTensor", 0, data.ljust(64, b"\0"))
