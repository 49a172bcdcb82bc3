"""`openrknn extract`: the parts of a model as files that other tools read."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.files import load_model
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import OutputFolder
from openrknn.cli.common.parts import bundle_in
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from openrknn.container.bundle import Bundle

NAME = "extract"
HELP = "write a model's weights, commands, tables and texts to files"
DESCRIPTION = """Write the parts of a model into a directory: weights (.npy, in the order of the ONNX model they came
from), biases, other constants and look-up tables (.npy), register commands (.bin, and .txt disassembled), task
records (.csv and .json), and the texts in the file. index.json describes each file, with scales and zero points. Of a
model in parts (.rknnz): its .rknn and .onnx parts, which other commands and tools take, and the manifest."""
EXAMPLES = (
    "openrknn extract yolo.rknn -o parts             everything",
    "openrknn extract yolo.rknn -o parts --float     and the weights as real numbers",
    "openrknn extract yolo.rknn -o parts --only weights",
    "openrknn extract speech.rknnz -o parts          the .rknn and .onnx files in it",
)

SCHEMA_VERSION = 1
PARTS = ("weights", "constants", "tables", "commands", "texts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("file", metavar="FILE", help="a .rknn model, or a .rknnz in parts")
    parser.add_argument(
        "-o", "--output", metavar="DIR", action=OutputFolder, required=True,
        help="directory to write to; created if necessary",
    )
    parser.add_argument("--float", action="store_true", help="quantised weights and biases as float32 too")
    parser.add_argument("--only", choices=PARTS, action="append", metavar="PART", help=f"only {', '.join(PARTS)}")
    parser.add_argument("--force", action="store_true", help="overwrite files in a directory that is not empty")
    parser.add_argument("--json", action="store_true", help="print the index that is written")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Write the parts of one model."""
    from openrknn.cli.common.folder import Folder
    from openrknn.cli.extract import parts

    bundle = bundle_in(arguments.file)
    if bundle is not None:
        return _extract_parts(bundle, arguments, output)
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


def _extract_parts(bundle: Bundle, arguments: argparse.Namespace, output: Output) -> int:
    """The files in a model in parts; their names in the zip are a stranger's, so they get new ones."""
    from openrknn.analysis.parted.report import describe_parts
    from openrknn.analysis.reports import as_json
    from openrknn.cli.common.folder import Folder

    if arguments.only or arguments.float:
        raise CommandError("a model in parts has no weights of its own: extract its parts, then those of a part")
    folder = Folder(arguments.output, force=arguments.force)
    for part in describe_parts(bundle).parts:
        suffix, what = (".rknn", "NPU part") if part.kind == "npu" else (".onnx", "CPU part")
        about = {name: as_json(getattr(part, name)) for name in ("number", "inputs", "outputs", "macs", "reason")}
        folder.add_bytes(f"{part.number:02}{suffix}", bundle.files[part.file], what, **about)
    plans = [{"parts": list(plan.parts), "shapes": as_json(plan.shapes)} for plan in bundle.plans]
    index = folder.finish(
        schema_version=SCHEMA_VERSION, source=str(arguments.file), chip=bundle.target, made_by=bundle.made_by,
        inputs=as_json(bundle.inputs), outputs=as_json(bundle.outputs), plans=plans, notes=list(bundle.notes),
    )  # fmt: skip
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
