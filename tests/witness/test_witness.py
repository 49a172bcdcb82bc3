"""The witness itself works: it loads, runs, sees everything, and survives the runtime's crashes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.witness.testimony import Input, WitnessMissingError
from tests.witness.witness import Witness, find_library

pytestmark = pytest.mark.witness

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
MODEL_INVALID = -6


def golden(name: str) -> Path:
    return GOLDENS / f"{name}.rknn"


def test_loads_and_runs_a_model(witness: Witness) -> None:
    testimony = witness.run(golden("residual_rk3588_i8"))
    assert testimony.exit_code == 0
    assert {call.code for call in testimony.calls} == {0}
    assert testimony.died_in is None
    assert testimony.facts["api"].startswith("1.5.2")
    assert [len(output) for output in testimony.outputs] == [32 * 4 * 4]


def loadable() -> list[str]:
    """The goldens for the two chips that runtime 1.5.2 knows, without what is too new for it."""
    names = [path.stem for path in sorted(GOLDENS.glob("*_rk35[68][68]_*.rknn"))]
    return [name for name in names if not name.endswith(("_mini", "_w16a16i_dfp"))]


@pytest.mark.parametrize("name", loadable())
def test_every_golden_runs(witness: Witness, name: str) -> None:
    chip = "rk3566" if "_rk3566_" in name else "rk3588"
    shapes = [(1, 16, 16, 3)] if name.startswith("dynamic") else []
    testimony = witness.run(golden(name), chip=chip, shapes=shapes)
    assert [call for call in testimony.calls if call.code] == []
    assert testimony.signal is None
    assert testimony.submits
    assert all(allocation.name for allocation in testimony.allocations)


def test_tensors_as_the_runtime_sees_them(witness: Witness) -> None:
    testimony = witness.run(golden("two_inputs_rk3588_i8"), run=False)
    assert [tensor.name for tensor in testimony.tensors_of("input")] == ["picture", "features"]
    picture = testimony.tensors_of("input")[0]
    assert (picture.shape, picture.type, picture.layout) == ((1, 8, 8, 3), "int8", "nhwc")
    assert testimony.tensors_of("native_input")[1].shape == (1, 1, 8, 8, 16)
    assert testimony.code("rknn_run") is None
    assert testimony.submits == ()


def test_allocations_have_names_and_addresses(witness: Witness) -> None:
    testimony = witness.run(golden("two_outputs_rk3588_i8"))
    assert [entry.name for entry in testimony.allocations] == ["task", "weight", "internal", "x", "early", "late"]
    weight = testimony.allocation("weight")
    assert weight.address % 4096 == 0
    assert weight.size_bytes % 4096 == 0
    assert 0 < weight.requested_bytes <= weight.size_bytes
    with pytest.raises(KeyError, match="there are: task, weight"):
        testimony.allocation("nothing")


def test_a_submit_points_to_tasks_and_these_to_commands(witness: Witness) -> None:
    testimony = witness.run(golden("conv_rk3588_i8"))
    (submit,) = testimony.submits
    assert submit.cores[0] == (0, 1)
    assert submit.tasks.allocation.name == "task"
    *_, command_address = struct.unpack_from("<8IQ", submit.tasks.data)
    weight = submit.buffer("weight")
    offset = command_address - weight.allocation.address
    assert 0 < offset < weight.allocation.requested_bytes
    assert len(weight.data) == weight.allocation.size_bytes


def test_inputs_reach_the_device(witness: Witness) -> None:
    pixels = bytes(value % 256 for value in range(16 * 16 * 3))
    testimony = witness.run(golden("image_rk3588_i8"), [Input(pixels, "uint8", "nhwc")])
    assert testimony.submits[0].buffer("image").data[: len(pixels)] == pixels


def test_zero_copy_memory_has_the_name_of_its_tensor(witness: Witness) -> None:
    pixels = bytes(range(256)) * 3
    testimony = witness.run(golden("image_rk3588_i8"), [Input(pixels)], zero_copy=True)
    assert testimony.code("rknn_set_io_mem") == 0
    assert testimony.submits[0].buffer("image").data[: len(pixels)] == pixels
    assert testimony.allocation("features").address
    assert len(testimony.outputs[0]) >= 16 * 16 * 16


@pytest.mark.parametrize(
    ("core_mask", "lists"),
    [(0, {0: (0, 9)}), (2, {1: (0, 9)}), (3, {0: (9, 12), 1: (21, 11)}), (7, {0: (32, 12), 1: (44, 11), 2: (55, 11)})],
)
def test_core_masks_choose_the_task_lists(
    witness: Witness, core_mask: int, lists: dict[int, tuple[int, int]]
) -> None:
    """With several cores each operator is a job of its own; together the jobs walk each core's list once."""
    testimony = witness.run(golden("residual_rk3588_i8"), core_mask=core_mask)
    walked: dict[int, list[int]] = {core: [] for core in lists}
    for submit in testimony.submits:
        for core, (start, count) in submit.ranges.items():
            walked[core] += range(start, start + count)
    assert walked == {core: list(range(start, start + count)) for core, (start, count) in lists.items()}


