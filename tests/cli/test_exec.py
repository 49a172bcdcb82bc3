"""`openrknn exec` and `openrknn device`: exit codes, signals, the last line, what stands in the way."""

from __future__ import annotations

import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.run import messages, program

OPENRKNN = [sys.executable, "-m", "openrknn.cli"]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that really uses the NPU."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (Debian: apt install gcc)")
    target = tmp_path_factory.mktemp("exec") / "matmul"
    subprocess.run([compiler, "-o", str(target), str(EXAMPLES / "raw_rknpu_matmul.c")], check=True)
    return target


def test_a_program_runs_and_its_work_is_summed_up(matmul: Path) -> None:
    result = program("exec", "--", matmul)
    assert result.code == 0
    assert result.out.endswith("32 x 64 x 48: right\n")
    assert result.err.startswith("openrknn: 1 job, 1 task, 98.3 kMAC: ")
    assert "on the emulated NPU (RK3588, driver rknpu)" in result.err
    assert messages(result.err) == 1


def test_quiet_says_nothing(matmul: Path) -> None:
    assert program("exec", "--quiet", "--", matmul).err == ""


def test_the_sum_for_programs(matmul: Path) -> None:
    result = program("exec", "--json", "--", matmul)
    numbers = json.loads(result.err)
    assert (numbers["jobs"], numbers["failed"], numbers["macs"]) == (1, 0, 98304)


def test_without_a_job_it_says_so() -> None:
    result = program("exec", "cat", "/proc/rknpu/version")
    assert result.out == "RKNPU driver: v0.9.8\n"
    assert result.err.startswith("openrknn: no job was submitted")


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_the_exit_code_is_the_programs(script: str, code: int) -> None:
    assert program("exec", "-q", "--", "sh", "-c", script).code == code


def test_words_after_the_program_are_its_own() -> None:
    result = program("exec", "-q", "--", "echo", "--quiet", "--chip", "--", "-x")
    assert result.out == "--quiet --chip -- -x\n"


def test_other_chips_and_drivers() -> None:
    result = program("exec", "-q", "--chip", "RK3568", "--", "cat", "/proc/device-tree/compatible")
    assert result.out.endswith("rockchip,rk3568\0")
    assert program("exec", "-q", "--driver", "rocket", "--", "ls", "/dev/accel").out == "accel0\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ([], 2, "name the program to run"),
        (["--"], 2, "name the program to run"),
        (["--", "no-such-program"], 127, "no-such-program: no such program; check the path"),
        (["--chip", "rk9999", "--", "true"], 2, "no chip is called 'rk9999'"),
        (["--driver", "nouveau", "--", "true"], 2, "argument --driver: invalid choice"),
        (["--driver", "rocket", "--chip", "rk3566", "--", "true"], 2, "the driver rocket knows RK3588 only"),
        (["--library", "nothing.so", "--", "true"], 2, "nothing.so: no such file"),
        (["--device", "nowhere", "--", "true"], 2, "nowhere: no emulated device runs there"),
    ],
)
def test_what_is_not_possible_is_one_line(words: list[str], code: int, text: str) -> None:
    result = program("exec", "-q", *words)
    assert (result.code, result.out) == (code, "")
    assert text in result.err
    assert messages(result.err) == 1


def test_a_failed_job_is_told(tmp_path: Path) -> None:
    """What a driver would write into the kernel's log goes to standard error."""
    script = (
        "import fcntl, os, struct, sys\n"
        "from openrknn.uapi import rknpu\n"
        "npu = os.open('/dev/dri/card1', os.O_RDWR)\n"
        "def call(ioctl, **values):\n"
        "    data = bytearray(ioctl.pack(values))\n"
        "    fcntl.ioctl(npu, ioctl.request, data)\n"
        "    return ioctl.argument.unpack(data)\n"
        "tasks = call(rknpu.MEM_CREATE, size=4096, flags=11)\n"
        "try:\n"
        "    call(rknpu.SUBMIT, flags=1, timeout=100, task_number=1, core_mask=1, subcore1=1,\n"
        "         task_obj_addr=tasks['obj_addr'])\n"
        "except OSError as error:\n"
        "    print(error.strerror)\n"
    )
    result = program("exec", "--", sys.executable, "-c", script)
    assert result.out == "Connection timed out\n"
    assert "PC fetch" in result.err
    assert "1 job (1 failed)" in result.err


def wait_for(path: Path) -> None:
    for _ in range(30_000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_program(number: signal.Signals, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'exit 42' {number.name[3:]}; touch {ready}; while :; do sleep 0.05; done"
    # A shell cannot trap a signal that was ignored when it started, as SIGHUP is below nohup.
    default = functools.partial(signal.signal, number, signal.SIG_DFL)
    command = [*OPENRKNN, "exec", "-q", "--", "sh", "-c", script]
    with subprocess.Popen(command, preexec_fn=default) as process:  # noqa: PLW1509 - no other threads matter here
        try:
            wait_for(ready)
            process.send_signal(number)
            assert process.wait(20) == 42
        finally:
            process.kill()


def test_the_program_has_the_usual_signals(tmp_path: Path) -> None:
    """Nothing is blocked or ignored that was not before."""
    result = program("exec", "-q", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    values = {line.split(":")[0]: int(line.split()[1], 16) for line in result.out.splitlines()}
    assert values["SigBlk"] == 0
    assert not values["SigIgn"] & (1 << signal.SIGPIPE - 1)


def test_it_starts_soon() -> None:
    """Processor time, the best of a few: this machine has other things to do as well."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert program("exec", "-q", "--", "true").code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 1.0  # benchmarks/exec.py measures, and has the bar


def test_the_folder_above_an_emulated_one() -> None:
    """The real machine need not have what is below it."""
    result = program("exec", "-q", "--", "ls", "-la", "/dev/dma_heap", "/proc/rknpu/../rknpu/..//rknpu")
    assert (result.code, result.err) == (0, "")
    assert " .." in result.out


def test_nothing_is_left_behind() -> None:
    with tempfile.TemporaryDirectory() as base:
        environment = {**os.environ, "TMPDIR": base}
        subprocess.run([*OPENRKNN, "exec", "-q", "--", "true"], env=environment, check=True)
        assert os.listdir(base) == []


# -------------------------------------------------------------------------------------------------------- device


@pytest.fixture
def running() -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "npu"
        command = [*OPENRKNN, "device", "--folder", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_for(folder / "socket")
            yield folder, process
            process.terminate()


def test_programs_share_a_device(running: tuple[Path, subprocess.Popen[str]], matmul: Path) -> None:
    folder, process = running
    for _ in range(3):
        result = program("exec", "--device", folder, "--", matmul)
        assert (result.code, result.err) == (0, "")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0
    assert f"openrknn exec --device {folder} -- PROGRAM" in out
    assert out.splitlines()[-1].startswith("3 jobs, 3 tasks, 295 kMAC: ")
    assert err == ""
    assert not folder.exists()


def test_the_two_variables_are_enough(running: tuple[Path, subprocess.Popen[str]], matmul: Path) -> None:
    _, process = running
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    exported = dict(word.split("=", 1) for word in lines[2].split("export ")[1].split())
    done = subprocess.run([matmul], env={**os.environ, **exported}, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("right\n")


def test_a_second_device_in_the_same_folder_is_refused(running: tuple[Path, subprocess.Popen[str]]) -> None:
    folder, _ = running
    result = program("device", "--folder", folder)
    assert result.code == 2
    assert "another device runs there" in result.err
