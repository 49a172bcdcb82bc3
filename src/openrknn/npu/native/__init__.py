"""Decoded programs on native kernels: the same bytes as with NumPy, sooner.

    program = machine.prepare(lists)
    fast = accelerate(program, memory)
    fast.run()                              # or program.run(): each step has its `native` now

Every step gets a structure with pointers, after the same checks of addresses that the NumPy code makes, and the
kernels that this processor is best at. What has no kernel stays with NumPy; `Accelerated.reasons` says why.

    accelerated the program with kernels, as one callable
    places      addresses to pointers
    program     the stages of the DPU
    chain       the usual integer programs in double precision, proved exact
    steps       one function per kind of step
    frozen      programs as values, for the next process
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.npu.native.accelerated import Accelerated, accelerate

__all__ = ["Accelerated", "accelerate"]

__getattr__, __dir__ = lazy_names(__name__, {"accelerated": "Accelerated accelerate"})
