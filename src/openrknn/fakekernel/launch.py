"""Starts a program so that it sees an emulated device: environment, preload library, and qemu where it is needed."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.fakekernel.preload import EMULATE, LIBRARIES, host_machine, library_for
from openrknn.fakekernel.protocol import ENVIRONMENT, LLM_NAME, OLD_ENVIRONMENT, OPEN_ENVIRONMENT, OPEN_NAMES

__all__ = ["Command", "emulated_folder", "find_vendor_library", "machine_of", "prepare", "program_of"]

_ELF = struct.Struct("<4sBB10xHH")
_MACHINES = {(2, 62): "x86_64", (2, 183): "aarch64", (1, 40): "armhf"}
"""By the ELF class and machine."""
_TRIPLETS = {"armhf": "arm-linux-gnueabihf"}
_EMULATORS = {"armhf": "arm"}
_ARMHF_LOADER = "lib/ld-linux-armhf.so.3"
_LINUX32, _ASK = 0x8, 0xFFFFFFFF
"""Of personality(2)."""
_SHEBANG_BYTES = 256


@dataclass(frozen=True)
class Command:
    """What to execute."""

    path: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def prepare(
    words: Sequence[str],
    device: Mapping[str, str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    libraries: Sequence[str] = (EMULATE,),
    instead: Path | None = None,
) -> Command:
    """The command that runs `words` on a device. `device` is its environment, `folder` the place where it lives.

    `libraries` are preloaded, the first one nearest to the program. `instead` is a folder with a library under each of
    `OPEN_NAMES`, which takes the place of every other that the program would load.
    """
    program = program_of(words)
    machine = machine_of(Path(program))
    names = dict(os.environ if environment is None else environment)
    inherited = names.pop("LD_PRELOAD", "")
    if machine != host_machine():  # ours, of this machine, is there if this process is on a device itself
        inherited = _joined(*(path for path in inherited.split(":") if Path(path).name not in LIBRARIES.values()))
    ours = [str(library_for(machine, name)) for name in libraries]
    if instead is not None:
        # Preloaded, because an old-style run path (DT_RPATH) of a program comes before LD_LIBRARY_PATH.
        ours += [str(instead / name) for name in (OPEN_NAMES[0], LLM_NAME) if (instead / name).exists()]
        device = {**device, OPEN_ENVIRONMENT: str(instead)}
    extra = {**device, "LD_PRELOAD": _joined(*ours, *(path for path in inherited.split(":") if path not in ours))}
    if (folder / "lib").is_dir():
        # Last: a program's own libraries win.
        extra["LD_LIBRARY_PATH"] = _joined(names.get("LD_LIBRARY_PATH"), str(folder / "lib"))
    if instead is not None:
        extra["LD_LIBRARY_PATH"] = _joined(str(instead), names.get("LD_LIBRARY_PATH"))
    if machine == host_machine():
        return Command(program, tuple(words), {**names, **extra})
    if (loader := _loader(machine)) is not None:
        return _loaded(loader, program, words, {**names, **extra})
    emulator = _emulator(machine, names.get("QEMU_LD_PREFIX", ""))
    options = [word for name, value in extra.items() for word in ("-E", f"{name}={value}")]
    return Command(emulator[0], (*emulator, *options, "-0", words[0], program, *words[1:]), {**names, **device})


def _loader(machine: str) -> Path | None:
    """The loader of 32-bit Arm programs on a 64-bit Arm kernel that runs them; None where an emulator has to."""
    if (host_machine(), machine) != ("aarch64", "armhf") or not _takes_narrow_programs():
        return None
    places = (Path("/"), Path("/usr") / _TRIPLETS[machine])
    return next((place / _ARMHF_LOADER for place in places if (place / _ARMHF_LOADER).exists()), None)


def _takes_narrow_programs() -> bool:
    """Whether the kernel and the processor run 32-bit programs: only then it lets a process say that it is one."""
    personality = ctypes.CDLL(None).personality
    before = personality(_ASK)
    if before < 0 or personality(before & ~0xFF | _LINUX32) < 0:
        return False
    personality(before)
    return True


def _loaded(loader: Path, program: str, words: Sequence[str], environment: dict[str, str]) -> Command:
    if loader == Path("/") / _ARMHF_LOADER:  # where programs name it
        return Command(program, tuple(words), environment)
    libraries = _joined(environment.get("LD_LIBRARY_PATH"), str(loader.parent))
    arguments = (str(loader), "--argv0", words[0], program, *words[1:])
    return Command(str(loader), arguments, {**environment, "LD_LIBRARY_PATH": libraries})


def _joined(*paths: str | None) -> str:
    return ":".join(path for path in paths if path)


def program_of(words: Sequence[str]) -> str:
    """The file that is executed; FileNotFoundError if there is none."""
    program = shutil.which(words[0])
    if program is None:
        raise FileNotFoundError(2, "no such program", words[0])
    return program


def machine_of(program: Path) -> str:
    """The machine that a program is for; a script is for the machine of its interpreter."""
    with program.open("rb") as file:
        head = file.read(_SHEBANG_BYTES)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].decode(errors="replace").split()
        interpreter = words[1] if words and words[0].endswith("/env") and len(words) > 1 else (words or [""])[0]
        found = shutil.which(interpreter)
        return host_machine() if found is None or Path(found) == program else machine_of(Path(found))
    if len(head) < _ELF.size or head[:4] != b"\x7fELF":
        return host_machine()
    _, width, order, _, machine = _ELF.unpack_from(head)
    found = _MACHINES.get((width, machine)) if order == 1 else None
    if found is None:
        bits = {1: 32, 2: 64}.get(width, width)
        kind = "a little-endian" if order == 1 else "a big-endian"
        raise UnsupportedError(
            f"{program}: {kind} {bits}-bit program for ELF machine {machine}; an emulated device can run programs "
            "for x86-64, AArch64 and 32-bit Arm"
        )
    return found


def _emulator(machine: str, prefix: str) -> list[str]:
    """qemu, with the place of the machine's libraries unless the environment names it (`prefix`)."""
    name = f"qemu-{_EMULATORS.get(machine, machine)}"
    found = shutil.which(name) or shutil.which(f"{name}-static")
    if found is None:
        raise UnsupportedError(
            f"this is a program for {machine}, and {name} is not here (Debian: apt install qemu-user)"
        )
    root = Path("/usr") / _TRIPLETS.get(machine, f"{machine}-linux-gnu")
    if prefix or not root.is_dir():
        return [found]
    return [found, "-L", str(root)]


def emulated_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder of the emulated device that a process is on; None where it is on none."""
    names = os.environ if environment is None else environment
    old = names.get(OLD_ENVIRONMENT, "")
    found = names.get(ENVIRONMENT) or (old if "/" in old else "")
    return Path(found) if found and (Path(found) / "paths").is_file() else None


def find_vendor_library() -> Path | None:
    """librknnrt.so of the package `rknpu`, if that is installed; never imported, because that would load it here."""
    spec = importlib.util.find_spec("rknpu")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent.parent / "rknpu.libs").glob("librknnrt*.so*"))
    return found[0] if found else None
