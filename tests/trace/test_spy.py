"""What `openrknn spy` records of a program is what the kernel saw.

The real kernel is the emulated one here: spy runs on an emulated board as it would on a real one, and the board's own
record is the witness. What the library does to reach the kernel is the same in both cases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.fakekernel.preload import SPY, host_machine, library_for
from openrknn.trace import nodes
from openrknn.trace.archive import Trace
from openrknn.trace.records import BufferState, CallRecord, CloseRecord, MapRecord, OpenRecord
from openrknn.trace.replay import Replayer
from tests.fakekernel.test_preload import EXAMPLES, MACHINES, NATIVE, compile_c, compiler_for
from tests.runtime.cases import GOLDENS
from tests.witness.witness import Witness

ROOT = Path(__file__).resolve().parents[2]
OPENRKNN = [sys.executable, "-m", "openrknn.cli"]
SPYS_OWN = {"MEM_MAP", "MEM_SYNC", "PREP_BO", "FINI_BO", "VERSION"}
"""What spy asks the kernel by itself."""


def run(folder: Path, board: list[str], *program: object) -> subprocess.CompletedProcess[str]:
    words = [*OPENRKNN, "exec", "-q", *board, "--trace", "kernel.trace", "--", *OPENRKNN, "spy", "--", *program]
    return subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, errors="replace", timeout=600,
        check=False,
    )  # fmt: skip


def contents(trace: Trace, states: tuple[BufferState, ...]) -> dict[int, bytes]:
    return {state.address: trace.contents(state)[:1024] for state in states}


def calls(trace: Trace, descriptors: tuple[str, ...]) -> list[tuple[object, ...]]:
    """What the program asked, without the numbers of descriptors, which the emulated kernel does not know."""
    made = [event for event in trace.events if isinstance(event, CallRecord) and event.name not in SPYS_OWN]
    after = [{name: value for name, value in call.after.items() if name not in descriptors} for call in made]
    return [(call.name, call.before, values, call.result) for call, values in zip(made, after, strict=True)]


def check(folder: Path, descriptors: tuple[str, ...] = ()) -> None:
    """The two records of one run say the same; the board's own has spy's questions in it, too."""
    with Trace(folder / "kernel.trace") as kernel, Trace(folder / "spy.trace") as spied:
        assert calls(spied, descriptors) == calls(kernel, descriptors) != []
        jobs = list(zip(kernel.jobs(), spied.jobs(), strict=True))
        for (submit, finish), (seen, ended) in jobs:
            assert seen.lists == submit.lists
            assert contents(spied, seen.buffers) == contents(kernel, submit.buffers)
            assert finish is not None
            assert ended is not None
            assert contents(spied, ended.buffers) == contents(kernel, finish.buffers)
            assert (bool(ended.error), ended.tasks) == (bool(finish.error), finish.tasks)
        replayer = Replayer(spied)
        for submit, finish in spied.jobs():
            if finish is not None and not finish.error:
                assert replayer.run(replayer.load(submit), finish) == []
        assert spied.about["recorded"] == "on a real kernel"


@pytest.mark.parametrize(("driver", "name"), [("rknpu", "raw_rknpu_matmul"), ("rocket", "raw_rocket_matmul")])
def test_programs_with_raw_ioctls(driver: str, name: str, tmp_path: Path) -> None:
    program = compile_c(host_machine(), EXAMPLES / f"{name}.c", tmp_path / name)
    done = run(tmp_path, ["--driver", driver], program)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("right\n")
    assert "1 jobs, " in done.stderr
    check(tmp_path)
    with Trace(tmp_path / "spy.trace") as trace:
        assert isinstance(trace.events[0], OpenRecord)
        assert isinstance(trace.events[-1], CloseRecord)
        assert sum(isinstance(event, MapRecord) for event in trace.events) == (5 if driver == "rknpu" else 4)


MISC = """
import fcntl, mmap, os
from openrknn.uapi import rknpu
npu = os.open("/dev/rknpu", os.O_RDWR)
_, submit, create, _, destroy, _ = rknpu.MISC_IOCTLS
def call(ioctl, **values):
    argument = bytearray(ioctl.argument.pack(values))
    fcntl.ioctl(npu, ioctl.request, argument, True)
    return ioctl.argument.unpack(argument)
made = call(create, size=4096, flags=8)
with mmap.mmap(made["handle"], 4096) as memory:
    memory[:4] = b"here"
try:
    call(submit, flags=1, task_number=1, task_obj_addr=made["obj_addr"], timeout=1000)
except TimeoutError:
    print("refused")
call(destroy, obj_addr=made["obj_addr"])
os.close(npu)
"""


def test_the_character_device_and_a_job_that_fails(tmp_path: Path) -> None:
    done = run(tmp_path, ["--chip", "rv1106"], sys.executable, "-c", MISC)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
    check(tmp_path, ("handle",))
    with Trace(tmp_path / "spy.trace") as trace:
        assert trace.chip == "rv1106"
        ((submit, finish),) = trace.jobs()
        assert trace.contents(submit.buffers[0])[:4] == b"here"
        assert finish is not None
        assert finish.error == "ETIMEDOUT"


FORKS = """
import os, sys
from openrknn.device.kernel import SystemKernel, open_driver
npu = open_driver("rknpu", ("/dev/dri",), SystemKernel())
if (child := os.fork()) == 0:
    npu.name()
    os._exit(0)
