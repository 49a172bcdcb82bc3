"""A task with native kernels and with NumPy: one verdict."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from openrknn.compute import native
from openrknn.errors import RknnError
from openrknn.npu.memory import Bytes, Memory
from openrknn.npu.native import accelerate
from openrknn.npu.task import Program, Step
from tools.fuzzing.judge import DIFFERENT, EQUAL, FOREIGN, ONE_SIDED, REFUSED, Verdict, Way, judge
from tools.fuzzing.valid.host import run_host
from tools.fuzzing.valid.networks import compiled, cores_of
from tools.fuzzing.valid.steps import build

__all__ = ["judge_task"]

_ROOM = 1 << 16
"""Bytes behind the target for walks that end with a whole group where NumPy writes a part of one."""


def judge_task(task: dict[str, Any], kernels: str | None = None) -> Verdict:
    """Run the step of a task with NumPy, then with each set of kernels in memory that ends where NumPy stopped."""
    if task["kind"] in _OTHERS:
        return _OTHERS[task["kind"]](task)
    try:
        step, memory = build(task)
        refused = _performed(step.perform)
        wanted = memory.written()
        if refused is not None:
            return Verdict(REFUSED, str(refused), {f"{task['kind']}: refused: {_template(str(refused))}"})
        features: set[str] = set()
        for chosen in native.available() if kernels is None else (native.Kernels[kernels.upper()],):
            verdict = _compared(task, step, memory.cut(), wanted, chosen, features=features)
            if verdict.failed:
                verdict.detail = f"{chosen.name.lower()}: {verdict.detail}"
                return verdict
            if "native" not in verdict.detail:  # no set has a kernel
                break
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
        return Verdict(FOREIGN, f"{error!r}\n{traceback.format_exc()}")
    return Verdict(EQUAL, "", features)


def _compared(
    task: dict[str, Any], step: Step, memory: Memory, wanted: Bytes, kernels: native.Kernels, *, features: set[str]
) -> Verdict:
    step.memory, step.native = memory, None
    with native.sharing(cores=task["threads"], nanoseconds=0):
        native.set_threads(task["threads"])
        program = accelerate(Program([step]), memory, kernels=kernels)
        if any("are in no buffer" in reason for reason in program.reasons.values()):
            step.memory = memory = _with_room(memory)
            program = accelerate(Program([step]), memory, kernels=kernels)
        before = {buffer.address: buffer.data.copy() for buffer in memory}
        failed = _performed(program.run)
    if failed is not None:
        return Verdict(ONE_SIDED, f"native: {failed!r}")
    reasons = [_template(reason) for reason in program.reasons.values()]
    features.update(f"{task['kind']}: {reason}" for reason in reasons or ["native"])
    for buffer in memory:
        expected = before[buffer.address]
        if buffer.name == "target":
            expected[: wanted.size] = wanted
        if not np.array_equal(buffer.data, expected):
            places = np.flatnonzero(buffer.data != expected)
            text = f"{buffer.name}: {len(places)} of {expected.size} bytes, the first at {places[0]}"
            return Verdict(DIFFERENT, text, features)
    return Verdict(EQUAL, "native" if not reasons else reasons[0], features)


def _judge_host(task: dict[str, Any]) -> Verdict:
    try:
        native.set_threads(task["threads"])
        wanted = run_host(task, "numpy")
        for kernels in native.available():
            found = run_host(task, kernels.name.lower())
            if found != wanted:
                places = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(wanted, np.uint8))
                return Verdict(DIFFERENT, f"{task['work']}, {kernels.name.lower()}: {len(places)} bytes")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
        return Verdict(FOREIGN, f"{error!r}\n{traceback.format_exc()}")
    return Verdict(EQUAL, "", {"host: native"})


def _judge_network(task: dict[str, Any]) -> Verdict:
    try:
        data = compiled(task)
    except RknnError as error:
        return Verdict(REFUSED, str(error), {f"network: refused: {_template(str(error))}"})
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the find
        return Verdict(FOREIGN, f"{error!r}\n{traceback.format_exc()}")
    kernels = native.available()
    name = kernels[task["seed"] % len(kernels)].name.lower()
    way = Way(name, task["threads"], 1 + task["seed"] // 4 % cores_of(task))
    verdict = judge(data, way)
    steps = {feature for feature in verdict.features if not feature.startswith("@")}
    left = sorted(feature for feature in steps if ": " in feature and not feature.endswith(": native"))
    verdict.features = {f"network: {_template(reason)}" for reason in left} or {"network: native"}
    return verdict


_OTHERS: dict[str, Callable[[dict[str, Any]], Verdict]] = {"host": _judge_host, "network": _judge_network}
"""Kinds that are not one step."""


def _with_room(memory: Memory) -> Memory:
    """The same, with more bytes behind the target."""
    return Memory([
        buffer if buffer.name != "target" else
        replace(buffer, data=np.concatenate([buffer.data, np.full(_ROOM, 0xA5, np.uint8)]))
        for buffer in memory
    ])  # fmt: skip


def _performed(run: Callable[[], None]) -> RknnError | None:
    try:
        run()
    except RknnError as error:
        return error
    return None


def _template(text: str) -> str:
    return _NUMBERS.sub("#", text)[:80]


_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|-?\d+(\.\d+)?|= .*")
