"""The software NPU: executes the register commands inside real `.rknn` files, block by block as the hardware does.

    machine     decodes task streams into steps and runs them
    state       what a core keeps between jobs: both groups of its registers, and its tables
    native      steps on native kernels: the same bytes as with NumPy, sooner
    task        one task: where it is, and as a step that can run
    blocks      configuration and formula of each block of the hardware
    memory      buffers at device addresses
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.npu.machine import IgnoredNote, Machine
    from openrknn.npu.memory import Buffer, Memory
    from openrknn.npu.state import CoreState
    from openrknn.npu.task import Program, TaskRef

__all__ = ["Buffer", "CoreState", "IgnoredNote", "Machine", "Memory", "Program", "TaskRef"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "machine": "IgnoredNote Machine",
        "memory": "Buffer Memory",
        "state": "CoreState",
        "task": "Program TaskRef",
    },
)
