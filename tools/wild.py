"""Runs a folder of `.rknn` files on the software NPU and prints what stopped, by cause.

    tools/wild FOLDER                     every *.rknn below it: load, then run with inputs that fit
    tools/wild FOLDER --json out.json     the same as data
    tools/wild FOLDER --sources index.tsv where the files came from: lines of "file name <tab> repository <tab> path"

Each file has a process of its own with a limit of time and memory, so that no file can stop the others. A file that
stops with one of our own errors is "refused" and the error's words are its cause, with numbers and names taken out so
that equal causes are counted together. A file whose output is the same for noise, the lowest numbers, the highest ones
and a gradient is "one answer": it ran, but its result does not depend on its input. Anything else is a fault of ours:
"traceback" or "crash".
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

RUNS, SAME, OTHER, ENCRYPTED, NOT_RKNN = "runs", "one answer", "other family", "encrypted", "not an rknn"
REFUSED, TRACEBACK, CRASH, TIMEOUT, MEMORY = "refused", "traceback", "crash", "time-out", "out of memory"
ORDER = (RUNS, SAME, REFUSED, TIMEOUT, MEMORY, TRACEBACK, CRASH, OTHER, ENCRYPTED, NOT_RKNN)
FAULTS = (TRACEBACK, CRASH)
_FAMILY = frozenset(ORDER) - {OTHER, ENCRYPTED, NOT_RKNN}

_PROCESSES = multiprocessing.get_context("forkserver")
"""A clean process that has openrknn loaded already is copied for each file."""
_PRELOADED = ["numpy", "openrknn", "openrknn.analysis.dependence", "openrknn.runtime.session"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file."""

    file: str
    category: str
    cause: str = ""
    """The error's words without numbers and names; equal for files that stop for the same reason."""
    message: str = ""
    chip: str = ""
    toolkit: str = ""
    seconds: float = 0.0
    notes: int = 0
    source: str = ""


def cause_of(kind: str, message: str) -> str:
    """An error without what differs from file to file: quoted names, numbers, the place in parentheses at the end."""
    text = message.splitlines()[0] if message else ""
    text = re.sub(r"\s\((?:task|operator|byte|tensor|[A-Z_]+\.)[^()]*\)$", "", text)
    text = re.sub(r"^model \S+: ", "", text)
    text = re.sub(r"\(first: operator.*", "", text)
    text = re.sub(r"'[^' ]*'", "'...'", text)
    text = re.sub(r"0x[0-9a-fA-F]+|\b\d+(?:\.\d+)*\b", "#", text)
    return f"{kind}: {text[:160]}"


def run_one(path: Path, seed: int) -> dict[str, object]:
    """Load and run one file here, in this process; what `Outcome` needs, as plain data."""
    import openrknn
    from openrknn.analysis.dependence import constant_outputs, fixed_inputs, random_arrays
    from openrknn.errors import EmptyFileError, EncryptedModelError, NotRknnError, OtherGenerationError, RknnError

    found: dict[str, object] = {}
    try:
        model = openrknn.load(path)
        found |= {"chip": model.chip.name, "toolkit": model.toolkit_version}
        with openrknn.Session(model, device="software") as session:
            noise = random_arrays(model, seed)
            is_constant = set(constant_outputs(session.run, noise)) == {spec.name for spec in model.outputs}
            found["category"] = SAME if is_constant and not fixed_inputs(noise) else RUNS
    except (NotRknnError, EmptyFileError) as error:
        found |= {"category": NOT_RKNN, "message": str(error)}
    except EncryptedModelError as error:
        found |= {"category": ENCRYPTED, "message": str(error)}
    except OtherGenerationError as error:
        found |= {"category": OTHER, "message": str(error)}
    except RknnError as error:
        found |= {"category": REFUSED, "message": str(error), "cause": cause_of(type(error).__name__, str(error))}
    except MemoryError as error:
        found |= {"category": MEMORY, "message": str(error), "cause": MEMORY}
    except Exception as error:  # noqa: BLE001 - a fault of ours, and to see it is the point
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        found |= {"category": TRACEBACK, "message": traceback.format_exc(), "cause": f"{type(error).__name__} {where}"}
    return found


def _child(sender: Connection, path: Path, seed: int, gigabytes: float) -> None:
    """The process of one file: bounded, and silent but for its answer."""
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sender.send(run_one(path, seed))


