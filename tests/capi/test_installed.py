"""A C program is built with the library in all the ways that are offered, and runs on the engine that it starts."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.fakekernel.preload import host_machine
from openrknn.vendor.tables.versions import is_open_library, version_in_file
from tests.capi.programs import OPENRKNN, SOURCE, arguments, compiler, done, expected, need_library, own_engine, run

CMAKE = """
cmake_minimum_required(VERSION 3.21)
project(classify LANGUAGES C)
find_package(rknnrt {version} REQUIRED)
add_executable(classify {source})
target_link_libraries(classify PRIVATE rknnrt::rknnrt)
"""


def check(program: Path, folder: Path, **environment: str) -> None:
    with own_engine() as variables:
        lines = done(program, *arguments(folder), **variables, **environment).splitlines()
    assert lines[0].startswith("librknnrt 2.5.0 (openrknn ")
    assert lines[1:] == expected()


def options(*words: str) -> list[str]:
    return shlex.split(done(*OPENRKNN, "library", *words))


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_library()
    place = tmp_path_factory.mktemp("installed") / "prefix"
    done(*OPENRKNN, "library", "--install", place)
    return place


def test_the_file_says_whose_it_is_and_which_version() -> None:
    library = need_library()
    assert is_open_library(library)
    assert str(version_in_file(library)) == "2.5.0"
    assert done(*OPENRKNN, "library", "--quiet").strip() == str(library)


def test_with_the_options_that_the_command_prints(tmp_path: Path) -> None:
    need_library()
    done(compiler(), "-o", tmp_path / "classify", SOURCE, *options("--cflags", "--libs"))
    check(tmp_path / "classify", tmp_path)


def test_with_pkg_config(prefix: Path, tmp_path: Path) -> None:
    """The installed library starts the engine of the installation that it came from."""
    tool = shutil.which("pkg-config")
    if tool is None:
        pytest.skip("pkg-config is not here (Debian: apt install pkg-config)")
    variables = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    assert done(tool, "--modversion", "librknnrt", **variables).strip() == "2.5.0"
    assert run(tool, "--exists", "librknnrt >= 2.6", **variables).returncode == 1
    words = shlex.split(done(tool, "--cflags", "--libs", "librknnrt", **variables))
    done(compiler(), "-o", tmp_path / "classify", SOURCE, *words)
    check(tmp_path / "classify", tmp_path, LD_LIBRARY_PATH=str(prefix / "lib"), PATH="/usr/bin:/bin")


def test_with_cmake(prefix: Path, tmp_path: Path) -> None:
    tool = shutil.which("cmake")
    if tool is None:
        pytest.skip("cmake is not here (Debian: apt install cmake)")
    compiler()
    for version, works in (("2.3", True), ("2.6", False)):
        (tmp_path / "CMakeLists.txt").write_text(CMAKE.format(source=SOURCE, version=version))
        result = run(tool, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
        assert (result.returncode == 0) is works, result.stderr
        if works:
            done(tool, "--build", tmp_path / "build")
            check(tmp_path / "build/classify", tmp_path)
        shutil.rmtree(tmp_path / "build")


def test_under_its_other_name(prefix: Path, tmp_path: Path) -> None:
    words = [f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lrknnmrt"]
    done(compiler(), "-o", tmp_path / "classify", SOURCE, *words)
    check(tmp_path / "classify", tmp_path)


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++20"])
def test_headers_compile_by_themselves(standard: str, prefix: Path, tmp_path: Path) -> None:
    """In any order, each twice, without a warning."""
    is_c = not standard.startswith("c++")
    source = tmp_path / ("program.c" if is_c else "program.cc")
    names = ("rknn_custom_op.h", "rknn_api.h", "rknn_matmul_api.h", "rknn_api.h", "rknn_custom_op.h")
    source.write_text("".join(f'#include "{name}"\n' for name in names))
    words = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{prefix}/include"]
    done(compiler("gcc" if is_c else "g++"), *words, source)


@pytest.mark.parametrize(("machine", "number"), [("aarch64", 183), ("armhf", 40)])
def test_a_library_for_another_machine(machine: str, number: int, tmp_path: Path) -> None:
    need_library(machine)
    if machine == host_machine():
        pytest.skip("this is that machine")
    done(*OPENRKNN, "library", "--machine", machine, "--install", tmp_path)
    head = (tmp_path / "lib/librknnrt.so").read_bytes()[:20]
    assert int.from_bytes(head[18:20], "little") == number
    assert not (tmp_path / "lib/openrknn-engine").exists()


def test_the_installed_engine_works_from_anywhere(prefix: Path, tmp_path: Path) -> None:
    """Not even a working folder of its own is needed, and no variable of Python's."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with own_engine() as variables:
        result = subprocess.run(
            [prefix / "lib/openrknn-engine"], cwd="/", env={**environment, **variables}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert (result.returncode, result.stderr) == (0, "")
        assert "running as process" in done(*OPENRKNN, "library", "--status", **variables)
