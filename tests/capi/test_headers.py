"""The generated files are those in native/capi, and C compilers make of them what the tables say."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from openrknn.capi.structs import NEWEST
from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.enums import InitFlag, QueryCommand
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.layouts import ARM32, LP64, STRUCTS, place
from openrknn.vendor.tables.names import ENUMS, LIMITS, SENTINELS, members
from openrknn.vendor.tables.versions import KNOWN_VERSIONS, Version
from tests.capi.building import NATIVE, cross_compiler
from tests.vendor.compiler import native_compiler
from tests.vendor.layouts_of_c import ask
from tools.capi_headers import files
from tools.capi_headers.marshalling import BY_HAND, PLAIN, QUERY_STRUCTS
from tools.capi_headers.public import api_number

HEADERS = ("rknn_api.h", "rknn_matmul_api.h", "rknn_custom_op.h")
INCLUDES = "".join(f'#include "{name}"\n' for name in HEADERS)
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]


@pytest.mark.parametrize("name", files())
def test_the_generated_files_are_up_to_date(name: str) -> None:
    assert (NATIVE / name).read_text("utf-8") == files()[name], "run: python -m tools.capi_headers native/capi"


def test_every_function_and_query_has_its_row() -> None:
    assert set(PLAIN) | set(BY_HAND) == set(FUNCTIONS)
    assert not set(PLAIN) & set(BY_HAND)
    assert set(QUERY_STRUCTS) == set(QueryCommand)
    for name, plain in PLAIN.items():
        assert len(plain.roles) == len(FUNCTIONS[name].newest.parameters)


def ask_ours(compiler: str, version: Version, folder: Path) -> dict[str, int]:
    """What the compiler says about our headers; no number of ours is in the question."""
    options = [f"-DOPENRKNN_ABI_VERSION={api_number(version)}", f"-I{NATIVE / 'include'}"]
    return dict(ask(compiler, version, folder, options, HEADERS))


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
@pytest.mark.parametrize(
    ("machine", "pointer_bytes"), [("", LP64), ("aarch64-linux-gnu", LP64), ("arm-linux-gnueabihf", ARM32)]
)
def test_layouts_equal_the_compilers(machine: str, pointer_bytes: int, version: Version, tmp_path: Path) -> None:
    """Sizes and offsets of every struct, and values of every enumeration."""
    compiler = cross_compiler(machine) if machine else native_compiler()
    answers = ask_ours(compiler, version, tmp_path)
    for name in STRUCTS:
        found = place(name, version, pointer_bytes)
        assert (name, answers[f"sizeof {name}"]) == (name, found.size_bytes)
        assert {f: answers[f"offset {name}.{f}"] for f in found.offsets} == dict(found.offsets)
    for kind, _ in ENUMS.values():
        assert {name: answers[f"value {name}"] for name, _ in members(kind)} == {n: int(m) for n, m in members(kind)}


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
def test_layouts_equal_the_header_written_by_hand(version: Version, tmp_path: Path) -> None:
    """tests/vendor/capi.h is a second opinion, without the tables."""
    assert ask_ours(native_compiler(), version, tmp_path) == ask(native_compiler(), version, tmp_path)


@pytest.mark.parametrize("word", ["cc", "c++", "clang", "clang++"])
def test_headers_compile_alone(word: str, tmp_path: Path) -> None:
    if not (compiler := shutil.which(word)):
        pytest.skip(f"no {word} (Debian: apt install clang)")
    standard = "-std=c++11" if "++" in word else "-std=c11"
    suffix = "cc" if "++" in word else "c"
    for name in HEADERS:
        source = tmp_path / f"one.{suffix}"
        source.write_text(f'#include "{name}"\n#include "{name}"\nint main(void) {{ return RKNN_SUCC; }}\n')
        words = [compiler, standard, *WARNINGS, f"-I{NATIVE / 'include'}", "-c", "-o", os.devnull, str(source)]
        result = subprocess.run(words, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_every_name_of_the_tables_is_in_the_headers(tmp_path: Path) -> None:
    """And has its value: the compiler refuses the array of a wrong length."""
    values = {name: entry.code for name, entry in CODES.items()} | dict(LIMITS) | dict(SENTINELS)
    values |= {name: int(flag) for name, flag in members(InitFlag)}
    rows = "".join(f'_Static_assert({name} == {value}, "{name}");\n' for name, value in values.items())
    taken = "".join(f"    (void (*)(void)){name},\n" for name in FUNCTIONS)
    source = tmp_path / "names.c"
    source.write_text(f"{INCLUDES}{rows}void (*const all[])(void) = {{\n{taken}}};\n")
    words = [native_compiler(), "-std=c11", "-Wall", "-Wextra", "-Wno-cast-function-type", "-Werror"]
    words += [f"-I{NATIVE / 'include'}", "-c", "-o", os.devnull, str(source)]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert len(FUNCTIONS) == 35
    assert str(NEWEST) == "2.5.0"
