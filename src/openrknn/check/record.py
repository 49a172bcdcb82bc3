"""Makes a golden folder from a model that is good, and refreshes one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.check.budgets import costs_of
from openrknn.check.cases import Runner
from openrknn.check.compare_answers import answer_of
from openrknn.check.errors import CannotCheckError, GoldenError
from openrknn.check.fingerprint import fingerprint
from openrknn.check.golden import FILE, Case, Golden, load_golden
from openrknn.check.inputs import SOUNDS, is_picture
from openrknn.check.integrity import read_fingerprint
from openrknn.check.reference import OnnxReference, limits_for
from openrknn.check.run import Progress, chosen_cases
from openrknn.check.subject import Subject, open_subject
from openrknn.check.tensors import Trace, trace
from openrknn.check.text import golden_text
from openrknn.check.tolerance import Tolerance
from openrknn.container.model import Model
from openrknn.errors import OutputError, RknnError, UnsupportedError
from openrknn.wholefiles import write_atomically

Array: TypeAlias = npt.NDArray[Any]
Source: TypeAlias = "str | os.PathLike[str] | Mapping[str, str | os.PathLike[str] | Array]"
"""A file, or files or arrays by the names of the inputs."""

FINGERPRINT = "fingerprint.json"
_EXPECT = ("both", "outputs", "answers")


@dataclass
class _Made:
    """A case as it is being recorded."""

    case: Case
    arrays: dict[str, Array] = field(default_factory=dict)
    tolerance: Tolerance | None = None
    notes: list[str] = field(default_factory=list)


def record(
    model: str | os.PathLike[str] | Model,
    folder: str | os.PathLike[str],
    cases: Mapping[str, Source],
    *,
    reference: str | os.PathLike[str] | None = None,
    expect: str = "both",
    options: Mapping[str, Any] | None = None,
    device: str = "auto",
    cores: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Golden:
    """Run a good model and write what it does into a new folder.

    reference   an ONNX model: what is expected is what it computes, and the tolerance is how far the model is from it
    expect      "outputs", "answers" (classes, boxes, text; of pictures whose family is known) or "both"
    options     for all cases: fit, order, layout, task, family, threshold, labels, reader
    force       a folder that has a golden.toml is written again
    """
    if expect not in _EXPECT:
        raise ValueError(f"expect={expect!r} is unknown; the choices are {', '.join(_EXPECT)}")
    root = Path(folder)
    subject = open_subject(model)
    if not cases:
        raise CannotCheckError("a golden folder needs at least one case")
    onnx = OnnxReference(subject, os.fspath(reference)) if reference is not None else None
    _prepare(root, force=force)
    tell = progress or (lambda stage, done, of: None)
    made: list[_Made] = []
    traces: dict[str, dict[str, Trace]] = {}
    with Runner(subject, device, cores) as runner:
        for number, (name, source) in enumerate(cases.items()):
            tell("recording", number, len(cases))
            entry = _Made(_with_inputs(root, name, source, options or {}))
            _expect(runner, root, entry, expect, onnx)
            made.append(entry)
            if subject.model is not None and entry.arrays:
                traces[name] = trace(subject.model, entry.arrays, entry.case.layout)
    _write_fingerprint(root / FINGERPRINT, subject, traces)
    rows = [(entry.case, entry.tolerance, entry.notes) for entry in made]
    text = golden_text(subject, rows, costs_of(subject), FINGERPRINT, root)
    write_atomically(root / FILE, text)
    return load_golden(root)


def update(
    model: str | os.PathLike[str] | Model,
    golden: str | Path | Golden,
    *,
    only: Sequence[str] = (),
    device: str = "auto",
    cores: int | None = None,
) -> tuple[str, ...]:
    """Write again what was recorded: expected outputs, answers in files, the fingerprint. The names of these files.

    golden.toml stays as it is: tolerances, budgets and answers in it are decisions of people.
    """
    known = golden if isinstance(golden, Golden) else load_golden(golden)
    subject = open_subject(model)
    written: list[str] = []
    file = known.integrity.file
    traces: dict[str, Any] = {}
    if file is not None and file.is_file() and only:  # those of the other cases stay
        traces = {name: _rows(rows) for name, rows in read_fingerprint(file)[1].items()}
    with Runner(subject, device, cores) as runner:
        for case in chosen_cases(known, only):
            if case.outputs is not None:
                arrays = runner.arrays(case)
                if _save(case.outputs, runner.outputs(case, arrays)):
                    written.append(str(case.outputs))
                if subject.model is not None:
                    traces[case.name] = _rows(trace(subject.model, arrays, case.layout))
            if case.answer is not None and case.answer.file is not None:
                answer = _kept(case.answer.file, _answer(runner, case))
                if _write(case.answer.file, _json(answer)):
                    written.append(str(case.answer.file))
    if file is not None and _write(file, _json({**fingerprint(subject).as_json(), "tensors": traces})):
        written.append(str(file))
    return tuple(written)


def _prepare(root: Path, *, force: bool) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
        inside = list(root.iterdir())
    except (FileExistsError, NotADirectoryError):
        raise GoldenError("this is a file; give a folder", path=str(root)) from None
    if not inside:
        return
    if not (root / FILE).is_file():
        raise GoldenError("not empty, and no golden folder; choose another one", path=str(root))
    if not force:
        raise GoldenError(f"has a {FILE} already; refresh it with --update, or replace it with --force", path=str(root))


def _with_inputs(root: Path, name: str, source: Source, options: Mapping[str, Any]) -> Case:
    """The case, its inputs copied into the folder: it has to be complete on its own."""
    base = root / "inputs"
    base.mkdir(exist_ok=True)
    inputs: dict[str, Path] = {}
    if isinstance(source, Mapping):
        arrays = {key: value for key, value in source.items() if isinstance(value, np.ndarray)}
        for key, value in source.items():
            if isinstance(value, np.ndarray):
                continue
            inputs[key] = _copied(base, f"{name}.{_safe(key)}", value)
        if arrays:
            target = base / f"{name}.npz"
            file = BytesIO()
            np.savez_compressed(file, allow_pickle=False, **arrays)
            _write(target, file.getvalue())
            inputs |= dict.fromkeys(arrays, target) if inputs else {"": target}
    else:
        inputs[""] = _copied(base, name, source)
    known = {key: value for key, value in options.items() if value is not None}
    for key in ("labels", "reader"):
        if key in known:
            known[key] = _copied(root, Path(known[key]).stem, known[key])
    return replace(Case(name, inputs), **known)


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:60]


def _copied(base: Path, stem: str, source: str | os.PathLike[str] | Array) -> Path:
    path = Path(os.fspath(source))  # type: ignore[arg-type]
    target = base / f"{stem}{path.suffix.lower()}"
    try:
        if not (target.exists() and target.samefile(path)):
            write_atomically(target, path.read_bytes())
    except OutputError as error:
        raise GoldenError(str(error)) from None
    except OSError as error:
        raise CannotCheckError(f"{path}: {error.strerror or error}") from None
    return target


def _expect(runner: Runner, root: Path, entry: _Made, expect: str, onnx: OnnxReference | None) -> None:
    case = entry.case
    first = next(iter(case.inputs.values()))
    if first.suffix.lower() in SOUNDS:
        text = {"transcript": runner.transcript(case), "word_errors": 0.05}
        entry.case = replace(case, answer=_saved(root, case.name, text))
        return
    if expect != "answers":
        entry.arrays = runner.arrays(case)
        found = runner.outputs(case, entry.arrays)
        if onnx is not None:
            wanted = onnx.run(entry.arrays, case.layout)
            entry.tolerance, words = limits_for(found, wanted)
            entry.notes.append(words)
            found = wanted
        target = root / "outputs" / f"{case.name}.npz"
        target.parent.mkdir(exist_ok=True)
        _save(target, found)
        entry.case = case = replace(case, outputs=target)
    if expect != "outputs" and len(case.inputs) == 1 and is_picture(first):
        try:
            answer = _answer(runner, case)
        except (UnsupportedError, ValueError, RknnError) as error:
            if expect == "answers" or case.task or case.family:
                raise CannotCheckError(f"case {case.name!r}: no answer: {error}") from error
            return  # a model of no known family: its outputs say all
        entry.case = replace(case, answer=_saved(root, case.name, answer))
    elif expect == "answers":
        raise CannotCheckError(f"case {case.name!r}: answers are given to pictures and sounds; {first.name} is neither")


def _answer(runner: Runner, case: Case) -> dict[str, Any]:
    if case.answer is not None and case.answer.transcript is not None:
        return {"transcript": runner.transcript(case)}
    result = runner.answer(case)
    if result.found is None:
        raise CannotCheckError(f"case {case.name!r}: {result.problem}")
    return answer_of(result)


def _saved(root: Path, name: str, answer: Mapping[str, Any]) -> Any:
    from openrknn.check.answer import Answer

    target = root / "answers" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    _write(target, _json(answer))
    return Answer(file=target)


def _kept(file: Path, answer: dict[str, Any]) -> dict[str, Any]:
    """What is new, with the tolerances that the file has."""
    old = json.loads(file.read_bytes())
    limits = {key: value for key, value in old.items() if key in answer and key.endswith(("tolerance", "errors"))}
    others = {key: value for key, value in old.items() if key in ("within", "iou", "extra", "missing", "word_errors")}
    return {**answer, **limits, **others}


def _write_fingerprint(path: Path, subject: Subject, traces: Mapping[str, Mapping[str, Trace]]) -> None:
    tensors = {case: _rows(rows) for case, rows in traces.items()}
    _write(path, _json({**fingerprint(subject).as_json(), "tensors": tensors}))


def _rows(traces: Mapping[str, Trace]) -> dict[str, Any]:
    return {name: row.as_json() for name, row in traces.items()}


def _json(value: Mapping[str, Any]) -> bytes:
    """A line for each entry, and for each row of lists and tables: a version control system shows what changed."""
    rows = []
    for key, entry in value.items():
        if isinstance(entry, list) and entry and isinstance(entry[0], dict):
            text = "[\n  " + ",\n  ".join(_line(item) for item in entry) + "\n ]"
        elif isinstance(entry, dict) and entry:
            inner = [f"{_line(name)}: {_json_rows(item)}" for name, item in entry.items()]
            text = "{\n  " + ",\n  ".join(inner) + "\n }"
        else:
            text = _line(entry)
        rows.append(f" {_line(key)}: {text}")
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode("utf-8", "replace")


def _json_rows(value: object) -> str:
    if not isinstance(value, dict):
        return _line(value)
    return "{\n   " + ",\n   ".join(f"{_line(name)}: {_line(item)}" for name, item in value.items()) + "\n  }"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _save(path: Path, arrays: Mapping[str, Array]) -> bool:
    """Whether the numbers are new."""
    file = BytesIO()
    if path.suffix.lower() == ".npy":
        np.save(file, next(iter(arrays.values())), allow_pickle=False)
    else:
        np.savez_compressed(file, allow_pickle=False, **{name: _narrow(value) for name, value in arrays.items()})
    return _write(path, file.getvalue())


def _narrow(values: Array) -> Array:
    return values.astype(np.float32) if values.dtype == np.float64 else values


def _write(path: Path, data: bytes) -> bool:
    if path.is_file() and path.read_bytes() == data:
        return False
    write_atomically(path, data)
    return True