def try_file(path: Path, *, seed: int, seconds: float, gigabytes: float) -> Outcome:
    """One file in a process of its own."""
    start = time.monotonic()
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_child, args=(sender, path, seed, gigabytes))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            process.kill()
            return Outcome(path.name, TIMEOUT, f"longer than {seconds:g} s", seconds=seconds)
        found = receiver.recv()
    except EOFError:  # it ended without an answer
        process.join()
        found = {"category": CRASH, "cause": f"ended with {process.exitcode}"}
    finally:
        process.join()
        receiver.close()
    return Outcome(path.name, seconds=round(time.monotonic() - start, 2), **found)


def read_sources(path: Path | None) -> dict[str, str]:
    """File name -> "repository: path"; the first line of a file wins."""
    sources: dict[str, str] = {}
    if path is not None:
        for line in path.read_text(encoding="utf-8").splitlines():
            name, repository, place, *_ = [*line.split("\t"), "", ""]
            sources.setdefault(Path(name).stem, f"{repository}: {place}")
    return sources


def try_folder(files: Sequence[Path], arguments: argparse.Namespace, sources: Mapping[str, str]) -> list[Outcome]:
    """Every file, a few at a time, with a progress bar on a terminal."""
    from dataclasses import replace

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    outcomes: list[Outcome] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not sys.stderr.isatty()) as bar, ThreadPoolExecutor(arguments.jobs) as pool:
        line = bar.add_task("running", total=len(files))
        limits = {"seed": arguments.seed, "seconds": arguments.seconds, "gigabytes": arguments.gigabytes}
        waiting = [pool.submit(try_file, path, **limits) for path in files]
        for future in as_completed(waiting):
            outcome = replace(future.result(), source=sources.get(Path(future.result().file).stem, ""))
            outcomes.append(outcome)
            bar.update(line, advance=1, description=f"{outcome.category}: {outcome.file[:40]}")
    return sorted(outcomes, key=lambda one: (ORDER.index(one.category), one.cause, one.file))


def by_cause(outcomes: Iterable[Outcome]) -> list[tuple[str, str, list[Outcome]]]:
    """(category, cause, files), in the order of the categories and then the most frequent first."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.category, outcome.cause].append(outcome)
    found = [(category, cause, files) for (category, cause), files in groups.items()]
    return sorted(found, key=lambda group: (ORDER.index(group[0]), -len(group[2]), group[1]))


def print_tables(outcomes: Sequence[Outcome], *, per_file: bool) -> None:
    """The table by cause, one line per file where it is asked for, and the sum."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 200)
    causes = Table("outcome", "files", "cause", "example", title="by cause")
    for category, cause, files in by_cause(outcomes):
        causes.add_row(category, str(len(files)), cause, files[0].source or files[0].file)
    console.print(causes)
    if per_file:
        files_table = Table("file", "chip", "toolkit", "outcome", "seconds", title="by file")
        for one in outcomes:
            files_table.add_row(one.source or one.file, one.chip, one.toolkit, one.category, f"{one.seconds:.1f}")
        console.print(files_table)
    family = [one for one in outcomes if one.category in _FAMILY]
    good = sum(one.category == RUNS for one in family)
    share = f" ({100 * good / len(family):.1f} %)" if family else ""
    console.print(f"{len(outcomes)} files; {len(family)} for this family and not encrypted: {good} run{share}.")


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="tools/wild", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="every *.rknn in it and below it is tried")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (0)")
    parser.add_argument("--jobs", type=int, default=2, help="files at a time (2)")
    parser.add_argument("--seconds", type=float, default=300, help="longest time for one file (300)")
    parser.add_argument("--gigabytes", type=float, default=6.0, help="largest address space of one process (6)")
    parser.add_argument("--sources", type=Path, help="tab-separated: file name, repository, path")
    parser.add_argument("--files", action="store_true", help="also one line per file")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome there")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """0 where no file ended in a fault of ours, else 1."""
    arguments = parse(words)
    if not arguments.folder.is_dir():
        print("tools/wild: give a folder with .rknn files", file=sys.stderr)
        return 2
    _PROCESSES.set_forkserver_preload(_PRELOADED)
    files = sorted(arguments.folder.rglob("*.rknn"), key=lambda path: path.stat().st_size)
    outcomes = try_folder(files, arguments, read_sources(arguments.sources))
    if arguments.json is not None:
        text = json.dumps([asdict(one) for one in outcomes], indent=1)
        arguments.json.write_text(text + "\n", encoding="utf-8")
    print_tables(outcomes, per_file=arguments.files)
    return 1 if any(one.category in FAULTS for one in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
