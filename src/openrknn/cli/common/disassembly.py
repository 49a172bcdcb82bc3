"""The three forms of a disassembly: text that assembles again, raw words, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from openrknn.analysis.listing import Entry, Listing, TaskHead
from openrknn.cli.common.output import Output
from openrknn.isa import Instruction
from openrknn.isa.fields import Choice, Mask
from openrknn.isa.words import TAIL_WORDS
from openrknn.quantities import count_of

__all__ = ["SCHEMA_VERSION", "write_json", "write_raw", "write_text"]

SCHEMA_VERSION = 1
_COMMENT_COLUMN = 64

Chosen = Sequence[tuple[str, range, list[int]]]


def _tasks(listing: Listing, chosen: Chosen) -> Iterator[TaskHead]:
    for label, numbers, shown in chosen:
        deltas = listing.deltas(numbers)
        for number in shown:
            yield listing.head(number, label, is_delta=number in deltas)


# ---------------------------------------------------------------- text


def write_text(listing: Listing, chosen: Chosen, output: Output) -> None:
    """One line per command."""
    commands = unexplained = 0
    for head in _tasks(listing, chosen):
        _write_head(head, output)
        for entry in listing.entries(head.number):
            _write_entry(entry, output)
            commands += 1
            unexplained += bool(entry.alarms)
        output.styled(("", ""))
    tasks = sum(len(shown) for _, _, shown in chosen)
    summary = f"# {count_of(tasks, 'task')}, {count_of(commands, 'command')}"
    output.styled((summary, "dim"), (f", {unexplained} not fully explained (!!)", "red") if unexplained else ("", ""))


def _write_head(head: TaskHead, output: Output) -> None:
    operator = f"operator {head.operator} {head.operator_type} {head.operator_name}".rstrip()
    blocks = ", ".join(head.blocks) or "nothing"
    delta = "; delta: registers that it does not write keep an earlier task's values" if head.is_delta else ""
    output.styled((f"# task {head.number}, list {head.list_label}: {operator}", "bold"))
    commands = f"{head.amount} + {TAIL_WORDS} commands from {head.first_command}"
    output.styled((f"# {commands}, enables {blocks}{delta}", "bold"))
    if head.missing:
        output.styled((f"# !! {head.missing} of these commands are missing: the file is damaged", "red"))


def _write_entry(entry: Entry, output: Output) -> None:
    notes = "".join(f" {note}" for note in entry.notes)
    alarms = "".join(f" !! {alarm}" for alarm in entry.alarms)
    output.styled((f"{entry.text:<{_COMMENT_COLUMN}} ", ""), (f"# {entry.index:>6}{notes}", "dim"), (alarms, "red"))


# ---------------------------------------------------------------- raw words


def write_raw(listing: Listing, chosen: Chosen, output: Output) -> None:
    """Number and 64-bit word, one per line."""
    for head in _tasks(listing, chosen):
        _write_head(head, output)
        for index, word in enumerate(listing.graph.task_words(listing.graph.tasks[head.number]), head.first_command):
            output.styled((f"{index:>6}  {word:#018x}", ""))


# ---------------------------------------------------------------- JSON


def write_json(listing: Listing, chosen: Chosen, output: Output) -> None:
    """One object; the tasks are written one by one, because there can be many."""
    frame = {"schema_version": SCHEMA_VERSION, "chip": listing.model.chip.name, "graph": listing.graph.index}
    output.stream.write(json.dumps(frame)[:-1] + ', "tasks": [')
    separator = "\n"
    for head in _tasks(listing, chosen):
        output.stream.write(separator + json.dumps(_json_task(listing, head)))
        separator = ",\n"
    output.stream.write("\n]}\n")


def _json_task(listing: Listing, head: TaskHead) -> dict[str, object]:
    return {
        "task": head.number,
        "list": head.list_label,
        "operator": head.operator,
        "operator_type": head.operator_type,
        "operator_name": head.operator_name,
        "enable_mask": head.enable_mask,
        "blocks": head.blocks,
        "first_command": head.first_command,
        "amount": head.amount,
        "is_delta": head.is_delta,
        "commands": [_json_entry(entry) for entry in listing.entries(head.number)],
    }


def _json_entry(entry: Entry) -> dict[str, object]:
    instruction = entry.instruction
    result: dict[str, object] = {
        "index": entry.index,
        "word": f"{entry.word:#018x}",
        "register": instruction.name,
        "fields": _json_fields(instruction),
    }
    if instruction.undeclared:
        result["undeclared"] = instruction.undeclared
    if entry.relocation is not None:
        result["tensor"] = entry.relocation.tensor
        result["addend"] = entry.relocation.addend
    if entry.next_task is not None:
        result["next_task"] = entry.next_task
    if entry.alarms:
        result["alarms"] = entry.alarms
    return result


def _json_fields(instruction: Instruction) -> dict[str, object]:
    if instruction.register is None:
        return {}
    fields: dict[str, object] = {}
    for name, value in instruction.values.items():
        field = instruction.register.field(name)
        named = isinstance(field, Choice | Mask)
        fields[name] = field.format(value) if named else value if isinstance(value, bool) else int(value)
    return fields
