"""The matrix of clean roots: which cases, how they are judged, and the table. No root is made here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from packing.errors import PackingError
from shipping import cases, emulation, proving, roots, source, table
from shipping.roots import UBUNTU_MIRROR, Ran

ROOT = Path(__file__).parents[2]
NAMES = (
    "openrknn-1.0-py3-none-any.whl", "openrknn-1.0-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
    "openrknn-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "openrknn-1.0.tar.gz",
    "openrknn_lite-1.0-py3-none-any.whl", "openrknn_toolkit-1.0-py3-none-any.whl", "openrknn_1.0+deb12_arm64.deb",
    "openrknn_1.0+deb13_amd64.deb", "openrknn-librknnrt_1.0+deb13_amd64.deb", "openrknn-1.0-image.tar", "notes.md",
)  # fmt: skip
DEMO = {"parts": [{"lines": ["coffee: espresso", "cat: tabby", "12 lines of text", "dialled 1, heard 0800#15774*"]}]}

TIMES = "Python 3.11.2\nINSTALL 10.5 20.5\nRUN 1 3.5\n"


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_bytes(b"12345")
    return tmp_path


def test_each_kind_of_file_is_known() -> None:
    kinds = {name: cases.kind_of(name) for name in NAMES}
    assert list(kinds.values()) == [
        ("pure", ""), ("native", "arm64"), ("native", "amd64"), ("sdist", ""), ("lite", ""), ("toolkit", ""),
        ("deb12", "arm64"), ("deb13", "amd64"), None, ("image", ""), None,
    ]  # fmt: skip


def test_the_matrix_has_every_package_in_its_roots(dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UBUNTU_MIRROR, "https://archive.example/ubuntu")
    found = cases.cases(sorted(dist.iterdir()), [], ["arm64", "amd64"])
    rows = {(case.kind, case.root.name, case.root.architecture) for case in found}
    wheels = {(name, architecture) for kind, name, architecture in rows if kind == "native"}
    assert {("debian-12", "arm64"), ("debian-13", "amd64"), ("ubuntu-22.04", "amd64")} <= wheels
    assert {("sdist", "debian-12, gcc", "arm64"), ("sdist", "debian-12", "arm64")} <= rows
    assert {("deb12", "debian-12", "arm64"), ("deb13", "debian-13", "amd64")} <= rows
    assert {("image", "its own", "arm64"), ("image", "its own", "amd64")} <= rows
    assert not any(kind == "pure" and architecture == "amd64" for kind, _, architecture in rows)
    alone = cases.cases(sorted(dist.iterdir()), [], ["amd64"])
    assert {case.root.architecture for case in alone} == {"amd64"}


def test_a_python_of_this_machine_is_named_by_its_version_and_shares_the_folder_of_its_root() -> None:
    plain = roots.debian(12, "arm64")
    root = roots.with_python(plain, Path(sys.executable))
    assert root.name == f"debian-12, python {sys.version_info[0]}.{sys.version_info[1]}"
    assert root.folder == plain.folder
    assert root.python == Path(sys.base_prefix)
    with pytest.raises(PackingError, match="no Python that runs"):
        roots.with_python(plain, Path("/nonexistent/python"))


@pytest.mark.parametrize(
    ("ran", "passed", "result"),
    [
        (Ran(0, f"{TIMES}KERNELS native\nDEMO {json.dumps(DEMO)}\n", ""), True, "4 of 4 right, native"),
        (Ran(0, f"{TIMES}KERNELS NumPy\nDEMO {json.dumps(DEMO)}\n", ""), False, "NumPy instead of native"),
        (Ran(0, 'DEMO {"parts": [{"lines": ["cat: tabby"]}]}\n', ""), False, "not recognised: espresso"),
        (Ran(0, "", ""), False, "nothing that can be read"),
        (Ran(1, "", "a\nE: no such package\n\n"), False, "E: no such package"),
    ],
)
def test_a_row_says_what_the_demo_recognised_or_why_not(dist: Path, ran: Ran, passed: bool, result: str) -> None:
    (case,) = (case for case in cases.cases([dist / NAMES[1]], [], ["arm64"]) if case.root.name == "debian-12")
    row = proving.judge(case, ran)
    assert row.passed is passed
    assert result in row.result
    assert row.size == 5
    if passed:
        assert (row.python, row.install_seconds, row.run_seconds) == ("3.11.2", 10.0, 2.5)
    assert not (passed and row.details)


def test_the_table_is_markdown_json_and_text(tmp_path: Path) -> None:
    rows = [
        table.Row("a.whl", "debian-12", "arm64", "3.11.2", "4 of 4 right", True, 12.4, 3.0, 2_600_000),
        table.Row("b.deb", "debian-13", "amd64", "", "a | b", False, 0.0, 0.0, 31_000_000, emulated=True),
    ]
    table.write(rows, tmp_path)
    lines = (tmp_path / "proved.md").read_text().splitlines()
    assert lines[2] == "| a.whl | debian-12 | arm64 | 3.11.2 | 4 of 4 right | 12 s | 3 s | 2.6 MB |"
    assert lines[3] == "| b.deb | debian-13 | amd64 (emulated) |  | FAILED: a \\| b |  |  | 31.0 MB |"
    assert json.loads((tmp_path / "proved.json").read_text())[1]["emulated"] is True
    assert len({line.index("debian") for line in table.as_text(rows).splitlines()[1:]}) == 1


def test_the_command_lists_and_refuses(dist: Path, tmp_path: Path) -> None:
    def prove(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "packaging/prove"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    listed = prove(str(dist), "--list", "--only", "deb", "--no-emulation").stdout.splitlines()
    assert all(".deb" in line for line in listed)
    assert len(listed) == 1  # one of the two packages is for this machine's architecture
    done = prove(str(tmp_path / "none"))
    assert done.returncode == 1
    assert "packaging/build" in done.stderr


def test_a_line_for_the_kernels_table_of_foreign_programs() -> None:
    line = emulation.registration("amd64", "/usr/bin/qemu").decode()
    _, name, kind, offset, magic, mask, emulator, flags = line.split(":")
    assert (name, kind, offset, emulator, flags) == ("openrknn-x86_64", "M", "", "/usr/bin/qemu", "F")
    assert len(magic) == len(mask) == 4 * 20
    # A head as this machine's own Python has it, but for the processor, is what it looks for.
    head = bytearray(Path(sys.executable).read_bytes()[:20])
    head[18:20] = b"\x3e\x00"
    wanted, bits = (bytes.fromhex(part.replace("\\x", "")) for part in (magic, mask))
    assert all(a & bit == b & bit for a, b, bit in zip(head, wanted, bits, strict=True))


def test_versions_in_debians_words_sort_as_the_releases_do() -> None:
    assert source.debian_version("0.1.0.dev0", 12) == "0.1.0~dev0+deb12"
    assert source.debian_version("1.0rc2", 13) == "1.0~rc2+deb13"
    assert source.debian_version("1.2.3", 13) == "1.2.3+deb13"


def test_folders_with_spaces_cannot_be_bound() -> None:
    with pytest.raises(PackingError, match="without spaces"):
        roots._pairs({"/a b": "x"})
