"""Writes `docs/capi/functions/*.md`, `docs/capi/functions.md` and `docs/capi/errors.md` out of the tables.

python tools/make_capi_docs.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tomli

from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.functions import FUNCTIONS, Function
from openrknn.vendor.tables.platforms import FLAG_SUPPORT, FUNCTION_SUPPORT, GROUPS, QUERY_SUPPORT, Support, reason_of

CAPI = Path(__file__).parents[1] / "docs" / "capi"
_MARKS = {True: "yes", False: "no", None: "?"}
_NOT_RUN = "<!-- not run: needs the vendor's library -->"
_MADE = "<!-- made by tools/make_capi_docs.py; do not edit -->"


@dataclass(frozen=True, slots=True)
class Entry:
    """One function in words."""

    summary: str
    python: str
    """How it is called; lines of code."""
    parameters: Mapping[str, str]
    """C parameter -> what it is in Python."""
    traps: list[str] = field(default_factory=list)
    see: list[str] = field(default_factory=list)


MANUAL = {name: Entry(**words) for name, words in tomli.loads((CAPI / "functions.toml").read_text("utf-8")).items()}
"""Every function by its name."""


def pages() -> dict[str, str]:
    """Every page: path below docs/capi -> Markdown."""
    made = {f"functions/{name}.md": _function(function) for name, function in FUNCTIONS.items()}
    return {"functions.md": _overview(), "errors.md": _errors(), **made}


def _function(function: Function) -> str:
    words = MANUAL[function.name]
    lines = [_MADE, "", f"# {function.name}", "", words.summary, "", "```c", f"{function.newest};", "```", ""]
    lines += ["In Python:", "", _NOT_RUN, "```python", words.python, "```", ""]
    lines += ["| in C | in Python |", "|---|---|"]
    types = {item.name: item.type for item in function.newest.parameters}
    lines += [f"| `{types[name]} {name}` | {text} |" for name, text in words.parameters.items()]
    lines += ["", f"Since {function.since}. "]
    for older in function.signatures[:-1]:
        until = next(one.since for one in function.signatures if one.since > older.since)
        lines[-1] += f"Before {until} it was `{older}`; openrknn calls the one that the library has. "
    lines[-1] = lines[-1].rstrip()
    lines += ["", *_chips({function.name: FUNCTION_SUPPORT[function.name]})]
    if words.traps:
        lines += ["", "## What to look out for", "", "Seen with runtime 1.5.2; openrknn guards against it.", ""]
        lines += [f"- {trap}" for trap in words.traps]
    if words.see:
        lines += ["", "See also: " + ", ".join(f"[{name}]({name}.md)" for name in words.see)]
    return "\n".join(lines) + "\n"


def _chips(rows: Mapping[str, Mapping[str, Support]], *, linked: bool = False) -> list[str]:
    titles = [" ".join(name.upper() for name in names) for names in GROUPS.values()]
    lines = ["| | " + " | ".join(titles) + " |", "|---|" + "---|" * len(titles)]
    for name, support in rows.items():
        shown = f"[{name}](functions/{name}.md)" if linked else f"`{name}`"
        note = f" ({reason_of(name)})" if False in support.values() and reason_of(name) else ""
        lines.append(f"| {shown}{note} | " + " | ".join(_MARKS[support[group]] for group in GROUPS) + " |")
    return lines


def _overview() -> str:
    lines = [_MADE, "", "# Functions of the C API", ""]
    lines += [
        "All 35 functions, what they are called in Python, and which chip has them. `openrknn capabilities` prints the "
        'same tables, and with `--library` what a library on your machine exports. "?" is where the reference of the '
        "vendor says nothing: such a call is made, and the library decides. A call that the table excludes raises "
        "`UnsupportedError` before the library sees it.",
        "",
        "| function | does | since |",
        "|---|---|---|",
    ]
    for name, function in FUNCTIONS.items():
        lines.append(f"| [{name}](functions/{name}.md) | {MANUAL[name].summary} | {function.since} |")
    lines += ["", "## Chips", "", *_chips(FUNCTION_SUPPORT, linked=True)]
    lines += ["", "## Queries", "", "Members of `QueryCommand`, for `Context.query`.", "", *_chips(QUERY_SUPPORT)]
    lines += ["", "## Flags of rknn_init", "", "Members of `InitFlag`.", "", *_chips(FLAG_SUPPORT)]
    lines += ["", "```{toctree}", ":hidden:", ":glob:", "", "functions/*", "```"]
    return "\n".join(lines) + "\n"


def _errors() -> str:
    lines = [_MADE, "", "# Error codes", ""]
    lines += [
        "Every function of the C API returns a number; a negative one becomes a `CallError` of `openrknn.vendor` with "
        "`call`, `code`, `name`, `meaning`, `cause` and `remedy`. It is a `VendorError` and an `RknnError`. "
        "RKNN_ERR_TIMEOUT is a `TimeoutError` as well, RKNN_ERR_MALLOC_FAIL a `MemoryError`.",
        "",
        "The log lines are those that runtime 1.5.2 prints with a code (% stands for a number or a name). Set "
        "`RKNN_LOG_LEVEL=3` to see all of them.",
        "",
        "| code | name | means |",
        "|---|---|---|",
    ]
    lines += [f"| {one.code} | [{one.name}](#{_anchor(one.name)}) | {one.meaning} |" for one in CODES.values()]
    for one in CODES.values():
        lines += ["", f"## {one.name}", "", f"{one.code}: {one.meaning}.", ""]
        lines += [f"- likely: {one.cause}", f"- what to do: {one.remedy}"]
        if one.logs:
            lines += ["- in the log:", "", "  ```text", *(f"  {line}" for line in one.logs), "  ```"]
    return "\n".join(lines) + "\n"


def _anchor(name: str) -> str:
    return name.lower()


def main() -> int:
    """Write the pages and remove those that no longer exist."""
    (CAPI / "functions").mkdir(parents=True, exist_ok=True)
    written = pages()
    for old in (CAPI / "functions").glob("*.md"):
        if f"functions/{old.name}" not in written:
            old.unlink()
    for name, text in written.items():
        (CAPI / name).write_text(text, encoding="utf-8")
    print(f"{len(written)} pages")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
