"""Memory for the NPU: IOMMU or contiguous memory, and the 4 GB that some units see."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity

__all__ = ["check_memory"]

_ENOUGH_CMA = 128 * 1024 * 1024
_NO_MEMORY = r"swiotlb buffer is full|failed to malloc npu memory|cma_alloc.*failed|alloc.*rknpu.*failed"
_MIB = 1024 * 1024


def check_memory(facts: Facts) -> Iterator[Finding]:
    """With an IOMMU any memory will do; without one it has to be contiguous."""
    npu = facts.driver("rknpu")
    if npu is not None:
        without = facts.logged(r"iommu is disabled, using non-iommu mode")
        failed = facts.logged(_NO_MEMORY)
        if without:
            total, free = npu.memory.cma_total_bytes or 0, npu.memory.cma_free_bytes or 0
            small = total < _ENOUGH_CMA or failed is not None
            yield Finding(
                "no-iommu",
                Severity.ERROR if small else Severity.NOTE,
                f"the NPU works without its IOMMU; contiguous memory (CMA): {free // _MIB} of {total // _MIB} MiB free",
                'every buffer must be contiguous: large models fail with "failed to malloc npu memory"',
                (
                    "switch the IOMMU on in the device tree (&rknpu_mmu { status = \"okay\"; }), or",
                    "add cma=512M to the kernel's command line and start again",
                ),
                "rockchip-linux/rknn-toolkit2#44",
            )
        elif failed:
            yield Finding(
                "npu-memory",
                Severity.ERROR,
                f"the kernel could not give memory to the NPU: {failed.partition('] ')[2] or failed}",
                'models fail with "failed to malloc npu memory"',
                ("close other users of the NPU (openrknn top shows them); use smaller or fewer models at a time",),
                "rockchip-linux/rknn-toolkit2#218",
            )
    if facts.logged(r"RGA_MMU unsupported memory larger than 4G|rga.*larger than 4G"):
        yield Finding(
            "rga-4gb",
            Severity.WARNING,
            "the picture unit RGA2 got memory above 4 GB",
            "RGA2 has 32-bit addresses: pictures are not converted, or come out wrong",
            ("let the RGA3 cores do it (im_opt.core), or take buffers from /dev/dma_heap/system-dma32",),
            "airockchip/librga#73",
        )
