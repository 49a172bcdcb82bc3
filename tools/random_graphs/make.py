"""Builds random graphs with the vendor's toolkit and keeps the files and the simulator's answers.

    TOOLKIT/bin/python tools/random_graphs/make.py FOLDER --count 1000 --chips rk3588 rk3566 --workers 2

The toolkit is proprietary and lives in an environment of its own, whose Python runs this script. FOLDER gets
onnx/NUMBER.onnx, and per chip NUMBER_i8.rknn (or _fp) with an .npz: inputs x0 ..., the simulator's answers o0 ..., and
ONNX Runtime's float answers f0 ... as a third witness. results.tsv says what became of each build: "built", or
"refused" by the toolkit, with its words or how it ended. Graph i is built for every chip before i + 1, so that stopping
early leaves equal numbers; what is in results.tsv is not built again. The toolkit damages its heap now and then, so
workers end after some graphs and are watched.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.random_graphs import workers

CHIPS = ("rk3588", "rk3576", "rk3566", "rk3562", "rv1106")
ONLY_INT8 = ("rv1103", "rv1106", "rv1103b", "rv1106b")
BEFORE_RESTART = 40
"""Graphs that one process builds."""
PATIENCE = 40.0
"""Seconds without a finished build until a worker is ended."""
MEAN, DEVIATION = 127.5, 64.0
"""How a picture's bytes become numbers near one: the converter puts both into the file."""


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--chips", nargs="+", default=list(CHIPS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", nargs=2, type=int, metavar=("FIRST", "STEP"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.work:
        return work(arguments)
    return watch(arguments)


def watch(arguments: argparse.Namespace) -> int:
    """Keeps the workers running until every graph has a result."""
    command = [sys.executable, __file__, str(arguments.folder), "--seed", str(arguments.seed)]
    command += ["--first", str(arguments.first), "--count", str(arguments.count), "--chips", *arguments.chips, "--work"]
    count = arguments.workers
    workers.watch(
        [[*command, str(number), str(count)] for number in range(count)],
        [workers.current(arguments.folder, number, "worker") for number in range(count)],
        PATIENCE,
        lambda said, cause: blame(arguments, said, cause),
    )
    return 0


def blame(arguments: argparse.Namespace, said: str, cause: str) -> None:
    """Writes down the build that ended a worker. A graph that the toolkit does not finish hangs for every chip."""
    chip, name = said.split()
    done = known(arguments.folder)
    for other, its in names(int(name.split("_")[0]), arguments.chips):
        if other == chip or (cause == "late" and (other, its) not in done):
            record(arguments.folder, other, its, "refused", cause)


def record(folder: Path, chip: str, name: str, result: str, words: str) -> None:
    """One line of results.tsv."""
    with (folder / "results.tsv").open("a") as file:
        file.write("\t".join([chip, name, result, " ".join(words.split())[:300]]) + "\n")


def known(folder: Path) -> set[tuple[str, str]]:
    """The builds that have a result."""
    path = folder / "results.tsv"
    rows = path.read_text().splitlines() if path.exists() else []
    return {(row.split("\t")[0], row.split("\t")[1]) for row in rows}


def work(arguments: argparse.Namespace) -> int:
    """Builds every n-th graph for every chip."""
    folder, (number, step) = arguments.folder.resolve(), arguments.work
    (folder / "onnx").mkdir(exist_ok=True)
    done, built = known(folder), 0
    for graph in range(arguments.first + number, arguments.first + arguments.count, step):
        open_ones = [(chip, name) for chip, name in names(graph, arguments.chips) if (chip, name) not in done]
        if not open_ones:
            continue
        if built == BEFORE_RESTART:
            return workers.RESTART
        built += 1
        build_all(folder, graph, arguments.seed, open_ones, workers.current(folder, number, "worker"))
    return 0


def names(graph: int, chips: list[str]) -> Iterator[tuple[str, str]]:
    """Chip and name of each build of a graph."""
    for chip in chips:
        kind = "i8" if chip in ONLY_INT8 or graph % 5 < 3 else "fp"
        yield chip, f"{graph:05}_{kind}"


def build_all(folder: Path, number: int, seed: int, wanted: list[tuple[str, str]], said: Path) -> None:
    """One graph for every chip, in a folder of its own: the toolkit leaves files where it runs."""
    import onnx

    from tools.random_graphs.draw import Drawn

    drawn = Drawn(number, seed)
    path = folder / "onnx" / f"{number:05}.onnx"
    onnx.save(drawn.model, path)
    place = Path(tempfile.mkdtemp(prefix="random"))
    os.chdir(place)
    floats = reference(path, drawn)
    for chip, name in wanted:
        (folder / chip).mkdir(exist_ok=True)
        said.write_text(f"{chip} {name}")
        log = place / "log"
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            build(folder / chip / name, path, chip, drawn, floats)
            record(folder, chip, name, "built", "")
        except Exception as error:  # noqa: BLE001 - the toolkit raises anything
            sys.stdout.flush()
            record(folder, chip, name, "refused", reason(log) or repr(error))
        said.write_text("")
    os.chdir(folder)
    shutil.rmtree(place)


def reason(log: Path) -> str:
    """The toolkit's last words about an error."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(errors="replace"))
    told = re.compile(r"Error|error|^E (?!rknn-toolkit2 version|=|\s*File)")
    lines = [line for line in text.splitlines() if told.search(line)]
    return lines[-1] if lines else ""


def given(drawn: Any, number: int) -> list[Any]:
    """What the simulator and Session are fed: pictures as bytes, rows by columns by channels; floats as they are."""
    import numpy as np

    pairs = zip(drawn.graph.inputs, drawn.inputs(number), strict=True)
    return [
        np.ascontiguousarray(array.astype(np.uint8).transpose(0, 2, 3, 1))
        if drawn.graph.pictures[value.name]
        else array
        for value, array in pairs
    ]


def reference(path: Path, drawn: Any) -> list[Any]:
    """ONNX Runtime's answer in float, unoptimised (its optimiser folds a Pad into a pool that cannot take it)."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {
        value.name: (array - MEAN) / DEVIATION if drawn.graph.pictures[value.name] else array
        for value, array in zip(drawn.graph.inputs, drawn.inputs(0), strict=True)
    }
    return list(session.run(None, feeds))


