"""The tables of the page: operators and tensors. They sort and filter by script, and are plain tables without."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from openrknn.analysis.reports import OperatorReport
from openrknn.container.parts import Tensor
from openrknn.pages.markup import Content, Markup, breakable, clean, join, tag
from openrknn.pages.model.graph import look
from openrknn.pages.model.texts import dims, macs, native, number, quantization
from openrknn.pages.model.view import MAX_ROWS, View, kernel_text, op_name, tensor_name
from openrknn.quantities import size_text

__all__ = ["operators", "tensors"]

_MAX_LINKS = 8


class Column(NamedTuple):
    """A column's title; `is_number` sorts by value and stands at the right."""

    title: str
    is_number: bool = False
    hint: str = ""


_OPERATOR_COLUMNS = (
    Column("#", True, "Place in the order of execution"),
    Column("Type"),
    Column("Name"),
    Column("On", hint="Who executes it"),
    Column("Window", hint="Kernel, stride after the slash, dw = depthwise"),
    Column("Output"),
    Column("MACs", True, "Multiply-accumulates"),
    Column("Weights", True, "Weights, bias and other constants"),
    Column("Output size", True, "Bytes that the compiler reserved, padding included"),
    Column("Tasks", True, "NPU tasks with one core"),
    Column("Commands", True, "Register commands with one core"),
)

_TENSOR_COLUMNS = (
    Column("#", True),
    Column("Name"),
    Column("Kind"),
    Column("Type"),
    Column("Shape"),
    Column("In memory", hint="The layout that the NPU uses"),
    Column("Scale", True),
    Column("Zero point", True),
    Column("Calibrated range", hint="Smallest and largest value seen in calibration"),
    Column("Bytes", True),
    Column("Offset", True, "In internal memory"),
    Column("Written by"),
    Column("Read by"),
)


def operators(view: View) -> Markup:
    """One row per operator, with bars for work and bytes."""
    shown = view.operators[:MAX_ROWS]
    tops = _Tops(
        max((row.macs or 0 for row in shown), default=0),
        max((row.weight_bytes for row in shown), default=0),
        max((row.output_bytes for row in shown), default=0),
    )
    rows = (_operator_row(view, place, row, tops) for place, row in enumerate(shown))
    return _table(view, "Operators", _OPERATOR_COLUMNS, rows, len(view.operators))


class _Tops(NamedTuple):
    macs: int
    weights: int
    outputs: int


def _operator_row(view: View, place: int, row: OperatorReport, tops: _Tops) -> Markup:
    output = row.outputs[0] if row.outputs else None
    more = f" +{len(row.outputs) - 1}" if len(row.outputs) > 1 else ""
    return tag(
        "tr",
        _cell(tag("a", f"#{row.index}", href=f"#{view.prefix}n{row.index}", data_op=row.index), value=row.index),
        tag("td", clean(row.type, 60)),
        tag("td", breakable(op_name(row)), class_="name"),
        tag("td", _pill(row)),
        tag("td", kernel_text(view, place)),
        tag("td", f"{output.dtype} {dims(output.shape)}{more}" if output else ""),
        _bar("" if row.is_boundary else macs(row.macs), row.macs or 0, tops.macs),
        _bar(size_text(row.weight_bytes) if row.weight_bytes else "", row.weight_bytes, tops.weights),
        _bar(size_text(row.output_bytes) if row.output_bytes else "", row.output_bytes, tops.outputs),
        _cell(f"{row.tasks.get('1', 0):,}" if row.tasks else "", value=row.tasks.get("1", 0)),
        _cell(f"{row.commands:,}" if row.commands else "", value=row.commands),
        id=f"{view.prefix}op{row.index}",
    )


def _pill(row: OperatorReport) -> Markup:
    return tag("span", "in/out" if row.is_boundary else row.placement.upper(), class_=f"pill {look(row)}")


