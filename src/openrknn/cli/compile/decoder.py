"""`openrknn compile --cache N`: the step of a decoder with caches of fixed capacity."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openrknn.cli.common.options import number
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.compile.arguments import changed_options, compile_options
from openrknn.quantities import size_text

if TYPE_CHECKING:
    from openrknn.compiler.check_result import CheckResult

__all__ = ["add_cache", "run_cache", "tell_cache"]

SCHEMA_VERSION = 1
Tell = Callable[[str, int, int], None]
_count = number("a number from 1 to 65536", 1, 65536, whole=True)


def add_cache(group: argparse._ArgumentGroup) -> None:
    """Declare the options."""
    group.add_argument(
        "--cache", type=_count, metavar="N",
        help="MODEL is one step of a decoder whose past grows (past_... in, present_... out): give it a cache for N "
        "tokens that stays in the NPU's memory; writes OUT.rknnz for openrknn.Decoder",
    )  # fmt: skip
    group.add_argument(
        "--first", metavar="FIRST.onnx",
        help="--cache: the model of the first step, where keys and values of cross attention are computed (a merged "
        "model: the same file again)",
    )  # fmt: skip
    group.add_argument(
        "--frames", type=_count, metavar="N", help="--cache: maximum number of encoder frames (default: 1500)"
    )



def run_cache(
    arguments: argparse.Namespace, source: str | bytes | tuple[str, str], target: str, tell: Tell
) -> tuple[bytes, dict[str, Any]]:
    """(the file, facts for people and machines)."""
    from openrknn.compiler.sequence import compile_decoder
    from openrknn.container.sequence import read_decoder

    _refuse_others(arguments)
    started = time.perf_counter()
    checks: dict[str, CheckResult] = {}
    data = compile_decoder(
        source, arguments.target, capacity=arguments.cache, first=arguments.first, frames=arguments.frames,
        checks=checks,
        **changed_options(compile_options(arguments, tell)),
    )  # fmt: skip
    made = read_decoder(data)
    facts = {
        "schema_version": SCHEMA_VERSION,
        "model": arguments.model,
        "target": made.target,
        "seconds": time.perf_counter() - started,
        "size_bytes": len(data),
        "capacity": made.capacity,
        "frames": made.frames,
        "vocabulary": made.vocabulary,
        "caches": [cache.input for cache in made.caches],
        "tables": [{"input": one.input, "by": one.by, "rows": one.rows, "type": one.type} for one in made.tables],
        "cross": made.states,
        "checks": {name: found.as_json() for name, found in checks.items()},
        "written": target,
    }
    return data, facts


def _refuse_others(arguments: argparse.Namespace) -> None:
    """Options that say something else about shapes, or that look at one `.rknn`."""
    given = {
        "--partition": arguments.partition, "--shapes": arguments.shapes, "--outputs": arguments.outputs,
        "--constant": arguments.constant, "--batch": arguments.batch, "--report": arguments.report,
        "--verify": arguments.verify or arguments.verify_with,
    }  # fmt: skip
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise CommandError(f"{wrong} does not go with --cache, which fixes the shapes of a decoder's step itself")


def tell_cache(output: Output, facts: dict[str, Any]) -> None:
    """A few lines, or all of it as JSON."""
    output.data(facts)
    if output.is_human:
        tables = ", ".join(f"{one['rows']} rows by {one['by']}" for one in facts["tables"])
        output.line(
            f"decoder  {facts['capacity']} tokens in {len(facts['caches'])} caches; {facts['vocabulary']} logits"
        )
        output.line(f"tables   {tables}")
        if facts["frames"]:
            how = f"computed of {facts['cross']!r}" if facts["cross"] else "given by name"
            output.line(f"encoder  up to {facts['frames']} frames; keys and values of cross attention are {how}")
        output.line(f"rewrite  with its cache the step equals {facts['model']} in float, before it is compiled")
        for name, found in facts["checks"].items():
            output.line(f"check    {name}: {found['text']}")
        size = f"{size_text(facts['size_bytes'])}, {facts['seconds']:.1f} s"
        output.line(f"wrote    {facts['written']} ({size}) for openrknn.Decoder")
