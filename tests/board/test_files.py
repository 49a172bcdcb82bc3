"""What a virtual board is made of: device trees, archives, modules, QEMU; and what is said where one is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openrknn.board import qemu
from openrknn.board.conformance import CASES, KNOWN, answers_of, compare
from openrknn.board.device_tree import Node, cells, parse_tree, text
from openrknn.board.files import FOLDER_VARIABLE, BoardFiles, find_files, in_load_order
from openrknn.board.guest import Guest, archive_of
from openrknn.board.initramfs import Archive
from openrknn.board.nodes import add_nodes, bar_address
from openrknn.board.run import Board
from openrknn.board.setup import set_up
from openrknn.chips import chip_in, chip_named
from openrknn.errors import DeviceError
from tests.cli.run import run

RK3588 = chip_named("rk3588")
ELF = b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little")


def test_a_tree_comes_back_as_it_was() -> None:
    root = Node("", {"#address-cells": cells(2), "empty": b"", "odd": b"abc"})
    root.add("bus@0", compatible=text("a", "b")).add("device", reg=cells(1, 2), phandle=cells(7))
    again = parse_tree(root.to_bytes())
    assert again == root
    assert again.highest_phandle() == 7


@pytest.mark.parametrize("data", [b"", b"\xd0\x0d\xfe\xed", bytes(100)], ids=["empty", "short", "zeros"])
def test_what_is_no_tree_is_refused(data: bytes) -> None:
    with pytest.raises(DeviceError, match="no device tree"):
        parse_tree(data)


def _named(root: Node, start: str) -> list[Node]:
    return [child for child in root.children if child.name.startswith(start)]


def test_the_nodes_of_rocket_are_one_per_core() -> None:
    root = Node("")
    add_nodes(root, "rocket", RK3588, 3)
    cores, mmus = _named(root, "npu@"), _named(root, "iommu@")
    assert [core.name for core in cores] == [f"npu@{bar_address(core):x}" for core in range(3)]
    assert [core.properties["iommus"] for core in cores] == [mmu.properties["phandle"] for mmu in mmus]
    assert len({core.properties["interrupts"] for core in cores}) == 3
    assert [core.properties["interrupts"] for core in cores] == [mmu.properties["interrupts"] for mmu in mmus]


def test_programs_find_out_which_chip_it_is() -> None:
    """The vendor's library and `doctor` read it in /proc/device-tree/compatible."""
    root = Node("", {"compatible": text("linux,dummy-virt")})
    add_nodes(root, "rocket", RK3588, 1)
    assert chip_in(root.properties["compatible"].decode()) == "rk3588"
    assert root.properties["compatible"].endswith(b"\0linux,dummy-virt\0")


def test_the_nodes_of_rknpu_are_one_with_all_cores() -> None:
    root = Node("")
    add_nodes(root, "rknpu", RK3588, 3)
    (npu,), (mmu,) = _named(root, "npu@"), _named(root, "iommu@")
    assert npu.properties["interrupt-names"] == text("npu0_irq", "npu1_irq", "npu2_irq")
    assert len(mmu.properties["reg"]) == 4 * 16  # core 0 has two banks


@pytest.mark.parametrize(
    ("chip", "compatible", "lines"),
    [
        ("rk3566", "rockchip,rk3568-rknpu", ["npu_irq"]),
        ("rk3576", "rockchip,rk3576-rknpu", ["npu0_irq", "npu1_irq"]),
        ("rv1106", "rockchip,rv1106-rknpu", ["npu_irq"]),
    ],
)
def test_the_nodes_of_other_chips(chip: str, compatible: str, lines: list[str]) -> None:
    """As the vendor's driver looks for them; RV1106 has no IOMMU."""
    root, facts = Node(""), chip_named(chip)
    add_nodes(root, "rknpu", facts, facts.cores)
    (npu,) = _named(root, "npu@")
    assert npu.properties["compatible"] == text(compatible)
    assert npu.properties["interrupt-names"] == text(*lines)
    assert ("iommus" in npu.properties, len(_named(root, "iommu@"))) == ((False, 0) if chip == "rv1106" else (True, 1))
    assert root.children[0].properties["clock-frequency"] == cells(facts.clocks[-1])
    with pytest.raises(DeviceError, match="rocket does not know the NPU of"):
        add_nodes(Node(""), "rocket", facts, facts.cores)


