"""The graph as a picture: one box per operator, coloured by who executes it, with a bar for its share of the work."""

from __future__ import annotations

from openrknn.analysis.reports import OperatorReport
from openrknn.pages.markup import Markup, clean, tag
from openrknn.pages.model.layout import Box, Picture, lay_out
from openrknn.pages.model.texts import dims, macs, short_shape
from openrknn.pages.model.view import View, kernel_text, op_name
from openrknn.quantities import size_text

__all__ = ["ARROWS", "MAX_DRAWN", "draw", "look"]

MAX_DRAWN = 3000
"""A browser becomes slow with more boxes."""
ARROWS = tag(
    "svg",
    tag(
        "defs",
        *(
            tag("marker", tag("path", d="M0 0L8 4L0 8z"), id=name, viewBox="0 0 8 8", refX=7.5, refY=4, markerWidth=7,
                markerHeight=7, markerUnits="userSpaceOnUse", orient="auto")
            for name in ("arrow", "arrow-near")
        ),
    ),
    class_="quiet",
    aria_hidden="true",
)  # fmt: skip
"""The heads of the arrows, once per page: all graphs share them."""
_WIDTH, _HEIGHT = 176.0, 46.0
_EDGE_WIDTH, _EDGE_HEIGHT = 150.0, 34.0
_MARGIN = 16.0
_TITLE_CHARACTERS, _LINE_CHARACTERS = 19, 27


def look(operator: OperatorReport) -> str:
    """The CSS class that gives an operator its colour."""
    return "io" if operator.is_boundary else operator.placement


def draw(view: View) -> Markup:
    """The picture as SVG; it needs no script, each box links to its row in the operator table."""
    shown = view.operators[:MAX_DRAWN]
    picture = lay_out(
        [(_EDGE_WIDTH, _EDGE_HEIGHT) if operator.is_boundary else (_WIDTH, _HEIGHT) for operator in shown],
        view.edges,
    )
    heaviest = max((operator.macs or 0 for operator in shown), default=0)
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    return tag(
        "svg",
        tag("title", f"Graph of {len(shown)} operators, from the inputs at the top to the outputs at the bottom"),
        tag(
            "g",
            _edges(picture),
            *(_node(view, number, operator, picture.boxes[number], heaviest) for number, operator in enumerate(shown)),
            id=f"{view.prefix}drawing",
        ),
        class_="graph",
        viewBox=f"{-_MARGIN:g} {-_MARGIN:g} {width:.6g} {height:.7g}",
        width=width,
        height=height,
        role="group",
        aria_label="Operator graph",
    )


def _edges(picture: Picture) -> Markup:
    return tag(
        "g",
        *(tag("path", d=edge.path, data_s=edge.source, data_t=edge.target) for edge in picture.edges),
        class_="edges",
    )


def _node(view: View, number: int, operator: OperatorReport, box: Box, heaviest: int) -> Markup:
    lines = _boundary_label(operator) if operator.is_boundary else _label(view, number, operator, heaviest)
    return tag(
        "a",
        tag("title", hint(operator)),
        tag("rect", width=box.width, height=box.height, rx=17 if operator.is_boundary else 7),
        *lines,
        id=f"{view.prefix}n{operator.index}",
        class_=f"node {look(operator)}",
        href=f"#{view.prefix}op{operator.index}",
        data_op=operator.index,
        transform=f"translate({box.x:.6g} {box.y:.7g})",
    )


def _label(view: View, number: int, operator: OperatorReport, heaviest: int) -> list[Markup]:
    shape = short_shape(operator.outputs[0].shape) if operator.outputs else ""
    kernel = kernel_text(view, number)
    lines = [
        tag("text", clean(operator.type, _TITLE_CHARACTERS), x=11, y=18, class_="t"),
        tag("text", f"#{operator.index}", x=_WIDTH - 9, y=18, class_="i"),
        tag("text", clean(" → ".join(filter(None, (kernel, shape))), _LINE_CHARACTERS), x=11, y=34, class_="s"),
    ]
    if operator.macs and heaviest:
        share = (_WIDTH - 22) * operator.macs / heaviest
        lines.append(tag("rect", x=11, y=_HEIGHT - 6, width=max(share, 1.5), height=3, rx=1.5, class_="load"))
    return lines


def _boundary_label(operator: OperatorReport) -> list[Markup]:
    tensors = operator.outputs or operator.inputs
    name, shape = (tensors[0].name, short_shape(tensors[0].shape)) if tensors else (operator.name, "")
    word = "input" if operator.outputs else "output"
    return [
        tag("text", f"{word} {clean(name, 14)}", x=_EDGE_WIDTH / 2, y=15, class_="t m"),
        tag("text", shape, x=_EDGE_WIDTH / 2, y=28, class_="s m"),
    ]


def hint(operator: OperatorReport) -> str:
    """The tooltip of a box."""
    lines = [f"#{operator.index} {clean(operator.type, 60)} on {operator.placement.upper()}", op_name(operator)]
    for word, tensors in (("in", operator.inputs), ("out", operator.outputs)):
        lines += [f"{word}: {clean(use.name, 60)} {use.dtype} {dims(use.shape)}" for use in tensors[:6]]
    facts = [f"{macs(operator.macs)} MACs"] if operator.macs is not None else []
    if operator.weight_bytes:
        facts.append(f"{size_text(operator.weight_bytes)} of weights")
    if operator.tasks:
        facts.append(f"{operator.tasks.get('1', 0)} tasks")
    lines.append(", ".join(facts))
    return "\n".join(filter(None, lines))
