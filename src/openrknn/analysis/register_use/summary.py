"""From the scans of several models to one table of registers and fields, each with what the software NPU does to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.analysis.register_use.scan import Log, Problem, Scan, scan
from openrknn.backports import StrEnum
from openrknn.container.model import Model
from openrknn.isa import Block, Register, RegisterMap, Target, UnknownCode
from openrknn.isa.fields import Choice, Field, Flag, Mask

_NOT_REGISTERS = {int(Target.NOP), int(Target.SYNC), int(Target.ENABLE)}
AnyField = Field[Any]


class Status(StrEnum):
    """What the software NPU does with a register or a field."""

    COMPUTED = "computed"
    """A block computes with it."""
    ZERO = "zero only"
    """Anything but 0 would be refused."""
    WAIVED = "no effect"
    """Known not to change results: bus, timing, redundant sizes."""
    IGNORED = "not looked at"
    """Streams set it, and no block asks for it."""
    UNUSED = "never set"
    """No block asks for it, and no stream sets it."""
    MISSING = "missing"
    """Not implemented: strict mode refuses the model."""
    OTHER_CHIP = "chip missing"
    """The software NPU does not have this chip yet."""


@dataclass
class FieldUse:
    """One field over all models."""

    name: str
    bits: str
    text: str
    is_mode: bool
    """Whether its values are names (choices, flags, masks) and not numbers."""
    status: Status
    values: Counter[str]
    """Value as text -> commands that write it."""
    span: tuple[int, int]
    """Smallest and largest natural value."""


@dataclass
class RegisterUse:
    """One register over all models."""

    chip_family: str
    block: str
    name: str
    offset: int
    status: Status
    writes: int
    files: int
    undeclared: int
    """Bits that streams set and the table does not declare."""
    fields: list[FieldUse]


@dataclass
class FileUse:
    """One model."""

    path: str
    chip: str
    tasks: int
    commands: int
    problems: int


@dataclass
class Report:
    """Everything that `openrknn coverage` says."""

    files: list[FileUse]
    registers: list[RegisterUse]
    problems: list[Problem]


@dataclass
class _Family:
    """All scans with one register map, added up."""

    register_map: RegisterMap
    writes: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    files: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    log: Log = field(default_factory=Log)
    is_decoded: bool = False
    missing: set[str] = field(default_factory=set)

    def add(self, found: Scan) -> None:
        self.writes.update(found.writes)
        for target, offset, _ in found.writes:
            self.files.setdefault((target, offset), set()).add(found.path)
        for name in ("read", "waived", "zero", "fields"):
            getattr(self.log, name).update(getattr(found.log, name))
        self.is_decoded |= found.is_decoded
        self.missing.update(problem.register for problem in found.problems)


def coverage(*models: Model) -> Report:
    """Decode the command streams of these models as the software NPU would, without running them."""
    return summarize([scan(model, model.path or f"model {number}") for number, model in enumerate(models)])


def summarize(scans: Sequence[Scan]) -> Report:
    """Add the scans up."""
    families: dict[str, _Family] = {}
    for found in scans:
        families.setdefault(found.register_map.name, _Family(found.register_map)).add(found)
    return Report(
        files=[
            FileUse(found.path, found.model.chip.name, found.tasks, found.commands, len(found.problems))
            for found in scans
        ],
        registers=[row for family in families.values() for row in _registers(family)],
        problems=[problem for found in scans for problem in found.problems],
    )


def _registers(family: _Family) -> Iterable[RegisterUse]:
    values: dict[tuple[int, int], Counter[int]] = {}
    for (target, offset, value), count in family.writes.items():
        values.setdefault((target, offset), Counter())[value] += count
    for place, seen in sorted(values.items(), key=lambda entry: entry[0][1]):
        found = family.register_map.lookup(*place)
        if found is not None and place[0] not in _NOT_REGISTERS:
            yield _register(family, *found, seen, len(family.files[place]))


def _register(
    family: _Family, block: Block, register: type[Register], seen: Counter[int], files: int
) -> RegisterUse:
    status = _status(family, block, register)
    return RegisterUse(
        chip_family=family.register_map.name,
        block=block.name,
        name=register.name,
        offset=register.offset,
        status=status,
        writes=seen.total(),
        files=files,
        undeclared=_or(value & ~register.declared for value in seen),
        fields=[_field(family, register, item, status, seen) for item in register.fields()],
    )


def _or(values: Iterable[int]) -> int:
    total = 0
    for value in values:
        total |= value
    return total


def _status(family: _Family, block: Block, register: type[Register]) -> Status:
    log = family.log
    if not family.is_decoded:
        return Status.OTHER_CHIP
    if {register.name, f"{block.name}.{register.name}"} & family.missing:
        return Status.MISSING
    if register.offset in log.zero:
        return Status.ZERO
    if register.offset in log.read:
        return Status.COMPUTED
    # The order of tasks comes from the task records, as the kernel driver takes it: the PC's links say the same. The
    # bus interface of the smaller chips is no block that could be started either, and changes no result.
    is_waived = register.offset in log.waived or block.enable_bit is None
    return Status.WAIVED if is_waived else Status.MISSING


def _field(
    family: _Family, register: type[Register], item: AnyField, status: Status, seen: Counter[int]
) -> FieldUse:
    codes: Counter[int] = Counter()
    for value, count in seen.items():
        codes[item.code_in(value)] += count
    naturals = {code: item.natural(code) for code in codes}
    is_mode = isinstance(item, Choice | Flag | Mask)
    if status is Status.COMPUTED and (register.offset, item.name) not in family.log.fields:
        status = Status.IGNORED if any(codes) else Status.UNUSED
    return FieldUse(
        name=item.name,
        bits=item.bits,
        text=item.text,
        is_mode=is_mode,
        status=status,
        values=Counter({_text(item, naturals[code]): count for code, count in codes.items()}),
        span=(min(map(int, naturals.values())), max(map(int, naturals.values()))),
    )


def _text(item: AnyField, value: int | UnknownCode) -> str:
    return repr(value) if isinstance(value, UnknownCode) else item.format(value)


_MOST_VALUES = 64


def as_json(report: Report) -> dict[str, Any]:
    """The report as dicts and lists. Numbers are given by their span where there are too many."""
    return {
        "files": [vars(row) for row in report.files],
        "problems": [
            {name: getattr(problem, name) for name in ("path", "graph", "task", "operator", "register", "text")}
            for problem in report.problems
        ],
        "registers": [{**vars(row), "fields": [_field_json(item) for item in row.fields]} for row in report.registers],
    }


def _field_json(item: FieldUse) -> dict[str, Any]:
    few = item.is_mode or len(item.values) <= _MOST_VALUES
    return {**vars(item), "span": list(item.span), "values": dict(item.values) if few else None}