def test_the_kernel_reads_the_archive(tmp_path: Path) -> None:
    archive = Archive()
    archive.file("bin/tool", b"#!/bin/sh\n", 0o755)
    archive.link("bin/sh", "tool")
    data = archive.to_bytes()
    assert data[:6] == b"070701"
    assert len(data) % 512 == 0
    names = [part.split(b"\0")[0][104:] for part in data.split(b"070701")[1:]]
    assert names == [b"bin", b"bin/tool", b"bin/sh", b"TRAILER!!!"]


def _module(folder: Path, name: str, needs: str) -> Path:
    path = folder / f"{name}.ko"
    path.write_bytes(b"\x7fELF\0depends=" + needs.encode() + b"\0name=x\0")
    return path


def test_modules_come_after_what_they_need(tmp_path: Path) -> None:
    known = {name: _module(tmp_path, name, needs) for name, needs in (("drm", ""), ("gpu_sched", "drm"))}
    driver = _module(tmp_path, "rocket", "gpu-sched,drm")
    assert [path.stem for path in in_load_order([driver], known)] == ["drm", "gpu_sched", "rocket"]
    with pytest.raises(DeviceError, match="no module 'gpu_sched', which rocket needs"):
        in_load_order([driver], {})
    driver.write_bytes(b"text")
    with pytest.raises(DeviceError, match="no kernel module"):
        in_load_order([driver], known)


def _files(folder: Path) -> BoardFiles:
    (folder / "modules").mkdir()
    for name in ("vmlinuz", "busybox"):
        (folder / name).write_bytes(ELF)
    _module(folder / "modules", "rocket", "")
    return find_files(folder)


def test_rknpu_needs_the_module_of_its_regulator(tmp_path: Path) -> None:
    """Without it the kernel defers the NPU: the driver loads, and no node appears."""
    board = Board("rknpu", _files(tmp_path), qemu.Qemu(("no-qemu",), "none"))
    with pytest.raises(DeviceError, match="no module 'fixed'; `openrknn board setup` makes it"):
        board.run(["/program"], [board.files.modules["rocket"]])


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="board setup"):
        find_files(tmp_path / "nowhere")
    (tmp_path / "vmlinuz").touch()
    with pytest.raises(DeviceError, match="has no busybox"):
        find_files(tmp_path)


def test_programs_of_the_guest_can_talk_to_each_other(tmp_path: Path) -> None:
    """Over 127.0.0.1: the kernel leaves its network interface switched off."""
    files = _files(tmp_path)
    assert b"\nip link set lo up\n" in archive_of(Guest([], [files.modules["rocket"]], 1), files)


