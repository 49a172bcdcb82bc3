"""Function by function: the vendor's runtime 1.5.2 on the emulated device, and ours, with the same calls.

The same return codes, every field of every query, the same bytes of every output, but for what `known` explains.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from openrknn.capi.parts import library_for
from openrknn.container.load import load
from openrknn.errors import UnsupportedError
from openrknn.fakekernel.device import Device
from openrknn.vendor.context.perf import parse_perf_detail
from openrknn.vendor.tables.enums import InitFlag, QueryCommand
from tests.capi import known
from tests.capi.asking import SOURCE, Answers, Ours, Script, Vendor, differences
from tests.capi.conftest import RunningEngine
from tests.capi.refusals import CASES, CRASHES
from tests.capi.scenarios import ask_runs, attributes_script, part_of
from tests.container.places import IS_WHOLE
from tests.witness.witness import cache_folder, compile_helper

pytestmark = pytest.mark.witness

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
SHARED = ROOT.parent / "shared"
CHIPS = ("rk3588", "rk3566")
SAMPLE = 12
"""Otherwise every so many files are asked about."""
LARGEST_RUN = 300_000
"""And run, up to this size: the vendor's library computes below an emulator."""


def goldens() -> list[Path]:
    found = sorted((*GOLDENS.glob("*.rknn"), *GOLDENS.glob("cpu/*.rknn")))
    return [path for path in found if any(f"_{chip}_" in path.name for chip in CHIPS)]


def corpus() -> list[Path]:
    """All files of the shared folder for the two chips; one that is missing stands for all where it is not here."""
    folders = [SHARED / name for name in ("corpus/rk3588", "corpus/rk3566", "corpus/variants", "models", "silicon")]
    found = sorted(path for folder in folders for path in folder.rglob("*.rknn"))
    fitting = [path for path in found if any(chip in path.name for chip in CHIPS)]
    return fitting[:: 1 if IS_WHOLE else SAMPLE] or [SHARED / "corpus" / "missing.rknn"]


@pytest.fixture(scope="module")
def ours(library: Path, shared_engine: RunningEngine) -> Ours:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = compile_helper(compiler, SOURCE, cache_folder(), "ask-here", ())
    return Ours(library, {"OPENRKNN_ENGINE_SOCKET": str(shared_engine.path)}, program)


@pytest.fixture(scope="module")
def devices(vendor: Vendor) -> Iterator[dict[str, Device]]:
    """Boards that compute, one of each chip."""
    with ExitStack() as stack:
        yield {chip: stack.enter_context(Device(chip, library=vendor.witness.library)) for chip in CHIPS}


@pytest.fixture(scope="module")
def arm(vendor: Vendor, shared_engine: RunningEngine) -> Ours:
    """Our library for the vendor's machine, emulated as the vendor's is; its engine is not."""
    try:
        library = library_for("aarch64")
    except UnsupportedError as error:
        pytest.skip(str(error))
    variables = {"OPENRKNN_ENGINE_SOCKET": str(shared_engine.path)}
    return Ours(library, variables, vendor.program, vendor.witness.emulator)


def check_queries(vendor: Vendor, ours: Ours, path: Path) -> int:
    model = load(path)
    script = attributes_script(path, model)
    theirs = vendor.ask(script, chip=model.chip.name)
    found = differences(theirs, ours.ask(script))
    crashed = {label for label, (one, _) in found.items() if one == "crash"}
    rest = {label: pair for label, pair in found.items() if label not in crashed}
    assert known.unexplained(known.QUERIES, path.stem, rest) == {}
    return len(theirs.said)


def check_runs(vendor: Vendor, ours: Ours, device: Device, path: Path, folder: Path) -> int:
    """Parts in which the vendor's library crashes are left out, one after the other."""
    model = load(path)
    without: list[str] = []
    said: dict[str, object] = {}
    while True:
        theirs = vendor.ask(ask_runs(path, model, folder, without), device=device)
        said |= theirs.said
        if not theirs.died_in or part_of(theirs.died_in) in without:
            break
        without.append(part_of(theirs.died_in))
    found = differences(Answers(said), ours.ask(ask_runs(path, model, folder)))
    rest = {label: pair for label, pair in found.items() if not _is_cut(label, without)}
    assert known.unexplained(known.RUNS, path.stem, rest) == {}
    return len(said)


