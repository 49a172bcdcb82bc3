"""The page: summary, strips, flow, decisions, and the inside of the parts."""

from __future__ import annotations

from pathlib import PurePath

from openrknn.analysis.parted.borders import PartedComparison
from openrknn.analysis.parted.report import Inside, PartedReport, describe_parts, inside
from openrknn.container.bundle import Bundle
from openrknn.pages.frame import asset, document, footer, more_numbers, navigation, section, verdict
from openrknn.pages.markup import Markup, clean, join, tag
from openrknn.pages.model.graph import ARROWS
from openrknn.pages.model.page import graph_sections, picker
from openrknn.pages.model.view import View
from openrknn.pages.parted import tables
from openrknn.pages.parted.flow import flow
from openrknn.pages.parted.strips import strips
from openrknn.quantities import count_of, count_text, duration, size_text

__all__ = ["parted_page"]

_MOST_INSIDE = 6
"""NPU parts that are drawn whole; of more, those with the most products."""
_STRIPS = (
    "Every part in execution order. The width shows its estimated time on a board, and below that its number of "
    "products. Each is a link into the table."
)
_DECISIONS = (
    "What an operator can be decides first: what the NPU does not have, open shapes and types other than float stay on "
    "the CPU. Then time decides: a part whose way to the NPU and back costs more than it saves stays on the CPU, too."
)
_INSIDE = "The `.rknn` inside, as `openrknn inspect` shows one; `openrknn extract` writes all parts to files."
_ACCURACY = (
    "The same inputs through all parts, and through the ONNX model. “Its own part”: the part was given the "
    "reference's numbers, so only its own error shows. 6 dB are one bit."
)


def parted_page(
    bundle: Bundle, *, name: str = "", command: str = "openrknn inspect", comparison: PartedComparison | None = None
) -> str:
    """The page as one text. `name`: what to call the model where the bundle was never a file."""
    report = describe_parts(bundle)
    title = clean(PurePath(name or report.path or "model").name, 120)
    known = _inside(bundle, report)
    views = [(View(one.model, one.model.graphs[0], one.report.graphs[0], one.number), _label(one)) for one in known]
    body = (
        ARROWS,
        navigation(_places(report, views=bool(views), compared=comparison is not None)),
        tag(
            "main",
            _header(report, title, command),
            section("parts", "Where it runs", strips(report), note=_STRIPS),
            section("flow", "Parts and the values between them", flow(report)),
            section("accuracy", "Accuracy at the borders", tables.accuracy(comparison), note=_ACCURACY),
            section("decisions", "Decisions", tables.decisions(report), note=_DECISIONS),
            section("shapes", "Shapes", tables.shapes(report), note="A plan for each choice of input shapes."),
            section("ends", "Inputs and outputs", tables.ends(report)),
            section("cpu", "Parts of the CPU", tables.operators(report.ordered()), note="Operators by type."),
            section("reasons", "Operators that stay on the CPU", tables.notes(report)),
            section("inside", "Parts of the NPU", _picker(report, views), note=_INSIDE),
            *(graph_sections(view, text) for view, text in views),
        ),
        footer(command),
    )
    style = asset("style.css") + asset("parted/page.css")
    return document(f"{title} · openrknn", join(body), style=style, script=asset("model/script.js"))


def _inside(bundle: Bundle, report: PartedReport) -> list[Inside]:
    npu = [part for part in report.ordered() if part.kind == "npu" and not part.problem]
    chosen = sorted(npu, key=lambda part: -part.macs)[:_MOST_INSIDE]
    found = [inside(bundle, number) for number in sorted({part.number for part in chosen})]
    return [one for one in found if one is not None and one.report.graphs]


def _label(one: Inside) -> str:
    return f"Part {one.number}: {clean(', '.join(one.part.inputs), 40)} → {clean(', '.join(one.part.outputs), 40)}"


def _picker(report: PartedReport, views: list[tuple[View, str]]) -> Markup | None:
    if not views:
        return None
    left_out = sum(part.kind == "npu" for part in report.ordered()) - len(views)
    more = f" and {left_out} more with fewer products: extract them to look inside" if left_out > 0 else ""
    return picker("Part ", views, more)


def _places(report: PartedReport, *, views: bool, compared: bool) -> list[tuple[str, str]]:
    places = [("top", "Overview"), ("parts", "Where"), ("flow", "Flow") if len(report.ordered()) > 1 else None,
              ("accuracy", "Accuracy") if compared else None, ("decisions", "Decisions"),
              ("ends", "Inputs and outputs"), ("reasons", "CPU") if report.notes else None,
              ("inside", "NPU parts") if views else None]  # fmt: skip
    return [place for place in places if place is not None]


def _header(report: PartedReport, title: str, command: str) -> Markup:
    built = (f"in parts for {report.chip} and its CPU", report.precision, report.made_by)
    return tag(
        "header",
        tag("p", command, class_="brand"),
        tag("h1", title),
        tag("p", clean(" · ".join(filter(None, built))), class_="lead"),
        _verdict(report, title),
        more_numbers(_numbers(report)),
        id="top",
    )


def _verdict(report: PartedReport, title: str) -> Markup:
    """How much of the model the NPU computes, and whether that is worth it."""
    plan, parts = report.first, report.ordered()
    faster = plan.cpu_us / plan.board_us if plan.board_us else 0.0
    kinds = [part.kind for part in parts]
    if "npu" not in kinds:
        level, sentence = "poor", "No part of this model runs on the NPU"
    else:
        level = "good" if report.npu_share >= 0.9 and faster >= 1 else "fair"
        sentence = f"{report.npu_share:.0%} of the products run on the NPU"
        if faster:
            sentence += f"; estimated {faster:.1f} × as fast as the CPU alone"
    numbers = (
        ("Time on a board", duration(plan.board_us / 1e6), "an estimate, all parts"),
        ("Parts", str(len(parts)), f"{kinds.count('npu')} NPU, {kinds.count('cpu')} CPU"),
        ("Parts' files", size_text(report.size_bytes), "unpacked"),
    )
    if level == "good":
        step: Markup = tag("code", f"openrknn run {clean(title, 60)} --input FILE")
    else:
        step = join(("see ", tag("a", "why operators stay on the CPU", href="#decisions")))
    return verdict(level, sentence, numbers, step)


def _numbers(report: PartedReport) -> tuple[tuple[str, str, str], ...]:
    plan, parts = report.first, report.ordered()
    kinds = [part.kind for part in parts]
    npu_us = sum(part.board_us for part in parts if part.kind == "npu")
    left = sum(part.operators for part in parts if part.kind == "cpu")
    gain = f"{plan.cpu_us / plan.board_us:.1f} × as fast as the CPU alone" if plan.board_us else ""
    return (
        ("On the NPU", f"{report.npu_share:.1%}", f"of {count_text(plan.macs)}MAC" if plan.macs else ""),
        ("Parts", str(len(parts)), f"{kinds.count('npu')} NPU, {kinds.count('cpu')} CPU"),
        ("Time on a board", duration(plan.board_us / 1e6), "an estimate, all parts"),
        ("of it on the NPU", duration(npu_us / 1e6), gain),
        ("CPU alone", duration(plan.cpu_us / 1e6), "an estimate, ONNX Runtime"),
        ("Operators", f"{sum(part.operators for part in parts):,}", f"{left:,} stay on the CPU"),
        ("Parts' files", size_text(report.size_bytes), "unpacked"),
        ("Shapes", count_of(len(report.plans), "plan"), "batches are filled up" if report.padded else ""),
    )
