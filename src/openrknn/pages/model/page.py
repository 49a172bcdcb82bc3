"""The whole page: one file, nothing from the network, readable without its script."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from openrknn.analysis.reports import GraphReport, ModelReport
from openrknn.container.model import Model
from openrknn.pages.frame import asset, document, footer, navigation, section
from openrknn.pages.markup import Markup, clean, join, tag
from openrknn.pages.model import charts, details, graph, memory, overview, tables
from openrknn.pages.model.texts import dims
from openrknn.pages.model.view import View

__all__ = ["graph_sections", "picker", "render"]

_MAX_GRAPHS = 8
_LEGEND = (("npu", "NPU"), ("cpu", "CPU"), ("gpu", "GPU"), ("custom", "custom"), ("io", "input or output"))


def render(report: ModelReport, model: Model) -> str:
    """The page as one text."""
    title = clean(PurePath(report.path).name if report.path else "model", 120)
    views = [View(model, model.graphs[entry.index], entry) for entry in report.graphs[:_MAX_GRAPHS]]
    body = (
        graph.ARROWS,
        _navigation(views),
        tag(
            "main",
            overview.header(report, title),
            section("findings", "Findings", overview.findings(report)),
            section("ends", "Inputs and outputs", overview.ends(report)),
            _picker(report, views),
            *(graph_sections(view, "" if len(views) == 1 else f"Graph {_shapes(view.report)}") for view in views),
        ),
        footer("openrknn inspect"),
    )
    return document(f"{title} · openrknn", join(body), style=asset("style.css"), script=asset("model/script.js"))


def _navigation(views: list[View]) -> Markup:
    prefix = views[0].prefix if views else ""
    places = (
        ("top", "Overview"),
        ("ends", "Inputs and outputs"),
        (f"{prefix}graph", "Graph"),
        (f"{prefix}cost", "Cost"),
        (f"{prefix}operators", "Operators"),
        (f"{prefix}memory", "Memory"),
        (f"{prefix}tasks", "Tasks"),
        (f"{prefix}tensors", "Tensors"),
    )
    return navigation(places)


def _picker(report: ModelReport, views: list[View]) -> Markup | None:
    """Which of the graphs of a dynamic-shape model to look at; without script they stand below each other."""
    if len(views) < 2:
        return None
    left_out = report.graph_count - len(views)
    more = f" and {left_out} more: see --graph" if left_out > 0 else ""
    return picker("Graph for input shape ", [(view, _shapes(view.report)) for view in views], more)


def picker(words: str, entries: Iterable[tuple[View, str]], more: str = "") -> Markup:
    """Which of several graphs to look at."""
    options = (tag("option", text, value=f"{view.prefix}all") for view, text in entries)
    return tag(
        "div",
        tag("label", words, tag("select", *options)),
        tag("span", more, class_="muted") if more else None,
        class_="picker card",
    )


def _shapes(entry: GraphReport) -> str:
    return f"{entry.index}: {' and '.join(dims(shape) for shape in entry.input_shapes[:4])}"


def graph_sections(view: View, title: str = "") -> Markup:
    """Everything about one graph; the title is for readers without script, who see all graphs."""
    prefix = view.prefix
    sections = (
        section(f"{prefix}graph", "Graph", _viewer(view)),
        section(f"{prefix}cost", "Where the work goes", charts.cost(view)),
        section(f"{prefix}operators", "Operators", tables.operators(view)),
        section(
            f"{prefix}memory", "Memory", charts.memory_totals(view), memory.draw(view),
            note="Each rectangle is a tensor in internal memory: as wide as it lives, as high as it is large. "
            "The line is what is alive at the same time.",
        ),
        section(
            f"{prefix}tasks", "Tasks per core", charts.task_lists(view),
            note="The compiler wrote one list of tasks for each core and each number of cores that share the work.",
        ),
        section(f"{prefix}tensors", "Tensors", tables.tensors(view)),
    )  # fmt: skip
    heading = tag("h2", title, class_="which") if title else None
    return tag("div", heading, *sections, details.data(view), class_="one-graph", id=f"{prefix}all")


def _viewer(view: View) -> Markup:
    total = len(view.operators)
    cut = f"Only the first {graph.MAX_DRAWN:,} of {total:,} operators are drawn." if total > graph.MAX_DRAWN else ""
    buttons = (
        ("out", "−", "Smaller"),
        ("in", "+", "Larger"),
        ("one", "1:1", "1:1, full size"),
        ("fit", "Fit", "Fit the whole graph"),
    )
    return tag(
        "div",
        tag(
            "div",
            _legend(view),
            tag("span", *(tag("button", text, type="button", data_zoom=key, title=title, aria_label=title)
                          for key, text, title in buttons), class_="zoom script"),
            class_="tools",
        ),
        tag("p", cut, class_="intro") if cut else None,
        tag(
            "div",
            tag("div", graph.draw(view), class_="canvas", tabindex=0, role="region", aria_label="Drawing of the graph"),
            tag("div", class_="overview script", aria_hidden="true"),
            tag("aside", tag("p", "Choose an operator to see its tensors, shapes, quantisation, tasks and cost.",
                             class_="muted"), class_="panel script", aria_label="Chosen operator"),
            class_="split",
        ),
        class_="viewer",
        data_prefix=view.prefix,
    )  # fmt: skip


def _legend(view: View) -> Markup:
    present = {graph.look(operator) for operator in view.operators}
    keys: Iterable[Markup] = (
        tag("li", tag("span", class_=f"dot {key}"), text) for key, text in _LEGEND if key in present
    )
    return tag("ul", *keys, tag("li", tag("span", class_="dot load"), "share of MACs"), class_="legend")
