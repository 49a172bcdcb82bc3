"""ONNX's own backend tests through the ONNX Runtime API, beside ONNX Runtime itself; writes docs/onnx-backend.md.

    tools/onnx_backend.py --results results.jsonl --jobs 2          # goes on where it stopped
    tools/onnx_backend.py --results results.jsonl --write           # the page
    tools/onnx_backend.py --only conv relu --show                   # some of them, with what went wrong

The tests of an operator are made by a module of the onnx package. A worker imports one, runs each test three times
(ONNX Runtime alone; our session by cost; our session with all that can be on the NPU) and says how it went.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import multiprocessing
import os
import pkgutil
import signal
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "onnx-backend.md"
MODES = ("cost", "npu", "weights")
SECONDS = 120
HALF = 2.0**-8
"""Where the NPU computed: three bits less than fp16 has, of each number and of the largest one."""
RECURRENT, GATE = {"GRU", "LSTM", "RNN"}, 0.5
"""Their gates are numbers up to 1, and 1 - gate loses what the gate lost, however small the outputs are."""


def modules() -> list[str]:
    """Modules of the onnx package that make tests, one for each operator or so."""
    import onnx.backend.test.case.node as package

    prefix = f"{package.__name__}."
    found = [entry.name.removeprefix(prefix) for entry in pkgutil.walk_packages(package.__path__, prefix)]
    return sorted(name for name in found if not name.startswith("_"))


@functools.cache
def cases(module: str) -> list[Any]:
    """The tests that one module makes, when it is imported."""
    import numpy as np
    import onnx.backend.test.case.node as package

    before = {id(case) for case in package._NodeTestCases}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        name = f"{package.__name__}.{module}"
        if name in sys.modules:  # somebody else's import made its tests already
            package._existing_names.clear()
            importlib.reload(sys.modules[name])
        else:
            importlib.import_module(name)
    return [case for case in package._NodeTestCases if id(case) not in before]


def run_case(case: Any, mode: str) -> dict[str, Any]:
    """How a test goes: `passed`, what went wrong, and whether the NPU had a part in it."""
    from onnx.backend.test.runner import Runner, _normalize_tensor

    began = time.monotonic()
    answer: dict[str, Any] = {"test": case.name, "mode": mode, "passed": False, "npu": False, "error": ""}
    try:
        stored = {tensor.name for tensor in case.model.graph.initializer}
        names = [entry.name for entry in case.model.graph.input if entry.name not in stored]
        session = None
        for inputs, wanted in case.data_sets:
            feed = dict(zip(names, map(_normalize_tensor, inputs), strict=False))
            if session is None or mode == "weights":
                session = _session(case.model, mode, feed)
            expected = [_normalize_tensor(value) for value in wanted]
            found = session.run(None, feed)
            answer["npu"] = mode != "ort" and _on_npu(session)
            if not answer["npu"]:
                Runner.assert_similar_outputs(expected, found, rtol=case.rtol, atol=case.atol)
                continue
            largest = max(_largest(expected), GATE if case.model.graph.node[0].op_type in RECURRENT else 0.0)
            rtol, atol = max(case.rtol, HALF), max(case.atol, HALF * largest)
            found = [_one_step(one, other) for one, other in zip(found, expected, strict=True)]
            try:
                Runner.assert_similar_outputs(expected, found, rtol=rtol, atol=atol)
            except AssertionError:
                rounded = _session(case.model, "ort", feed).run(
                    None, {name: _half(value) for name, value in feed.items()}
                )
                Runner.assert_similar_outputs(rounded, found, rtol=rtol, atol=atol)
        answer["passed"] = True
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        lines = [line for line in str(error).splitlines() if line.strip()] or [""]
        answer["error"] = f"{type(error).__name__}: {' '.join(lines)[:400]}"
    answer["seconds"] = round(time.monotonic() - began, 3)
    return answer


def _session(model: Any, mode: str, feed: dict[str, Any]) -> Any:
    if mode == "ort":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    from openrknn.onnxruntime.backend import prepare

    constants = weights(feed) if mode == "weights" else {}
    prefer = "cost" if mode == "cost" else "npu"
    return prepare(model, prefer=prefer, cache="off", probe="off", constants=constants).session


def weights(feed: dict[str, Any]) -> dict[str, Any]:
    """All inputs but the first that are arrays: what is a constant in models, and is not in tests."""
    import numpy as np

    later = list(feed.items())[1:]
    return {
        name: value
        for name, value in later
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.size
    }


def _on_npu(session: Any) -> bool:
    return any(part.kind == "npu" for plan in session.plans for part in plan.parts)


def _half(value: Any) -> Any:
    """As the NPU sees it."""
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
        return value
    return np.clip(value, -65504, 65504).astype(np.float16).astype(value.dtype)


def _one_step(found: Any, expected: Any) -> Any:
    """8-bit numbers that the NPU had a part in may be off by one: a half is rounded up or down by the last bit."""
    import numpy as np

    if not isinstance(found, np.ndarray) or found.dtype not in (np.int8, np.uint8) or found.shape != expected.shape:
        return found
    return np.where(np.abs(found.astype(int) - expected.astype(int)) <= 1, expected, found).astype(found.dtype)


def _largest(values: Iterable[Any]) -> float:
    """The largest finite number of the outputs."""
    import numpy as np

    largest = 0.0
    for value in values:
        if isinstance(value, list | tuple):
            largest = max(largest, _largest(value))
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
            numbers = np.abs(value.astype(np.float64))
            numbers = numbers[np.isfinite(numbers)]
            largest = max(largest, float(numbers.max(initial=0.0)))
    return largest


def judge(module: str, skip: frozenset[tuple[str, str]] = frozenset()) -> Iterator[dict[str, Any]]:
    """All tests of a module, in all modes. What ONNX Runtime fails is not asked of us."""
    for case in cases(module):
        operator = case.model.graph.node[0].op_type if case.model.graph.node else module
        theirs: dict[str, Any] | None = None
        for mode in ("ort", *MODES):
            if theirs is not None and not theirs["passed"]:
                break
            if mode == "weights" and len(case.data_sets[0][0]) < 2:
                continue
            if (case.name, mode) in skip and mode != "ort":
                continue
            answer = {**run_case(case, mode), "operator": operator, "module": module}
            theirs = theirs or answer
            yield answer


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def _work(job: tuple[str, str, frozenset[tuple[str, str]]]) -> int:
    module, file, skip = job
    count = 0
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS * 3)
    try:
        with open(file, "a", encoding="utf-8") as results:
            for answer in judge(module, skip):
                if (answer["test"], answer["mode"]) not in skip:
                    results.write(json.dumps(answer) + "\n")
                    results.flush()
                    count += 1
    except TimeoutError as error:
        print(f"{module}: {error}", file=sys.stderr)
    finally:
        signal.alarm(0)
    return count


def read(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(test, mode) -> how it went; the last word counts."""
    found = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
        answer = json.loads(line)
        found[answer["test"], answer["mode"]] = answer
    return found


