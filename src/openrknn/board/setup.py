"""Make the files of a virtual board from Debian's packages: kernel, modules, shell, and QEMU where it is needed.

Debian's kernel has no accelerators (DRM_ACCEL), so `drm` and what `rocket` needs are built again from Debian's source
of the same version, with Debian's headers and compiler. That happens in a folder of unpacked packages (chroot, which
asks for root or for user namespaces), whatever this system is.
"""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from openrknn.board.debian import Debian
from openrknn.board.files import KERNEL, MODULES, SHELL
from openrknn.board.qemu import find_qemu
from openrknn.errors import DeviceError

__all__ = ["set_up"]

_READY_MADE = (
    "net/9p/9pnet", "net/9p/9pnet_virtio", "fs/netfs/netfs", "fs/9p/9p", "fs/overlayfs/overlay",
    "drivers/regulator/fixed",
)  # fmt: skip
_MARK = ".openrknn-board"
_TOOLS = ("make", "bash", "dash", "coreutils", "sed", "gawk", "grep", "findutils")
_DRM, _ROCKET = "drivers/gpu/drm", "drivers/accel/rocket"
_SOURCES = (f"{_DRM}/scheduler/", "drivers/accel/drm_accel.c", f"{_ROCKET}/")
_CHANGED = {"CONFIG_DRM_ACCEL": "y", "CONFIG_DRM_ACCEL_ROCKET": "m"}
_SWITCHED_OFF = ("CONFIG_DRM_PANIC_SCREEN_QR_CODE", "CONFIG_MODULE_SIG_ALL")
"""Not needed here; the first one would take a Rust compiler."""
_NOT_MADE = "CONFIG_DEBUG_INFO_BTF_MODULES"
"""Make must not run the tool for it; the compiler has to see it, because it changes the layout of `struct module`."""
_KBUILD = """include $(src)/Makefile
obj-y :=
obj-m := drm.o drm_shmem_helper.o scheduler/
drm_shmem_helper-y := drm_gem_shmem_helper.o
"""
"""The makefile of drm would build every graphics driver; without a frame buffer the helper needs nothing but drm."""
_ENTER = 'mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
Say = Callable[[str], None]


def set_up(folder: Path, mirror: str, say: Say, *, keep: bool = False) -> None:
    """Make all files in `folder`. With `keep`, what was only needed to make them stays too."""
    _claim(folder)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    debian = Debian(work / "apt", mirror)
    say("fetching the lists of Debian's packages")
    debian.update()
    version = _kernel_version(debian)
    say(f"kernel {version}")
    debian.unpack([f"linux-binary-{version}:arm64", f"linux-modules-{version}:arm64"], work / "kernel")
    debian.unpack(["busybox-static:arm64"], work / "shell")
    _make_modules(debian, version, work, folder / MODULES, say)
    _copy_ready_made(work / "kernel/usr/lib/modules" / version, folder)
    shutil.copy(work / "shell/usr/bin/busybox", folder / SHELL)
    try:
        find_qemu(None)
    except DeviceError:
        say("QEMU")
        debian.unpack(debian.with_all_needed("qemu-system-arm"), folder / "qemu")
    say(find_qemu(folder / "qemu").version)
    if not keep:
        shutil.rmtree(work)


def _claim(folder: Path) -> None:
    """Files are written over and removed here, so the folder must be new, empty, or one of an earlier `setup`."""
    mark = folder / _MARK
    if folder.exists() and not mark.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DeviceError(f"{folder} has files that `board setup` did not make; name a new folder with --files")
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text("made by `openrknn board setup`, which writes over what is in this folder\n")


def _kernel_version(debian: Debian) -> str:
    image = next((name for name in debian.needs("linux-image-arm64:arm64") if name.startswith("linux-image-")), "")
    if not image:
        raise DeviceError("Debian's package linux-image-arm64 names no kernel")
    return image.removeprefix("linux-image-").partition(":")[0]