def _is_cut(label: str, without: list[str]) -> bool:
    return part_of(label.split(" ", maxsplit=1)[0]) in without


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", goldens(), ids=lambda path: path.stem)
def test_queries_of_a_golden(vendor: Vendor, ours: Ours, path: Path) -> None:
    assert check_queries(vendor, ours, path) >= 0


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", goldens(), ids=lambda path: path.stem)
def test_runs_of_a_golden(vendor: Vendor, ours: Ours, devices: dict[str, Device], path: Path, tmp_path: Path) -> None:
    check_runs(vendor, ours, devices[load(path).chip.name], path, tmp_path)


@pytest.mark.parametrize("path", corpus(), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_corpus_file(vendor: Vendor, ours: Ours, devices: dict[str, Device], path: Path, tmp_path: Path) -> None:
    if not path.exists():
        pytest.skip("the shared corpus is not on this machine")
    check_queries(vendor, ours, path)
    if IS_WHOLE or path.stat().st_size <= LARGEST_RUN:
        check_runs(vendor, ours, devices[load(path).chip.name], path, tmp_path)


@pytest.mark.parametrize("name", ["residual_rk3588_i8", "two_outputs_rk3588_i8", "dynamic_rk3588_i8"])
def test_the_library_for_aarch64(
    vendor: Vendor, arm: Ours, devices: dict[str, Device], name: str, tmp_path: Path
) -> None:
    path = GOLDENS / f"{name}.rknn"
    check_queries(vendor, arm, path)
    check_runs(vendor, arm, devices["rk3588"], path, tmp_path)


@pytest.mark.parametrize("machine", ["ours", "arm"])
def test_calls_that_should_not_be_made(vendor: Vendor, machine: str, request: pytest.FixtureRequest) -> None:
    """All cases that the vendor's library survives, one after the other in one process."""
    ours = request.getfixturevalue(machine)
    names = [name for name in CASES if name not in CRASHES]
    script = Script()
    for name in names:
        script.room()
        CASES[name](script, f"{name} :")
    found = differences(vendor.ask(script), ours.ask(script))
    unknown: dict[str, tuple[object, object]] = {}
    for name in names:
        begin = f"{name} :".replace(" ", "_")
        own = {label: pair for label, pair in found.items() if label.startswith(begin)}
        unknown |= known.unexplained(known.REFUSALS, name, own)
    assert unknown == {}


@pytest.mark.parametrize("name", sorted(CRASHES))
def test_calls_that_crash_the_other_library(ours: Ours, name: str) -> None:
    script = Script()
    CASES[name](script, "")
    answers = ours.ask(script)
    label, code = CRASHES[name]
    assert answers.died_in == ""
    assert answers.said[label] == code


SAME_COLUMNS = (
    "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape", "Task Number", "Lut Number", "RW(KB)",
    "FullName",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", ["residual_rk3588_i8", "cpu_sin_rk3588_i8", "silu_rk3588_i8", "residual_rk3566_i8", "two_inputs_rk3588_i8"]
)
def test_times_of_operators(vendor: Vendor, ours: Ours, name: str) -> None:
    """The same rows but for what was measured or estimated."""
    path = GOLDENS / f"{name}.rknn"
    script = Script()
    context = script.init(path, int(InitFlag.COLLECT_PERF_MASK))
    script.call("run", "rknn_run", f"*{context}", 0)
    room = script.buffer(16)
    script.call("detail", "rknn_query", f"*{context}", int(QueryCommand.PERF_DETAIL), f"@{room}", 16)
    script.show("text", f"*{room}", f"%{room}+8")
    answers = (vendor.ask(script, chip=load(path).chip.name), ours.ask(script))
    tables = [parse_perf_detail(bytes.fromhex(one.said["text"]).decode()) for one in answers]
    theirs, mine = ([{title: row.columns[title] for title in SAME_COLUMNS} for row in one.operators] for one in tables)
    assert mine == theirs
    assert len(mine) > 2