def tensors(view: View) -> Markup:
    """One row per tensor of the file: what flows first, constants after it."""
    named = (tensor for tensor in view.graph.tensors if tensor.name or tensor.size_bytes)
    shown = sorted(named, key=lambda tensor: not tensor.kind.is_activation)
    rows = (_tensor_row(view, tensor) for tensor in shown[:MAX_ROWS])
    return _table(view, "Tensors", _TENSOR_COLUMNS, rows, len(shown))


def _tensor_row(view: View, tensor: Tensor) -> Markup:
    size = len(tensor.data) if tensor.data is not None else tensor.size_bytes
    return tag(
        "tr",
        _cell(tensor.index, value=tensor.index),
        tag("td", breakable(tensor_name(tensor.name)), class_="name"),
        tag("td", tensor.kind.name.lower().replace("_", " ")),
        tag("td", tensor.dtype.label),
        tag("td", dims(tensor.shape)),
        tag("td", breakable(native(tensor)), class_="wrap"),
        *_quantization(tensor),
        tag("td", _range(tensor)),
        _cell(size_text(size), value=size),
        _cell(f"{tensor.offset:#x}" if tensor.kind.is_activation else "", value=tensor.offset),
        tag("td", _links(view, view.writers.get(tensor.index, []))),
        tag("td", _links(view, view.readers.get(tensor.index, []))),
        id=f"{view.prefix}t{tensor.index}",
    )


def _quantization(tensor: Tensor) -> tuple[Markup, Markup]:
    """Scale and zero point; the smallest and largest scale where there is one per channel."""
    values = tensor.quantization
    if values is None or not values.scale:
        return tag("td", class_="num", data_v=0), tag("td", class_="num", data_v=0)
    low, high = min(values.scale), max(values.scale)
    text = number(low) if len(values.scale) == 1 else f"{number(low)} … {number(high)}"
    zeros = sorted(set(values.zero_point))
    zero = str(zeros[0]) if len(zeros) == 1 else f"{zeros[0]} … {zeros[-1]}" if zeros else ""
    return (
        tag("td", text, class_="num", data_v=low, title=quantization(values)),
        tag("td", zero, class_="num", data_v=zeros[0] if zeros else 0),
    )


def _range(tensor: Tensor) -> str:
    if not tensor.minimum or not tensor.maximum:
        return ""
    return f"{number(min(tensor.minimum))} … {number(max(tensor.maximum))}"


def _links(view: View, places: Sequence[int]) -> Markup:
    links: list[Content] = []
    for place in places[:_MAX_LINKS]:
        index = view.operators[place].index
        links.append(tag("a", f"#{index}", href=f"#{view.prefix}n{index}", data_op=index))
    if len(places) > _MAX_LINKS:
        links.append(f"+{len(places) - _MAX_LINKS}")
    return join(links, " ")


def _cell(content: Content, *, value: int) -> Markup:
    return tag("td", content, class_="num", data_v=min(value, 1 << 62))


def _bar(text: str, value: int, top: int) -> Markup:
    share = f"--p:{100 * value / top:.3g}%" if value and top else None
    return tag("td", text, class_="num bar", style=share, data_v=min(value, 1 << 62))


def _table(view: View, title: str, columns: Sequence[Column], rows: Iterable[Markup], total: int) -> Markup:
    head = (
        tag("th", column.title, class_="num" if column.is_number else None, title=column.hint or None, scope="col")
        for column in columns
    )
    left_out = f"The first {MAX_ROWS:,} of {total:,}; the rest is in the JSON output." * (total > MAX_ROWS)
    return tag(
        "div",
        tag(
            "div",
            tag("label", "Search ", tag("input", type="search", placeholder=f"in {total} {title.lower()}")),
            tag("span", class_="found", aria_live="polite"),
            class_="tools script",
        ),
        tag(
            "div",
            tag(
                "table",
                tag("caption", title, class_="quiet"),
                tag("thead", tag("tr", *head)),
                tag("tbody", *rows),
            ),
            class_="scroll tall",
            tabindex=0,
            role="region",
            aria_label=title,
        ),
        tag("p", left_out, class_="muted") if left_out else None,
        class_="table",
    )
