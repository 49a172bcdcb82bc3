"""`tools/silicon_ledgers.py` on a folder that is as a clone of open-rknpu."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from tests.silicon.open_rknpu.arithmetic import convolved
from tests.silicon.open_rknpu.suites import SUITES
from tests.silicon.open_rknpu.writer import quantise, write
from tools import silicon_ledgers


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    suite = tmp_path / "open-rknpu" / "research" / "native_input_suite"
    suite.mkdir(parents=True)
    rows = []
    for number, model in enumerate(islice(SUITES["native_input"](), 2)):
        q = quantise(model.convolution)
        (suite / f"model{number:03}.bin").write_bytes(write(model.convolution))
        (suite / f"input{number:03}.u8").write_bytes(model.inputs.tobytes())
        said = np.array([convolved(model.convolution, q, picture) for picture in model.inputs])
        (suite / f"expected{number:03}.i8").write_bytes(said.tobytes())
        rows.append({"model": f"{number:03}", "passed": True, "inferences": len(said), "bytes": said.size})
    (suite / "board_results_0.json").write_text(json.dumps([*rows, {"model": "002", "passed": True}]))
    return tmp_path


def test_counts_what_is_equal_and_says_what_was_not_run(clone: Path) -> None:
    (suite,) = silicon_ledgers.suites(clone)
    result = silicon_ledgers.run(suite)
    assert (result.models, result.inferences, result.equal) == (2, 32, 32)
    assert result.skipped == {"no .bin .u8 .i8 file": 1}


def test_one_byte_that_differs_is_found(clone: Path) -> None:
    (suite,) = silicon_ledgers.suites(clone)
    path = suite / "expected001.i8"
    said = bytearray(path.read_bytes())
    said[5] ^= 1
    path.write_bytes(said)
    assert silicon_ledgers.run(suite).equal == 31
    (suite / "model000.bin").write_bytes(b"something else")
    assert "not a container" in str(silicon_ledgers.run(suite).skipped)


def test_a_folder_without_clones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["silicon_ledgers", str(tmp_path)])
    assert silicon_ledgers.main() == silicon_ledgers.NOTHING
