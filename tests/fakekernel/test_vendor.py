"""The heart: the vendor's unmodified runtime 1.5.2 on the emulated device gives the bytes that our Session gives.

Both run the same commands on the same software NPU, but everything before and after is independent: who loads the
file, relocates it, converts inputs, submits the tasks, runs the operators of the CPU and converts outputs.

Every golden and, where the shared corpus is, every case of it and every model; OPENRKNN_CORPUS=all runs all of those,
otherwise a choice of them runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.fakekernel.device import Device
from tests.container.places import IS_WHOLE
from tests.fakekernel.vendor import both, run
from tests.fakekernel.waiting import wait_until
from tests.runtime.cases import CORPUS, GOLDENS, MODELS
from tests.witness.witness import Witness

pytestmark = pytest.mark.witness

EXCEPTIONS = {
    # tests/runtime/test_witness.py has the proof.
    "cpu_sin_rk3588_i8": "the vendor's sine of the CPU cuts off where ours and the simulator's rounds",
}
CHOICE = ("dw_", "softmax", "layernorm", "matmul", "mbv2", "yolo")


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with Device("rk3588") as made:
        yield made


@pytest.fixture(scope="module")
def rk3566() -> Iterator[Device]:
    with Device("rk3566") as made:
        yield made


def goldens(chip: str) -> list[Path]:
    return sorted(path.with_suffix(".rknn") for path in GOLDENS.glob(f"*_{chip}_*.npz"))


def corpus(chip: str) -> list[Path]:
    if not CORPUS.exists():
        return []
    cases = sorted(path.with_suffix(".rknn") for path in (CORPUS / chip).glob("*.npz"))
    models = sorted(path.with_suffix(".rknn") for path in MODELS.glob(f"*{chip}*.npz"))
    if IS_WHOLE:
        return [*cases, *models]
    return [path for path in cases if path.stem.startswith(CHOICE)]


def check(device: Device, witness: Witness, path: Path, options: tuple[str, ...] = ()) -> None:
    for name, ours, theirs in both(device, witness, path, options):
        if path.stem in EXCEPTIONS:
            assert ours != theirs, f"{name}: an exception that is none any more: {EXCEPTIONS[path.stem]}"
        else:
            assert ours == theirs, name


@pytest.mark.parametrize("path", goldens("rk3588"), ids=lambda path: path.stem)
def test_goldens(device: Device, witness: Witness, path: Path) -> None:
    check(device, witness, path)


@pytest.mark.parametrize("path", goldens("rk3566"), ids=lambda path: path.stem)
def test_goldens_of_another_chip(rk3566: Device, witness: Witness, path: Path) -> None:
    check(rk3566, witness, path)


@pytest.mark.parametrize("path", corpus("rk3588"), ids=lambda path: path.stem)
def test_corpus(device: Device, witness: Witness, path: Path) -> None:
    check(device, witness, path)


@pytest.mark.parametrize("path", corpus("rk3566"), ids=lambda path: path.stem)
def test_corpus_of_another_chip(rk3566: Device, witness: Witness, path: Path) -> None:
    check(rk3566, witness, path)


@pytest.mark.parametrize("mask", [1, 2, 4, 3, 7])
@pytest.mark.parametrize("name", ["residual_rk3588_i8", "silu_rk3588_i8"])
def test_every_core_mask(device: Device, witness: Witness, name: str, mask: int) -> None:
    """With several cores the runtime submits operator by operator, and the cores must meet."""
    check(device, witness, GOLDENS / f"{name}.rknn", ("--core-mask", str(mask)))
    assert device.status.totals.failed == 0


def test_zero_copy(device: Device, witness: Witness) -> None:
    """Buffers that the program makes itself (rknn_create_mem) and binds."""
    answer = run(device, witness, GOLDENS / "image_rk3588_i8.rknn", options=("--zero-copy",))
    assert answer.codes == {}
    assert any(answer.outputs[0])


def test_nothing_is_left_when_the_runtime_ends(device: Device, witness: Witness) -> None:
    run(device, witness, GOLDENS / "conv_rk3588_i8.rknn")
    wait_until(lambda: device.status.files == 0)
    assert (device.status.buffers, device.status.buffer_bytes) == (0, 0)
