"""Access to the native kernels; the NumPy twin of each is in `openrknn.npu`.

    native          finds and loads the library, says which sets of kernels run here; `nativelib.structures` has the ABI
    active()        the name of the set of kernels that is used: "vnni", "dotprod" ..., or "numpy"
    threads(), set_threads(n)

| kernels | do | twin |
|---|---|---|
| convolution | CNA, CORE and the DPU behind them | `npu.blocks.cna`, `core`, `dpu.pipeline.run_convolution` |
| flying, map | element-wise programs, copies | `npu.blocks.dpu.pipeline.run_flying` |
| move | transposes, upsampling | `npu.blocks.dpu.write` |
| reduction | largest channel | `npu.blocks.dpu.pipeline` |
| pooling | PPU | `npu.blocks.ppu` |
"""

from __future__ import annotations

from openrknn.compute.native import Kernels, available, choose, set_threads, threads

__all__ = ["Kernels", "active", "available", "choose", "set_threads", "threads"]


def active() -> str:
    """What computes here: the name of a set of kernels, or "numpy"."""
    kernels = choose()
    return "numpy" if kernels is None else kernels.name.lower()
