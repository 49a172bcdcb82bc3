"""`openrknn verify`: does an NPU compute as the software NPU does? A battery of tasks, byte for byte."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from openrknn.cli.common.files import save_atomically
from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import VERDICTS, OutputFile

if TYPE_CHECKING:
    from openrknn.verify.battery import Verdict

NAME = "verify"
HELP = "compare an NPU with the software NPU, byte for byte, on a battery of small tasks"
WAITS = "running the cases"
DESCRIPTION = """Run a battery of small tasks on a device and on the software NPU, and compare every byte. Each task
asks one question about the hardware: which way halves are rounded, whether a shift floors, and so on, and the answer
names the rule that this NPU has. Please send us the report: it says which rules of the software NPU differ from
silicon. The tasks are for the RK3588; for any other chip give models built for it, which are run on random inputs
instead."""
EXAMPLES = (
    "openrknn verify                                   the software NPU against itself: the battery works",
    "openrknn verify --device rknpu --report npu.json  on a board with the vendor's kernel driver",
    "openrknn verify --device rocket                   on a board with the mainline driver",
    "openrknn verify --device rknpu model.rknn         a model of this board's chip instead of the battery",
)
_EXAMPLES = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    parser.add_argument("models", metavar="MODEL.rknn", type=Path, nargs="*", help="compare these, for any chip")
    devices = "software, rknpu[:NODE], rocket[:NODE] or auto (default: software)"
    parser.add_argument("--device", default="software", metavar="DEVICE", help=devices)
    parser.add_argument("--report", metavar="FILE", action=OutputFile, kind=VERDICTS, help="write the answers as JSON")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Run the battery; exit code 1 if anything differs."""
    from rich.table import Table

    from openrknn.chips import chip_named
    from openrknn.device import open_device
    from openrknn.verify.battery import run_battery

    if arguments.models:
        verdicts = [_model(path, arguments.device) for path in arguments.models]
        name = str(arguments.device)
    else:
        try:
            opened = open_device(arguments.device, chip_named("rk3588"))
        except ValueError as error:  # no device has this name
            raise CommandError(str(error)) from None
        with opened as device:
            verdicts = list(run_battery(device))
            name = device.name
    table = Table("case", "question", "answer", "rule of this NPU", box=None, header_style="bold")
    for verdict in verdicts:
        verdict_text = "as expected" if verdict.is_equal else f"{verdict.differ} of {verdict.outputs} differ"
        table.add_row(verdict.name, verdict.question, verdict.error or verdict_text, verdict.rule)
    report = {"device": name, "cases": [asdict(verdict) for verdict in verdicts]}
    if arguments.report is not None:
        save_atomically(arguments.report, json.dumps({"tool": f"openrknn {NAME}", **report}, indent=2).encode() + b"\n")
    wrong = sum(not verdict.is_equal for verdict in verdicts)
    output.show(table)
    output.line(f"{len(verdicts)} cases on {name}: {wrong or 'none'} differ from the software NPU")
    output.data(report)
    return 1 if wrong else 0


def _model(path: Path, device: str) -> Verdict:
    """A model's raw outputs on random inputs, there and here."""
    import numpy as np

    from openrknn.cli.common.inputs import random_inputs
    from openrknn.container.load import load
    from openrknn.runtime.session import Session
    from openrknn.verify.battery import Verdict

    model = load(path)
    inputs = {item.name: item.array for item in random_inputs(model)}
    try:
        opened = Session(model, device=device)
    except ValueError as error:
        raise CommandError(str(error)) from None
    with Session(model, device="software") as here, opened as there:
        wanted, found = (session.run(inputs, outputs="raw") for session in (here, there))
    differ = outputs = 0
    examples: list[tuple[int, float, float]] = []
    for name, right in wanted.items():
        other = np.flatnonzero(right.ravel() != found[name].ravel())
        outputs, differ = outputs + right.size, differ + len(other)
        examples += [(int(at), found[name].ravel()[at].item(), right.ravel()[at].item()) for at in other[:_EXAMPLES]]
    return Verdict(path.name, f"a model for {model.chip.title}", outputs, differ, tuple(examples[:_EXAMPLES]))
