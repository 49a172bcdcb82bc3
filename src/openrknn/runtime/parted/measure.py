"""What the parts cost: seconds of each, operators of those of the NPU, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from openrknn.container.bundle import Part, Plan
from openrknn.runtime.memory import MemoryReport
from openrknn.runtime.parted.steps import NpuStep, Step
from openrknn.runtime.profile import Profile


@dataclass(frozen=True, slots=True)
class PartProfile:
    """One part."""

    number: int
    part: Part
    seconds: float
    """Mean over the runs, on this machine, with the way in and out."""
    profile: Profile | None
    """NPU parts: operator by operator."""

    @property
    def board_us(self) -> float:
        """What a board takes, by estimate: the NPU or its processor."""
        if self.part.kind == "npu" and self.part.npu_us is not None:
            return self.part.npu_us
        return self.part.cpu_us


@dataclass(frozen=True)
class PartedProfile(Profile):
    """The parts in the order in which they run; `operators` are those of all NPU parts."""

    parts: tuple[PartProfile, ...] = ()

    @property
    def seconds(self) -> float:
        """One run, all parts."""
        return sum(entry.seconds for entry in self.parts)

    @property
    def time_ms(self) -> float | None:
        """One run on a board, estimated: NPU parts and CPU parts."""
        return sum(entry.board_us for entry in self.parts) / 1e3


def profile_of(
    plan: Plan, seconds: Mapping[int, float], step_of: Callable[[int], Step], runs: int, where: tuple[str, int]
) -> PartedProfile:
    """After the parts have run: what each operator of the NPU's parts takes, on what they were just given."""
    parts = []
    for number in plan.parts:
        step = step_of(number)
        inside = step.session.profile(runs=runs) if isinstance(step, NpuStep) else None
        parts.append(PartProfile(number, step.part, seconds.get(number, 0.0), inside))
    operators = tuple(row for entry in parts if entry.profile is not None for row in entry.profile.operators)
    return PartedProfile(operators, runs, *where, parts=tuple(parts))


def memory_of(plan: Plan, step_of: Callable[[int], Step]) -> MemoryReport:
    """The sum over the NPU's parts."""
    steps = [step_of(number) for number in dict.fromkeys(plan.parts)]
    reports = [step.session.memory() for step in steps if isinstance(step, NpuStep)]
    names = [field.name for field in fields(MemoryReport) if field.name != "weight_users"]
    totals = {name: sum(getattr(report, name) for report in reports) for name in names}
    return MemoryReport(**totals, weight_users=max((report.weight_users for report in reports), default=1))
