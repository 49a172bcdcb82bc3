"""The page of `openrknn llm quantise --report`."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from openrknn.llm.quantise.measure import Measured
from openrknn.llm.quantise.report import Report
from openrknn.pages.frame import asset, decibels, document, folded, footer, navigation, section, verdict
from openrknn.pages.markup import Markup, clean, tag
from openrknn.quantities import size_text

__all__ = ["render"]

_MEASURED = ("KL", "1 in 100 above", "perplexity", "change", "same successor")


def render(report: Report, name: str, command: str = "openrknn llm quantise") -> str:
    """The page as one text."""
    whole = report.whole
    level = "good" if whole.kl <= 0.02 and whole.change <= 0.02 else "fair" if whole.kl <= 0.1 else "poor"
    sentence = (
        f"{report.precision} changes perplexity by {100 * whole.change:+.2f} % and reads "
        f"{size_text(report.weight_bytes)} of weights for a token instead of {size_text(report.float_bytes)} in fp16"
    )
    numbers = (
        ("KL against float", f"{whole.kl:.4f}", f"one token in a hundred above {whole.kl_99:.3f}"),
        ("perplexity", f"{whole.perplexity:.2f}", f"{100 * whole.change:+.2f} % of {whole.reference:.2f}"),
        ("same successor", f"{100 * whole.same:.1f} %", f"of {whole.tokens} tokens"),
    )
    step = None if level == "good" else "longer calibration text, or --adapt SECONDS, which rounds weights by the data"
    tiles = verdict(level, sentence, numbers, step)
    brand = tag("p", "openrknn · a quantised language model", class_="brand")
    header = tag("header", brand, tag("h1", f"{clean(name)}: {report.precision}"), tiles)
    by_layer = {str(layer): one for layer, one in report.layers.items()}
    kinds = section("kinds", "Kinds of products", _measured("kind", report.kinds),
                    note="The products of one kind in integers, all others in float."
                         + _largest(report.kinds))  # fmt: skip
    layers = section("layers", "Layers", _measured("layer", by_layer),
                     note="The products of one layer in integers; on the first window only."
                          + _largest(by_layer, "layer "))  # fmt: skip
    least = min(report.choices, key=lambda choice: choice.snr_db, default=None)
    said = "" if least is None else f" Least accurate: {clean(least.name)} with {decibels(least.snr_db)} dB."
    products = folded("products", "Products", _products(report),
                       note=f"Results against float on calibration text, and what they read.{said}")  # fmt: skip
    places = [("kinds", "Kinds", kinds), ("layers", "Layers", layers), ("products", "Products", products)]
    links = navigation((place, words) for place, words, made in places if made is not None)
    body = tag("main", header, links, *(made for _, _, made in places))
    style = asset("style.css") + asset("language/page.css")
    return document(f"{clean(name, 60)}: {report.precision}", Markup(body + footer(command)), style=style)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Container[int] = (0,)) -> Markup:
    """`words`: columns that are no numbers."""
    kinds = [None if place in words else "number" for place in range(len(heads))]
    head = tag("tr", *(tag("th", text, scope="col", class_=kind) for text, kind in zip(heads, kinds, strict=True)))
    lines = [tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True))) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *lines)), class_="table")


def _cells(measured: Measured) -> tuple[str, ...]:
    return (
        f"{measured.kl:.5f}", f"{measured.kl_99:.4f}", f"{measured.perplexity:.2f}", f"{100 * measured.change:+.2f} %",
        f"{100 * measured.same:.1f} %",
    )  # fmt: skip


def _measured(what: str, found: Mapping[str, Measured]) -> Markup | None:
    if not found:
        return None
    return _table((what, *_MEASURED), [(clean(name), *_cells(one)) for name, one in found.items()])


def _largest(found: Mapping[str, Measured], before: str = "") -> str:
    """A sentence, behind another one."""
    if not found:
        return ""
    name = max(found, key=lambda name: found[name].kl)
    return f" Largest KL: {before}{clean(name)} with {found[name].kl:.4f}."


def _products(report: Report) -> Markup:
    rows = [
        (
            clean(choice.name), decibels(choice.snr_db), f"{choice.largest:.4g}",
            "" if choice.input_scale is None else f"{choice.input_scale:.4g}",
            "" if choice.input_scale is None else f"±{127 * choice.input_scale:.4g}",
            "by data" if choice.adapted else "to the nearest",
        )
        for choice in report.choices
    ]  # fmt: skip
    return _table(("product", "dB", "largest input", "step", "range", "rounded"), rows, (0, 5))
