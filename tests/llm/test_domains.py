"""A model in several address spaces: the same logits as in one, on every driver."""

from __future__ import annotations

import errno
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.chips import chip_named
from openrknn.compiler.errors import OptionError
from openrknn.device.software import SoftwareDevice
from openrknn.errors import DeviceError, FormatError
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.llm.compile import CompiledLanguage, compile_language
from openrknn.llm.config import Rope
from openrknn.llm.file import read_language, write_language
from openrknn.llm.npu import NpuEngine
from openrknn.llm.quantise.model import quantise_language
from tests.llm.quantise.sources import MemorySource

CHANGES: dict[str, Any] = {
    "vocabulary": 200, "width": 64, "head_size": 32, "hidden": 4096, "context": 256, "rope": Rope(10000.0, 32),
    "layers": 4, "window": 20, "window_layers": (True, False, True, False),
}  # fmt: skip
SPACE = 9 << 19
ROOM = 3 << 20
"""For what steps compute, and the keys and values of further sequences."""
TOKENS = [3, 17, 150, 42, 8, 9, 100, 77, 31, 5, 199, 64] * 3


@pytest.fixture(scope="module")
def source() -> MemorySource:
    return MemorySource(**CHANGES)


@pytest.fixture(scope="module")
def whole(source: MemorySource) -> CompiledLanguage:
    return compile_language(source, capacity=64, prefill=(32,), few=8)


@pytest.fixture(scope="module")
def parts(source: MemorySource) -> CompiledLanguage:
    return compile_language(source, capacity=64, prefill=(32,), few=8, domain_bytes=SPACE)


@pytest.fixture(scope="module")
def data(parts: CompiledLanguage) -> bytes:
    return parts.data


@pytest.fixture(scope="module")
def one_space(whole: CompiledLanguage) -> NpuEngine:
    return NpuEngine(whole.data, "software")


@pytest.fixture(scope="module")
def two_spaces(data: bytes) -> NpuEngine:
    return NpuEngine(data, "software")


def test_layers_are_cut_into_as_few_parts_as_possible(whole: CompiledLanguage, parts: CompiledLanguage) -> None:
    assert (whole.file.cuts, parts.file.cuts) == ((), (2,))
    assert {name for name in parts.pieces if name.startswith("step")} == {"step.rknn", "step.1.rknn"}
    assert max(sum(map(len, parts.pieces[name])) for name in ("step.rknn", "step.1.rknn")) < SPACE
    for tokens, cost in whole.shared_costs.items():
        split = parts.shared_costs[tokens]
        assert split.time_ms is not None
        assert cost.time_ms is not None
        assert split.submits > cost.submits
        assert 0.99 * cost.time_ms < split.time_ms < 1.2 * cost.time_ms


def test_logits_are_those_of_one_address_space(one_space: NpuEngine, two_spaces: NpuEngine) -> None:
    """A prompt in a chunk, drafts, and one token after the other; and a sequence that is cut and copied."""
    found = []
    for engine in (one_space, two_spaces):
        assert engine.config.layers == 4
        cache = engine.new_cache()
        rows = [engine.forward(cache, TOKENS), engine.forward(cache, TOKENS[:5], all_logits=True)]
        cache.truncate(30)
        other = cache.copy()
        rows += [engine.forward(cache, [60]), engine.forward(other, [61]), engine.forward(cache, [62])]
        restored = engine.restore(cache.tokens, engine.rows_of(cache))
        rows += [engine.forward(cache, [7]), engine.forward(restored, [7])]
        assert np.array_equal(rows[-1], rows[-2])
        assert cache.tokens == (*TOKENS[:30], 60, 62, 7)
        found.append(np.concatenate(rows))
        for one in (cache, other, restored):
            one.close()
    assert np.array_equal(found[0], found[1])


def test_each_part_needs_a_space_that_holds_it(data: bytes, whole: CompiledLanguage, two_spaces: NpuEngine) -> None:
    """Devices of the user, too: one for each part."""
    chip = chip_named("rk3588")
    small = [SoftwareDevice(chip, space_bytes=SPACE + ROOM) for _ in range(2)]
    with pytest.raises(DeviceError, match=f"no room for .* in its address space of {SPACE + ROOM} bytes"):
        NpuEngine(whole.data, small[0])
    with pytest.raises(ValueError, match="has 2 parts, and 1 devices were given"):
        NpuEngine(data, small[0])
    with NpuEngine(data, small) as engine:
        found = engine.forward(engine.new_cache(), [3])
    assert np.array_equal(found, two_spaces.forward(two_spaces.new_cache(), [3]))


