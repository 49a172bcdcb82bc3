"""What a rule is, and what rules look at: the decoded tasks of a graph and what each of them finds in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from openrknn.analysis.io_reports import stored_limits
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.analysis.lint.history import History, Seen
from openrknn.analysis.lint.program import Decoded, Work
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Tensor
from openrknn.npu.accesses import Access, accesses_of
from openrknn.npu.task import Step

_LARGEST_BYTES = 1 << 28
"""Of internal memory; each byte takes four for its labels."""


@dataclass
class LintContext:
    """One graph of a model. `decoded` is None where its commands cannot be followed."""

    model: Model
    graph: Graph
    decoded: Decoded | None
    runs: bool = False
    """Whether rules may run the model."""

    @property
    def is_complete(self) -> bool:
        """Whether every task was decoded: only then is it known who wrote what."""
        return self.decoded is not None and not self.decoded.refused

    @property
    def works(self) -> list[Work]:
        return self.decoded.works if self.decoded is not None else []

    def steps(self) -> Iterator[tuple[Work, Step]]:
        """Every task of the NPU, in order."""
        for work in self.works:
            for step in work.steps:
                yield work, step

    def accesses(self) -> Iterator[tuple[Work, Step, Access]]:
        """Everything that goes to memory."""
        for work, step in self.steps():
            for access in accesses_of(step):
                yield work, step, access

    @cached_property
    def history(self) -> History | None:
        """Followed to its end; None where tasks are missing, or where there is too much memory to label."""
        decoded = self.decoded
        if decoded is None or not self.is_complete or decoded.internal.size_bytes > _LARGEST_BYTES:
            return None
        return History(decoded)

    @cached_property
    def reads(self) -> tuple[Seen, ...]:
        """All reads of memory that changes."""
        return self.history.seen if self.history is not None else ()

    @cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(self.graph.tensors[index] for index in self.graph.outputs)

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        return self.model.operators_of(self.graph)

    @cached_property
    def makers(self) -> dict[str, Operator]:
        """Tensor -> the operator that makes it."""
        return {tensor.name: operator for operator in self.operators for tensor in operator.outputs}


class Found(NamedTuple):
    """What a rule found; severity and change where they are not the rule's own."""

    where: Where
    what: str
    why: str
    """Why it matters on a board."""
    severity: Severity | None = None
    change: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of mistake."""

    code: str
    severity: Severity
    """The worst that its findings can have."""
    title: str
    explanation: str
    """How it is found and what a board does with it."""
    change: str
    evidence: str
    """A file in which it really happens."""
    check: Callable[[LintContext], Iterable[Found]]

    def findings(self, context: LintContext) -> Iterator[Finding]:
        """What `check` finds, as lint says it."""
        for where, what, why, severity, change in self.check(context):
            yield Finding(self.code, severity or self.severity, where, what, why, change or self.change)


def place(
    operator: Operator, step: Step | None = None, access: Access | None = None, tensor: Tensor | None = None
) -> Where:
    """Where something is, as exactly as it is known."""
    return Where(
        operator.index,
        operator.type,
        operator.name,
        tensor.name if tensor is not None else "",
        step.task if step is not None else None,
        access.register if access is not None else "",
    )


def scale_of(tensor: Tensor) -> float | None:
    """The step of a tensor that has one for all its values."""
    if tensor.quantization is None or len(tensor.quantization.scale) != 1:
        return None
    return tensor.quantization.scale[0]


def limits_of(tensor: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest real number that a quantized tensor can hold."""
    scale, limits = scale_of(tensor), stored_limits(tensor.dtype)
    if scale is None or limits is None or tensor.quantization is None:
        return None
    zero = tensor.quantization.zero_point[0]
    return (limits[0] - zero) * scale, (limits[1] - zero) * scale