def build(target: Path, source: Path, chip: str, drawn: Any, floats: list[Any]) -> None:
    """One file, with the simulator's answer."""
    import numpy as np

    from rknn.api import RKNN

    quantised = target.name.endswith("_i8")
    rows = []
    for sample in range(3):
        row = []
        for position, array in enumerate(drawn.inputs(sample)):
            np.save(f"{position}_{sample}.npy", array)
            row.append(f"{position}_{sample}.npy")
        rows.append(" ".join(row))
    Path("dataset.txt").write_text("\n".join(rows) + "\n")
    toolkit = RKNN(verbose=False)
    try:
        toolkit.config(target_platform=chip, **converters(drawn))
        check(toolkit.load_onnx(model=str(source)), "load_onnx")
        check(toolkit.build(do_quantization=quantised, dataset="dataset.txt" if quantised else None), "build")
        check(toolkit.export_rknn(f"{target}.rknn"), "export_rknn")
        check(toolkit.init_runtime(), "init_runtime")
        feeds = given(drawn, 0)
        formats = ["nhwc" if drawn.graph.pictures[value.name] else "nchw" for value in drawn.graph.inputs]
        answers = toolkit.inference(inputs=feeds, data_format=formats)
        check(0 if answers is not None else 1, "inference")
        assert answers is not None
    except BaseException:
        Path(f"{target}.rknn").unlink(missing_ok=True)
        raise
    finally:
        toolkit.release()
    arrays = {f"x{number}": array for number, array in enumerate(feeds)}
    arrays |= {f"o{number}": array for number, array in enumerate(answers)}
    arrays |= {f"f{number}": array for number, array in enumerate(floats)}
    np.savez_compressed(f"{target}.npz", **arrays)


def check(code: int, what: str) -> None:
    """The toolkit's functions return 0 or fail."""
    if code != 0:
        raise RuntimeError(f"{what} failed")


def converters(drawn: Any) -> dict[str, Any]:
    """Mean and deviation per channel of every input, where one is a picture."""
    if not any(drawn.graph.pictures.values()):
        return {}
    pictures = [(drawn.graph.pictures[value.name], value.shape[1]) for value in drawn.graph.inputs]
    return {
        "mean_values": [[MEAN if picture else 0.0] * channels for picture, channels in pictures],
        "std_values": [[DEVIATION if picture else 1.0] * channels for picture, channels in pictures],
    }


if __name__ == "__main__":
    sys.exit(main())
