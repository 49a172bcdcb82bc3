#!/usr/bin/env python3
"""Writes docs/operators.md from the tables of compiler and runtime; tests/compiler/test_docs.py keeps them equal."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from openrknn.compiler.functions import FUNCTIONS
from openrknn.compiler.importer.rewrite import RULES
from openrknn.compiler.operators import CPU_FAMILIES, CPU_OPERATORS, NPU_OPERATORS
from openrknn.runtime.operators import OPERATORS, SEVERAL

_WIDTH = 120
TARGET = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

HEAD = """# Supported operators

Written by `tools/make_operator_docs.py` from the tables of compiler and runtime: change those, not this page. It holds
for `openrknn compile` and `openrknn.compile`; [the guide](compiler.md) says how to use them. [The last
part](#in-files-of-the-vendors-converter) is about running files of the vendor's converter.

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

ANY = """
Where no recipe for the NPU fits, these go to the CPU too, of any shape, with constants, truths and indices (bool,
int32, int64) as operands and results. The vendor's converter 2.5.0 leaves them to the CPU as well, so its runtimes 2.x
have them; runtime 1.5.2 has a part of them and refuses a file with the others.

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


RUNTIME = """
## In files of the vendor's converter

The runtime reads any `.rknn`, and the vendor's converter leaves more to the CPU than openrknn's does, also on request
(`op_target`). These operators run there, whatever the file's number format; inputs and outputs are converted by their
scale and zero point, once, to the nearest. An optional input or output that a file leaves away is left away.

{names}.

Names with "ex" in front are the converter's own: exSoftmax13 is Softmax of opset 13, exSwish is x sigmoid(x), exGlu one
half of an axis times the sigmoid of the other, exNorm a normalisation by mean and variance ("layer"), root mean square
("rms") or length ("l2"), exMatMul a product summed over channels with tokens along the width, exSDPAttention attention
in the same order, exLSTM and exGRU are ONNX's with memory for the NPU behind their inputs, exDataConvert changes the
number format.

Evidence: ONNX's own node tests; the answers of the vendor's simulator to files that its converter made for
the CPU (all operators that it builds, fp16 and int8); and the vendor's runtime 1.5.2, which has about a third of them
and writes the same bytes, with these exceptions that are its own mistakes: its Tanh is a sigmoid, its LogSoftmax is
wrong along channels, its Max is wrong with a constant per channel, its GRU returns uninitialised memory, linear
Resize of int8 cuts off instead of rounding, Conv of fp16 gives zeros and of int8 is a step off in one value of seven.

Not there: Unique (the size of its output is not known before the run, and the converter refuses it), strings and
sequences, Loop and Scan (the converter unrolls or refuses them), Resize with antialias, GridSample of volumes. An
operator that is missing stops the model with its name; `Session(model, custom_ops={{"Name": function}})` adds it, or
replaces one of these.
"""


def _runtime() -> str:
    names = sorted({**OPERATORS, **SEVERAL}, key=lambda name: (name.startswith("ex"), name))
    return RUNTIME.format(names="\n".join(wrap(", ".join(names), _WIDTH)))


def page() -> str:
    """The whole page."""
    npu = "".join(f"| {name} | {row.onnx} | {row.how} |\n" for name, row in NPU_OPERATORS.items())
    cpu = "".join(f"| {row.onnx} | {row.how} |\n" for row in CPU_OPERATORS.values())
    families = (f"{family}: {', '.join(names)}" for family, names in CPU_FAMILIES.items())
    anything = "".join("\n".join(wrap(f"* {line}", _WIDTH, subsequent_indent="  ")) + "\n" for line in families)
    becomes: dict[str, list[str]] = {}
    for name, rule in sorted(RULES.items()):
        said = (rule.__doc__ or "").splitlines()[0].rstrip(".")
        becomes.setdefault(said, []).append(name.removeprefix("com.microsoft."))
    others = "".join(f"| {', '.join(names)} | {said} |\n" for said, names in becomes.items())
    functions = "".join(
        f"| {name} | {'as far as the inputs' if limit == float('inf') else f'{limit:g}'} |\n"
        for name, (_, limit) in FUNCTIONS.items()
    )
    return HEAD + npu + CPU + cpu + ANY + anything + OTHERS + others + TAIL + functions + _runtime()


if __name__ == "__main__":
    TARGET.write_text(page())
    print(f"wrote {TARGET}")
