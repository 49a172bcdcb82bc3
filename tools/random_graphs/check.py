"""Runs the files that make.py built on the software NPU and sorts them by how they compare with the simulator.

    .venv/bin/python tools/random_graphs/check.py FOLDER --chips rk3588 rk3566

Writes FOLDER/checked.tsv, one line per file: chip, name, outcome, details, operators. Outcomes:

    agree      int8 within one step, floats within the tolerance of docs/fidelity.md
    near       not so, but as near to ONNX Runtime's float answer as the simulator is: two roundings of one truth
    explained  neither, but a cause of explain.py is proved for this file; the details begin with its name
    differ     neither, and unexplained
    refused    Session did not load or run it; the details are its words
    unequal    the native kernels and NumPy do not give the same bytes (looked at in every tenth graph)
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.random_graphs import workers

Array = npt.NDArray[Any]
MAP_RANK = 4
PATIENCE = 120.0
"""Seconds for one file."""
EVERY = 10
"""Every tenth graph also runs on NumPy alone."""
NEAR = 1.25
"""How much larger our error to float may be than the simulator's."""


def main() -> int:
    """The command line of this tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chips", nargs="*", default=[])
    parser.add_argument("--only", nargs="+", default=[], metavar="OUTCOME", help="only files that had this outcome")
    parser.add_argument("--names", nargs="+", default=[], help="only these files; prints and writes nothing")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", nargs=2, type=int, metavar=("FIRST", "STEP"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder
    if arguments.names:
        for path in sorted(path for name in arguments.names for path in folder.glob(f"*/{name}.rknn")):
            print(path.parent.name, path.stem, *outcome(path), sep="\t")
        return 0
    if arguments.work:
        first, step = arguments.work
        note = workers.current(folder, first, "checker")
        for path in todo(folder, arguments.chips)[first::step]:
            note.write_text(str(path))
            record(folder, path, *outcome(path))
            note.write_text("")
        return 0
    if arguments.only:
        forget(folder, arguments.only, arguments.chips)
    base = [sys.executable, __file__, str(folder), "--chips", *arguments.chips, "--work"]
    count = arguments.workers
    workers.watch(
        [[*base, str(number), str(count)] for number in range(count)],
        [workers.current(folder, number, "checker") for number in range(count)],
        PATIENCE,
        lambda said, cause: record(folder, Path(said), "refused", f"the process {cause}"),
    )
    summary(folder)
    return 0


def todo(folder: Path, chips: list[str]) -> list[Path]:
    """Files with an answer that have no outcome yet."""
    known = {(row[0], row[1]) for row in rows(folder)}
    paths = [path.with_suffix(".rknn") for path in folder.glob("*/*.npz")]
    wanted = [path for path in paths if not chips or path.parent.name in chips]
    open_ones = [path for path in wanted if (path.parent.name, path.stem) not in known and path.exists()]
    return sorted(open_ones, key=lambda path: (path.stem, path.parent.name))


def rows(folder: Path) -> list[list[str]]:
    """What checked.tsv says; of a file that was looked at twice, the last."""
    path = folder / "checked.tsv"
    lines = [line.split("\t") for line in path.read_text().splitlines()] if path.exists() else []
    return list({(row[0], row[1]): row for row in lines}.values())


def forget(folder: Path, outcomes: list[str], chips: list[str]) -> None:
    """Takes lines out of checked.tsv, so that their files are looked at again."""
    kept = [row for row in rows(folder) if row[2] not in outcomes or (chips and row[0] not in chips)]
    (folder / "checked.tsv").write_text("".join("\t".join(row) + "\n" for row in kept))


def record(folder: Path, path: Path, result: str, details: str) -> None:
    """One line of checked.tsv."""
    line = "\t".join([path.parent.name, path.stem, result, " ".join(details.split()), operators(folder, path)])
    with (folder / "checked.tsv").open("a") as file:
        file.write(line + "\n")


def operators(folder: Path, path: Path) -> str:
    """The operators of the source."""
    import onnx

    source = folder / "onnx" / f"{path.stem.split('_')[0]}.onnx"
    return " ".join(node.op_type for node in onnx.load(source).graph.node) if source.exists() else ""


def outcome(path: Path, **options: Any) -> tuple[str, str]:
    """One file: its outcome and the details."""
    from openrknn import Session

    with np.load(path.with_suffix(".npz")) as stored:
        arrays = {name: stored[name] for name in stored.files}
    try:
        with Session(path, device="software", **options) as session:
            specs, inputs = session.outputs, feeds(path, session, list_of(arrays, "x"))
            found, model = answers(session, inputs), session.model
    except Exception as error:  # noqa: BLE001 - whatever it is, it is an outcome
        return "refused", f"{type(error).__name__}: {error}"
    if int(path.stem.split("_")[0]) % EVERY == 0 and not same_on_numpy(path, inputs, found):
        return "unequal", ""
    judged = [
        judge(found[spec.name], simulated, true, spec)
        for spec, simulated, true in zip(specs, list_of(arrays, "o"), list_of(arrays, "f"), strict=True)
    ]
    order = ("differ", "near", "agree")
    result, details = min((result for result, _ in judged), key=order.index), "; ".join(text for _, text in judged)
    cause = cause_of(path, model, arrays, found) if result == "differ" else None
    return ("explained", f"{cause}: {details}") if cause else (result, details)


def cause_of(path: Path, model: Any, arrays: dict[str, Array], found: dict[str, Array]) -> str | None:
    """Why a file differs, if that is known."""
    import onnx

    from tools.random_graphs import explain

    source = onnx.load(path.parents[1] / "onnx" / f"{path.stem.split('_')[0]}.onnx")
    fed = explain.feeds_of(source, list_of(arrays, "x"))
    values = [real(found[spec.name], spec) for spec in model.outputs]
    return explain.explain(explain.Case(path, model, source, fed, values, list_of(arrays, "o"), list_of(arrays, "f")))


def real(stored: Array, spec: Any) -> Array:
    """Stored elements as real numbers."""
    if spec.quantization is None:
        return stored.astype(np.float64)
    scale, zero = spec.quantization.scale[0], spec.quantization.zero_point[0]
    return np.asarray((stored.astype(np.float64) - zero) * scale)


def feeds(path: Path, session: Any, inputs: list[Array]) -> list[Array]:
    """The inputs that the file still has: the converter removes those that cannot change an answer."""
    import onnx

    if len(session.inputs) == len(inputs):
        return inputs
    source = onnx.load(path.parents[1] / "onnx" / f"{path.stem.split('_')[0]}.onnx")
    named = dict(zip((item.name for item in source.graph.input), inputs, strict=True))
    return [named[spec.name] for spec in session.inputs]


def answers(session: Any, inputs: list[Array]) -> dict[str, Array]:
    """What the NPU stores. Maps were given to the simulator by channels, pictures (bytes) by pixels."""
    named = {spec.name: array for spec, array in zip(session.inputs, inputs, strict=True)}
    layouts = {
        name: "nhwc" if array.dtype == np.uint8 else "nchw" for name, array in named.items() if array.ndim == MAP_RANK
    }
    return {name: np.array(value) for name, value in session.run(named, layout=layouts, outputs="raw").items()}


def list_of(arrays: dict[str, Array], letter: str) -> list[Array]:
    """x0, x1, ..."""
    return [arrays[f"{letter}{number}"] for number in range(len(arrays)) if f"{letter}{number}" in arrays]


def same_on_numpy(path: Path, inputs: list[Array], fast: dict[str, Array]) -> bool:
    """Whether NumPy alone gives the same bytes."""
    from openrknn import Session
    from openrknn.compute import native

    os.environ[native.ENVIRONMENT] = "numpy"
    try:
        with Session(path, device="software") as session:
            slow = answers(session, inputs)
        return all(value.tobytes() == slow[name].tobytes() for name, value in fast.items())
    finally:
        del os.environ[native.ENVIRONMENT]


def judge(stored: Array, simulated: Array, true: Array, spec: Any) -> tuple[str, str]:
    """One output. The simulator leaves the last size mod 4 numbers of some files undefined: they do not count."""
    kept = simulated.size // 4 * 4 or simulated.size
    ours, theirs, exact = (array.reshape(-1)[:kept] for array in (stored, simulated, true))
    wanted = np.isfinite(theirs)
    ours, theirs, exact = ours[wanted], theirs[wanted].astype(np.float64), exact[wanted].astype(np.float64)
    if not ours.size:
        return "agree", "nothing to compare"
    if spec.quantization is not None:
        scale, zero = spec.quantization.scale[0], spec.quantization.zero_point[0]
        steps = np.abs(ours.astype(np.int64) - zero - np.rint(theirs / scale).astype(np.int64))
        values = real(ours, spec)
        most, good, unit = float(steps.max()), steps <= 1, "steps"
    else:
        values = real(ours, spec)
        good, most = close(values, theirs), float(np.abs(values - theirs).max() / (np.abs(theirs).max() or 1.0))
        unit = "of the range"
    mine, his = rms(values - exact), rms(theirs - exact)
    near = mine <= NEAR * his
    shares = f"{100 * good.mean():.2f} % within, largest {most:.3g} {unit}"
    details = f"{shares}, ours/simulator to float {mine:.3g}/{his:.3g}"
    return ("agree" if good.all() else "near" if near else "differ"), details


def close(values: Array, theirs: Array) -> Array:
    """Within 2 units in the last place, 1 % of the value, or 2 units of the largest value."""
    error, size = np.abs(values - theirs), np.abs(theirs)
    unit = np.spacing(np.minimum(size, 65504).astype(np.float16)).astype(np.float64)
    good = (error <= 2 * unit) | (error <= 0.01 * size) | (error <= 2 * unit.max())
    return np.asarray(good)


def rms(values: Array) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def summary(folder: Path) -> None:
    """A table: outcomes per chip; then the causes."""
    counts = collections.Counter((row[0], row[2]) for row in rows(folder))
    outcomes = ("agree", "near", "explained", "differ", "refused", "unequal")
    print("| chip | " + " | ".join(outcomes) + " |\n|---|" + "---:|" * len(outcomes))
    for chip in sorted({chip for chip, _ in counts}):
        print(f"| {chip} | " + " | ".join(str(counts[chip, result]) for result in outcomes) + " |")
    causes = collections.Counter(row[3].split(": ", 1)[0] for row in rows(folder) if row[2] == "explained")
    for cause, count in causes.most_common():
        print(f"{count:6}  {cause}")


if __name__ == "__main__":
    sys.exit(main())
