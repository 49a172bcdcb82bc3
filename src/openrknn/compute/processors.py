"""How many cores this process may use: what its affinity mask and its control group leave of the machine's.

Two hardware threads of one core share its multipliers, which the kernels keep busy alone: they count once. A quota of a
control group is time, not cores; a process with more threads than that waits for the next period with all of them.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cores", "quota"]


def cores(root: Path = Path("/"), allowed: set[int] | None = None) -> int:
    """Physical cores of the affinity mask, as many as the quota pays for; at least 1. `root` has /proc and /sys."""
    mask = os.sched_getaffinity(0) if allowed is None else allowed
    count = len({_core(root, processor) for processor in mask})
    paid = quota(root)
    return max(1, count if paid is None else min(count, paid))


def quota(root: Path = Path("/")) -> int | None:
    """Whole processors that the control group pays for, rounded up; None: no limit, or none that can be read."""
    limits = [limit for folder in _groups(root) if (limit := _limit(folder)) is not None]
    return max(1, -int(-min(limits) // 1)) if limits else None


def _core(root: Path, processor: int) -> tuple[str, str] | int:
    """What is the same for the hardware threads of a core; if unknown, each counts as a core."""
    topology = root / f"sys/devices/system/cpu/cpu{processor}/topology"
    package, core = _text(topology / "physical_package_id"), _text(topology / "core_id")
    # A cluster of small systems numbers its cores from 0 again.
    siblings = _text(topology / "thread_siblings_list")
    if siblings:
        return siblings, package
    return (package, core) if core else processor


def _groups(root: Path) -> list[Path]:
    """The folders of this process's group and of those above it (version 2), and that of version 1."""
    own = "/"
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, path = line.partition("::")
        if number == "0" and ".." not in path:
            own = path
    tree = root / "sys/fs/cgroup"
    place = tree / own.lstrip("/")
    return [place, *(above for above in place.parents if above.is_relative_to(tree)), tree / "cpu"]


def _limit(folder: Path) -> float | None:
    """Processors of one group: `cpu.max` says "quota period", or "max"."""
    words = _text(folder / "cpu.max").split()
    if not words:
        words = [_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")]
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[0]) or not int(words[1]):
        return None
    return int(words[0]) / int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