def test_the_program_is_checked_before_anything_starts(tmp_path: Path) -> None:
    files = _files(tmp_path)
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF" + bytes(14) + (62).to_bytes(2, "little") + bytes(64))
    with pytest.raises(DeviceError, match="another processor"):
        archive_of(Guest([str(program)], [files.modules["rocket"]], 1), files)
    program.write_bytes(b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little") + b"/lib/ld-linux-aarch64.so.1\0")
    with pytest.raises(DeviceError, match="needs libraries"):
        archive_of(Guest([str(program)], [files.modules["rocket"]], 1), files)
    with pytest.raises(DeviceError, match="No such file"):
        archive_of(Guest([str(tmp_path / "nothing")], [], 1), files)


def test_arguments_reach_the_program_as_they_are(tmp_path: Path) -> None:
    files = _files(tmp_path)
    script = archive_of(Guest([str(files.shell), "a b", "$HOME", "it's"], [files.modules["rocket"]], 2), files)
    assert b"""/program 'a b' '$HOME' 'it'"'"'s' <""" in script
    assert b"insmod /modules/rocket.ko" in script
    assert b"0000:00:02.0/config" in script


def _program(path: Path, lines: str) -> Path:
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def test_an_old_qemu_is_said_to_be_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "qemu-system-aarch64", 'echo "QEMU emulator version 7.2.0"')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(qemu.QEMU_VARIABLE, raising=False)
    with pytest.raises(DeviceError, match=r"version 7\.2\.0; a virtual board needs QEMU 10\.1"):
        qemu.find_qemu(None)
    new = _program(tmp_path / "new", 'echo "QEMU emulator version 11.1.0"; echo \'name "vfio-user-pci"\'')
    monkeypatch.setenv(qemu.QEMU_VARIABLE, str(new))
    assert qemu.find_qemu(None).version == "QEMU emulator version 11.1.0"


def test_no_qemu_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(qemu.QEMU_VARIABLE, raising=False)
    with pytest.raises(DeviceError, match="no qemu-system-aarch64 in PATH"):
        qemu.find_qemu(tmp_path)
    monkeypatch.setenv(qemu.QEMU_VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(DeviceError, match="does not start"):
        qemu.find_qemu(None)


def test_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    for words, wanted in (
        (["run"], "name the program"),
        (["fly"], "say what to do"),
        (["run", "--kernel", "rknpu", "--", "x"], "--module rknpu.ko"),
        (["run", "--cores", "4", "--", "x"], "1 to 3"),
        (["run", "--chip", "rk3566", "--", "x"], "rocket knows RK3588 only"),
        (["run", "--chip", "rk9999", "--", "x"], "--chip: "),
        (["run", "--kernel", "rknpu", "--module", "x", "--chip", "rk3566", "--cores", "2", "--", "x"], "1 to 1"),
        (["test", "--kernel", "rknpu", "--module", "x", "--chip", "rk3566"], "commands for RK3588"),
        (["run", "--root", str(tmp_path / "x"), "--", "x"], "no such folder"),
        (["run", "--quiet", "--", "x"], "board setup"),
        (["run", "stray"], "unrecognized arguments: stray"),
        (["run", "--timeout", "0", "--", "x"], "seconds above 0"),
        (["run", "--memory", "64", "--", "x"], "256 MB at least"),
    ):
        done = run(capsys, "board", *words)
        assert done.code
        assert wanted in done.err


def test_answers_are_compared_case_by_case() -> None:
    first = answers_of(b"case a\r\nopen: 0\r\ncase b\r\nioctl: 0\r\ncase end\r\ndone\r\n")
    known = next(iter(KNOWN["rocket"]))
    assert first == {"a": ["open: 0"], "b": ["ioctl: 0"]}
    found = compare({**first, known: ["x"]}, {"a": ["open: 0"], "b": ["ioctl: errno 5"], known: ["y"]})
    assert ([one.case for one in found.differences], found.known, found.cases) == (["b"], [known], 3)
    with pytest.raises(DeviceError, match="ended in 'b'"):
        answers_of(b"case a\ncase b\nopen: 0\n")


@pytest.mark.parametrize("driver", list(CASES))
def test_the_cases_are_many_and_have_names_of_their_own(driver: str) -> None:
    names = [case.name for case in CASES[driver]()]
    assert len(names) >= 300
    assert len(set(names)) == len(names)
    assert set(KNOWN[driver]) <= set(names)


def test_setup_touches_no_folder_of_others(tmp_path: Path) -> None:
    """It removes the folder `work` at its end."""
    (tmp_path / "work").mkdir()
    with pytest.raises(DeviceError, match="did not make; name a new folder with --files"):
        set_up(tmp_path, "http://mirror.invalid/debian", lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
