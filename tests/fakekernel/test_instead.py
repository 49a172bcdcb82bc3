"""A library of our choice in the place of the one that a program would load: dlopen of any path, links, run paths."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from openrknn.errors import UnsupportedError
from openrknn.fakekernel.launch import prepare
from openrknn.fakekernel.links import make_links
from openrknn.fakekernel.preload import library_for
from openrknn.fakekernel.protocol import ENVIRONMENT, OPEN_NAMES
from tests.fakekernel.test_preload import MACHINES, compile_c

LIBRARY = 'const char *who(void) { return "%s"; }\n'
OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
    for (int at = 1; at < count; at++) {
        void *library = dlopen(names[at], RTLD_NOW | RTLD_LOCAL);
        const char *(*who)(void) = library ? (const char *(*)(void))dlsym(library, "who") : NULL;
        puts(who ? who() : "nothing");
    }
    return 0;
}
"""
LINKED = """
#include <stdio.h>
const char *who(void);
int main(void) { return puts(who()) < 0; }
"""


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    try:
        library_for(request.param)
    except UnsupportedError as error:
        pytest.skip(str(error))
    return str(request.param)


def build(machine: str, text: str, target: Path, *options: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    source = target.with_suffix(".c")
    source.write_text(text)
    return compile_c(machine, source, target, *options)


def library(machine: str, who: str, folder: Path) -> Path:
    for name in OPEN_NAMES:
        build(machine, LIBRARY % who, folder / name, "-shared", "-fPIC", f"-Wl,-soname,{name}")
    return folder


def run(folder: Path, ours: Path | None, *words: object) -> list[str]:
    try:
        command = prepare([str(word) for word in words], {ENVIRONMENT: str(folder)}, folder, instead=ours)
    except UnsupportedError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        command.arguments, executable=command.path, env=command.environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_dlopen_of_any_path(machine: str, tmp_path: Path) -> None:
    ours, theirs = library(machine, "ours", tmp_path / "ours"), library(machine, "theirs", tmp_path / "theirs")
    make_links(tmp_path, {"/usr/lib/librknnrt.so": ours / "librknnrt.so"})
    program = build(machine, OPENS, tmp_path / "opens")
    names = (theirs / "librknnrt.so", theirs / "librknnmrt.so", "librknnrt.so", "/usr/lib/librknnrt.so", "/no/other.so")
    assert run(tmp_path, ours, program, *names) == ["ours", "ours", "ours", "ours", "nothing"]
    assert run(tmp_path, None, program, *names[:2]) == ["theirs", "theirs"]


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_programs_that_are_linked_with_a_run_path(machine: str, tags: str, tmp_path: Path) -> None:
    ours, theirs = library(machine, "ours", tmp_path / "ours"), library(machine, "theirs", tmp_path / "theirs")
    make_links(tmp_path, {})
    source = tmp_path / "linked.c"
    source.write_text(LINKED)
    # -l comes behind the source, as the linker wants it
    program = compile_c(
        machine, source, tmp_path / "linked", "-Wl,--no-as-needed", f"-L{theirs}", f"-Wl,{tags},-rpath,{theirs}",
        "-lrknnrt",
    )  # fmt: skip
    assert run(tmp_path, None, program) == ["theirs"]
    assert run(tmp_path, ours, program) == ["ours"]


def test_links_are_files_like_others(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("text\n")
    make_links(tmp_path, {"/usr/lib/librknnrt.so": tmp_path / "target"})
    assert run(tmp_path, None, "cat", "/usr/lib/librknnrt.so") == ["text"]
