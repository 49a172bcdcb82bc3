"""What a model costs and how near it is to its source, as text."""

from __future__ import annotations

import contextlib
import io
import os
from pathlib import Path

from openrknn.cli.main import main
from openrknn.errors import RknnError
from rknnlite.api.rknn_runtime import RKNNRuntime

__all__ = ["accuracy_report", "memory_table", "performance_table"]

_RULE = "=" * 100
_EXIT_IMPOSSIBLE = 2


def performance_table(runtime: RKNNRuntime) -> str:
    """One row per operator. Times are of this machine; cycles are openrknn's estimate for a board."""
    profile = runtime.session.profile()
    head = f"{'ID':<5}{'OpType':<24}{'Target':<8}{'Time(us)':>10}  {'Cycles(estimated)':>18}  Name"
    rows = [
        f"{row.index:<5}{row.type:<24.23}{row.placement.value.upper():<8}{row.seconds * 1e6:>10.0f}  "
        f"{'' if row.estimated_cycles is None else row.estimated_cycles:>18}  {row.name}"
        for row in profile.operators
    ]
    total = f"Total: {profile.seconds * 1e6:.0f} us on {profile.device}, {profile.cores} core(s); "
    total += f"about {profile.estimated_cycles} cycles on a board"
    if profile.time_ms is not None and profile.low_ms is not None and profile.high_ms is not None:
        total += f", {profile.time_ms:.2f} ms ({profile.low_ms:.2f} to {profile.high_ms:.2f})"
    return "\n".join((_RULE, "Performance", _RULE, head, *rows, total, _RULE))


def memory_table(runtime: RKNNRuntime) -> tuple[dict[str, int], str]:
    """Bytes on the device, by use."""
    report = runtime.session.memory()
    found = {
        "weight_memory": report.weights,
        "internal_memory": report.internal,
        "other_memory": report.commands + report.inputs + report.outputs,
        "total_memory": report.total,
    }
    rows = [f"{name:<24}{size / 1024:>12.2f} KiB" for name, size in found.items()]
    return found, "\n".join((_RULE, "Memory", _RULE, *rows, _RULE))


def accuracy_report(
    model: str | os.PathLike[str] | bytes, onnx: str | os.PathLike[str], inputs: list[str],
    folder: str | os.PathLike[str],
) -> None:  # fmt: skip
    """`openrknn compare`, with its page and its numbers in a folder; a model that is no file yet goes there too."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if isinstance(model, bytes):
        (target / "model.rknn").write_bytes(model)
        model = target / "model.rknn"
    words = [os.fspath(model), os.fspath(onnx), *(word for path in inputs for word in ("--input", path))]
    for options, name in ((["--json"], "error_analysis.json"), ([], "error_analysis.txt")):
        text = _compare([*words, *options])
        (target / name).write_text(text, encoding="utf-8")


def _compare(words: list[str]) -> str:
    printed, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
        code = main(["compare", *words])
    if code == _EXIT_IMPOSSIBLE:
        raise RknnError(complained.getvalue().strip() or "openrknn compare failed")
    return printed.getvalue()
