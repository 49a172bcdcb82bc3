"""The wheel, with and without a C compiler. Needs no network: the build tools are in the `test` extra."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1])"
LIBRARY = "openrknn/_native/libopenrknn.so"
OPEN_LIBRARY = (
    "openrknn/_native/librknnrt.so", "openrknn/_native/capi/include/rknn_api.h", "openrknn/_native/capi/exports.map",
)  # fmt: skip
"""For C programs: what is loaded, what is compiled with, what a library for another machine is made of."""


def build_wheel(tmp_path: Path, environment: dict[str, str]) -> zipfile.ZipFile:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for name in ("native", "src", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-c", BUILD, str(tmp_path)]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    return zipfile.ZipFile(wheel)


def tag(wheel: zipfile.ZipFile) -> str:
    assert wheel.filename
    return Path(wheel.filename).stem.split("-", 2)[2]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_wheel_has_the_native_library_and_serves_every_python(tmp_path: Path) -> None:
    # What is in it does not depend on how hard the compiler tries.
    with build_wheel(tmp_path, {**os.environ, "SKBUILD_CMAKE_DEFINE": "OPENRKNN_LEVEL=-O1"}) as wheel:
        assert LIBRARY in wheel.namelist()
        assert set(OPEN_LIBRARY) <= set(wheel.namelist())
        assert "openrknn/py.typed" in wheel.namelist()
        assert tag(wheel).startswith("py3-none-linux_")


def test_without_a_compiler_the_wheel_is_plain_python(tmp_path: Path) -> None:
    with build_wheel(tmp_path, {**os.environ, "CC": "/bin/false"}) as wheel:
        assert LIBRARY not in wheel.namelist()
        assert not any(name.endswith(("librknnrt.so", "rknn_api.h")) for name in wheel.namelist())
        assert "openrknn/compute/native.py" in wheel.namelist()
        assert tag(wheel) == "py3-none-any"


def test_a_clone_puts_only_itself_on_the_path() -> None:
    """A folder beside the clone, called `torch` or `ray`, must not pass for the package of that name."""
    program = "import sys; print(*sys.path, sep='\\n')"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/").stdout
    assert str(ROOT.parent) not in found.splitlines()
