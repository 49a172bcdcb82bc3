"""The vendor's runtime as an independent witness: what does it do with a model, on a device that computes nothing?

    witness = Witness.find()
    testimony = witness.run("model.rknn", inputs=[Input(pixels, "uint8", "nhwc")])
    testimony.code("rknn_init")                     # 0
    testimony.submits[0].buffer("weight").data      # the bytes the NPU would see: weights, commands, tasks
    testimony.allocation("weight").address          # where the NPU would see them

The runtime (librknnrt 1.5.2, aarch64, proprietary) is not part of this repository; `tools/setup-witness` fetches it.
It runs in a process of its own, below `driver.c` and above `device.c`, and on other machines under qemu's user mode
emulation. Only its inputs, outputs and requests to the kernel are looked at.

How buffers are told apart: at log level 3 the runtime itself prints a name for each buffer that it allocates. Level 3
is the highest that does not change what it does (from 4 on it submits each operator alone, at 5 it writes dumps and
starts shell commands). Memory that the driver made for zero copy is called "external" there; the driver reports the
addresses, and so it gets the tensor's name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.witness.testimony import LAYOUTS, TYPES, Input, Testimony, WitnessMissingError, read_testimony

HERE = Path(__file__).resolve().parent
LOG_LEVEL = 3
HARDWARE_VERSIONS = {"rk3588": 0x46495245, "rk3566": 0, "rk3568": 0}
"""What the kernel driver of each chip answers; runtime 1.5.2 takes models of these chips only."""


@dataclass(frozen=True)
class Witness:
    """The runtime, the two helpers, and what is needed to start them here."""

    library: Path
    driver: Path
    device: Path
    emulator: tuple[str, ...] = ()

    @classmethod
    def find(cls, cache: Path | None = None) -> Witness:
        """Find the vendor's library and compile the helpers; `WitnessMissingError` says what is not there."""
        cache = cache or cache_folder()
        if platform.system() != "Linux":
            raise WitnessMissingError(f"the vendor's runtime needs Linux, this is {platform.system()}")
        library = find_library(cache)
        emulator = _find_emulator()
        driver, device = _compile_helpers(cache)
        return cls(library, driver, device, emulator)

    def run(
        self,
        model: Path | str | bytes,
        inputs: Sequence[Input] = (),
        *,
        chip: str = "rk3588",
        core_mask: int | None = None,
        batch_cores: int | None = None,
        shapes: Sequence[Sequence[int]] = (),
        init_flags: int = 0,
        want_float: bool = False,
        zero_copy: bool = False,
        run: bool = True,
        dumps: bool = True,
        timeout: float = 60,
    ) -> Testimony:
        """Load a model and run it once. Without inputs all inputs are zeros of the model's own type.

        `shapes` (dynamic models) holds one shape per input, in the layout that the model states. `run=False` stops
        after `rknn_init` and the queries. A hang raises `TimeoutError`; a crash is part of the testimony.
        """
        with tempfile.TemporaryDirectory(prefix="openrknn-witness-") as name:
            folder = Path(name)
            for sub in ("work", "dumps", "outputs"):  # work: the runtime may write files where it is started
                (folder / sub).mkdir()
            options = _numbers({"--core-mask": core_mask, "--batch-cores": batch_cores, "--flags": init_flags})
            options += [word for shape in shapes for word in ("--shape", ",".join(map(str, shape)))]
            options += _switches({"--float": want_float, "--zero-copy": zero_copy, "--no-run": not run})
            options += _write_inputs(folder, inputs)
            options += ["--outputs", str(folder / "outputs")]
            words = [str(self.library), str(_model_path(folder, model)), str(folder / "report"), *options]
            command = self.command(self.driver, words)
            started = time.monotonic()
            process = _execute(command, folder, chip, dumps, timeout)
            return read_testimony(folder, process, time.monotonic() - started)

    def command(self, helper: Path, arguments: Sequence[str]) -> list[str]:
        """What runs a compiled helper on the device."""
        program = [str(helper), *arguments]
        if self.emulator:
            return [*self.emulator, "-E", f"LD_PRELOAD={self.device}", *program]
        return ["env", f"LD_PRELOAD={self.device}", *program]


# ----------------------------------------------------------------------------------------------------------------------
# Finding and compiling