def test_a_chip_with_one_core_has_plain_ranges(witness: Witness) -> None:
    (submit,) = witness.run(golden("residual_rk3566_i8"), chip="rk3566").submits
    assert submit.ranges == {0: (0, 8)}


def test_cpu_operators_split_the_job(witness: Witness) -> None:
    assert len(witness.run(golden("cpu_sin_rk3588_i8")).submits) == 2


def test_contents_are_those_of_the_moment(witness: Witness) -> None:
    """The CPU operator writes between the two submits; the first must not show it."""
    first, second = witness.run(golden("cpu_sin_rk3588_i8")).submits
    assert first.buffer("internal").data != second.buffer("internal").data
    assert first.buffer("weight").data is second.buffer("weight").data


def test_dynamic_shapes(witness: Witness) -> None:
    testimony = witness.run(golden("dynamic_rk3588_i8"), shapes=[(1, 8, 24, 3)])
    assert testimony.code("rknn_run") == 0
    assert testimony.tensors_of("current_input")[0].shape == (1, 8, 24, 3)
    assert [entry.name for entry in testimony.allocations].count("task") == 3
    assert len(testimony.outputs[0]) == 8 * 8 * 24


def test_dumps_can_be_left_out(witness: Witness) -> None:
    (submit,) = witness.run(golden("conv_rk3588_i8"), dumps=False).submits
    assert submit.buffers == ()


def test_the_other_hardware(witness: Witness) -> None:
    assert witness.run(golden("residual_rk3566_i8"), chip="rk3566").code("rknn_run") == 0
    refused = witness.run(golden("residual_rk3566_i8"), chip="rk3588")
    assert refused.code("rknn_init") == MODEL_INVALID
    assert "This rknn model is for RK3566" in refused.stderr


@pytest.mark.parametrize("model", [b"", b"\x89PNG\r\n\x1a\n" + bytes(100), bytes(1000)])
def test_a_foreign_file_is_refused(witness: Witness, model: bytes) -> None:
    testimony = witness.run(model)
    assert testimony.exit_code == 0
    assert testimony.code("rknn_init") in (MODEL_INVALID, -1, -5)


def test_a_truncated_file_is_refused(witness: Witness) -> None:
    data = golden("conv_rk3588_i8").read_bytes()
    assert witness.run(data[: len(data) // 2]).code("rknn_init") == MODEL_INVALID


def test_a_crash_is_testimony_too(witness: Witness) -> None:
    """A dynamic model without a chosen shape makes runtime 1.5.2 abort."""
    testimony = witness.run(golden("dynamic_rk3588_i8"))
    assert testimony.signal == "SIGABRT"
    assert testimony.died_in == "rknn_inputs_set"
    assert testimony.code("rknn_init") == 0
    assert testimony.allocation("weight").requested_bytes


def test_what_was_seen_before_a_crash_is_kept(witness: Witness) -> None:
    """Runtime 1.5.2 loads 16-bit models and submits the first part, then meets a CPU operator that it cannot do."""
    testimony = witness.run(golden("residual_rk3588_w16a16i_dfp"))
    assert (testimony.signal, testimony.died_in) == ("SIGABRT", "rknn_run")
    assert testimony.submits[0].buffer("weight").data


def test_a_hang_raises(witness: Witness) -> None:
    with pytest.raises(TimeoutError, match="did not finish within"):
        witness.run(golden("conv_rk3588_i8"), timeout=0.001)


def test_nothing_is_left_behind(witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    witness.run(golden("conv_rk3588_i8"))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENRKNN_WITNESS_LIBRARY", str(tmp_path / "librknnrt.so"))
    with pytest.raises(WitnessMissingError, match="is not a file"):
        find_library(tmp_path)
    monkeypatch.delenv("OPENRKNN_WITNESS_LIBRARY")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(WitnessMissingError, match="tools/setup-witness"):
        find_library(tmp_path)
