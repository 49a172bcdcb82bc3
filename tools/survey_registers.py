"""Looks through the command streams of `.rknn` files: which values do registers take, what does nobody explain?

    python tools/survey_registers.py FOLDER...

writes `docs/hardware/seen.json` (for the manual) and `docs/hardware/undeclared.md`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import openrknn
from openrknn import isa
from openrknn.chip.maps import all_maps
from openrknn.isa.stream import Instruction

DOCS = Path(__file__).parents[1] / "docs" / "hardware"
MOST = 8
HEADER = "<!-- Made by tools/survey_registers.py. Do not edit. -->\n\n"


@dataclass
class Findings:
    """What the streams of one family hold."""

    files: int = 0
    words: Counter[int] = field(default_factory=Counter)
    first: dict[int, str] = field(default_factory=dict)
    """Word -> "file, task n" that has it first."""
    values: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unexplained: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """(register, what) -> place -> how often."""


def survey(paths: Iterable[Path]) -> dict[str, Findings]:
    """Findings by family."""
    found: dict[str, Findings] = {register_map.name: Findings() for register_map in all_maps()}
    for path in sorted(paths, key=lambda path: path.name):
        model = openrknn.load(path)
        findings = found[isa.map_for(model.chip).name]
        findings.files += 1
        for graph in model.graphs:
            for number, task in enumerate(graph.tasks):
                words = graph.task_words(task)
                findings.words.update(words)
                for word in set(words) - findings.first.keys():
                    findings.first[word] = f"{path.name}, task {number}"
    for register_map in all_maps():
        findings = found[register_map.name]
        distinct = sorted(findings.words)
        for word, instruction in zip(distinct, isa.disassemble(distinct, register_map), strict=True):
            _note(findings, instruction, findings.words[word], findings.first[word])
    return found


def _note(findings: Findings, instruction: Instruction, count: int, place: str) -> None:
    if instruction.block is None or instruction.register is None:
        findings.unexplained[instruction.name, "unknown register"][place] += count
        return
    if instruction.undeclared:
        findings.unexplained[instruction.name, f"bits {instruction.undeclared:#010x}"][place] += count
    for name, value in instruction.values.items():
        described = instruction.register.field(name)
        if isinstance(value, isa.UnknownCode):
            findings.unexplained[instruction.name, f"code {int(value)} in {name}"][place] += count
        elif described.kind != "address":
            path = f"{instruction.block.name}.{instruction.register.name}.{name}"
            findings.values[path][described.format(value)] += count


def seen_json(found: dict[str, Findings]) -> str:
    """The most frequent values of every field, for the manual."""
    table = {
        family: {name: _frequent(values) for name, values in sorted(findings.values.items())}
        for family, findings in found.items()
    }
    return json.dumps(table, indent=0, sort_keys=True) + "\n"


def _frequent(values: Counter[str]) -> list[str]:
    ranked = sorted(values, key=lambda value: (-values[value], value))
    return ranked if len(ranked) <= MOST else [*ranked[:MOST], "..."]


def undeclared_page(found: dict[str, Findings]) -> str:
    """The page of everything that the table does not explain."""
    lines = [
        "# Unexplained bits",
        "",
        "What the register table does not explain in the streams of the test corpus: bits that no field declares,",
        "codes that no enumeration names, registers that no block has. With how often, and one task that has it.",
        "",
    ]
    for family, findings in found.items():
        lines += [f"## {family}", "", f"{findings.words.total():,} commands in {findings.files} files.", ""]
        if not findings.unexplained:
            lines += ["Every bit is declared.", ""]
            continue
        lines += ["| register | what | times | for example |", "|---|---|---|---|"]
        for (register, what), places in sorted(findings.unexplained.items()):
            escaped = f"{register} | {what}".replace("_", "\\_")
            example = min(places).replace("_", "\\_")
            lines.append(f"| {escaped} | {sum(places.values())} | {example} |")
        lines.append("")
    return HEADER + "\n".join(lines)


def main(folders: list[str]) -> int:
    """Write both files."""
    if not folders:
        print(__doc__)
        return 2
    found = survey(path for folder in folders for path in Path(folder).rglob("*.rknn"))
    (DOCS / "seen.json").write_text(seen_json(found), encoding="utf-8")
    (DOCS / "undeclared.md").write_text(undeclared_page(found), encoding="utf-8")
    for family, findings in found.items():
        print(f"{family}: {findings.words.total()} commands, {len(findings.unexplained)} kinds of unexplained things")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