os.waitpid(child, 0)
npu.name()
npu.close()
os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.exit(7)"])
"""


def test_a_program_that_forks_and_becomes_another(tmp_path: Path) -> None:
    done = run(tmp_path, [], sys.executable, "-c", FORKS)
    assert done.returncode == 7, done.stderr
    with Trace(tmp_path / "spy.trace") as trace:
        kinds = [type(event) for event in trace.events]
        # Found by its name, which takes a call; then the child's and the parent's: all of one open file.
        assert kinds == [OpenRecord, *[CallRecord] * 3, CloseRecord]


@pytest.mark.witness
def test_the_vendors_runtime(witness: Witness, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    words = [witness.driver, witness.library, GOLDENS / "residual_rk3588_i8.rknn", tmp_path / "report"]
    done = run(tmp_path, ["--library", str(witness.library)], *words, "--outputs", tmp_path / "outputs")
    assert done.returncode == 0, done.stderr
    assert all(not json.loads(line).get("code") for line in (tmp_path / "report").read_text().splitlines())
    check(tmp_path, ("fd",))


@pytest.mark.parametrize("may_ask", [True, False])
def test_copies_of_a_descriptor_are_told_from_other_opens(
    may_ask: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not may_ask:
        monkeypatch.setattr(nodes, "_KCMP_NUMBER", {})
    path = tmp_path / "file"
    path.touch()
    with path.open() as first, path.open() as other:
        copy = os.dup(first.fileno())
        assert nodes.is_same_file(os.getpid(), copy, first.fileno())
        assert not nodes.is_same_file(os.getpid(), other.fileno(), first.fileno())
        os.close(copy)


def test_without_an_npu(tmp_path: Path) -> None:
    if list(nodes.find_nodes()):
        pytest.skip("this machine has an NPU")
    done = subprocess.run([*OPENRKNN, "spy", "--", "true"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no NPU driver in /dev/dri, /dev/accel or /dev/rknpu" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_the_library_compiles_without_warnings(machine: str, tmp_path: Path) -> None:
    sources = [NATIVE.parent / "spy" / "spy.c", NATIVE / "arguments.c", NATIVE / "channel.c"]
    options = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-o", str(tmp_path / "x.so")]
    done = subprocess.run(
        [compiler_for(machine), *options, *map(str, sources), "-ldl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert library_for(machine, SPY).is_file()


SEVERAL = """
import ctypes, fcntl, mmap, os, sys, time
from openrknn.uapi import rocket
from openrknn.board import streams
from tests.fakekernel.client import words
npu = os.open("/dev/accel/accel0", os.O_RDWR)
def call(ioctl, **values):
    argument = bytearray(ioctl.argument.pack(values))
    fcntl.ioctl(npu, ioctl.request, argument, True)
    return ioctl.argument.unpack(argument)
def allocate(size):
    made = call(rocket.CREATE_BO, size=size)
    return made, mmap.mmap(npu, 4096, offset=made["offset"])
(a, left), (b, right), (c, _) = (allocate(1000) for _ in range(3))
first, second, _ = streams.operands(1)
left[:len(first)], right[:len(second)] = first, second
entries = []
for target in (a, c, c):  # the first job overwrites what the second reads
    commands, memory = allocate(4096)
    body = streams.product_body(a["dma_address"], b["dma_address"], target["dma_address"])
    data = streams.to_bytes(body + streams.tail(streams.PRODUCT_MASK))
    memory[:len(data)] = data
    entries.append((commands, len(body) + 4, target["handle"]))
keep, jobs = [], b""
for commands, count, target in entries:
    read = [one["handle"] for one in (a, b) if one["handle"] != target]  # the kernel drops jobs that name one twice
    tasks = ctypes.create_string_buffer(words(commands["dma_address"], count))
    inputs, outputs = (ctypes.create_string_buffer(words(*handles)) for handles in (read, [target]))
    keep += [tasks, inputs, outputs]
    jobs += rocket.JOB.pack({"tasks": ctypes.addressof(tasks), "task_count": 1, "task_struct_size": 8,
        "in_bo_handles": ctypes.addressof(inputs), "in_bo_handle_count": len(read),
        "out_bo_handles": ctypes.addressof(outputs), "out_bo_handle_count": 1})
array = ctypes.create_string_buffer(jobs, len(jobs))
call(rocket.SUBMIT, jobs=ctypes.addressof(array), job_count=3, job_struct_size=rocket.JOB.size)
call(rocket.PREP_BO, handle=c["handle"], timeout_ns=time.monotonic_ns() + 10**11)
print("done")
"""


def test_several_jobs_in_one_submit(tmp_path: Path) -> None:
    """FINDINGS 21: their memory was recorded before the first, and buffers had the size that was asked for."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + SEVERAL
    done = run(tmp_path, ["--driver", "rocket"], sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    for name in ("kernel.trace", "spy.trace"):
        replayed = subprocess.run(
            [*OPENRKNN, "trace", "replay", name], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert replayed.stdout == "".join(f"job {number}: 1 tasks, as recorded\n" for number in (1, 2, 3))
        with Trace(tmp_path / name) as trace:
            submits = list(trace.jobs())
            assert {state.size for submit, _ in submits for state in submit.buffers} == {4096}
            call = next(event for event in trace.events if isinstance(event, CallRecord) and event.name == "SUBMIT")
            tasks = bytes.fromhex(next(iter(submits[2][0].lists.values()))[1])
            assert call.before["jobs[2].tasks[0].regcmd"] == int.from_bytes(tasks[:4], "little")
