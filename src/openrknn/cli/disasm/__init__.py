"""`openrknn disasm`: the register commands of a model, decoded."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from openrknn.cli.common.files import load_model
from openrknn.cli.common.output import CommandError, Output

if TYPE_CHECKING:
    from openrknn.container.model import Model
    from openrknn.container.parts import Graph

NAME = "disasm"
HELP = "show the register commands of a model with names, values and tensors"
DESCRIPTION = """Show the register commands that the NPU executes: per task its operator and blocks, then one line
per command with register, fields in natural units and, after #, the number of the command, the tensor whose address
it gets, and the next task. "patched for input" marks registers that the runtime rewrites to suit the input (type,
row stride, mean and std). Whatever the register table does not explain is marked with !!. The text can be assembled
again."""
EXAMPLES = (
    "openrknn disasm yolo.rknn | less                 everything that one core executes",
    "openrknn disasm yolo.rknn --op 3                 one operator, by its number in `openrknn inspect --all`",
    "openrknn disasm yolo.rknn --op Conv:conv1        or by its name",
    "openrknn disasm yolo.rknn --core-list 3.2        what core 2 executes when three cores share the work",
    "openrknn disasm yolo.rknn --task 7 --raw         the 64-bit words of one task",
    "openrknn disasm mesa-regcmd-000-000.bin --raw    commands alone, as Mesa dumps them (ROCKET_DEBUG=dump_bos)",
)

_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="a .rknn model, or a file of command words alone")
    parser.add_argument("--op", metavar="N|NAME", help="only this operator, by number or name", type=str.strip)
    parser.add_argument("--task", type=int, metavar="N", help="only this task, counted over all task lists")
    parser.add_argument(
        "--core-list", metavar="K", type=str.strip, help="task list: 1 (default), 2.0, 2.1, 3.0 ... or all"
    )
    parser.add_argument("--graph", type=int, metavar="N", default=0, help="dynamic shapes: which graph (default: 0)")
    parser.add_argument("--raw", action="store_true", help="64-bit words; of words alone beside names and values")
    parser.add_argument("--chip", default="rk3588", help="words alone: the chip that they are for (default: rk3588)")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """List the chosen tasks."""
    from openrknn.analysis.listing import Listing
    from openrknn.cli.common import disassembly as forms
    from openrknn.cli.disasm import dumps

    words = dumps.read_words(arguments.file)
    if words is not None:
        dumps.write_words(words, arguments.chip, output, with_numbers=arguments.raw)
        return 0
    model = load_model(arguments.file, strict=False)
    if not 0 <= arguments.graph < len(model.graphs):
        raise CommandError(
            f"there is no graph {arguments.graph}; {arguments.file} has {len(model.graphs)}, counted from 0"
        )
    graph = model.graphs[arguments.graph]
    chosen = _choose(arguments, model, graph)
    listing = Listing(model, graph)
    if output.is_json:
        forms.write_json(listing, chosen, output)
    elif arguments.raw:
        forms.write_raw(listing, chosen, output)
    else:
        forms.write_text(listing, chosen, output)
    return 0


def _choose(arguments: argparse.Namespace, model: Model, graph: Graph) -> list[tuple[str, range, list[int]]]:
    """(label, all tasks of the list, tasks to show) for each task list that is wanted."""
    from openrknn.analysis.explain import list_label

    lists = {list_label(entry): numbers for entry, numbers in graph.task_lists.items()}
    wanted = arguments.core_list or (_ALL if arguments.task is not None else "1")
    wanted = "1" if wanted == "1.0" else wanted
    if wanted != _ALL and wanted not in lists and lists:
        raise CommandError(f"there is no task list {wanted!r}; the graph has {', '.join(lists)} (or all)")
    operators = None if arguments.op is None else _operators(arguments.op, graph)
    if arguments.task is not None and not 0 <= arguments.task < len(graph.tasks):
        raise CommandError(f"there is no task {arguments.task}; the graph has {len(graph.tasks)}, counted from 0")
    chosen = []
    for label, numbers in lists.items():
        if wanted in (label, _ALL):
            shown = [
                number
                for number in numbers
                if arguments.task in (None, number) and (operators is None or graph.tasks[number].op_index in operators)
            ]
            chosen.append((label, numbers, shown))
    if not any(shown for _, _, shown in chosen):
        raise CommandError(_nothing(arguments, model, operators))
    return chosen


def _nothing(arguments: argparse.Namespace, model: Model, operators: Sequence[int] | None) -> str:
    if operators is None:
        return f"{arguments.file}: nothing in it runs on the NPU, so there are no commands"
    rows = {row.index: row for row in model.operators_of(model.graphs[arguments.graph])}
    places = ", ".join(sorted({str(rows[number].placement) for number in operators}))
    return f"operator {arguments.op} has no tasks here: it runs on the {places}, or not in this task list"


def _operators(text: str, graph: Graph) -> list[int]:
    """The operators that a number or a name means; "conv1" means "Conv:conv1" too."""
    if text.isdigit():
        if int(text) >= len(graph.nodes):
            raise CommandError(f"there is no operator {text}; the graph has {len(graph.nodes)}, counted from 0")
        return [int(text)]
    found = [node.index for node in graph.nodes if text in _names(node.name)]
    if not found:
        known = list(dict.fromkeys(name for node in graph.nodes for name in _names(node.name)))
        close = difflib.get_close_matches(text, known, n=3)
        guess = f"did you mean {', '.join(close)}?" if close else "`openrknn inspect --all` lists them"
        raise CommandError(f"no operator is called {text!r}; {guess}")
    return found


def _names(name: str) -> Iterator[str]:
    yield name
    if ":" in name:
        yield name.partition(":")[2]
