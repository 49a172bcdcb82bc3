"""Walks through README and the guides as a new user does: an installed wheel, an empty folder, no clone.

    python tools/walk.py dist/openrknn-*.whl [dist/openrknn_lite-*.whl ...] [--pages README.md docs/vision.md ...]

Makes an environment, installs the wheels with every extra, and for each page, in a folder of its own and with a home of
its own, runs `openrknn examples` and then the page's blocks one after the other, word for word. They see nothing of
this clone. Prints a table, page by page; exit code 1 if something failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from code_blocks import ROOT, Block, collect, commands, compare, pages

_SECONDS = 600
_INSTALL = "all"
_TOLD = ("tritonclient[http,grpc]",)
"""What pages tell their readers, in words, to install."""
_KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "XDG_RUNTIME_DIR")
_NETWORK = ("PIP_", "UV_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy", "REQUESTS_")
"""Settings by which this machine reaches package registries; a user has such, or needs none."""


@dataclass
class Walked:
    """What became of one page."""

    page: str
    run: int = 0
    """Blocks that ran and did what the page says."""
    not_run: dict[str, str] = field(default_factory=dict)
    """Line -> why the page itself leaves a block out."""
    failed: dict[str, str] = field(default_factory=dict)
    """Line -> what went wrong."""
    seconds: float = 0.0


def main() -> int:
    """Walk, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", type=Path, help="what to install; the wheel of openrknn is one of them")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment (default: this one)")
    parser.add_argument("--extras", default=_INSTALL, help=f"of openrknn (default: {_INSTALL})")
    parser.add_argument("--environment", type=Path, help="an environment that has everything; nothing is installed")
    parser.add_argument("--pages", nargs="+", help="these alone, as paths from the repository's root")
    parser.add_argument("--json", type=Path, help="also write the table here")
    arguments = parser.parse_args()
    chosen = [ROOT / name for name in arguments.pages] if arguments.pages else pages()
    with tempfile.TemporaryDirectory(prefix="walk-") as place:
        environment = arguments.environment or Path(place, "venv")
        if not arguments.environment:
            _install(environment, arguments.wheels, arguments.python, arguments.extras)
        walked = []
        for path in chosen:
            walked.append(_walk(path, environment, Path(place)))
            _say(walked[-1])
    _table(walked)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(entry) for entry in walked], indent=2) + "\n")
    return int(any(entry.failed for entry in walked))


def _install(environment: Path, wheels: list[Path], python: str, extras: str) -> None:
    if not wheels:
        raise SystemExit("give the wheels to install, or --environment")
    started = time.monotonic()
    subprocess.run([python, "-m", "venv", environment], check=True)
    wanted = [f"{path.resolve()}[{extras}]" if path.name.startswith("openrknn-") else path.resolve() for path in wheels]
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *map(str, wanted), *_TOLD], check=True, cwd=environment)
    print(f"installed in {time.monotonic() - started:.0f} s", flush=True)


def _walk(path: Path, environment: Path, place: Path) -> Walked:
    """One page, in a folder and with a home of its own."""
    walked = Walked(str(path.relative_to(ROOT)))
    started = time.monotonic()
    # Short: paths of sockets have 107 bytes.
    home = Path(tempfile.mkdtemp(prefix="h", dir=place))
    folder = home / "w"
    folder.mkdir()
    variables = {key: value for key, value in os.environ.items() if key in _KEPT or key.startswith(_NETWORK)}
    variables |= {"HOME": str(home), "COLUMNS": "100", "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    variables["OPENRKNN_ENGINE_SOCKET"] = str(home / "engine")  # of this page alone
    blocks = [block for block in collect(walked.page, path.read_text("utf-8")) if block.is_code]
    if any(block.reason is None for block in blocks):
        _command(["bash", "-c", "openrknn examples"], folder, variables)
    for block in blocks:
        if block.reason is not None:
            walked.not_run[str(block.line)] = block.reason
            continue
        try:
            _block(block, folder, variables)
            walked.run += 1
        except AssertionError as error:
            walked.failed[str(block.line)] = str(error)
    subprocess.run(
        ["bash", "-c", "openrknn library --stop"], cwd=folder, env=variables, capture_output=True, check=False
    )
    shutil.rmtree(home, ignore_errors=True)
    walked.seconds = time.monotonic() - started
    return walked


def _block(block: Block, folder: Path, variables: dict[str, str]) -> None:
    if block.language == "python":
        _command(["python", "-c", block.text], folder, variables)
        return
    for command, expected in commands(block.text):
        compare(command, expected, _command(["bash", "-c", command], folder, variables))


def _command(words: list[str], folder: Path, variables: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            words, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=_SECONDS,
            stdin=subprocess.DEVNULL, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise AssertionError(f"`{words[-1]}` is not ready after {_SECONDS} s") from None
    assert done.returncode == 0, f"`{words[-1]}` ends with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def _say(walked: Walked) -> None:
    total = walked.run + len(walked.failed)
    print(f"{walked.page}: {walked.run} of {total} blocks, {walked.seconds:.0f} s", flush=True)
    for line, what in walked.failed.items():
        print(f"FAILED {walked.page}:{line}\n{what}\n", flush=True)


def _table(walked: list[Walked]) -> None:
    print("| page | blocks run | failed | left out by the page | seconds |\n|---|---|---|---|---|")
    for entry in walked:
        if entry.run or entry.failed or entry.not_run:
            counts = f"{entry.run + len(entry.failed)} | {len(entry.failed)} | {len(entry.not_run)}"
            print(f"| {entry.page} | {counts} | {entry.seconds:.0f} |")
    run, failed = sum(entry.run + len(entry.failed) for entry in walked), sum(len(entry.failed) for entry in walked)
    print(f"| all | {run} | {failed} | {sum(len(e.not_run) for e in walked)} | {sum(e.seconds for e in walked):.0f} |")


if __name__ == "__main__":
    sys.exit(main())
