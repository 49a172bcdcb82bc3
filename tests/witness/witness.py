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
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).resolve().parent
LOG_LEVEL = 3
HARDWARE_VERSIONS = {"rk3588": 0x46495245, "rk3566": 0, "rk3568": 0}
"""What the kernel driver of each chip answers; runtime 1.5.2 takes models of these chips only."""

Type = Literal["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool"]
Layout = Literal["nchw", "nhwc", "nc1hwc2", "undefined"]
TYPES: tuple[Type, ...] = (
    "float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool",
)  # fmt: skip
LAYOUTS: tuple[Layout, ...] = ("nchw", "nhwc", "nc1hwc2", "undefined")


class WitnessMissingError(Exception):
    """Something that the witness needs is not on this machine; the text says what, and how to get it."""


@dataclass(frozen=True)
class Input:
    """One input as `rknn_inputs_set` takes it; `raw` is the C API's pass_through."""

    data: bytes
    type: Type = "uint8"
    layout: Layout = "nhwc"
    raw: bool = False


@dataclass(frozen=True)
class Call:
    """A function of the C API, or a query by its name, that returned."""

    name: str
    code: int


@dataclass(frozen=True)
class Tensor:
    """What `rknn_query` says of an input or output."""

    role: str
    """input, output, native_input, native_output, or current_input (dynamic shapes)."""
    index: int
    name: str
    shape: tuple[int, ...]
    type: str
    """One of TYPES, or "unknown N" if the runtime says something else."""
    layout: str
    size_bytes: int
    size_with_stride_bytes: int
    width_stride: int
    scale: float
    zero_point: int


@dataclass(frozen=True)
class Allocation:
    """A buffer of the device, as the runtime asked for it."""

    handle: int
    name: str
    """task, weight, internal, regcmd (batches only), or the name of an input or output tensor."""
    address: int
    requested_bytes: int
    """What the runtime asked for."""
    size_bytes: int
    """What it got: whole pages."""
    flags: int


@dataclass(frozen=True)
class Buffer:
    """The contents of an allocation at one moment."""

    allocation: Allocation
    data: bytes


@dataclass(frozen=True)
class Submit:
    """One job handed to the NPU, with the memory as it was then."""

    flags: int
    core_mask: int
    task_start: int
    task_count: int
    cores: tuple[tuple[int, int], ...]
    """The five raw ranges (first task, number of tasks); see `ranges`."""
    priority: int
    timeout: int
    task_handle: int
    buffers: tuple[Buffer, ...]
    """All live buffers, in order of allocation. Empty if the dumps were switched off."""

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """For each core that works: first task and number of tasks.

        The kernel's rule: chips with one core leave `cores` empty and use the plain fields; jobs for one or two cores
        use entries 0 and 1, jobs for three cores use entries 2 to 4. Mask 0 lets the kernel choose; core 0 stands for
        it.
        """
        if not any(count for _, count in self.cores):
            return {0: (self.task_start, self.task_count)}
        working = [core for core in range(3) if (self.core_mask or 1) >> core & 1]
        first = 2 if len(working) == 3 else 0
        return {core: self.cores[first + core] for core in working}

    @property
    def tasks(self) -> Buffer:
        """The buffer of task records that this job points to."""
        return next(buffer for buffer in self.buffers if buffer.allocation.handle == self.task_handle)

    def buffer(self, name: str) -> Buffer:
        """The first live buffer of this name."""
        found = [buffer for buffer in self.buffers if buffer.allocation.name == name]
        if not found:
            names = ", ".join(buffer.allocation.name for buffer in self.buffers)
            raise KeyError(f"no buffer {name!r} at this submit; there are: {names}")
        return found[0]


@dataclass(frozen=True)
class Testimony:
    """Everything that was seen in one run."""

    exit_code: int
    """Of the process; negative: the signal that killed it."""
    stdout: str
    stderr: str
    calls: tuple[Call, ...]
    died_in: str | None
    """The call that did not return, after a crash."""
    tensors: tuple[Tensor, ...]
    facts: Mapping[str, Any]
    """api, driver, custom_string, weight, internal, total (the last three in bytes)."""
    allocations: tuple[Allocation, ...]
    submits: tuple[Submit, ...]
    outputs: tuple[bytes, ...]
    events: tuple[Mapping[str, Any], ...]
    """The raw log of the device."""
    seconds: float

    @property
    def signal(self) -> str | None:
        """SIGSEGV, SIGABRT, ... if the runtime crashed."""
        return signal.Signals(-self.exit_code).name if self.exit_code < 0 else None

    def code(self, call: str) -> int | None:
        """The last return code of a call; None if it was not made or did not return."""
        return next((entry.code for entry in reversed(self.calls) if entry.name == call), None)

    def allocation(self, name: str) -> Allocation:
        """The first allocation of this name."""
        found = [allocation for allocation in self.allocations if allocation.name == name]
        if not found:
            raise KeyError(f"no allocation {name!r}; there are: {', '.join(a.name for a in self.allocations)}")
        return found[0]

    def tensors_of(self, role: str) -> tuple[Tensor, ...]:
        return tuple(tensor for tensor in self.tensors if tensor.role == role)


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
            return _read_testimony(folder, process, time.monotonic() - started)

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


