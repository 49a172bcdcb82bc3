"""Writes `docs/architecture.md` and its drawings: the layers of the import contract, and the calls of one inference.

    python tools/make_architecture_docs.py

The layers are those that import-linter checks, with the first line of each package's docstring. The calls are recorded:
an example model is opened and run on the software NPU, and every call from one package to another is noted.
"""

from __future__ import annotations

import ast
import html
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PAGE, LAYERS, CALLS = (ROOT / "docs" / name for name in ("architecture.md", "images/layers.svg", "images/calls.svg"))
MODEL = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
_TEXT = """# Architecture

openrknn is one Python package with a native library for the arithmetic. This page is made by
`python tools/make_architecture_docs.py` from the import contract in `pyproject.toml`, the packages' docstrings and a
recorded inference.

## Layers

A package imports only packages in rows below its own; packages in one row do not import each other. `lint-imports`
checks it on every commit.

![The packages in layers: commands, servers, pipelines, compiler, runtime, devices, software NPU](images/layers.svg)

{layers}
## Opening a model

The first call into each function of another package, when `openrknn.Session(FILE)` opens a model without a cache:

{opening}
## One inference

The calls from package to package during one `session.run(...)` on the software NPU, after the model was opened:

![One inference: the program calls runtime, which calls device, which calls npu](images/calls.svg)

{running}
On a board, `openrknn.device` submits the same tasks to the kernel driver instead of calling `openrknn.npu`. With the
vendor's library (`--device vendor`), `openrknn.vendor` takes the place of both.
"""


class Call(NamedTuple):
    """A call from one package to another."""

    caller: str
    callee: str
    module: str
    function: str


def layers() -> list[list[str]]:
    """The packages of each layer, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]


def about(package: str) -> str:
    """The first line of a package's docstring."""
    path = ROOT / "src" / "openrknn" / package / "__init__.py"
    if not path.exists():
        path = ROOT / "src" / "openrknn" / f"{package}.py"
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


def record() -> tuple[list[Call], list[Call]]:
    """The calls while a model is opened, and while it runs; each once, in the order of the first time."""
    os.environ["OPENRKNN_CACHE"] = "off"  # what a cache keeps is not seen
    import numpy as np

    import openrknn

    picture = {"image": np.zeros((1, 224, 224, 3), np.uint8)}
    with openrknn.Session(MODEL, "software") as warm:  # modules are imported when they are first used
        warm.run(picture)
    opened: dict[Call, None] = {}
    sys.setprofile(_Recorder(opened))
    session = openrknn.Session(MODEL, "software")
    sys.setprofile(None)
    session.run(picture)  # the first run prepares the native program
    ran: dict[Call, None] = {}
    sys.setprofile(_Recorder(ran))
    session.run(picture)
    sys.setprofile(None)
    session.close()
    return list(opened), list(ran)


class _Recorder:
    """A profile function that notes calls from one of our packages to another."""

    def __init__(self, found: dict[Call, None]) -> None:
        self._found = found

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not (callee := _module(frame)):
            return
        back = frame.f_back
        while back is not None and not _module(back):
            back = back.f_back
        caller = _package(_module(back)) if back is not None else "your program"
        function = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        if caller != _package(callee) and "<" not in function:
            self._found.setdefault(Call(caller, _package(callee), callee, function))


def _module(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.startswith("openrknn.") else ""


def _package(module: str) -> str:
    return module.split(".")[1]


# ---------------------------------------------------------------- the page


def page(opened: list[Call], ran: list[Call]) -> str:
    """The page as Markdown."""
    rows = "| layer | package | what it does |\n|---|---|---|\n"
    for number, layer in enumerate(layers(), 1):
        for name in layer:
            rows += f"| {number} | `{name}` | {about(name).replace('|', chr(92) + '|')} |\n"
    first: dict[tuple[str, str], str] = {}
    for call in opened:
        first.setdefault((call.caller, call.callee), f"`{call.module}.{call.function}`")
    opening = "| from | to | first call |\n|---|---|---|\n"
    opening += "".join(f"| {caller} | {callee} | {name} |\n" for (caller, callee), name in first.items())
    running = "| from | to | call |\n|---|---|---|\n"
    running += "".join(f"| {call.caller} | {call.callee} | `{call.module}.{call.function}` |\n" for call in ran)
    return _TEXT.format(layers=rows, opening=opening, running=running)


# ---------------------------------------------------------------- drawings


def layers_drawing() -> str:
    """The layers as rows of boxes."""
    width, height, gap = 960, 30, 6
    parts = []
    rows = layers()
    for number, names in enumerate(rows):
        top = gap + number * (height + gap)
        each = (width - gap * (len(names) + 1)) / len(names)
        for at, name in enumerate(names):
            left = gap + at * (each + gap)
            hue = 210 - 6 * number
            parts.append(
                f'<g><title>{html.escape(about(name))}</title><rect x="{left:.1f}" y="{top}" width="{each:.1f}" '
                f'height="{height}" rx="4" fill="hsl({hue},45%,88%)" stroke="hsl({hue},35%,55%)"/>'
                f'<text x="{left + each / 2:.1f}" y="{top + 20}" text-anchor="middle" font-size="{_size(name, each)}">'
                f"{html.escape(name)}</text></g>"
            )
    return _svg(width, gap + len(rows) * (height + gap), parts)


def _size(name: str, width: float) -> int:
    return max(8, min(13, int(width / (0.62 * len(name)))))


def calls_drawing(ran: list[Call]) -> str:
    """A sequence diagram: a line for each package, an arrow for each call."""
    names = list(dict.fromkeys(name for call in ran for name in (call.caller, call.callee)))
    width, step = 960, 34
    places = {name: (at + 0.5) * width / len(names) for at, name in enumerate(names)}
    bottom = 60 + step * len(ran)
    parts = ['<defs><marker id="a" markerWidth="9" markerHeight="9" refX="8" refY="4" orient="auto">']
    parts.append('<path d="M0,0 L8,4 L0,8 z" fill="#345"/></marker></defs>')
    for name, x in places.items():
        parts.append(f'<line x1="{x:.0f}" y1="38" x2="{x:.0f}" y2="{bottom}" stroke="#9ab" stroke-dasharray="4 4"/>')
        parts.append(f'<rect x="{x - 62:.0f}" y="8" width="124" height="28" rx="4" fill="#dbe8f5" stroke="#69a"/>')
        parts.append(f'<text x="{x:.0f}" y="27" text-anchor="middle" font-size="13">{html.escape(name)}</text>')
    for number, call in enumerate(ran):
        y = 66 + step * number
        begin, end = places[call.caller], places[call.callee]
        parts.append(
            f'<line x1="{begin:.0f}" y1="{y}" x2="{end:.0f}" y2="{y}" stroke="#345" marker-end="url(#a)"/>'
            f'<text x="{(begin + end) / 2:.0f}" y="{y - 5}" text-anchor="middle" font-size="11" '
            f'stroke="white" stroke-width="4" paint-order="stroke">{html.escape(call.function)}</text>'
        )
    return _svg(width, bottom + 10, parts)


def _svg(width: int, height: int, parts: list[str]) -> str:
    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" fill="#123"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>"]) + "\n"


def files() -> dict[Path, str]:
    """What this tool writes."""
    opened, ran = record()
    return {PAGE: page(opened, ran), LAYERS: layers_drawing(), CALLS: calls_drawing(ran)}


def main() -> int:
    """Write them."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
