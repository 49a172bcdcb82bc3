import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from openrknn.compute import native
from openrknn.compute.native import CpuFeature, Kernels
from openrknn.errors import UnsupportedError
from openrknn.nativelib import declared, structures
from openrknn.nativelib.structures import ChainFlags

HEADER = Path(__file__).parents[2] / "native" / "openrknn.h"
COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(native.ENVIRONMENT, raising=False)


def build(folder: Path, source: str) -> Path:
    """A library of our name, made from `source`."""
    assert COMPILER is not None
    path = folder / "_native" / native.LIBRARY_NAME
    path.parent.mkdir(parents=True)
    command = [COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


@needs_compiler
def test_a_machine_with_a_compiler_has_the_library() -> None:
    # An install falls back to NumPy when the build fails. This test is what notices a broken build.
    assert isinstance(native.load(), ctypes.CDLL)


def test_the_library_is_loaded_once() -> None:
    assert native.load() is native.load()


def test_numpy_switches_the_library_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "numpy")
    assert native.load() is None
    assert native.cpu_features() == CpuFeature(0)


def test_a_misspelt_choice_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.ENVIRONMENT, "nunpy")
    with pytest.raises(ValueError, match="OPENRKNN_KERNELS='nunpy' is not known; use auto, numpy, tiles"):
        native.load()


def test_no_library_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert native.find([str(tmp_path)]) is None
    monkeypatch.setattr("openrknn.__path__", [str(tmp_path)])
    assert native.load() is None
    assert native.cpu_features() == CpuFeature(0)


@needs_compiler
def test_the_second_folder_is_searched_too(tmp_path: Path) -> None:
    path = build(tmp_path / "b", "")
    assert native.find([str(tmp_path / "a"), str(tmp_path / "b")]) == path


@needs_compiler
def test_an_old_library_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build(tmp_path, "unsigned openrknn_abi_version(void) { return 999; }")
    monkeypatch.setattr("openrknn.__path__", [str(tmp_path)])
    with pytest.raises(UnsupportedError, match=r"has ABI 999, this package needs ABI \d+; install"):
        native.load()


@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_a_broken_library_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "_native" / native.LIBRARY_NAME
    path.parent.mkdir()
    path.write_bytes(content)
    monkeypatch.setattr("openrknn.__path__", [str(tmp_path)])
    with pytest.raises(UnsupportedError, match="cannot load the native library"):
        native.load()


def test_header_and_python_have_the_same_numbers() -> None:
    header = HEADER.read_text()
    bits = {name: 1 << int(shift) for name, shift in re.findall(r"OPENRKNN_CPU_(\w+) = 1 << (\d+)", header)}
    assert bits == {feature.name: feature.value for feature in CpuFeature}
    flags = {name: 1 << int(shift) for name, shift in re.findall(r"OPENRKNN_CHAIN(?:_(\w+))? = 1 << (\d+)", header)}
    assert flags == {"" if flag is ChainFlags.CHAIN else flag.name: flag.value for flag in ChainFlags}
    sets = {name: int(number) for name, number in re.findall(r"OPENRKNN_KERNELS_(\w+) = (\d+)", header)}
    assert sets == {kernels.name: kernels.value for kernels in Kernels} | {"COUNT": len(Kernels)}
    version = re.search(r"#define OPENRKNN_ABI_VERSION (\d+)", header)
    assert version
    assert int(version[1]) == native.ABI_VERSION


def compiles(folder: Path, text: str) -> bool:
    assert COMPILER is not None
    (folder / "structures.h").write_text(text)
    command = [COMPILER, "-fsyntax-only", "-x", "c", str(folder / "structures.h")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_the_header_is_what_the_declarations_make() -> None:
    written = HEADER.with_name("structures.h").read_text()
    assert written == declared.header(), "run: python -m openrknn.nativelib.structures > native/structures.h"


@needs_compiler
@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the places of fields are those of 8-byte pointers")
def test_the_compiler_checks_every_field(tmp_path: Path) -> None:
    header = declared.header()
    assert compiles(tmp_path, header)
    checked = set(re.findall(r"offsetof\((\w+), (\w+)\)", header))
    kinds: list[Any] = [kind for kind in vars(structures).values() if hasattr(kind, "C_NAME")]
    assert checked == {(kind.C_NAME, name) for kind in kinds for name, *_ in kind._fields_}
    assert not compiles(tmp_path, header.replace("int64_t cells;", "int32_t cells;"))
    assert not compiles(tmp_path, header.replace("lower, below, upper;", "below, lower, upper;"))


@pytest.mark.parametrize("text", ["int32_t a", "int a;", "int32_t a[x];", "int32_t a,b;"])
def test_what_is_no_declaration_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        declared.parsed(text)


# How /proc/cpuinfo spells our names; what a kernel needs beside its own instructions is part of its feature.
CPUINFO = {
    "x86_64": {
        CpuFeature.AVX2: {"avx2", "fma"},
        CpuFeature.F16C: {"f16c"},
        CpuFeature.AVX512VNNI: {"avx512_vnni", "avx512f", "avx512dq", "avx512bw", "avx512vl"},
        CpuFeature.AVXVNNI: {"avx_vnni"},
        CpuFeature.AMXINT8: {"amx_int8", "amx_tile"},
    },
    "aarch64": {
        CpuFeature.NEON: {"asimd"},
        CpuFeature.DOTPROD: {"asimddp"},
        CpuFeature.I8MM: {"i8mm"},
    },
}


@pytest.mark.skipif(native.find() is None, reason="installed without the native library")
@pytest.mark.skipif(platform.machine() not in CPUINFO, reason="no table for this processor")
def test_the_probe_agrees_with_linux() -> None:
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    assert line
    flags = set(line[1].split())
    expected = CpuFeature(0)
    for feature, names in CPUINFO[platform.machine()].items():
        if names <= flags:
            expected |= feature
    assert native.cpu_features() == expected


@pytest.mark.skipif(native.find() is None, reason="installed without the native library")
def test_a_set_of_kernels_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.choose() is native.available()[-1]
    monkeypatch.setenv(native.ENVIRONMENT, "scalar")
    assert native.choose() is Kernels.SCALAR
    missing = next(kernels for kernels in Kernels if kernels not in native.available())
    monkeypatch.setenv(native.ENVIRONMENT, missing.name.lower())
    with pytest.raises(UnsupportedError, match="this processor or library has only tiles, scalar"):
        native.choose()


@pytest.mark.skipif(native.find() is None, reason="installed without the native library")
def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = native.threads()
    try:
        native.set_threads(3)
        assert native.threads() == 3
        monkeypatch.setenv(native.THREADS_ENVIRONMENT, "5")
        native.set_threads(None)
        assert native.threads() == 5
        monkeypatch.setenv(native.THREADS_ENVIRONMENT, "many")
        with pytest.raises(ValueError, match="OPENRKNN_THREADS='many' is not a number of threads"):
            native.set_threads(None)
        with pytest.raises(ValueError, match="at least 1"):
            native.set_threads(0)
    finally:
        native.set_threads(before)
