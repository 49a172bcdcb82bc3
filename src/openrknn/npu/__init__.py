"""The software NPU: executes the register commands inside real `.rknn` files, block by block as the hardware does.

    machine     decodes task streams into steps and runs them
    state       what a core keeps between jobs;  watch: a door for those who look on
    memory      buffers at device addresses
    groups      the two register groups of every block
    cna, core   fetch, pad, convolve
    dpu         bias, scale, table, element-wise, output format, write
    rdma        the DPU's readers
    ppu         pooling

Each block file has a frozen `Config` in natural units, `configure` (the only code that reads registers) and functions
from arrays to arrays with the formula on top.
"""

from __future__ import annotations

from openrknn.npu.machine import CoreState, Finding, Machine, Program, TaskRef, Watcher
from openrknn.npu.memory import Buffer, Memory
from openrknn.npu.watch import Lenient

__all__ = ["Buffer", "CoreState", "Finding", "Lenient", "Machine", "Memory", "Program", "TaskRef", "Watcher"]
