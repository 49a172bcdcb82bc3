"""Compressed weights give the bytes of the same network without compression.

Witness: pairs of files that the toolkit built with and without `compress_weight`, for every kind of decompressor:
16 lanes (RK3588), 8 lanes of bytes and of fp16 (RK3566), 2 lanes of bytes and of fp16 (RK3562, RK3576, RV1106).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn import Session, isa
from openrknn.compute import native
from openrknn.cost.decoded import shape_of
from openrknn.errors import AccessError, ExecutionError, UnknownModeError
from openrknn.npu.blocks import compression
from openrknn.npu.native import accelerate
from openrknn.npu.task import Convolution
from tests.npu.loaded import load

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"
PAIRS = sorted(path.stem.removesuffix("_compressed") for path in GOLDENS.glob("*_compressed.rknn"))
HEADER_AMOUNT = isa.cna.DcompAmounts[0].offset


def golden(name: str) -> Path:
    return GOLDENS / f"{name}.rknn"


def outputs(path: Path) -> list[bytes]:
    random = np.random.default_rng(1)
    with Session(path) as session:
        (spec,) = session.inputs
        picture = spec.shape[1] == 3
        values = random.integers(0, 256, (16, 16, 3), np.uint8) if picture else random.normal(0, 1, spec.shape)
        result = session.run([values if picture else values.astype(np.float32)])
        return [np.asarray(value).tobytes() for value in result.values()]


@pytest.mark.parametrize("kernels", ["auto", "numpy"])
@pytest.mark.parametrize("name", PAIRS)
def test_results_are_those_of_the_twin(name: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, kernels)
    plain, packed = outputs(golden(name)), outputs(golden(f"{name}_compressed"))
    assert plain == packed
    assert len(set(plain[0])) > 20  # not a constant picture


def test_every_kind_of_decompressor_has_a_pair() -> None:
    assert {name.split("_", 1)[1] for name in PAIRS if name.startswith("pruned")} == {
        "rk3588_i8", "rk3566_i8", "rk3566_fp", "rk3562_i8", "rk3576_fp", "rv1106_i8",
    }  # fmt: skip


def test_both_kinds_of_run_and_long_headers_are_in_the_pairs() -> None:
    program = load(golden("pruned_rk3588_i8_compressed")).program()
    headers = {
        stream.header_bytes
        for step in program.steps
        if isinstance(step, Convolution) and step.source.compression
        for stream in step.source.compression.streams
    }
    assert headers == {16, 48}


@pytest.mark.skipif(not native.find(), reason="no native library")
def test_compressed_convolutions_have_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)
    loaded = load(golden("pruned_rk3588_i8_compressed"))
    program = loaded.program()
    assert not accelerate(program, loaded.memory).reasons


def test_less_is_read() -> None:
    plain, packed = (
        sum(shape_of(step).weight_bytes for step in load(golden(f"pruned_rk3588_i8{end}")).program().steps)
        for end in ("", "_compressed")
    )
    assert packed < plain


def test_a_mode_that_nobody_has_seen_is_refused() -> None:
    loaded = load(golden("pruned_rk3588_i8_compressed"))
    loaded.set_register(0, isa.cna.DcompCtrl.offset, 5)
    with pytest.raises(UnknownModeError, match="DCOMP_CTRL = 0x5 with INT8"):
        loaded.program()


@pytest.mark.parametrize(
    ("register", "value", "error", "words"),
    [
        (isa.cna.DcompRegnum.offset, 0, ExecutionError, "lane 0: .*header has 0 bytes"),
        (isa.cna.WeightSize0.offset, 0xFFFF_FFF0, ExecutionError, "bytes of compressed weights in one task"),
        (isa.cna.WeightSize0.offset, 1 << 20, ExecutionError, "lane 0: the compressed weights end after"),
        (HEADER_AMOUNT, 0x00FF_FFFF, AccessError, "compressed weights"),
        (HEADER_AMOUNT, 1, ExecutionError, "lane 0: the compressed weights end after"),
        (isa.cna.DcompAddr0.offset, 0xE000_0000, AccessError, "compressed weights"),
    ],
)
def test_registers_that_lie(register: int, value: int, error: type[ExecutionError], words: str) -> None:
    loaded = load(golden("pruned_rk3588_i8_compressed"))
    loaded.set_register(0, register, value)
    with pytest.raises(error, match=words):
        loaded.program().run()


def test_results_are_kept_for_tasks_that_share_weights() -> None:
    kept = compression._Recent(100)
    kept.put(b"a", np.zeros(60, np.uint8))
    kept.put(b"b", np.ones(60, np.uint8))
    assert kept.get(b"a") is None
    assert kept.get(b"b") is not None
