"""A model file on this machine: its chip, its version, what falls back to the CPU."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from openrknn.analysis.explain import describe
from openrknn.analysis.reports import ModelReport
from openrknn.analysis.reports import Severity as ModelSeverity
from openrknn.analysis.versions import parse_version
from openrknn.chips import CHIPS
from openrknn.container.bundle import is_bundle, read_bundle
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.doctor.checks.python import check_wheel
from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding, Severity
from openrknn.doctor.libraries import Library
from openrknn.errors import RknnError
from openrknn.extras import how_to_install

__all__ = ["check_file"]

_SMALL = {"rv1103", "rv1106", "rv1103b", "rv1106b"}


def check_file(facts: Facts, path: Path) -> Iterator[Finding]:
    """A `.rknn`, a `.rknnz` with parts, or a wheel that pip refuses."""
    if path.suffix == ".whl":
        yield from check_wheel(path)
        return
    if is_bundle(path):
        yield from _parts(facts, path)
        return
    try:
        model = load(path, strict=False)
        report = describe(model)
    except OSError as error:
        yield Finding("model-unreadable", Severity.ERROR, f"{path.name}: {error.strerror}", "", ("check the path",))
        return
    except RknnError as error:
        yield Finding(
            "model-not-rknn",
            Severity.ERROR,
            f"{path.name}: {error}",
            'the vendor\'s library says "Invalid RKNN format" to what is not a model for this generation of NPUs: '
            "files of toolkit 1 (RK1808, RK3399Pro), ONNX files, web pages, Git LFS pointers",
            ("download the file again (with `git lfs pull` in a Git repository), or convert the model with toolkit 2",),
            "rockchip-linux/rknn-toolkit#453",
        )
        return
    made = f"toolkit {model.toolkit_version or '?'}"
    yield Finding("model", Severity.OK, f"{path.name}: for {model.chip.title}, made by {made}")
    yield from _chip(facts, model, path)
    yield from _runtime(facts, model, report, path)
    yield from _contents(report)


def _parts(facts: Facts, path: Path) -> Iterator[Finding]:
    """A model in parts: for this chip, and is there an ONNX Runtime for its parts of the CPU?"""
    try:
        bundle = read_bundle(path)
        parts = [load(bundle.files[part.file], strict=False) for part in bundle.parts if part.kind == "npu"]
    except RknnError as error:
        todo = ("copy the file, or make it again",)
        yield Finding("model-damaged", Severity.ERROR, f"{path.name}: {error}", "", todo)
        return
    others = len(bundle.parts) - len(parts)
    yield Finding(
        "model-in-parts", Severity.OK,
        f"{path.name}: {len(parts)} parts for {bundle.target} and {others} for the CPU, by {bundle.made_by or '?'}",
    )  # fmt: skip
    if others and importlib.util.find_spec("onnxruntime") is None:
        yield Finding(
            "onnxruntime-missing", Severity.ERROR, f"{path.name} has parts for the CPU, and there is no ONNX Runtime",
            "parts of the CPU run in ONNX Runtime", (how_to_install("parts"),),
        )  # fmt: skip
    if parts:
        yield from _chip(facts, parts[0], path)


def _chip(facts: Facts, model: Model, path: Path) -> Iterator[Finding]:
    if facts.soc is None or model.target == CHIPS[facts.soc].target:
        return
    own = CHIPS[facts.soc]
    small = facts.soc in _SMALL
    symptom = '"incompatible model version: 1"' if small else 'a failed init after "target set by user"'
    yield Finding(
        "model-other-chip",
        Severity.ERROR,
        f"{path.name} is for {model.chip.title}, and this is {own.title}",
        f"each family of chips has its own commands; the vendor's library answers with {symptom}",
        (
            f"convert the model again with target_platform='{own.name}'",
            f"$ openrknn run {path.name} --device software   # runs it here without the NPU",
        ),
        "rockchip-linux/rknpu#43" if small else "go-rknnlite#37",
    )


def _runtime(facts: Facts, model: Model, report: ModelReport, path: Path) -> Iterator[Finding]:
    need = report.runtime
    vendors = [library for library in facts.libraries if not library.is_open]  # ours reads all versions
    copies = [library for library in vendors if library.name == need.library]
    other = [library for library in vendors if library.name != need.library]
    if not copies and other and facts.npus:
        yield Finding("library-other-family", Severity.ERROR,
                      f"{path.name} needs {need.library}.so, and there is only {other[0].path}",
                      "RV1103 and RV1106 have a library of their own (librknnmrt)",
                      (f"install {need.library}.so, or use openrknn",))  # fmt: skip
    for library in copies:
        yield from _against(library, model, report, path)


def _against(library: Library, model: Model, report: ModelReport, path: Path) -> Iterator[Finding]:
    if library.version is None:
        return
    version = tuple(library.version[:3])
    oldest = parse_version(report.runtime.version)
    toolkit = parse_version(model.toolkit_version)
    if oldest and version < oldest:
        refused = report.runtime.refused_by or f"it needs {report.runtime.version}: {report.runtime.evidence}"
        yield Finding(
            "model-newer-than-library",
            Severity.ERROR,
            f"{library.path} is {library.version} and will refuse {path.name} (of toolkit {model.toolkit_version})",
            f"{refused}; the log shows no more than \"Invalid RKNN model version 6\" or \"6, 1\"",
            (
                f"replace {library.path} by {report.runtime.advised or report.runtime.version} or newer "
                "(airockchip/rknn-toolkit2, rknpu2/runtime)",
                f"$ openrknn run {path.name}   # needs no library",
            ),
            "airockchip/rknn-toolkit2#281",
        )
    elif toolkit and version < toolkit:
        yield Finding(
            "library-older-than-toolkit",
            Severity.WARNING,
            f"{library.path} is {library.version}, older than toolkit {model.toolkit_version} that made {path.name}",
            "it may load the model; the vendor advises a library at least as new as the toolkit",
            (f"replace it by {report.runtime.advised} or newer",),
        )


def _contents(report: ModelReport) -> Iterator[Finding]:
    """What `openrknn inspect` finds, in our words; its notes stay there."""
    severities = {ModelSeverity.ERROR: Severity.ERROR, ModelSeverity.WARNING: Severity.WARNING}
    for finding in report.findings:
        if finding.severity in severities or finding.code == "cpu-fallback":
            severity = severities.get(finding.severity, Severity.NOTE)
            fix = (finding.action,) if finding.action else ()
            yield Finding(f"model-{finding.code}", severity, finding.what, finding.why, fix)