def cache_folder() -> Path:
    """Where `tools/setup-witness` unpacks the library, and where the compiled helpers are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "openrknn-witness"


def find_library(cache: Path) -> Path:
    """The file named by OPENRKNN_WITNESS_LIBRARY, or of the package `rknpu`, or below the cache folder."""
    if named := os.environ.get("OPENRKNN_WITNESS_LIBRARY"):
        if not Path(named).is_file():
            raise WitnessMissingError(f"OPENRKNN_WITNESS_LIBRARY is {named}, which is not a file")
        return Path(named).resolve()
    for folder in (_package_folder(), cache):
        if folder and (found := sorted(folder.rglob("librknnrt*.so*"))):
            return found[0]
    raise WitnessMissingError("the vendor's runtime (librknnrt 1.5.2) is not here; run tools/setup-witness")


def _package_folder() -> Path | None:
    spec = importlib.util.find_spec("rknpu")  # never imported: it would load the library into this process
    return Path(spec.origin).parent.parent / "rknpu.libs" if spec and spec.origin else None


def _is_native() -> bool:
    return platform.machine() in ("aarch64", "arm64")


def _find_emulator() -> tuple[str, ...]:
    if _is_native():
        return ()
    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if not qemu:
        raise WitnessMissingError("qemu-aarch64 is not here (Debian: apt install qemu-user)")
    root = Path(os.environ.get("OPENRKNN_WITNESS_SYSROOT", "/usr/aarch64-linux-gnu"))
    if not (root / "lib" / "libstdc++.so.6").exists():
        raise WitnessMissingError(f"no libstdc++.so.6 in {root}/lib (Debian: apt install libstdc++6-arm64-cross)")
    return (qemu, "-L", str(root))


def find_compiler() -> str:
    name = "gcc" if _is_native() else "aarch64-linux-gnu-gcc"
    path = shutil.which(name)
    if not path:
        package = "gcc" if _is_native() else "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
        raise WitnessMissingError(f"{name} is not here (Debian: apt install {package})")
    return path


def find_cross_compiler(machine: str) -> str:
    """The compiler for programs of a machine that is not this one."""
    triplet = {"armhf": "arm-linux-gnueabihf"}.get(machine, f"{machine}-linux-gnu")
    path = shutil.which(f"{triplet}-gcc")
    if not path:
        packages = f"gcc-{triplet} libc6-dev-{machine}-cross"
        raise WitnessMissingError(f"{triplet}-gcc is not here (Debian: apt install {packages})")
    return path


def _compile_helpers(cache: Path) -> tuple[Path, Path]:
    compiler = find_compiler()
    return (
        compile_helper(compiler, HERE / "driver.c", cache, "driver", ()),
        compile_helper(compiler, HERE / "device.c", cache, "device.so", ("-shared", "-fPIC")),
    )


def compile_helper(compiler: str, source: Path, cache: Path, name: str, options: Iterable[str]) -> Path:
    """Compile once for each state of the source; safe when several test processes start together."""
    digest = hashlib.sha256(source.read_bytes() + compiler.encode()).hexdigest()[:16]
    target = cache / "helpers" / f"{digest}-{name}"
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / name
        command = [compiler, "-std=gnu11", "-O2", *options, "-o", str(built), str(source), "-ldl", "-lpthread"]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode != 0:
            raise WitnessMissingError(f"{compiler} cannot compile {source.name}: {process.stderr.strip()[:500]}")
        built.replace(target)
    return target


# ----------------------------------------------------------------------------------------------------------------------
# Running


def _numbers(options: Mapping[str, int | None]) -> list[str]:
    return [word for name, value in options.items() if value is not None for word in (name, str(value))]


def _switches(options: Mapping[str, bool]) -> list[str]:
    return [name for name, wanted in options.items() if wanted]


def _model_path(folder: Path, model: Path | str | bytes) -> Path:
    if not isinstance(model, bytes):
        return Path(model).resolve()
    path = folder / "model.rknn"
    path.write_bytes(model)
    return path


def _write_inputs(folder: Path, inputs: Sequence[Input]) -> Iterator[str]:
    for index, value in enumerate(inputs):
        path = folder / f"input{index}"
        path.write_bytes(value.data)
        numbers = f"{TYPES.index(value.type)}:{LAYOUTS.index(value.layout)}:{int(value.raw)}"
        yield from ("--input", f"{path}:{numbers}")


def device_variables(folder: Path, chip: str) -> dict[str, str]:
    """What `device.c` reads."""
    return {
        "OPENRKNN_WITNESS_LOG": str(folder / "log"),
        "OPENRKNN_WITNESS_HARDWARE": hex(HARDWARE_VERSIONS[chip]),
    }


def _execute(
    command: list[str], folder: Path, chip: str, dumps: bool, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RKNN_", "LD_"))}
    environment |= {"RKNN_LOG_LEVEL": str(LOG_LEVEL), **device_variables(folder, chip)}
    if dumps:
        environment["OPENRKNN_WITNESS_DUMPS"] = str(folder / "dumps")
    try:
        return subprocess.run(
            command, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=timeout, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"the vendor's runtime did not finish within {timeout} s") from None
