"""`--verify` with the vendor's runtime: what it says when they agree, when they do not, and when it is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.api import Compiled
from openrknn.compiler.verify import verify_vendor
from openrknn.fakekernel.vendor_run import VendorRuntime
from tests.compiler.nets import Array, Net, feeds, small_cnn
from tests.witness.testimony import WitnessMissingError
from tests.witness.witness import cache_folder, find_library

PIXELS = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3)).astype(np.uint8)


def small() -> Compiled:
    return compile_model(small_cnn()[0], calibration=[PIXELS], mean=[127.0] * 3, std=[64.0] * 3, method="minmax")


@pytest.fixture(scope="module")
def library() -> str:
    try:
        return str(find_library(cache_folder()))
    except WitnessMissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.witness
@pytest.mark.parametrize("form", ["int8", "fp16"])
def test_the_same_bytes_with_two_inputs_and_two_outputs(library: str, form: str) -> None:
    net = Net()
    a = net.add("Tanh", net.conv("x", 16, 24))
    b = net.add("Sigmoid", net.add("Add", a, net.conv("y", 3, 24)))
    shapes = ((1, 16, 8, 6), (1, 3, 8, 6))
    pairs = list(zip(feeds(shapes[0]), feeds(shapes[1], seed=2), strict=True))
    model = net.model(dict(zip("xy", shapes, strict=True)), [a, b])
    compiled = compile_model(model, calibration=pairs if form == "int8" else None)
    found = verify_vendor(compiled, library)
    if found[0]["is_same"] is None:
        pytest.skip(found[0]["text"])
    assert [entry["is_same"] for entry in found] == [True, True], found
    assert "gives the same bytes" in found[0]["text"]


class Pretender:
    """A runtime that answers one step too much in one place."""

    def __init__(self, outputs: list[Array]) -> None:
        self.outputs = outputs

    def run(self, chip: str, model: bytes, runs: list[list[Array]], *, shapes: object) -> list[list[bytes]]:
        assert (chip, shapes) == ("rk3588", None)
        return [[array.tobytes() for array in self.outputs] for _ in runs]


def test_where_they_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.runtime.session import Session

    compiled = small()
    with Session(compiled.model, "software") as session:
        raw = next(iter(session.run(PIXELS, outputs="raw").values())).copy()
    raw.reshape(-1)[7] += 1 if raw.reshape(-1)[7] < 127 else -1
    monkeypatch.setattr(VendorRuntime, "find", lambda library=None: Pretender([raw]))
    (entry,) = verify_vendor(compiled)
    assert (entry["different"], entry["largest_steps"], entry["first"]) == (1, 1.0, [0, 0, 7])
    assert "differs in 1 of 10 numbers, by 1 steps at most, first in run 0 at [0, 7]" in entry["text"]


def test_why_it_was_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = small()
    text = verify_vendor(compiled, str(tmp_path / "librknnrt.so"))[0]["text"]
    assert "was not asked" in text
    assert "no such file" in text
    (tmp_path / "other.so").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(40))
    assert "not a library for AArch64" in verify_vendor(compiled, str(tmp_path / "other.so"))[0]["text"]
    monkeypatch.delenv("OPENRKNN_LIBRARY", raising=False)
    monkeypatch.setattr("openrknn.fakekernel.vendor_run.find_vendor_library", lambda: None)
    assert "librknnrt.so is not here" in verify_vendor(compiled)[0]["text"]
