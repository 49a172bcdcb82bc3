"""What is known of boards with a chip: what they do in a second, and how their kernels name the NPU.

Each family's are in `board` of its folder; `openrknn.cost.boards` says where the rates come from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from openrknn.chip.facts import Chip

__all__ = ["JOB_SECONDS", "ZOO", "Board", "TreeNode", "relative"]

ZOO = "airockchip/rknn_model_zoo, README of 2.3.2"
JOB_SECONDS = 3.3e-6


@dataclass(frozen=True, slots=True)
class Board:
    """The rates of one NPU on a board with the memory that such boards have."""

    hertz: int
    """The NPU's clock at which the figures were taken."""
    bytes_per_second: float
    """What one core gets of the memory."""
    task_seconds: float
    """From the end of one task to the start of the next."""
    submit_seconds: float
    """From the end of one job to the start of the next: kernel, interrupt, runtime."""
    table_rate: float
    """Elements a cycle through the lookup table."""
    dpu_rate: float = 8.0
    """Elements a cycle through the DPU."""
    memory_cores: float = 1.6
    """All cores together get so many times the memory of one."""
    stream_bytes_per_second: float | None = None
    """What one core gets of weights that stream past a few pixels; None: as of everything else."""
    stream_all_bytes_per_second: float | None = None
    """What all cores together get of them."""
    stream_source: str = ""
    low: float | None = None
    """Published / predicted time: the smallest ratio over the figures, each left out of its fit."""
    high: float | None = None
    mean_error: float | None = None
    """Mean of |predicted / published - 1|, each left out of its fit."""
    figures: int = 0
    """How many published figures it was fitted to."""
    source: str = ""
    open_submit_seconds: float | None = None
    """`submit_seconds` as an open driver measured it; None: none has."""
    open_source: str = ""

    @property
    def is_fitted(self) -> bool:
        return self.figures > 0

    def shared_by(self, cores: int) -> Board:
        """What each of so many cores has when all of them work."""
        made = replace(self, bytes_per_second=self.bytes_per_second * min(1.0, self.memory_cores / cores))
        if self.stream_bytes_per_second is None:
            return made
        everything = self.stream_all_bytes_per_second or self.stream_bytes_per_second
        return replace(made, stream_bytes_per_second=min(self.stream_bytes_per_second, everything / cores))

    def memory_seconds(self, moved_bytes: float, streamed_bytes: float) -> float:
        """Of one core; `streamed_bytes` are some of the others."""
        rate = self.stream_bytes_per_second or self.bytes_per_second
        return (moved_bytes - streamed_bytes) / self.bytes_per_second + streamed_bytes / rate


def relative(board: Board, chip: Chip, source: str) -> Board:
    """Rates of the nearest relative at the chip's own clock: cycles can be compared, times are not known."""
    return replace(
        board, hertz=chip.clocks[-1], source=source, figures=0, low=None, high=None, mean_error=None,
        open_submit_seconds=None, open_source="", stream_bytes_per_second=None, stream_all_bytes_per_second=None,
        stream_source="",
    )  # fmt: skip


@dataclass(frozen=True)
class TreeNode:
    """What the device tree and the driver of a board with a chip show of the NPU."""

    npu: str
    """Name of the platform device."""
    soc: str
    """How the device tree calls the chip."""
    compatible: str
    """How it calls the NPU."""
    microvolts: int
    cores: tuple[str, ...] = ()
    """The platform devices of the cores, where the mainline kernel has one for each."""
    core_compatible: str = ""
    """How the mainline kernel's device tree calls a core."""

    @property
    def address(self) -> str:
        """Of the NPU's registers, in hex."""
        return self.npu.partition(".")[0]