def _lose(*_: object) -> None:
    raise DeviceError("lost")


def test_an_interrupted_step_leaves_the_sequence_as_it_was(
    data: bytes, two_spaces: NpuEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = two_spaces.new_cache()
    expected = [two_spaces.forward(other, [token]) for token in (3, 4)][-1]
    with NpuEngine(data, "software") as engine:
        cache = engine.new_cache()
        engine.forward(cache, [3])
        (second,) = engine._further
        with monkeypatch.context() as patch:
            patch.setattr(second, "_run", _lose)
            with pytest.raises(DeviceError, match="lost"):
                engine.forward(cache, [9])
        assert cache.tokens == (3,)
        assert np.array_equal(engine.forward(cache, [4]), expected)


def test_integers_and_the_first_position_are_cut_too() -> None:
    source = MemorySource(**(CHANGES | {"layers": 2, "window_layers": (True, False)}))
    quantised = quantise_language(source, [[1, 5, 9, 30, 7, 77, 150, 3] * 4], precision="w8a8", prefix=1, online=False)
    one, two = (compile_language(quantised, capacity=32, prefill=(), domain_bytes=size) for size in (1 << 32, 1 << 20))
    assert (one.file.cuts, two.file.cuts) == ((), (1,))
    with NpuEngine(one.data, "software") as left, NpuEngine(two.data, "software") as right:
        rows = [engine.forward(engine.new_cache(), [1, 5, 9], all_logits=True) for engine in (left, right)]
    assert np.array_equal(rows[0], rows[1])


PROGRAM = """
import sys
import numpy as np
from openrknn.errors import DeviceError
from openrknn.llm.npu import NpuEngine

device, parts, whole = sys.argv[1:]
found = []
for name in ("software", device):
    with NpuEngine(parts, name) as engine:
        cache = engine.new_cache()
        found.append([engine.forward(cache, tokens) for tokens in ([3, 17, 150, 42, 8, 9, 100], [5], [6])])
try:
    NpuEngine(whole, device)
except DeviceError as error:
    print(error.errno)
print("same" if np.array_equal(*found) else "different")
"""


@pytest.mark.parametrize("driver", ["rknpu", "rocket"])
def test_kernel_drivers_have_a_space_for_each_part(
    driver: str, data: bytes, whole: CompiledLanguage, tmp_path: Path
) -> None:
    """With address spaces that the whole model does not fit into."""
    (tmp_path / "parts.rknnz").write_bytes(data)
    whole.save(tmp_path / "whole.rknnz")
    words = [sys.executable, "-c", PROGRAM, driver, "parts.rknnz", "whole.rknnz"]
    with Device("rk3588", driver=driver, space_bytes=SPACE + ROOM) as device:
        command = prepare(words, device.environment, device.folder)
        done = subprocess.run(
            command.arguments, executable=command.path, env=command.environment, cwd=tmp_path, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(errno.ENOMEM), "same"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cuts": (4,)}, "parts from the layers"),
        ({"cuts": (2, 2)}, "parts from the layers"),
        ({"cuts": (1, 2)}, "has no step.2.rknn"),
        ({"cuts": (1,)}, "takes and gives"),
        ({"cuts": ()}, "takes and gives"),
    ],
)
def test_files_whose_parts_do_not_fit_together_are_refused(data: bytes, change: Any, text: str) -> None:
    file = replace(read_language(data), **change)
    with pytest.raises(FormatError, match=text):
        NpuEngine(write_language(file), "software")


def test_a_part_that_turns_out_too_large_is_refused(source: MemorySource) -> None:
    """Commands are not in the estimate; of a model this small they are more than what is left for them."""
    with pytest.raises(OptionError, match=r"layers 0 to 0 take .* bytes .* smaller capacity or fewer graphs"):
        compile_language(source, capacity=64, prefill=(32, 64, 96), few=8, domain_bytes=1 << 21)
