"""The results as a table, and what is wrong with them as a list."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
SLACK_DB = 0.3
ENOUGH_DB = 100.0
"""Above it nobody sees a difference, and both are rounding noise."""
HEADS = (
    "case", "strict NPU", "runtime 1.5.2", "dB", "dB vendor", "vendor's data", "kB", "kB vendor", "kcycles",
    "kcycles vendor", "tasks", "answers", "answers vendor", "on the CPU",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """One line."""
    if "error" in row:
        return [row["case"], row["error"], *[""] * (len(HEADS) - 2)]
    return [
        row["case"], row["strict"], row.get("runtime", ""), _number(row, "snr"), _number(row, "vendor_snr"),
        row.get("vendor", ""), _number(row, "bytes", 1e3), _number(row, "vendor_bytes", 1e3),
        _number(row, "cycles", 1e3), _number(row, "vendor_cycles", 1e3),
        f"{row.get('tasks', '')}/{row.get('vendor_tasks', '')}", row.get("answer", ""), row.get("vendor_answer", ""),
        ", ".join(sorted(set(row["cpu"]))),
    ]  # fmt: skip


def _number(row: Row, key: str, unit: float = 1.0) -> str:
    return f"{row[key] / unit:.1f}" if key in row else ""


def complaints(rows: Iterable[Row]) -> list[str]:
    """What the acceptance does not allow."""
    found = []
    for row in rows:
        case = row["case"]
        if "error" in row or row["strict"] != "ok":
            found.append(f"{case}: {row.get('error') or row['strict']}")
            continue
        if row.get("runtime", "not asked") not in {"same bytes", "not asked"}:
            found.append(f"{case}: vendor's runtime: {row['runtime']}")
        if row["snr"] < min(ENOUGH_DB, row.get("vendor_snr", 0.0)) - SLACK_DB:
            found.append(f"{case}: {row['snr']:.2f} dB, vendor's build {row['vendor_snr']:.2f} dB")
        for key, unit in (("bytes", "bytes"), ("cycles", "cycles")):
            if row[key] > row.get(f"vendor_{key}", row[key]):
                found.append(f"{case}: {row[key]} {unit}, vendor's build {row[f'vendor_{key}']}")
        if row.get("answer_same") is False:
            found.append(f"{case}: answers differ from float: {row['answer']} (vendor: {row.get('vendor_answer', '')})")
    return found


def markdown(rows: Sequence[Row]) -> str:
    """Table and list."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + "---|" * len(HEADS)]
    lines += ["| " + " | ".join(cell.replace("|", "/") for cell in cells(row)) + " |" for row in rows]
    wrong = complaints(rows)
    lines += ["", summary(rows), ""] + [f"- {line}" for line in wrong]
    return "\n".join(lines) + "\n"


def summary(rows: Sequence[Row]) -> str:
    """In one line."""
    fine = [row for row in rows if "error" not in row and row["strict"] == "ok"]
    same = sum(row.get("runtime") == "same bytes" for row in fine)
    asked = sum(row.get("runtime", "not asked") != "not asked" for row in fine)
    return (
        f"{len(rows)} cases, {len(fine)} compiled and run on the strict software NPU, {same} of {asked} with the same "
        f"bytes from the vendor's runtime, {len(complaints(rows))} complaints"
    )


def page(rows: Sequence[Row]) -> str:
    """The same as HTML."""
    style = (
        "body{font:14px system-ui;margin:2em}table{border-collapse:collapse}td,th{padding:.2em .6em;"
        "border-bottom:1px solid #ccc;text-align:left;white-space:nowrap}tr.bad{background:#fdd}"
    )
    bad = {line.split(":")[0] for line in complaints(rows)}
    body = "".join(
        f"<tr{' class=bad' if row['case'] in bad else ''}>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row)) + "</tr>\n"
        for row in rows
    )  # fmt: skip
    heads = "".join(f"<th>{html.escape(text)}</th>" for text in HEADS)
    wrong = "".join(f"<li>{html.escape(line)}</li>" for line in complaints(rows))
    return (
        f"<!doctype html><meta charset=utf-8><title>openrknn compile: acceptance</title><style>{style}</style>"
        f"<h1>openrknn compile: acceptance</h1><p>{html.escape(summary(rows))}</p><ul>{wrong}</ul>"
        f"<table><tr>{heads}</tr>\n{body}</table>\n"
    )
