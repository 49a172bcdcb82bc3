"""`openrknn inspect` of a decoder with caches."""

from __future__ import annotations

import argparse
from typing import Any

from openrknn.cli.common.output import CommandError, Output
from openrknn.container.load import load
from openrknn.container.parts import Placement
from openrknn.container.sequence import DecoderFile, read_decoder
from openrknn.quantities import size_text

__all__ = ["inspect_decoder"]


def inspect_decoder(arguments: argparse.Namespace, output: Output) -> int:
    """Describe it: what it holds, and what its models are."""
    decoder = read_decoder(arguments.file)
    if arguments.html or arguments.graph is not None:
        raise CommandError(
            f"{arguments.file} is a decoder with a cache; --html and --graph are for the models in it: unzip step.rknn"
        )
    facts = _facts(decoder)
    output.data(facts)
    if output.is_human:
        _tell(facts, output)
    return 0


def _facts(decoder: DecoderFile) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "decoder",
        "path": decoder.path,
        "target": decoder.target,
        "made_by": decoder.made_by,
        "capacity": decoder.capacity,
        "frames": decoder.frames,
        "vocabulary": decoder.vocabulary,
        "tables": [
            {"input": one.input, "by": one.by, "rows": one.rows, "shape": list(one.shape), "type": one.type}
            for one in decoder.tables
        ],
        "caches": [{"input": one.input, "output": one.output, "axis": one.axis} for one in decoder.caches],
        "bound": [{"input": one.input, "axis": one.axis} for one in decoder.bound],
        "states": decoder.states,
        "models": {name: _model(data) for name, data in decoder.files.items() if name.endswith(".rknn")},
        "size_bytes": sum(len(data) for data in decoder.files.values()),
    }


def _model(data: bytes) -> dict[str, Any]:
    model = load(data)
    operators = list(model.operators_of(model.graphs[0]))
    npu = sum(operator.placement is Placement.NPU for operator in operators)
    return {
        "size_bytes": len(data),
        "npu_operators": npu,
        "cpu_operators": len(operators) - npu,
        "tasks": len(model.graphs[0].tasks),
        "inputs": [f"{spec.name} {list(spec.shape)}" for spec in model.inputs],
        "outputs": [f"{spec.name} {list(spec.shape)}" for spec in model.outputs],
    }


def _tell(facts: dict[str, Any], output: Output) -> None:
    output.line(f"decoder  for {facts['target']}, by {facts['made_by'] or 'unknown'}")
    output.line(f"tokens   at most {facts['capacity']}, {facts['vocabulary']} logits a step")
    for table in facts["tables"]:
        output.line(
            f"table    {table['input']}: {table['rows']} rows of {table['shape']} ({table['type']}) by {table['by']}"
        )
    output.line(f"caches   {len(facts['caches'])}: {_few([one['input'] for one in facts['caches']])}")
    if facts["frames"]:
        given = f"computed from {facts['states']!r}" if facts["states"] else "given to Decoder.start by name"
        output.line(f"encoder  at most {facts['frames']} frames; {len(facts['bound'])} inputs, {given}")
    for name, model in facts["models"].items():
        output.line(
            f"model    {name}: {model['npu_operators']} operators on the NPU ({model['tasks']} tasks), "
            f"{model['cpu_operators']} on the CPU, {size_text(model['size_bytes'])}"
        )
    output.line(f"run it   openrknn.Decoder({facts['path']!r})")


def _few(names: list[str]) -> str:
    return ", ".join(names[:2]) + (" ..." if len(names) > 2 else "")