def _copy_ready_made(modules: Path, folder: Path) -> None:
    shutil.copy(modules / KERNEL, folder / KERNEL)
    for name in _READY_MADE:
        data = lzma.decompress((modules / f"kernel/{name}.ko.xz").read_bytes())
        (folder / MODULES / f"{name.rpartition('/')[2]}.ko").write_bytes(data)


def _make_modules(debian: Debian, version: str, work: Path, target: Path, say: Say) -> None:
    root = work / "root"
    compiler = "gcc" if debian.architecture == "arm64" else "gcc-aarch64-linux-gnu"
    common = version.removesuffix("-arm64")
    debian.unpack(debian.with_all_needed(compiler, *_TOOLS), root)
    debian.unpack([f"linux-headers-{version}:arm64", f"linux-headers-{common}-common", f"linux-kbuild-{common}"], root)
    say("the kernel's source")
    _unpack_source(debian, version, work, root / "build")
    _configure(root / f"usr/src/linux-headers-{version}/include")
    say("building rocket and what it needs (a few minutes)")
    headers = f"/usr/src/linux-headers-{version}"
    log = work / "build.log"
    make = ["make", "-C", headers, "M=/build", "KCFLAGS=-I/build/include/trace", f"-j{os.cpu_count() or 1}", "modules"]
    _in_root(root, make, log)
    target.mkdir(exist_ok=True)
    for path in (root / "build").rglob("*.ko"):
        inside = f"/{path.relative_to(root)}"
        _in_root(root, ["aarch64-linux-gnu-strip", "-g", inside], log)
        shutil.copy(path, target / path.name)


def _unpack_source(debian: Debian, version: str, work: Path, target: Path) -> None:
    """The few files of the kernel's source that the modules are made of."""
    package = "linux-source-" + ".".join(version.split(".")[:2])
    debian.unpack([package], work / "source")
    if target.exists():
        shutil.rmtree(target)
    with tarfile.open(work / f"source/usr/src/{package}.tar.xz") as archive:
        for member in archive:
            path = member.name.partition("/")[2]
            is_drm = path.startswith(f"{_DRM}/") and path.count("/") == _DRM.count("/") + 1
            if member.isfile() and (is_drm or path.startswith(_SOURCES)):
                data = archive.extractfile(member)
                assert data is not None
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(data.read())
    (target / "include/trace").mkdir(parents=True)
    (target / "Kbuild").write_text(f"obj-m += {_DRM}/ {_ROCKET}/\n")
    (target / _DRM / "Kbuild").write_text(_KBUILD)


def _configure(include: Path) -> None:
    """Debian's configuration with accelerators."""
    for name, is_c in (("config/auto.conf", False), ("generated/autoconf.h", True)):
        dropped = {*_CHANGED, *_SWITCHED_OFF, *(() if is_c else (_NOT_MADE,))}
        kept = [line for line in (include / name).read_text().splitlines() if not _names(line) & dropped]
        for option, value in _CHANGED.items():
            kept.append(f"#define {option}{'_MODULE' if value == 'm' else ''} 1" if is_c else f"{option}={value}")
        (include / name).write_text("\n".join(kept) + "\n")


def _names(line: str) -> set[str]:
    return set(line.replace("=", " ").split()[:2])


def _in_root(root: Path, command: Sequence[str], log: Path) -> None:
    """Run a program of the unpacked packages, which sees nothing else."""
    clean = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", *command]
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    enter = ["unshare", "--mount", *user, "sh", "-c", _ENTER, str(root)]
    for name, target in (("sh", "dash"), ("awk", "gawk")):
        if not (root / "usr/bin" / name).exists():
            (root / "usr/bin" / name).symlink_to(target)
    with log.open("ab") as file:
        done = subprocess.run([*enter, *clean], stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        last = "\n  ".join(log.read_text(errors="replace").splitlines()[-8:])
        raise DeviceError(f"{command[0]} failed; the end of {log}:\n  {last}")
