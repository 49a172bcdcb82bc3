"""C programs on our library and a real engine: what they compute, and what they survive."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from openrknn.capi.parts import engine_command
from openrknn.vendor.tables.versions import KNOWN_VERSIONS, Version
from tests.capi.building import GOLDENS, Programs
from tests.capi.conftest import RunningEngine
from tools.capi_headers.public import api_number

MODEL = GOLDENS / "image_rk3588_i8.rknn"


def test_a_model_once_through(programs: Programs) -> None:
    """From memory, as a copy of a context and from a path; copied and bound tensors: always the same bytes."""
    ran = programs.run(programs.compiled("whole"), MODEL)
    assert (ran.code, ran.err) == (0, ""), ran.out
    lines = ran.out.splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("1 in, 1 out, 2.5.0 (openrknn ")
    assert len(set(lines[1::3])) == 1
    assert len(set(lines[2::3])) == 1


def test_wrong_arguments_are_refused(programs: Programs) -> None:
    """Each with a reason on standard error."""
    ran = programs.run(programs.compiled("hostile"), MODEL)
    assert ran.code == 0, ran.out + ran.err[-2000:]
    refused = int(ran.out.split()[0])
    assert refused > 300
    reasons = [line for line in ran.err.splitlines() if line.startswith("E RKNN: [openrknn] rknn_")]
    assert len(reasons) >= refused


@pytest.mark.parametrize("name", ["forks", "threads"])
def test_forks_threads_and_signals(name: str, programs: Programs) -> None:
    ran = programs.run(programs.compiled(name), MODEL)
    assert (ran.code, ran.out) == (0, "fine\n"), ran.out + ran.err


def test_a_product_as_back_ends_of_ggml_make_it(programs: Programs) -> None:
    """As in runtime 1.5.2, rknn_mem_sync, rknn_destroy and SDK_VERSION take a context of rknn_matmul_create, too."""
    ran = programs.run(programs.compiled("product"))
    assert (ran.code, ran.out) == (0, "fine\n"), ran.out + ran.err


def test_more_scales_than_a_packet_holds(programs: Programs) -> None:
    ran = programs.run(programs.compiled("scales"))
    assert (ran.code, ran.out) == (0, "fine\n"), ran.out + ran.err


def test_dlopen_and_dlclose(programs: Programs) -> None:
    ran = programs.run(programs.compiled("loading", linked=False), programs.library, MODEL)
    assert (ran.code, ran.out) == (0, "fine\n"), ran.out + ran.err


@pytest.mark.parametrize("way", ["exit", "close"])
def test_leaving_and_closing(way: str, programs: Programs) -> None:
    """Exit with threads at work, and a program that closes what is not its own."""
    program = programs.compiled("leaving")
    for _ in range(5):
        ran = programs.run(program, way, MODEL)
        assert (ran.code, ran.out) == (0, "fine\n"), ran.out + ran.err


def test_the_engine_is_killed(programs: Programs, engine: RunningEngine) -> None:
    """kill -9 while the program runs models; the next rknn_init starts an engine by itself."""
    program = programs.compiled("dying")
    words = {
        "OPENRKNN_ENGINE_SOCKET": str(engine.path),
        "OPENRKNN_ENGINE": " ".join(engine_command()),
        "OPENRKNN_ENGINE_IDLE": "1",
    }
    with subprocess.Popen(
        [program, MODEL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **words}
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == "ready\n"
        engine.process.send_signal(signal.SIGKILL)
        out, err = running.communicate(timeout=120)
    assert (running.returncode, out) == (0, "fine\n"), out + err
    assert "the engine has ended during the call" in err


def test_an_engine_is_started_once(programs: Programs, tmp_path: Path) -> None:
    """Several programs at the same time, and no engine yet."""
    program = programs.compiled("whole")
    words = {
        "OPENRKNN_ENGINE_SOCKET": str(programs.short / "e"),
        "OPENRKNN_ENGINE": " ".join(engine_command()),
        "OPENRKNN_ENGINE_IDLE": "1",
    }
    running = [
        subprocess.Popen([program, MODEL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **words})
        for _ in range(4)
    ]
    results = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0] * 4, results
    assert len({out for out, _ in results}) == 1


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("OPENRKNN_ABI", "7.0", "OPENRKNN_ABI=7.0 is not a version of the C API; there are 1.3.0"),
        ("OPENRKNN_ABI", "new", "OPENRKNN_ABI=new is not a version"),
        ("OPENRKNN_ENGINE_SOCKET", "/nowhere/" + "x" * 120, "is too long for a socket"),
    ],
)
def test_settings_that_cannot_be_used(variable: str, value: str, reason: str, programs: Programs) -> None:
    ran = programs.run(programs.compiled("whole"), MODEL, **{variable: value})
    assert ran.code == 1
    assert ran.err.startswith("E RKNN: [openrknn] rknn_init: ")
    assert reason in ran.err


def test_an_engine_that_does_not_start(programs: Programs) -> None:
    words = {"OPENRKNN_ENGINE_SOCKET": str(programs.short / "none"), "OPENRKNN_ENGINE": "/nowhere/openrknn-engine"}
    ran = programs.run(programs.compiled("whole"), MODEL, **words)
    assert "= -3" in ran.out
    assert "the engine /nowhere/openrknn-engine cannot be started: No such file or directory" in ran.err
    words["OPENRKNN_ENGINE"] = "false"
    assert "false did not start" in programs.run(programs.compiled("whole"), MODEL, **words).err


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
def test_programs_of_every_version(version: Version, programs: Programs) -> None:
    """Compiled with the structs of a version, and run with OPENRKNN_ABI: a product by each signature that there was."""
    program = programs.compiled("older", [f"-DOPENRKNN_ABI_VERSION={api_number(version)}"])
    ran = programs.run(program, MODEL, OPENRKNN_ABI=str(version))
    assert (ran.code, ran.out, ran.err) == (0, "fine\n", "")


def test_silence(programs: Programs) -> None:
    """RKNN_LOG_LEVEL: a negative number says nothing, 2 says where models run, 3 says every call."""
    program = programs.compiled("whole")
    assert programs.run(program, "nothing.rknn", RKNN_LOG_LEVEL="-1").err == ""
    informed = programs.run(program, MODEL, RKNN_LOG_LEVEL="2", OPENRKNN_DEVICE="software").err
    assert informed == "I RKNN: [openrknn] rknn_init: the model runs on software:rk3588\n" * 2
    loud = programs.run(program, MODEL, RKNN_LOG_LEVEL="3").err
    assert "D RKNN: [openrknn] rknn_run: context 0x" in loud
