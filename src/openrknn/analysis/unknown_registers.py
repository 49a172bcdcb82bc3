"""Words in the commands that the register table does not know: what boards ignore, and what stops a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from openrknn.analysis.reports import Finding, Severity
from openrknn.chip.maps import map_for
from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.isa import Command, RegisterMap, Target
from openrknn.isa.ignored import Ignored, Kind, ignored_rule

_NOT_REGISTERS = {Target.NOP, Target.SYNC, Target.PC, Target.ENABLE}


def unknown_register_findings(model: Model) -> Iterator[Finding]:
    """Each thing once, with the number of words."""
    known = map_for(model.chip.name)
    counts: Counter[tuple[str, Ignored | None]] = Counter()
    for graph in model.graphs:
        for word, count in _words(graph):
            said = _stray(word, known, model.chip.family)
            if said is not None:
                counts[said] += count
    for (text, rule), count in counts.items():
        yield _ignored(text, rule, count) if rule is not None else _unknown(text, count)


def _words(graph: Graph) -> Iterator[tuple[int, int]]:
    unique, counts = np.unique(np.asarray(graph.commands, np.uint64), return_counts=True)
    yield from zip(unique.tolist(), counts.tolist(), strict=True)


def _stray(word: int, known: RegisterMap, family: str) -> tuple[str, Ignored | None] | None:
    target, offset, value = Command.decode(word)
    if target in _NOT_REGISTERS:
        return None
    found = known.lookup(target, offset)
    if found is None:
        place = f"{target:#06x}"
        rule = ignored_rule(family, Kind.WORD, place) or ignored_rule(family, Kind.REGISTER, f"{place} {offset:#06x}")
        return f"target {place} has no register {offset:#06x}", rule
    block, register = found
    bits = value & ~register.declared
    if not bits:
        return None
    rule = ignored_rule(family, Kind.BITS, f"{block.name}.{register.name}")
    text = f"{block.name}.{register.name}: bits {bits:#x} are set but not declared"
    return text, rule if rule is not None and not bits & ~rule.bits else None


def _ignored(text: str, rule: Ignored, count: int) -> Finding:
    return Finding(
        "ignored-bits",
        Severity.NOTE,
        "",
        f"{text} ({count} words)",
        f"boards ignore it: {rule.run}",
        "nothing; `openrknn run --strict` refuses it",
    )


def _unknown(text: str, count: int) -> Finding:
    return Finding(
        "unknown-bits",
        Severity.WARNING,
        "",
        f"{text} ({count} words)",
        "its effect is unknown, so the software NPU refuses to run it",
        "please open an issue of openrknn with this file, and with what `openrknn verify` prints on such a board",
    )
