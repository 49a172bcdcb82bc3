"""The same calls of the C API on two libraries: the vendor's runtime 1.5.2 on an emulated device, and ours.

    script = Script()
    model = script.file(path)
    context = script.buffer(8)
    script.call("init", "rknn_init", f"@{model}", size, 0, 0, 0)
    script.query("input 0", context, QueryCommand.INPUT_ATTR, 0)
    vendor = Vendor.find().ask(script)
    ours = Ours(library, environment).ask(script)
    differences(vendor, ours)

`ask.c` is the program that makes the calls, in a process of its own: the vendor's library may crash, and then the
report ends there. Structs are those of 1.5.2 on both sides (OPENRKNN_ABI=1.5 for ours).
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.capi.structs import Codec
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.fakekernel.protocol import ENVIRONMENT
from openrknn.vendor.context.answers import QUERIES
from openrknn.vendor.tables.enums import QueryCommand
from openrknn.vendor.tables.versions import Version
from tests.witness.witness import Witness, cache_folder, compile_helper, device_variables, find_compiler

SOURCE = Path(__file__).resolve().parent / "ask.c"
CODEC = Codec(Version.parse("1.5.2"))
TIMEOUT_SECONDS = 300
CRASH = "crash"


@dataclass
class Script:
    """Commands for `ask.c`, and how what they show is read."""

    lines: list[str] = field(default_factory=list)
    structs: dict[str, str] = field(default_factory=dict)
    """Label of a `show` -> the struct that is shown."""
    _buffers: int = 0

    def buffer(self, size: int, fill: int = 0) -> int:
        """A new buffer."""
        self._buffers += 1
        self.lines.append(f"buffer {self._buffers} {size} {fill}")
        return self._buffers

    def room(self) -> None:
        """Begin to count buffers anew; the next ones replace those that are there."""
        self._buffers = 0

    def data(self, contents: bytes) -> int:
        """A new buffer with these bytes."""
        number = self.buffer(len(contents))
        if contents:
            self.lines.append(f"write {number} 0 {contents.hex()}")
        return number

    def file(self, path: Path) -> int:
        """A new buffer with the contents of a file."""
        self._buffers += 1
        self.lines.append(f"file {self._buffers} {path}")
        return self._buffers

    def put(self, buffer: int, offset: int, value: object) -> None:
        """Eight bytes, usually a pointer."""
        self.lines.append(f"put {buffer} {offset} {value}")

    def call(self, label: str, function: str, *values: object) -> None:
        """A function that returns a code."""
        self.lines.append(" ".join(map(str, ("call", label.replace(" ", "_"), function, *values))))

    def make(self, label: str, function: str, *values: object) -> int:
        """A function that returns a pointer; the buffer that holds it."""
        number = self.buffer(8)
        self.lines.append(" ".join(map(str, ("make", label.replace(" ", "_"), number, function, *values))))
        return number

    def show(self, label: str, address: object, length: object, struct: str = "") -> None:
        """Bytes of memory."""
        label = label.replace(" ", "_")
        self.lines.append(f"show {label} {address} {length}")
        if struct:
            self.structs[label] = struct

    def sum(self, label: str, address: object, length: object) -> None:
        """A checksum of memory."""
        self.lines.append(f"sum {label.replace(' ', '_')} {address} {length}")

    def copy(self, to: object, source: object, length: object) -> None:
        """Bytes from one address to another."""
        self.lines.append(f"copy {to} {source} {length}")

    def init(self, path: Path, flags: int = 0, label: str = "rknn_init") -> int:
        """`rknn_init` from memory; the buffer that holds the context."""
        model, context = self.file(path), self.buffer(8)
        self.call(label, "rknn_init", f"@{context}", f"@{model}", path.stat().st_size, flags, 0)
        return context

    def query(
        self, label: str, context: int, command: QueryCommand, index: int = 0, *, size: int | None = None, fill: int = 0
    ) -> int:
        """`rknn_query`; the answer is shown as the command's struct. The buffer that holds it."""
        struct = QUERIES[command].struct
        whole = CODEC.size(struct)
        answer = self.buffer(whole, fill)
        if QUERIES[command].tensor:
            self.lines.append(f"write {answer} 0 {index.to_bytes(4, 'little').hex()}")
        self.call(label, "rknn_query", f"*{context}", int(command), f"@{answer}", whole if size is None else size)
        self.show(f"{label} answer", f"@{answer}", whole, struct)
        return answer


@dataclass(frozen=True)
class Answers:
    """What a library said: label -> code, fields of a struct, bytes or a checksum, in the order of the script."""

    said: Mapping[str, Any]
    died_in: str = ""
    """The call that did not return."""
    log: str = ""


