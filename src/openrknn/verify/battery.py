"""The cases on a device and on the software NPU, compared byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from openrknn.container.parts import Task
from openrknn.device import Device, Job
from openrknn.device.software import SoftwareDevice
from openrknn.errors import RknnError
from openrknn.isa.words import TAIL_WORDS
from openrknn.verify import streams
from openrknn.verify.cases import CASES, Case
from openrknn.verify.rules import QUESTIONS, named_rule

_INT_CLEAR = 0x1FFFF
_SHOWN = 8


@dataclass(frozen=True)
class Verdict:
    """How one case came out."""

    name: str
    question: str
    outputs: int
    differ: int
    examples: tuple[tuple[int, float, float], ...]
    """(element, on the device, on the software NPU) of the first ones."""
    error: str = ""
    rule: str = ""
    """Where rules come into question: the one that the device has."""
    ours: str = ""
    """The one of the software NPU."""
    evidence: str = ""
    """The evidence for ours."""

    @property
    def is_equal(self) -> bool:
        return not self.differ and not self.error


def run_battery(device: Device) -> Iterator[Verdict]:
    """Every case, one after the other."""
    with SoftwareDevice(device.chip) as software:
        for case in CASES:
            try:
                found = _run(case, device)
            except RknnError as error:
                yield Verdict(case.name, case.question, case.target_bytes, 0, (), str(error))
                continue
            yield _judge(case, found, _run(case, software))


def _run(case: Case, device: Device) -> np.ndarray:
    """What the device makes of a case: its target as int8."""
    buffers = []

    def place(data: np.ndarray, name: str) -> int:
        buffer = device.allocate(data.nbytes, name)
        buffer.array[: data.nbytes] = data
        buffers.append(buffer)
        return buffer.address

    try:
        source, weights = place(case.source, "source"), place(case.weights, "weights")
        target = place(np.full(case.target_bytes, case.fill, np.uint8), "target")

        def task(words: list[int], name: str) -> Task:
            commands = place(np.array(words, np.uint64).view(np.uint8), name)
            return Task(0, 0, case.enable, case.int_mask, _INT_CLEAR, 0, len(words) - TAIL_WORDS, 0, commands)

        words = case.words(source, weights, target)
        if case.first is None:
            job = Job((task(words, "commands"),), ((0,),))
        else:
            last = task(streams.without_ping_pong(words), "commands")
            before = streams.without_ping_pong(case.first(source, weights, target))
            linked = streams.leading_to(before, last.address, last.amount)
            job = Job((task(linked, "commands before"), last), ((0, 1),), ping_pong=False)
        prepared = device.prepare(job)
        try:
            prepared.run()
        finally:
            prepared.close()
        return buffers[2].array[: case.target_bytes].view(np.int8).copy()
    finally:
        for buffer in buffers:
            device.free(buffer)


def _judge(case: Case, found: np.ndarray, expected: np.ndarray) -> Verdict:
    wrong = np.nonzero(found != expected)[0]
    examples = tuple((int(at), int(found[at]), int(expected[at])) for at in wrong[:_SHOWN])
    question = QUESTIONS.get(case.name)
    return Verdict(
        case.name,
        case.question,
        case.target_bytes,
        int(wrong.size),
        examples,
        rule=named_rule(case.name, case, found),
        ours="" if question is None else question.ours,
        evidence="" if question is None else question.evidence,
    )
