"""Operators of a C program; what they compute is compared with the same function in `Session(custom_ops=)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn import Session
from openrknn.container.load import load
from openrknn.container.save import save
from openrknn.runtime.io.tensors import Array
from tests.capi.building import Programs, Ran
from tests.runtime.cases import golden, renamed

SINE = Path(str(golden("cpu_sin_rk3588_i8")))


def bend(arrays: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    x = arrays[0]
    return x * np.float32(0.5) / (np.float32(1) + np.abs(x))


@pytest.fixture(scope="module")
def wave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model whose sine is an operator that nobody has."""
    model = dataclasses.replace(renamed(load(SINE), "Sin", "cstWave"), custom_operators="cstWave")
    path = tmp_path_factory.mktemp("models") / "wave.rknn"
    save(model, path)
    return path


def run(programs: Programs, *words: object, code: int = 0) -> tuple[Ran, list[str]]:
    ran = programs.run(programs.compiled("custom", ["-ffp-contract=off"]), *words)
    assert ran.code == code, ran.err
    return ran, ran.out.splitlines()


def outputs(lines: Sequence[str]) -> list[list[float]]:
    return [[float(word) for word in line.split()[1:]] for line in lines if line.startswith("output")]


def fed(path: Path, name: str) -> Array:
    """What the software NPU makes of the program's input, with the same function in Python."""
    with Session(path, custom_ops={name: bend}) as session:
        spec = session.inputs[0]
        elements = int(np.prod(spec.shape))
        ramp = np.arange(elements, dtype=np.float32) / np.float32(elements) * 6 - 3
        return session.run({spec.name: ramp.reshape(spec.shape)})[session.outputs[0].name]


def test_an_operator_that_only_the_program_has(programs: Programs, wave: Path) -> None:
    ran, lines = run(programs, wave, "cstWave")
    calls = [line.split()[0] for line in lines if line.split()[0] in ("init", "prepare", "compute", "destroy")]
    assert calls == ["init", "prepare", "compute", "prepare", "compute", "destroy"]
    assert "prepare state=7" in lines
    assert "compute state=8 inputs=1 outputs=1" in lines
    assert "destroy state=9" in lines
    (made,) = [line for line in lines if line.startswith("init ")]
    assert made.startswith("init target=1 in0=")
    assert " type=0 " in made  # float32, whatever the model stores
    assert "attribute nothing: n=0 no data" in lines
    assert "has no attribute 'nothing'" in ran.err
    expected = fed(wave, "cstWave")
    for output in outputs(lines):
        assert np.array_equal(np.array(output, np.float32), expected.reshape(-1))
    assert lines[-1] == "rknn_destroy 0"


def test_an_operator_of_ours_can_be_replaced(programs: Programs) -> None:
    _, lines = run(programs, SINE, "Sin")
    expected = fed(SINE, "Sin")
    assert np.array_equal(np.array(outputs(lines)[0], np.float32), expected.reshape(-1))
    _, plain = run(programs, SINE, "Sin", "none")
    assert outputs(plain) != outputs(lines)


def test_a_type_that_the_model_does_not_have_is_never_called(programs: Programs) -> None:
    _, lines = run(programs, SINE, "NotInThisModel")
    _, plain = run(programs, SINE, "NotInThisModel", "none")
    assert "rknn_register_custom_ops 0" in lines
    assert not any(line.startswith(("init ", "compute ")) for line in lines)
    assert outputs(lines) == outputs(plain)


def test_a_model_waits_for_its_operator(programs: Programs, wave: Path) -> None:
    ran, lines = run(programs, wave, "cstWave", "none")
    assert lines[0] == "rknn_init 0"
    assert [line for line in lines if line.startswith("rknn_run")] == ["rknn_run -1"] * 2
    assert "cstWave" in ran.err
    assert "rknn_register_custom_ops" in ran.err


def test_prepare_can_do_all_of_it(programs: Programs, wave: Path) -> None:
    _, lines = run(programs, wave, "cstWave", "skip")
    assert not any(line.startswith("compute") for line in lines)
    with Session(wave, custom_ops={"cstWave": lambda arrays, _: np.full_like(arrays[0], 0.25)}) as session:
        shape = session.inputs[0].shape
        expected = session.run({session.inputs[0].name: np.zeros(shape, np.float32)})[session.outputs[0].name]
    assert np.array_equal(np.array(outputs(lines)[0], np.float32), expected.reshape(-1))


@pytest.mark.parametrize(
    ("mode", "result", "text"),
    [
        ("compute-fails", "rknn_run -1", "compute of operator"),
        ("init-fails", "rknn_register_custom_ops -1", "returned -3"),
        ("gpu", "rknn_register_custom_ops -5", "openrknn runs no OpenCL"),
        ("null", "rknn_register_custom_ops -5", "has no compute function"),
    ],
)
def test_refusals(programs: Programs, wave: Path, mode: str, result: str, text: str) -> None:
    ran, lines = run(programs, wave, "cstWave", mode)
    assert result in lines
    assert text in ran.err
    assert "rknn_destroy 0" in lines


def test_a_program_that_ends_in_its_function(programs: Programs, wave: Path) -> None:
    """The engine's process of that program ends with it; the next program is not hurt."""
    run(programs, wave, "cstWave", "dies", code=3)
    _, lines = run(programs, wave, "cstWave")
    assert outputs(lines)[0]
