#!/usr/bin/env python3
"""Digests of compiled models: a restructuring of the compiler must change none of them.

    python tools/compile_identity.py record DIGESTS.json [--all] [--only TEXT ...] [--targets rk3588 ...]
    python tools/compile_identity.py compare DIGESTS.json [--all] [--only TEXT ...] [--targets rk3588 ...]

Networks: the goldens' and examples' ONNX files, random graphs, the corpus beside the repository where there is one.
`--all` adds larger networks: more random graphs, ONNX's node tests, and the benchmark models. Every target, in int8
(calibrated with random numbers), fp16, with pictures as input, and for RK3588 mixed and for three cores. A network that
the compiler refuses has the error's text as its digest. DIGESTS.json is {network: {target: {form: SHA-256}}}.
`compare` ends with exit code 1 if a digest differs or is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from openrknn.chips import CHIPS
from openrknn.compiler import compile_model
from openrknn.compiler.targets import TARGETS
from openrknn.container.writer import encode
from openrknn.errors import RknnError
from tools.compiler_gate.draw import draw
from tools.compiler_gate.moves import MOVING
from tools.compiler_gate.operators import COMPUTING

__all__ = ["Digests", "compare", "digest_of", "forms_of", "record"]

ROOT = Path(__file__).resolve().parent.parent
Digests = dict[str, dict[str, dict[str, str]]]
SHARED = ROOT.parent / "shared"
RANDOM, MORE_RANDOM = 100, 400
PICTURE_CHANNELS = (1, 3, 4)
_QUICK: dict[str, Any] = {"check": False, "method": "minmax", "adaptive_rounding": False}
"""How numbers are chosen is no concern of this tool."""


def targets() -> list[str]:
    """One chip of each kind that models are compiled for."""
    return [name for name in TARGETS if name in CHIPS]


def networks(everything: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, and what loads or makes each."""
    folders = [ROOT / "tests" / "goldens", ROOT / "examples" / "models", SHARED / "corpus"]
    paths = [path for folder in folders for path in sorted(folder.rglob("*.onnx"))]
    paths += sorted((SHARED / "models").rglob("*.onnx")) if everything else []
    for path in paths:
        base = SHARED if path.is_relative_to(SHARED) else ROOT
        yield str(path.relative_to(base)), partial(onnx.load, path)
    for seed in range(MORE_RANDOM if everything else RANDOM):
        yield f"random/{seed}", partial(draw, seed, (*COMPUTING, *MOVING), lambda model: True)
    if everything:
        from onnx.backend.test.case.node import collect_testcases

        for test in collect_testcases(None):
            if test.model is not None:
                yield f"node/{test.name}", partial(getattr, test, "model")


def _inputs(model: Any) -> list[tuple[str, list[int], int]]:
    """Name, shape (open sizes are 1) and type of what is fed."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [
        (entry.name, [dim.dim_value or 1 for dim in tensor.shape.dim], tensor.elem_type)
        for entry in model.graph.input
        if entry.name not in stored and (tensor := entry.type.tensor_type) is not None
    ]


def _calibration(model: Any) -> list[dict[str, Any]]:
    random = np.random.default_rng(7)
    samples = []
    for _ in range(2):
        samples.append({
            name: random.normal(0, 1, shape).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
            for name, shape, kind in _inputs(model)
        })  # fmt: skip
    return samples


def forms_of(model: Any, target: str) -> dict[str, dict[str, Any]]:
    """The options of each form that a network is compiled in."""
    is_quantised = any(node.op_type == "QuantizeLinear" for node in model.graph.node)
    inputs = _inputs(model)
    shapes = {name: shape for name, shape, _ in inputs}
    has_fp16 = TARGETS[target].has_fp16
    int8: dict[str, Any] = {"shapes": shapes}
    if not is_quantised:
        int8 = {"calibration": _calibration(model), "shapes": shapes}
    forms: dict[str, dict[str, Any]] = {"int8": int8}
    if has_fp16 and not is_quantised:
        forms["fp16"] = {"fp16": True, "shapes": shapes}
    if len(inputs) == 1 and len(inputs[0][1]) == 4 and inputs[0][1][1] in PICTURE_CHANNELS and not is_quantised:
        count = inputs[0][1][1]
        forms["picture"] = {**int8, "mean": [100.0] * count, "std": [50.0] * count}
        _, height, width = inputs[0][1][1:]
        pixels = np.random.default_rng(7).integers(0, 256, (1, height, width, count), np.uint8)
        forms["picture"]["calibration"] = [pixels]
    if target == "rk3588" and not is_quantised:
        names = [node.name for node in model.graph.node if node.name]
        if len(names) > 1:
            forms["mixed"] = {**int8, "fp16_layers": names[1::2]}
    if CHIPS[target].cores > 1:
        forms["cores"] = {**int8, "cores": CHIPS[target].cores}
    return forms


def digest_of(model: Any, target: str, options: dict[str, Any]) -> str:
    """SHA-256 of the file, or the text of the error."""
    try:
        made = compile_model(model, target, **{**_QUICK, **options})
    except (RknnError, ValueError, TypeError) as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return hashlib.sha256(encode(made.model)).hexdigest()


def record(arguments: argparse.Namespace) -> Digests:
    """Digests of all networks that are asked for."""
    found: Digests = {}
    for name, load in networks(arguments.all):
        if arguments.only and not any(text in name for text in arguments.only):
            continue
        model = load()
        found[name] = {
            target: {
                form: digest_of(model, target, options) for form, options in forms_of(model, target).items()
            }
            for target in arguments.targets
        }
        print(name, file=sys.stderr, flush=True)
    return found


def compare(expected: Digests, found: Digests) -> list[str]:
    """A line for each digest of `found` that is not the expected one."""
    lines = []
    for name, by_target in found.items():
        for target, by_form in by_target.items():
            for form, digest in by_form.items():
                wanted = expected.get(name, {}).get(target, {}).get(form, "nothing")
                if wanted != digest:
                    lines.append(f"{name} {target} {form}: {wanted[:90]} became {digest[:90]}")
    return lines


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("digests", type=Path)
    parser.add_argument("--all", action="store_true", help="larger networks too")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="networks whose names contain a text")
    parser.add_argument("--targets", nargs="+", default=targets(), choices=targets())
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = record(arguments)
    count = sum(len(forms) for by_target in found.values() for forms in by_target.values())
    if arguments.action == "record":
        arguments.digests.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        print(f"{count} digests of {len(found)} networks")
        return 0
    lines = compare(json.loads(arguments.digests.read_text()), found)
    print("\n".join([*lines, f"{count - len(lines)} of {count} digests are as recorded"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