def collect(file: Path, wanted: list[str], jobs: int, *, again: bool) -> None:
    """Run what is not in the file; with `again` also what failed."""
    done = read(file)
    skip = frozenset(key for key, answer in done.items() if answer["passed"] or key[1] == "ort" or not again)
    queue = [(module, str(file), skip) for module in wanted]
    # A process for each few modules: what one leaves behind, or dies of, is not the next one's.
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=20) as pool:
        for number, _ in enumerate(pool.imap_unordered(_work, queue), 1):
            print(f"\r{number} of {len(queue)} modules", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def table(answers: dict[tuple[str, str], dict[str, Any]]) -> tuple[list[tuple[str, list[int]]], list[dict[str, Any]]]:
    """Operator -> tests, ORT passes, then for each mode: asked, we pass, on the NPU; and what fails."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * (2 + 3 * len(MODES)))
    failed = []
    for (test, mode), answer in sorted(answers.items()):
        row = rows[answer["operator"]]
        if mode == "ort":
            row[0] += 1
            row[1] += answer["passed"]
            continue
        if not answers[test, "ort"]["passed"]:
            continue
        at = 2 + 3 * MODES.index(mode)
        row[at] += 1
        row[at + 1] += answer["passed"]
        row[at + 2] += answer["passed"] and answer["npu"]
        if not answer["passed"]:
            failed.append(answer)
    return sorted(rows.items(), key=lambda entry: entry[0].lower()), failed


def page(answers: dict[tuple[str, str], dict[str, Any]]) -> str:
    """docs/onnx-backend.md."""
    import onnx
    import onnxruntime

    rows, failed = table(answers)
    sums = [sum(row[at] for _, row in rows) for at in range(2 + 3 * len(MODES))]
    lines = [
        "# ONNX backend tests",
        "",
        "<!-- Made by tools/onnx_backend.py --write; do not edit. -->",
        "",
        f"The node tests of onnx {onnx.__version__} through `openrknn.onnxruntime`, beside ONNX Runtime "
        f"{onnxruntime.__version__} on the CPU. NPU parts are compiled for RK3588 and run on the software NPU.",
        "",
        "- **ORT**: tests that ONNX Runtime alone passes. Others are not asked of us.",
        "- **cost**: what passes with the default, `prefer=cost`: single operators this small are not worth a way to",
        "  the NPU, so all of them stay in ONNX Runtime.",
        "- **npu**: what passes with `prefer=npu`, where everything that can be on the NPU is there.",
        "- **weights**: `prefer=npu`, and all inputs but the first are constants, as weights are in models; so many of",
        "  those that have more than one input and were run so.",
        "- **on the NPU**: so many of them had a part there. They may be off by 1/256 of each number or the largest,",
        "  from what ONNX says, or from what ONNX Runtime gives for inputs rounded to fp16: the NPU sees no others.",
        "  8-bit numbers may be off by one, recurrent layers by 1/512 (their gates are near 1). Tests without such a",
        "  part have to meet ONNX's own tolerance.",
        "",
        f"{sums[0]} tests, ONNX Runtime passes {sums[1]}; of these {sums[3]} pass by cost "
        f"and {sums[6]} with `prefer=npu`, {sums[7]} of them on the NPU. With constant weights {sums[9]} of {sums[8]} "
        f"that were run pass, {sums[10]} of them on the NPU.",
        "",
    ]
    if failed:
        lines += ["## What fails", "", "| test | mode | why |", "|---|---|---|"]
        lines += [f"| `{one['test']}` | {one['mode']} | {_cell(one['error'])} |" for one in failed]
        lines += [""]
    head = ("operator", "tests", "ORT", "cost", "npu", "on the NPU", "weights", "on the NPU")
    lines += ["## By operator", "", f"| {' | '.join(head)} |", f"|---{'|--:' * 7}|"]
    for name, row in rows:
        fixed = f"{row[9]} of {row[8]}" if row[8] else ""
        cells = (name, row[0], row[1], row[3], row[6], row[7] or "", fixed, row[10] or "")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")[:160]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="a file of JSON lines; what is in it is not run again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="+", metavar="MODULE", help="modules of onnx.backend.test.case.node")
    parser.add_argument("--again", action="store_true", help="run again what failed")
    parser.add_argument("--show", action="store_true", help="print what fails")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    given = parser.parse_args()
    results = given.results or Path(os.environ.get("TMPDIR", "/tmp")) / f"onnx_backend.{os.getpid()}.jsonl"
    if not given.write or given.only or given.again:
        collect(results, given.only or modules(), given.jobs, again=given.again)
    answers = read(results)
    rows, failed = table(answers)
    print(
        f"{len(rows)} operators, {Counter(key[1] for key in answers)}, failed: {Counter(one['mode'] for one in failed)}"
    )
    if given.show:
        for one in failed:
            print(f"{one['test']} ({one['mode']}{', NPU' if one['npu'] else ''}): {one['error']}")
    if given.write:
        PAGE.write_text(page(answers), encoding="utf-8")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
