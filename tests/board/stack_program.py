"""What a user of openrknn does, in a guest or below `openrknn exec`: every part prints one line of JSON.

    stack_program.py FOLDER PART...

FOLDER holds `NAME.rknn` and `NAME.npz` with the inputs `in_...` and the software NPU's outputs `out_...`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn import InputWarning, RknnError, Session, SessionPool, load

DEVICE = "rocket"
PROGRAMS, ROUNDS = 3, 2
POOL_SIZE, POOL_RUNS = 3, 12


def names(folder: Path) -> list[str]:
    """Of the models."""
    return sorted(path.stem for path in folder.glob("*.rknn"))


def inputs_of(folder: Path, name: str) -> dict[str, Any]:
    """Arrays by the names of the inputs."""
    with np.load(folder / f"{name}.npz") as file:
        return {key[3:]: file[key] for key in file.files if key.startswith("in_")}


def difference(folder: Path, name: str, outputs: Mapping[str, Any]) -> str:
    """Empty if every byte is the software NPU's."""
    with np.load(folder / f"{name}.npz") as file:
        wanted = {key[4:]: file[key] for key in file.files if key.startswith("out_")}
    if set(wanted) != set(outputs):
        return f"{name}: outputs {sorted(outputs)}"
    bad = [key for key, array in wanted.items() if array.tobytes() != np.ascontiguousarray(outputs[key]).tobytes()]
    return f"{name}: {bad} differ" if bad else ""


def one(folder: Path, name: str) -> str:
    """Load, run, compare."""
    try:
        with Session(load(folder / f"{name}.rknn"), DEVICE) as session:
            return difference(folder, name, session.run(inputs_of(folder, name), outputs="raw"))
    except (RknnError, OSError, ValueError) as error:
        return f"{name}: {type(error).__name__}: {str(error)[:200]}"


def models(folder: Path) -> dict[str, Any]:
    """All of them, one after the other."""
    started = time.monotonic()
    problems = [problem for name in names(folder) if (problem := one(folder, name))]
    return {"runs": len(names(folder)), "problems": problems, "seconds": round(time.monotonic() - started, 1)}


def threads(folder: Path) -> dict[str, Any]:
    """A session for each model, each in a thread of its own, all at once."""
    problems: list[str] = []
    chosen = names(folder)[::4]
    workers = [threading.Thread(target=lambda name=name: problems.append(one(folder, name))) for name in chosen]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"runs": len(problems), "problems": [problem for problem in problems if problem]}


def pool(folder: Path) -> dict[str, Any]:
    """Sessions that share weights, asked by `map` and by threads."""
    problems = []
    chosen = [name for name in names(folder) if name.startswith(("residual_rk3588_i8", "conv_rk3588", "silu_rk3588"))]
    for name in chosen:
        frames = [inputs_of(folder, name)] * POOL_RUNS
        with SessionPool(folder / f"{name}.rknn", size=POOL_SIZE, device=DEVICE) as sessions:
            problems += [difference(folder, name, outputs) for outputs in sessions.map(frames, outputs="raw")]
    return {"runs": len(problems), "problems": [problem for problem in problems if problem]}


def programs(folder: Path) -> dict[str, Any]:
    """Several programs at once, each with models of its own, again and again."""
    running = [
        subprocess.Popen([sys.executable, __file__, str(folder), f"part={number}"], stdout=subprocess.PIPE)
        for number in range(PROGRAMS)
    ]
    answers = [json.loads(process.communicate()[0] or b'{"runs": 0, "problems": ["ended"]}') for process in running]
    return {
        "runs": sum(answer["runs"] for answer in answers),
        "problems": [problem for answer in answers for problem in answer["problems"]],
        "codes": [process.returncode for process in running],
    }


def part(folder: Path, number: int) -> dict[str, Any]:
    """What one of those programs does."""
    chosen = names(folder)[number::PROGRAMS] * ROUNDS
    return {"runs": len(chosen), "problems": [problem for name in chosen if (problem := one(folder, name))]}


def tools(folder: Path) -> dict[str, Any]:
    """`doctor` and `top`, while a program uses the NPU."""
    with Session(load(folder / "conv_rk3588_i8.rknn"), DEVICE):
        return {"doctor": command("doctor", "--json"), "top": command("top", "--once", "--json")}


def health(folder: Path) -> dict[str, Any]:
    """What the device plugin and the DRA driver find and think of it; not their self-test, which has 120 s.

    The counted clock runs ahead while a guest waits for files, and Python is in such files.
    """
    from openrknn.kubernetes.health import Health
    from openrknn.kubernetes.inventory import Settings, units

    settings = Settings(Path("/"))
    found = units(settings)
    return {
        "units": [[unit.name, list(map(str, unit.nodes)), unit.open_as] for unit in found],
        "reasons": dict(Health(settings).check(found)),
    }


def library(folder: Path) -> dict[str, Any]:
    """A C program on the open librknnrt.so, and three of them at once."""
    place = folder.parent
    words = [str(place / "classify"), str(place / "model.rknn"), str(place / "picture.ppm"), str(place / "labels.txt")]
    engine = {"LD_LIBRARY_PATH": str(place), "OPENRKNN_ENGINE": str(place / "engine")}

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **engine}
        )

    alone = start().communicate()
    together = [process.communicate()[0] for process in [start() for _ in range(PROGRAMS)]]
    return {"said": alone[0], "errors": alone[1][-500:], "together": together}


def command(*words: str) -> dict[str, Any]:
    """A command of openrknn that prints JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "openrknn", *words], capture_output=True, text=True, env=os.environ, check=False
    )
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = done.stdout[-500:]
    return {"code": done.returncode, "said": said, "errors": done.stderr[-500:]}


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "models": models, "threads": threads, "pool": pool, "programs": programs, "tools": tools, "health": health,
    "library": library,
}  # fmt: skip


def main(words: Sequence[str]) -> None:
    warnings.simplefilter("ignore", InputWarning)
    folder = Path(words[0])
    for word in words[1:]:
        number = word.partition("=")[2]
        answer = part(folder, int(number)) if number else {"part": word, **PARTS[word](folder)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
