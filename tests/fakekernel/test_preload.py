"""The preload library inside real programs: C, compiled here, for this machine and for Arm below qemu."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from openrknn.errors import UnsupportedError
from openrknn.fakekernel import c_header, launch
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import machine_of, prepare
from openrknn.fakekernel.preload import host_machine, library_for
from openrknn.fakekernel.protocol import ENVIRONMENT, OLD_ENVIRONMENT
from tests.fakekernel.waiting import wait_until

HERE = Path(__file__).resolve().parent
NATIVE = HERE.parents[1] / "native" / "preload"
EXAMPLES = HERE.parents[1] / "examples"
SUBJECTS = (
    "listings", "status", "links", "other_ways", "texts", "copies", "forks", "executes", "passes", "threads", "signals",
    "wrong", "closes", "untouched", "buffers",
)  # fmt: skip
LIBRARY = """
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/ioctl.h>
int probe_library(void) {
    uint32_t action[2] = {0, 0};
    int npu = open("/dev/dri/renderD129", O_RDWR);
    if (npu < 0 || ioctl(npu, 0xc0086440, action) != 0 || action[1] != 0x46495245) return 1;
    void *plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL); /* found through this library's own run path */
    if (!plugin) return 2;
    int (*answer)(void) = (int (*)(void))dlsym(plugin, "answer");
    return answer ? answer() : 3;
}
"""


def compiler_for(machine: str) -> str:
    triplet = {"armhf": "arm-linux-gnueabihf"}.get(machine, f"{machine}-linux-gnu")
    name = "gcc" if machine == host_machine() else f"{triplet}-gcc"
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here (Debian: apt install gcc-{triplet.replace('_', '-')})")
    return found


def compile_c(machine: str, source: Path, target: Path, *options: str) -> Path:
    # Offsets of buffers have more than 32 bits: programs of 32-bit machines need wide ones to map a buffer.
    wide = ("-D_FILE_OFFSET_BITS=64", "-D_TIME_BITS=64", "-mfp16-format=ieee") if machine == "armhf" else ()
    command = [compiler_for(machine), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *wide, *options]
    done = subprocess.run(
        [*command, "-o", str(target), str(source), "-ldl", "-lpthread"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


def need_emulator(machine: str) -> None:
    """Skip where nothing runs programs of a machine."""
    name = f"qemu-{'arm' if machine == 'armhf' else machine}"
    if machine != host_machine() and launch._loader(machine) is None and not shutil.which(name):
        pytest.skip(f"{name} is not here (Debian: apt install qemu-user)")


MACHINES = sorted({host_machine(), "aarch64", "armhf"})


@pytest.fixture(scope="module", params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    need_emulator(name)
    try:
        library_for(name)
    except UnsupportedError as error:
        pytest.skip(str(error))
    return name


@pytest.fixture(scope="module")
def probe(machine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("probe") / "probe"
    return compile_c(machine, HERE / "probe.c", target, "-D_FORTIFY_SOURCE=2")


def run(device: Device, folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = prepare([str(word) for word in words], device.environment, device.folder)
    return subprocess.run(
        command.arguments, executable=command.path, env=command.environment, cwd=folder, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.fixture
def leak_free(board: Device) -> Iterator[None]:
    """When a program has ended, nothing of it is left on the device."""
    yield
    wait_until(lambda: board.status.files == board.status.buffers == 0)


@pytest.mark.usefixtures("leak_free")
@pytest.mark.parametrize("subject", SUBJECTS)
def test_programs_see_what_they_would_see_on_a_board(
    board: Device, probe: Path, machine: str, subject: str, tmp_path: Path
) -> None:
    if subject == "executes" and machine != host_machine():
        pytest.skip("a program below qemu can start another one only where binfmt_misc is set up")
    done = run(board, tmp_path, probe, subject)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("leak_free")
def test_libraries_find_their_own_and_the_vendors(machine: str, probe: Path, tmp_path: Path) -> None:
    """The loader looks at who calls dlopen; a library in between must not change that."""
    (tmp_path / "sub").mkdir()
    source, plugin = tmp_path / "library.c", tmp_path / "plugin.c"
    source.write_text(LIBRARY)
    plugin.write_text("int answer(void) { return 42; }\n")
    compile_c(machine, plugin, tmp_path / "sub" / "libplugin.so", "-shared", "-fPIC")
    library = compile_c(
        machine, source, tmp_path / "library.so", "-shared", "-fPIC", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/sub"
    )
    with Device("rk3588", library=tmp_path / "sub" / "libplugin.so") as device:
        done = run(device, tmp_path, probe, "libraries", library)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_program_whose_device_is_gone(probe: Path, tmp_path: Path) -> None:
    with Device("rk3588") as device:
        command = prepare([str(probe), "untouched"], device.environment, device.folder)
    done = subprocess.run(
        command.arguments, executable=command.path, env=command.environment, cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", [ENVIRONMENT, OLD_ENVIRONMENT])
def test_the_variable_that_names_the_device(name: str, board: Device, probe: Path, tmp_path: Path) -> None:
    """OPENRKNN_DEVICE named the folder before; a path in it is still one, anything else chooses a device."""
    for value, code in ((str(board.folder), 0), ("software", 1), (str(tmp_path), 1)):
        command = prepare([str(probe), "status"], {name: value}, board.folder)
        done = subprocess.run(
            command.arguments, executable=command.path, env=command.environment, capture_output=True, check=False
        )
        assert (done.returncode == 0) == (code == 0), done.stderr
        assert (launch.emulated_folder({name: value}) is not None) == (code == 0)


def test_a_library_of_another_version_says_so(board: Device, probe: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(board.folder, other, ignore=shutil.ignore_patterns("socket", "root"))
    paths = other / "paths"
    paths.write_text(paths.read_text().replace(f"version {c_header.version():08x}", "version 00000000"))
    command = prepare([str(probe), "status"], {ENVIRONMENT: str(other)}, other)
    done = subprocess.run(
        command.arguments, executable=command.path, env=command.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert "different versions; install openrknn again" in done.stderr


def test_the_header_is_the_generated_one() -> None:
    assert (NATIVE / "tables.h").read_text() == c_header.header(), (
        "run: python -m openrknn.fakekernel.c_header > native/preload/tables.h"
    )


def test_the_library_compiles_without_warnings(machine: str, tmp_path: Path) -> None:
    sources = [str(path) for path in sorted(NATIVE.glob("*.c"))]
    options = ["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run(
        [compiler_for(machine), *options, "-o", str(tmp_path / "x.so"), *sources, "-ldl"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("driver", "name"), [("rknpu", "raw_rknpu_matmul"), ("rocket", "raw_rocket_matmul")])
def test_the_examples_multiply_matrices(machine: str, driver: str, name: str, tmp_path: Path) -> None:
    program = compile_c(machine, EXAMPLES / f"{name}.c", tmp_path / name)
    with Device("rk3588", driver=driver) as device:
        done = run(device, tmp_path, program)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("32 x 64 x 48: right\n")
        assert device.status.totals.macs == 32 * 64 * 48
        assert device.status.totals.failed == 0


@pytest.mark.usefixtures("leak_free")
def test_sixteen_programs_at_once(board: Device, tmp_path: Path) -> None:
    program = compile_c(host_machine(), EXAMPLES / "raw_rknpu_matmul.c", tmp_path / "matmul")
    command = prepare([str(program)], board.environment, board.folder)
    before = board.status.totals.jobs
    processes = [
        subprocess.Popen(
            command.arguments, executable=command.path, env=command.environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(16)
    ]
    for process in processes:
        text, _ = process.communicate(timeout=600)
        assert process.returncode == 0
        assert text.endswith("right\n")
    assert board.status.totals.jobs == before + 16
    assert board.status.totals.failed == 0


def test_machines_are_told_apart(tmp_path: Path) -> None:
    script, odd, small = tmp_path / "script", tmp_path / "odd", tmp_path / "small"
    script.write_text("#!/bin/sh\n")
    assert machine_of(script) == host_machine()
    script.write_text("#!/usr/bin/env sh\n")
    assert machine_of(script) == host_machine()
    script.write_bytes(b"no program at all")
    assert machine_of(script) == host_machine()
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    header[18] = 183
    odd.write_bytes(header)
    assert machine_of(odd) == "aarch64"
    header[18] = 243
    odd.write_bytes(header)
    with pytest.raises(UnsupportedError, match="ELF machine 243"):
        machine_of(odd)
    header[4] = 1
    small.write_bytes(header)
    with pytest.raises(UnsupportedError, match="a little-endian 32-bit program for ELF machine 243"):
        machine_of(small)
    header[18] = 40
    small.write_bytes(header)
    assert machine_of(small) == "armhf"
    header[5] = 2
    small.write_bytes(header)
    with pytest.raises(UnsupportedError, match="a big-endian 32-bit"):
        machine_of(small)


def test_what_is_missing_for_another_machine_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UnsupportedError, match="apt install gcc"):
        library_for("aarch64" if host_machine() != "aarch64" else "x86_64")


@pytest.mark.parametrize("given", [True, False])
def test_qemu_is_told_of_its_libraries_unless_the_environment_does(
    given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment is the one that the program is going to have, not the one of this process."""
    other = "aarch64" if host_machine() == "x86_64" else "x86_64"
    program = tmp_path / "program"
    program.write_bytes(struct.pack("<4sBB10xHH", b"\x7fELF", 2, 1, 2, {"x86_64": 62, "aarch64": 183}[other]))
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(program) if "qemu" not in name else f"/bin/{name}")
    monkeypatch.setattr(launch, "library_for", lambda machine, name: tmp_path / f"{name}.so")
    monkeypatch.setattr(Path, "is_dir", lambda path: True)
    if given:
        monkeypatch.delenv("QEMU_LD_PREFIX", raising=False)
    else:
        monkeypatch.setenv("QEMU_LD_PREFIX", "/of/another/process")
    environment = {"QEMU_LD_PREFIX": "/root/of/it"} if given else {}
    command = prepare(["program"], {}, tmp_path, environment)
    assert ("-L" in command.arguments) is not given
    assert command.environment.get("QEMU_LD_PREFIX") == environment.get("QEMU_LD_PREFIX")
