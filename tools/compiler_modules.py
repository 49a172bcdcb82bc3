#!/usr/bin/env python3
"""Small PyTorch modules of both exporters through the compiler: right or refused by name, nothing else.

    PYTHON_WITH_TORCH tools/compiler_modules.py --export FOLDER      writes FOLDER/EXPORTER_NAME.onnx
    .venv/bin/python tools/compiler_modules.py FOLDER [--form fp16] [--target rk3588] [--only NAME] [--all]

Exporting needs PyTorch and onnxscript, judging needs neither. Exit code 1 if anything is wrong or ends in a traceback.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

_OPSETS = {"script": 17, "dynamo": 18}


def export(folder: Path) -> int:
    """Every module with both exporters; what an exporter refuses is said and left out."""
    import torch

    from tools.compiler_gate.modules import modules

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    count = 0
    for name, module, shapes in modules():
        inputs = tuple(torch.randn(shape) for shape in shapes)
        for exporter, opset in _OPSETS.items():
            path = folder / f"{exporter}_{name}.onnx".replace(" ", "")
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    more = {"verbose": False, "external_data": False} if exporter == "dynamo" else {}
                    way = {"dynamo": exporter == "dynamo", "opset_version": opset, **more}
                    torch.onnx.export(module.eval(), inputs, str(path), **way)
                count += 1
            except Exception as error:  # noqa: BLE001  (the exporter's own matter)
                print(f"{exporter} {name}: not exported: {str(error).splitlines()[0][:120]}", flush=True)
    print(f"{count} files")
    return 0


def judge(options: argparse.Namespace) -> int:
    """A line for each thing that should not be, and counts."""
    import onnx

    from tools.compiler_gate.judge import KINDS, judge_model

    counts: Counter[tuple[str, str, str]] = Counter()
    for path in sorted(Path(options.folder).glob("*.onnx")):
        exporter, _, name = path.stem.partition("_")
        if options.only not in name:
            continue
        for form in options.form or ("fp16", "int8"):
            outcome = judge_model(onnx.load(path), form, options.target)
            counts[exporter, form, outcome.kind] += 1
            if options.all or outcome.kind in {"wrong", "traceback"}:
                print(f"{exporter} {form} {name}: {outcome.kind} {outcome.text}", flush=True)
    for exporter, form in sorted({key[:2] for key in counts}):
        print(exporter, form, ", ".join(f"{counts[exporter, form, kind]} {kind}" for kind in KINDS))
    return int(any(kind in {"wrong", "traceback"} for _, _, kind in counts))


def main() -> int:
    """Export, or judge what was exported."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--export", action="store_true", help="write the models (needs PyTorch)")
    parser.add_argument("--form", choices=("fp16", "int8"), action="append", help="only this form; may be repeated")
    parser.add_argument("--target", default="rk3588")
    parser.add_argument("--only", default="", help="only modules whose name has this in it")
    parser.add_argument("--all", action="store_true", help="a line for every module")
    options = parser.parse_args()
    return export(Path(options.folder)) if options.export else judge(options)


if __name__ == "__main__":
    sys.exit(main())
