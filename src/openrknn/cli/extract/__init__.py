"""`openrknn extract`: the parts of a model as files that other tools read."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from openrknn.cli.common.files import load_model
from openrknn.cli.common.output import Output
from openrknn.quantities import size_text

NAME = "extract"
HELP = "write a model's weights, commands, tables and texts to files"
DESCRIPTION = """Write the parts of a model into a directory: weights (.npy, in the order of the ONNX model they came
from), biases, other constants and look-up tables (.npy), register commands (.bin, and .txt disassembled), task
records (.csv and .json), and the texts in the file. index.json describes each file, with scales and zero points."""
EXAMPLES = (
    "openrknn extract yolo.rknn -o parts             everything",
    "openrknn extract yolo.rknn -o parts --float     and the weights as real numbers",
    "openrknn extract yolo.rknn -o parts --only weights",
)

SCHEMA_VERSION = 1
PARTS = ("weights", "constants", "tables", "commands", "texts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="a .rknn model")
    parser.add_argument(
        "-o", "--output", metavar="DIR", required=True, help="directory to write to; created if necessary"
    )
    parser.add_argument("--float", action="store_true", help="quantised weights and biases as float32 too")
    parser.add_argument("--only", choices=PARTS, action="append", metavar="PART", help=f"only {', '.join(PARTS)}")
    parser.add_argument("--force", action="store_true", help="overwrite files in a directory that is not empty")
    parser.add_argument("--json", action="store_true", help="print the index that is written")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Write the parts of one model."""
    from openrknn.cli.common.folder import Folder
    from openrknn.cli.extract import parts

    model = load_model(arguments.file)
    folder = Folder(arguments.output, force=arguments.force)
    wanted = arguments.only or PARTS
    for graph in model.graphs:
        prefix = f"graph{graph.index}/" if len(model.graphs) > 1 else ""
        if "weights" in wanted or "constants" in wanted:
            chosen = {part for part in ("weights", "constants") if part in wanted}
            parts.write_constants(model, graph, folder, prefix, chosen, as_float=arguments.float)
        if "tables" in wanted:
            parts.write_tables(graph, folder, prefix)
        if "commands" in wanted:
            parts.write_commands(model, graph, folder, prefix)
    if "texts" in wanted:
        parts.write_texts(model, folder)
    index = folder.finish(
        schema_version=SCHEMA_VERSION, source=str(arguments.file), chip=model.chip.name, toolkit=model.toolkit_version
    )
    _show(index, str(folder.root), output)
    return 0


def _show(index: dict[str, Any], root: str, output: Output) -> None:
    files = index["files"]
    output.data(index)
    if output.is_human:
        counts = Counter(entry["what"] for entry in files)
        sizes: Counter[str] = Counter()
        for entry in files:
            sizes[entry["what"]] += entry["size_bytes"]
        for what, count in counts.items():
            output.line(f"{count:>6}  {size_text(sizes[what]):>9}  {what}")
        for entry in files:
            if "problem" in entry:
                output.line(f"{entry['path']}: written as stored, because {entry['problem']}")
    output.value(f"wrote {len(files) + 1} files to {root}; index.json describes them")