def read(report: Path, script: Script, returned: int, log: str) -> Answers:
    """The report of one process."""
    text = report.read_text(errors="replace") if report.exists() else ""
    said: dict[str, Any] = {}
    entered = ""
    for line in text.split("\n")[:-1]:
        entry = json.loads(line)
        if "enter" in entry:
            entered = entry["enter"]
            continue
        label = entry.pop("label")
        if label == entered:
            entered = ""
        said[label] = _value(label, entry, script)
    if returned and not entered:
        raise RuntimeError(f"ask ended with {returned}: {log[-2000:]}")
    return Answers(said, entered if returned else "", log)


def _value(label: str, entry: dict[str, Any], script: Script) -> Any:
    if "bytes" in entry and label in script.structs:
        return CODEC.decode(script.structs[label], bytes.fromhex(entry["bytes"]))
    if "sum" in entry:
        return f"{entry['length']} bytes {entry['sum']}"
    return next(iter(entry.values()))


def differences(vendor: Answers, ours: Answers) -> dict[str, tuple[Any, Any]]:
    """Label, or label and field -> (theirs, ours), as far as the vendor's library lived."""
    found: dict[str, tuple[Any, Any]] = {}
    for label, theirs in vendor.said.items():
        mine = ours.said.get(label)
        if isinstance(theirs, dict) and isinstance(mine, dict):
            for name, value in _written(theirs).items():
                if value != _written(mine).get(name):
                    found[f"{label}.{name}"] = (value, mine.get(name))
        elif theirs != mine:
            found[label] = (theirs, mine)
    if vendor.died_in:
        found[vendor.died_in] = (CRASH, ours.said.get(vendor.died_in))
    if ours.died_in:
        found[f"{ours.died_in} (ours)"] = (vendor.said.get(ours.died_in), CRASH)
    return found


def _written(values: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers behind the ones that a struct says it has."""
    if "dyn_range" not in values:
        return values
    rows = values["dyn_range"][: values["shape_number"]]
    return {**values, "dyn_range": [row[: values["n_dims"]] for row in rows]}


def _ask(command: Sequence[str], environment: Mapping[str, str], script: Script, report: Path) -> Answers:
    process = subprocess.run(
        command, cwd=report.parent, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    return read(report, script, process.returncode, process.stdout.decode(errors="replace"))


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(("RKNN_", "LD_", "OPENRKNN_"))}


@dataclass(frozen=True)
class Vendor:
    """Runtime 1.5.2, below a device that computes nothing (`device` is None) or on one that computes."""

    witness: Witness
    program: Path

    @classmethod
    def find(cls) -> Vendor:
        """`WitnessMissingError` says what is not here."""
        return cls(Witness.find(), compile_helper(find_compiler(), SOURCE, cache_folder(), "ask", ()))

    def ask(self, script: Script, device: Device | None = None, chip: str = "rk3588", level: int = 0) -> Answers:
        """Run a script."""
        with tempfile.TemporaryDirectory(prefix="openrknn-ask-") as name:
            folder = Path(name)
            (folder / "script").write_text("\n".join(script.lines) + "\n")
            words = [str(self.witness.library), str(folder / "script"), str(folder / "report")]
            environment = _clean(os.environ) | {"RKNN_LOG_LEVEL": str(level)}
            if device is None:
                command = self.witness.command(self.program, words)
                environment |= device_variables(folder, chip)
            else:
                made = prepare(
                    [str(self.program), *words], {ENVIRONMENT: str(device.folder)}, device.folder, environment
                )
                command, environment = list(made.arguments), dict(made.environment)
            return _ask(command, environment, script, folder / "report")


@dataclass(frozen=True)
class Ours:
    """Our library, with an engine of its own."""

    library: Path
    variables: Mapping[str, str]
    """OPENRKNN_ENGINE_SOCKET and what else the engine needs."""
    program: Path
    emulator: tuple[str, ...] = ()
    """What runs a program of another machine; its engine is one of this machine all the same."""

    def ask(self, script: Script) -> Answers:
        """Run a script."""
        with tempfile.TemporaryDirectory(prefix="openrknn-ask-") as name:
            folder = Path(name)
            (folder / "script").write_text("\n".join(script.lines) + "\n")
            environment = _clean(os.environ) | dict(self.variables) | {"OPENRKNN_ABI": "1.5"}
            words = [str(self.program), str(self.library), str(folder / "script"), str(folder / "report")]
            return _ask([*self.emulator, *words], environment, script, folder / "report")
