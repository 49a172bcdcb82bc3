"""The text that RKNN_QUERY_PERF_DETAIL answers, as a table.

Columns differ from version to version, and names can hold blanks, so columns are found by the places of their titles in
the header line. A title may hold single blanks; two blanks end it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FIRST_COLUMN = re.compile(r"^\s*ID\s{1,}\S")
_TITLE = re.compile(r"\S+(?: \S+)*")
_TOTAL = re.compile(r"Total Operator Elapsed (?:Per Frame )?Time\(us\):\s*([\d.]+)")
_TRAFFIC = re.compile(r"Total (?:Internal )?Memory (?:Read/Write|RW) (?:Per Frame )?(?:Size|Amount)\(MB\):\s*([\d.]+)")
_NOTHING = ("", "\\", "-")


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One line: what was executed, where, and how long it took."""

    number: int
    type: str
    data_type: str
    target: str
    """NPU, CPU or GPU."""
    name: str
    time_us: float | None
    columns: Mapping[str, str]
    """Every column of the line by its title, as text."""

    @property
    def traffic_kib(self) -> float | None:
        """KiB read and written, if the library reports it."""
        return _number(self.columns.get("RW(KB)", ""))


@dataclass(frozen=True, slots=True)
class PerfDetail:
    """The time of every operator in the last run."""

    operators: tuple[OperatorTime, ...]
    total_us: float | None
    traffic_mib: float | None
    text: str
    """The text as the library wrote it."""


def parse_perf_detail(text: str) -> PerfDetail:
    """Read the library's text; what is not understood stays in `text`."""
    operators: list[OperatorTime] = []
    spans: list[tuple[str, int, int]] = []
    for line in text.splitlines():
        if _FIRST_COLUMN.match(line):
            spans = _spans(line)
        elif spans and line[:1].isdigit():
            operators.append(_operator(_cells(line, spans)))
    return PerfDetail(tuple(operators), _first(_TOTAL, text), _first(_TRAFFIC, text), text)


def _spans(header: str) -> list[tuple[str, int, int]]:
    """Title, first and last column of text of every column; columns are left-aligned."""
    titles = [(match[0], match.start()) for match in _TITLE.finditer(_split_narrow(header))]
    ends = [start for _, start in titles[1:]] + [1_000_000]
    return [(title, start, end) for (title, start), end in zip(titles, ends, strict=True)]


def _split_narrow(header: str) -> str:
    """Columns that are so narrow that one blank separates their titles."""
    for title in ("DataType", "Target", "InputShape"):
        header = re.sub(rf"(?<=\S) (?={title}\b)", "\0", header)
    return header.replace("\0", "\n")


def _cells(line: str, spans: list[tuple[str, int, int]]) -> dict[str, str]:
    return {title: line[start:end].strip() for title, start, end in spans}


def _operator(cells: dict[str, str]) -> OperatorTime:
    time = next((value for title, value in cells.items() if title.startswith("Time(us)")), "")
    return OperatorTime(
        number=int(cells.get("ID", "0")),
        type=cells.get("OpType", ""),
        data_type=cells.get("DataType", ""),
        target=cells.get("Target", ""),
        name=cells.get("FullName", ""),
        time_us=_number(time),
        columns=cells,
    )


def _number(text: str) -> float | None:
    try:
        return None if text in _NOTHING else float(text)
    except ValueError:
        return None


def _first(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) if match else None
