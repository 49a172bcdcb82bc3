"""The same cases on the emulated kernel and on a real one: every answer is compared."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from openrknn.board.program_text import CARD, RENDER, Script
from openrknn.board.rknpu_cases import rknpu_cases
from openrknn.board.rocket_cases import rocket_cases
from openrknn.board.run import Board, Result
from openrknn.chips import chip_named
from openrknn.errors import DeviceError
from openrknn.fakekernel.device import Device
from openrknn.fakekernel.launch import prepare
from openrknn.fakekernel.preload import build, host_machine

__all__ = [
    "CASES", "KNOWN", "Answers", "Comparison", "Difference", "answers_of", "compare", "emulated_answers",
    "real_answers",
]  # fmt: skip

CASES: dict[str, Callable[[], Iterator[Script]]] = {"rocket": rocket_cases, "rknpu": rknpu_cases}
"""Driver -> its cases."""
_NAMES = "names of clients (SET_CLIENT_NAME): the emulated kernel knows none"
_DOMAINS = "the public port of the driver has no IOMMU domains: it takes every number, and changes nothing"
KNOWN: dict[str, dict[str, str]] = {
    "rocket": {
        "map-protection-7": "memory of the emulated kernel is a file, which this system may not let programs execute",
        "number-0xd1": _NAMES,
        "a-map-outlives-its-handle": (
            "the emulated kernel does not see that a program still has a map of a closed buffer"
        ),
    },
    "rknpu": {
        "number-0xd1": _NAMES,
        "render-number-0xd1": _NAMES,
        **{f"domain-{number}": _DOMAINS for number in (-1, 16, 1000)},
        **{f"create-domain-{number}": _DOMAINS for number in (-1, 16)},
        **{f"submit-domain-{number}": _DOMAINS for number in (1, 15, 16, 0xFFFF_FFFF)},
    },
}
"""Driver -> cases that may differ -> why."""
_SOURCE = Path(__file__).with_name("cases.c")
_FLAGS = ("-O1", "-Wall")
_TEXT = "/cases"
_KERNEL_LOG = "/dev/kmsg"
_CHIP = "rk3588"
_GUEST_NODES = ("/dev/dri/card0", "/dev/dri/renderD128")
"""Of rknpu: the NPU is the guest's only DRM device."""
_DONE, _END = "done", "end"
"""The last line, and the case that closes the files of the last one."""
_SECONDS = 300
Answers = Mapping[str, list[str]]


@dataclass(frozen=True)
class Difference:
    """A case with two answers."""

    case: str
    emulated: list[str]
    real: list[str]


@dataclass(frozen=True)
class Comparison:
    """What came out."""

    cases: int
    differences: list[Difference]
    known: list[str]
    """Cases that differ, and whose reason is in `KNOWN`."""


def emulated_answers(driver: str = "rocket") -> Answers:
    """Of the emulated kernel, in this process's machine."""
    program = build(host_machine(), "cases", [_SOURCE], _FLAGS)
    with tempfile.TemporaryDirectory() as folder, Device(_CHIP, driver=driver) as device:
        text = Path(folder) / "cases"
        text.write_bytes(_text(driver, chip_named(_CHIP).driver_nodes))
        command = prepare([str(program), str(text)], device.environment, device.folder)
        done = subprocess.run(
            list(command.arguments), executable=command.path, env=dict(command.environment), capture_output=True,
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    return answers_of(done.stdout)


def real_answers(board: Board, modules: list[Path], log: Path | None, timeout: float | None) -> tuple[Answers, Result]:
    """Of a real kernel on a virtual board."""
    program = build("aarch64", "cases", [_SOURCE], (*_FLAGS, "-static"))
    texts = {_TEXT: _text(board.driver, _GUEST_NODES)}
    result, output = board.run(
        [str(program), _TEXT, _KERNEL_LOG], modules, texts=texts, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        log=log, timeout=timeout,
    )  # fmt: skip
    return answers_of(output), result


def answers_of(output: bytes) -> Answers:
    """The lines of each case. Output that ends too early is an error: a kernel may have stopped the program."""
    answers: dict[str, list[str]] = {}
    lines = output.decode(errors="replace").replace("\r", "").splitlines()
    for line in lines:
        if line.startswith("case "):
            answers[line.removeprefix("case ")] = []
        elif answers:
            answers[next(reversed(answers))].append(line)
    if not lines or lines[-1] != _DONE:
        last = next(reversed(answers), "the start") if answers else "the start"
        raise DeviceError(f"the cases ended in {last!r}; the kernel's log (--log FILE) may say why")
    answers.pop(_END, None)
    return answers


def compare(emulated: Answers, real: Answers, driver: str = "rocket") -> Comparison:
    """Every case that one of the two has."""
    names = list(dict.fromkeys((*emulated, *real)))
    found = [
        Difference(name, emulated.get(name, []), real.get(name, []))
        for name in names
        if emulated.get(name) != real.get(name)
    ]
    known = KNOWN[driver]
    new = [difference for difference in found if difference.case not in known]
    return Comparison(len(names), new, [difference.case for difference in found if difference.case in known])


def _text(driver: str, nodes: tuple[str, ...]) -> bytes:
    text = "\n".join(line for case in CASES[driver]() for line in case.lines) + "\n"
    for name, node in zip((CARD, RENDER), nodes, strict=True):
        text = text.replace(name, node)
    return text.encode()
