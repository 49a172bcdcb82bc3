#!/usr/bin/env python3
"""Writes docs/operators.md from the compiler's own table; tests/compiler/test_docs.py keeps the two equal."""

from __future__ import annotations

from pathlib import Path

from openrknn.compiler.importer.rewrite import RULES
from openrknn.compiler.lower.functions import FUNCTIONS
from openrknn.compiler.lower.table import CPU_OPERATORS, NPU_OPERATORS

TARGET = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

HEAD = """# Operators of the compiler

Written by `tools/make_operator_docs.py` from the compiler's own table: change that, not this page. It holds for
`openrknn compile` and `openrknn.compile`; [the guide](compiler.md) says how to use them.

## On the NPU

| in the compiler | from ONNX | how |
|---|---|---|
"""

CPU = """
## On the CPU

The runtime computes these, the vendor's as well as ours. The data goes through the CPU's memory, so a model that needs
one in its middle is slower than one that does not.

| ONNX | why not on the NPU |
|---|---|
"""

OTHERS = """
## Said with others

When a model is read, these become operators of the two tables above; the float model that calibration runs has the same
values. `src/openrknn/compiler/importer/rewrite` has one small file per family, and [how the compiler
works](how-the-compiler-works.md) shows how to add one.

| ONNX | becomes |
|---|---|
"""

TAIL = """
Everything else is refused when compiling, with the operator's name and where to cut the model.

## RK3566 and RK3568

The same, but: MatMul of two activations, Softmax and Transpose always on the CPU; LayerNormalization in fp16 models
only; no Div, and Sub of equal sizes only, in fp16; AveragePool of more than 7x7 pixels on the CPU; larger MaxPool in
two steps. [Chips of the compiler](compiler-targets.md) says why.

## Functions by table

A table has 513 entries on each side of zero and straight lines beyond its ends; how far it reaches follows from the
inputs, at most to:

| function | reach |
|---|---|
"""


def page() -> str:
    """The whole page."""
    npu = "".join(f"| {name} | {row.onnx} | {row.how} |\n" for name, row in NPU_OPERATORS.items())
    cpu = "".join(f"| {row.onnx} | {row.how} |\n" for row in CPU_OPERATORS.values())
    becomes: dict[str, list[str]] = {}
    for name, rule in sorted(RULES.items()):
        said = (rule.__doc__ or "").splitlines()[0].rstrip(".")
        becomes.setdefault(said, []).append(name.removeprefix("com.microsoft."))
    others = "".join(f"| {', '.join(names)} | {said} |\n" for said, names in becomes.items())
    functions = "".join(
        f"| {name} | {'as far as the inputs' if limit == float('inf') else f'{limit:g}'} |\n"
        for name, (_, limit) in FUNCTIONS.items()
    )
    return HEAD + npu + CPU + cpu + OTHERS + others + TAIL + functions


if __name__ == "__main__":
    TARGET.write_text(page())
    print(f"wrote {TARGET}")