# ----------------------------------------------------------------------------------------------------------------------
# Reading what was written

_ALLOCATED = re.compile(r"allocated memory, name: (?P<name>.*), virt addr: .*, handle: (?P<handle>\d+),")


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines; the last one may be cut off by a crash."""
    if not path.exists():
        return []
    lines = path.read_bytes().decode("utf-8", "replace").split("\n")
    return [json.loads(line) for line in lines[:-1]]


def _read_testimony(folder: Path, process: subprocess.CompletedProcess[bytes], seconds: float) -> Testimony:
    report, events = _read_lines(folder / "report"), _read_lines(folder / "log")
    stdout = process.stdout.decode("utf-8", "replace")
    stderr = process.stderr.decode("utf-8", "replace")
    if not report and process.returncode:
        raise WitnessMissingError(f"the driver did not start (exit code {process.returncode}): {stderr.strip()[:500]}")
    tensors = tuple(_tensor(line) for line in report if "tensor" in line)
    allocations = _allocations(events, stdout, report, tensors)
    outputs = sorted((folder / "outputs").iterdir(), key=lambda path: int(path.name))
    last = report[-1] if report else {}
    return Testimony(
        exit_code=process.returncode,
        stdout=stdout,
        stderr=stderr,
        calls=tuple(Call(line["call"], line["code"]) for line in report if "call" in line),
        died_in=last.get("enter") if process.returncode else None,
        tensors=tensors,
        facts=_facts(report),
        allocations=allocations,
        submits=tuple(_submits(events, allocations, folder / "dumps")),
        outputs=tuple(path.read_bytes() for path in outputs),
        events=tuple(events),
        seconds=seconds,
    )


def _facts(report: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    wanted = ("api", "driver", "custom_string", "weight", "internal", "total")
    return {name: line[name] for line in report for name in wanted if name in line}


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"unknown {number}"


def _tensor(line: Mapping[str, Any]) -> Tensor:
    return Tensor(
        role=line["tensor"],
        index=line["index"],
        name=line["name"],
        shape=tuple(line["dims"]),
        type=_named(TYPES, line["type"]),
        layout=_named(LAYOUTS, line["layout"]),
        size_bytes=line["size"],
        size_with_stride_bytes=line["size_with_stride"],
        width_stride=line["width_stride"],
        scale=float(line["scale"]),
        zero_point=line["zero_point"],
    )


def _allocations(
    events: Iterable[Mapping[str, Any]], stdout: str, report: Iterable[Mapping[str, Any]], tensors: Iterable[Tensor]
) -> tuple[Allocation, ...]:
    printed = {int(match["handle"]): match["name"] for match in _ALLOCATED.finditer(stdout)}
    known = {(tensor.role, tensor.index): tensor.name for tensor in tensors}
    bound = {line["address"]: known[line["memory"], line["index"]] for line in report if "memory" in line}
    return tuple(
        Allocation(
            handle=event["handle"],
            name=bound.get(event["address"], printed.get(event["handle"], "")),
            address=event["address"],
            requested_bytes=event["requested"],
            size_bytes=event["size"],
            flags=event["flags"],
        )
        for event in events
        if event["event"] == "create"
    )


def _submits(
    events: Iterable[Mapping[str, Any]], allocations: Iterable[Allocation], dumps: Path
) -> Iterator[Submit]:
    by_handle = {allocation.handle: allocation for allocation in allocations}
    contents = {path.name: path.read_bytes() for path in dumps.iterdir()}  # one file for each state of each buffer
    for event in events:
        if event["event"] != "submit":
            continue
        files = [(handle, f"{handle}.{version}") for handle, version in event["buffers"]]
        yield Submit(
            flags=event["flags"],
            core_mask=event["core_mask"],
            task_start=event["task_start"],
            task_count=event["task_count"],
            cores=tuple((start, count) for start, count in event["cores"]),
            priority=event["priority"],
            timeout=event["timeout"],
            task_handle=event["task_handle"],
            buffers=tuple(Buffer(by_handle[handle], contents[name]) for handle, name in files if name in contents),
        )
