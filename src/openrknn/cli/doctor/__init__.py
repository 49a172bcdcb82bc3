"""`openrknn doctor`: why the NPU does not work, and what to do about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from openrknn.cli.common.output import CommandError, Output
from openrknn.cli.common.outputs import BUNDLE, OutputFile

NAME = "doctor"
HELP = "find out why the NPU does not work, and what to do about it"
DESCRIPTION = """Check chip, kernel, driver, device nodes, permissions, containers, memory, clocks, the kernel log, the
vendor's libraries and Python packages; and, given a model, whether it suits them. Nothing is changed, and no library is
loaded. Each finding says what is wrong, why it matters, and which command fixes it."""
EXAMPLES = (
    "openrknn doctor                       this machine",
    "openrknn doctor yolo.rknn             and whether this model runs on it",
    "openrknn doctor rknn_toolkit_lite2-2.3.2-cp312-cp312-linux_aarch64.whl   why pip refuses it",
    "openrknn doctor --fix                 print udev rules, groups, modules; nothing is applied",
    "openrknn doctor --bundle              openrknn-report.zip for a bug report, with nothing private in it",
    "openrknn doctor --root /mnt/sdcard    check the system on a card",
)

EXIT_ERRORS = 1
_BUNDLE = Path("openrknn-report.zip")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's own arguments."""
    model = "a .rknn, a .rknnz, or a wheel that pip refuses"
    parser.add_argument("model", metavar="MODEL", nargs="?", type=Path, help=model)
    parser.add_argument("--fix", action="store_true", help="print what would fix permissions and modules, and exit")
    bundle = f"write a zip for a bug report (default: {_BUNDLE})"
    parser.add_argument(
        "--bundle", "--report", metavar="FILE", nargs="?", const=_BUNDLE, type=Path, action=OutputFile, kind=BUNDLE,
        help=bundle,
    )  # fmt: skip
    parser.add_argument(
        "--root", metavar="FOLDER", type=Path, default=Path("/"), help="root of the system to check (default: /)"
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Examine; exit code 1 if something is broken."""
    from openrknn import __version__
    from openrknn.doctor.bundle import write_bundle
    from openrknn.doctor.examine import examine_facts
    from openrknn.doctor.facts import Facts
    from openrknn.doctor.finding import Severity
    from openrknn.doctor.fixes import script

    _check_root(arguments.root)
    _check_bundle(arguments.bundle)
    facts = Facts(arguments.root)
    if arguments.fix:
        output.data({"script": script(facts)})
        for line in script(facts).splitlines() if not output.is_json else ():
            output.value(line)
        return 0
    findings = examine_facts(facts, arguments.model)
    if arguments.bundle is not None:
        write_bundle(arguments.bundle, facts, findings, __version__)
    if output.is_human:
        from openrknn.cli.doctor.text import show

        show(findings, facts, output)
        if arguments.bundle is not None:
            output.line(f"wrote {arguments.bundle}")
    elif output.is_json:
        output.data({"soc": facts.soc, "findings": [finding.as_json() for finding in findings]})
    else:
        for finding in findings:
            if finding.severity in {Severity.WARNING, Severity.ERROR}:
                output.value(f"{finding.severity}: {finding.what}")
    return EXIT_ERRORS if any(finding.severity is Severity.ERROR for finding in findings) else 0


def _check_bundle(bundle: Path | None) -> None:
    """`doctor --bundle model.rknn` means the model and the usual name: a model is not written over."""
    if bundle is not None and bundle.suffix.lower() != ".zip":
        raise CommandError(f"{bundle}: a bundle is a .zip; for a model as well: `openrknn doctor {bundle} --bundle`")


def _check_root(root: Path) -> None:
    """Where nothing is, nothing is wrong: say instead that there is nothing to check."""
    if not root.is_dir():
        raise CommandError(f"{root}: no such folder; --root takes the folder where the system to check is mounted")
    if not any((root / name).is_dir() for name in ("proc", "sys", "etc", "usr", "dev")):
        raise CommandError(f"{root}: there is no Linux system in this folder (no etc, usr, proc, sys or dev)")
