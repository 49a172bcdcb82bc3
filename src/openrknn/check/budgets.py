"""What a model costs beside what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openrknn.analysis.explain import BOUNDARY
from openrknn.analysis.reports import Severity
from openrknn.check.fingerprint import Fingerprint, place_of
from openrknn.check.golden import Budget
from openrknn.check.result import Check, Finding, OperatorPlace, Status
from openrknn.check.subject import Subject
from openrknn.container.model import Model
from openrknn.container.parts import Placement
from openrknn.container.sizes import memory_plan
from openrknn.cost.macs import macs
from openrknn.errors import RknnError
from openrknn.quantities import count_of, count_text, size_text
from openrknn.runtime.cost import Cost, cost_of

_BYTES = ("bytes", "weight_bytes", "internal_bytes", "memory_bytes")


@dataclass(frozen=True, slots=True)
class Costs:
    """All that a budget can be about."""

    chip: str
    ms: float | None
    """None: no timing of a board with this chip is published."""
    low_ms: float | None
    high_ms: float | None
    bytes: int
    weight_bytes: int
    internal_bytes: int
    memory_bytes: int
    submits: int
    tasks: int
    macs: int
    cpu: tuple[OperatorPlace, ...]
    """Operators that run on the CPU."""

    @property
    def cpu_operators(self) -> int:
        return len(self.cpu)


def costs_of(subject: Subject) -> Costs:
    """Of the first graph of each model; parts for ONNX Runtime count by their operators alone."""
    sums: dict[str, int] = dict.fromkeys((*_BYTES[1:], "submits", "tasks", "macs"), 0)
    times: list[tuple[float | None, float | None, float | None]] = []
    cpu: list[OperatorPlace] = []
    for part, model in subject.parts.items():
        plan = memory_plan(model)
        sums["weight_bytes"] += plan.weight_bytes
        sums["internal_bytes"] += plan.internal_bytes
        commands = sum(graph.commands.nbytes for graph in model.graphs)
        sums["memory_bytes"] += plan.weight_bytes + plan.internal_bytes + plan.constant_bytes + commands
        operators = [operator for operator in model.operators if operator.type not in BOUNDARY]
        sums["macs"] += sum(macs(operator) or 0 for operator in operators)
        cpu += [place_of(item, part) for item in operators if item.placement in (Placement.CPU, Placement.CUSTOM)]
        cost = _cost(model)
        sums["submits"] += cost.submits if cost else 0
        sums["tasks"] += cost.tasks if cost else 0
        times.append((cost.time_ms, cost.low_ms, cost.high_ms) if cost else (None, None, None))
    if subject.bundle is not None:
        cpu += [
            OperatorPlace(number, f"{part.operators} operators", part.file)
            for number, part in enumerate(subject.bundle.parts)
            if part.kind == "cpu"
        ]
    ms, low, high = (_total([row[at] for row in times]) for at in range(3))
    return Costs(subject.chip, ms, low, high, subject.size_bytes, cpu=tuple(cpu), **sums)


def _cost(model: Model) -> Cost | None:
    try:
        return cost_of(model)
    except RknnError:
        return None


def _total(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def budget_checks(costs: Costs, budget: Budget, then: Fingerprint | None, golden: str, model: str) -> Iterator[Check]:
    """One check for each budget that is given."""
    if budget.ms:
        yield _time(costs, budget, golden)
    for key in (*_BYTES, "submits", "tasks", "macs"):
        allowed = getattr(budget, key)
        if allowed is not None:
            yield _amount(key, getattr(costs, key), allowed, budget, golden)
    if budget.cpu_operators is not None or budget.cpu_allowed is not None:
        yield _cpu(costs, budget, then, golden, model)


def _time(costs: Costs, budget: Budget, golden: str) -> Check:
    allowed = budget.ms.get(costs.chip)
    if allowed is None:
        chips = ", ".join(budget.ms)
        return Check("budget ms", Status.SKIPPED, f"the model is for {costs.chip}; the budget is for {chips}")
    value = {"low": costs.low_ms, "estimate": costs.ms, "high": costs.high_ms}[budget.band]
    if value is None:
        text = f"no time is known for {costs.chip}: no board timing has been published"
        return Check("budget ms", Status.SKIPPED, text)
    band = f" ({costs.low_ms:.3g} to {costs.high_ms:.3g})" if costs.low_ms and costs.high_ms else ""
    text = f"{value:.3g} ms on {costs.chip}{band}, {allowed:g} ms allowed"
    numbers = {"chip": costs.chip, "ms": costs.ms, "low": costs.low_ms, "high": costs.high_ms, "allowed": allowed}
    if value <= allowed:
        return Check("budget ms", Status.PASSED, text, numbers=numbers)
    what = f"one run takes {value:.3g} ms on {costs.chip} by estimate{band}; {allowed:g} ms are allowed"
    do = "`openrknn profile MODEL` shows which operators take it"
    return Check("budget ms", Status.FAILED, text, (_over(what, "ms", budget, golden, do),), numbers=numbers)


def _amount(key: str, value: int, allowed: int, budget: Budget, golden: str) -> Check:
    show = size_text if key in _BYTES else lambda number: count_text(number).rstrip()
    name = f"budget {key}"
    text = f"{show(value)} of {show(allowed)} allowed"
    numbers: dict[str, Any] = {"value": value, "allowed": allowed}
    if value <= allowed:
        return Check(name, Status.PASSED, text, numbers=numbers)
    what = f"{key} are {value} ({show(value)}); {allowed} ({show(allowed)}) are allowed"
    return Check(name, Status.FAILED, text, (_over(what, key, budget, golden),), numbers=numbers)


def _over(what: str, key: str, budget: Budget, golden: str, do: str = "") -> Finding:
    return Finding("over-budget", Severity.ERROR, what, file=golden, line=budget.lines.get(key, 0), do=do)


def _cpu(costs: Costs, budget: Budget, then: Fingerprint | None, golden: str, model: str) -> Check:
    """The ones too many are named: first those that did not run there when the golden was made."""
    before = None if then is None else {(row.part, row.name) for row in then.operators if row.runs_on != "npu"}
    allowed = budget.cpu_allowed
    others = [item for item in costs.cpu if allowed is None or not {item.name, item.type} & set(allowed)]
    limit = budget.cpu_operators if budget.cpu_operators is not None else len(costs.cpu) if allowed is None else 0
    most = count_of(limit, "operator")
    text = f"{count_of(len(others), 'operator')} on the CPU, {limit} allowed"
    numbers = {"value": len(others), "allowed": limit, "operators": [str(item) for item in others]}
    if len(others) <= limit:
        return Check("budget cpu_operators", Status.PASSED, text, numbers=numbers)
    new = [item for item in others if before is not None and (item.part, item.name) not in before] or others
    new_text = ", and it did not when the golden was made" if new is not others else ""
    key = "cpu_operators" if budget.cpu_operators is not None else "cpu_allowed"
    do = "`openrknn lint` says why an operator runs on the CPU; replace it in the network, or allow it in golden.toml"
    found = [
        Finding(
            "cpu-operators-grew",
            Severity.ERROR,
            f"runs on the CPU; {most} may" + new_text,
            item,
            file=golden,
            line=budget.lines.get(key, 0),
            do=do,
        )
        for item in new
    ]
    return Check("budget cpu_operators", Status.FAILED, text, tuple(found), numbers=numbers)
