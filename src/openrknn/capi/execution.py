"""How a context runs: at once, in the background, or one frame ahead of the outputs that it gives.

One context runs one thing at a time, whichever thread asks. Every call holds `lock` and waits for the run in progress
before it touches anything (`settled`); only the outputs of an asynchronous context are copies, which can be read while
the next run goes on.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

from openrknn.capi.async_runs import AsyncRuns
from openrknn.capi.call import CallError, Code
from openrknn.capi.frames import Frame, live
from openrknn.capi.perf import measured
from openrknn.capi.plan import RunPlan
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.vendor.tables.enums import InitFlag

_DOUBLE = 2


class Execution(ABC):
    """The runs of a context, and their outputs."""

    def __init__(self, flags: int) -> None:
        self.flags = flags
        self.lock = threading.RLock()
        self.custom_ops: dict[str, CustomOperator] = {}
        """By type; the runtime looks them up when it makes a program."""
        self.runs = 0
        """How many were started; each frame has the number of its run."""
        self.last_run_us = 0
        self.seconds: dict[int, float] = {}
        """With COLLECT_PERF_MASK: of each operator in the last run, by its number."""
        self._is_measured = bool(flags & InitFlag.COLLECT_PERF_MASK)
        self._plan: RunPlan | None = None
        self._frames: list[Frame] = []
        self._pending = AsyncRuns()

    @property
    def is_asynchronous(self) -> bool:
        """Whether outputs are those of the run before. Callbacks need the call of their run, so not with them."""
        return bool(self.flags & InitFlag.ASYNC_MASK) and not self.custom_ops

    @property
    def is_pending(self) -> bool:
        """Whether a run is in progress, or has ended and its result was not fetched."""
        return self._pending.is_pending

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Hold the lock while nothing runs. The error of a run is not raised here but by the call that waits for it."""
        with self.lock:
            self._pending.rest()
            yield

    @contextmanager
    def finished(self) -> Iterator[None]:
        """Wait for the run in progress, raise its error if it failed, and hold the lock."""
        with self.lock:
            self._pending.settle()
            yield

    def run(self) -> None:
        """One run on what the inputs hold, and wait for it."""
        with self.lock:
            if self._pending.is_pending:
                self._pending.settle()
            plan = self._plan or self._planned()
            self.runs += 1
            self._execute(plan, self.runs)

    def start(self) -> None:
        """One run that goes on after this returns."""
        with self.lock:
            self._pending.settle()
            plan = self._plan or self._planned()
            self.runs = number = self.runs + 1
            if self.custom_ops:
                self._execute(plan, number)
            else:
                self._pending.start(lambda: self._execute(plan, number))

    def wait(self, timeout_ms: int) -> None:
        """For the run in progress."""
        with self.lock:
            if not self._pending.is_pending:
                raise CallError(Code.FAIL, "there is no run to wait for; rknn_run returned after it had ended")
            self._pending.settle(timeout_ms)

    def frame(self) -> Frame:
        """The outputs to give: of the last run, or in an asynchronous context of the one before it."""
        if not self._frames:
            self._planned()
        if not self.is_asynchronous:
            return self._frames[0]
        if self.runs < _DOUBLE:  # the first frame has none before it
            self._pending.settle()
        return self._frames[max(self.runs - _DOUBLE, 0) % _DOUBLE]

    @abstractmethod
    def _new_plan(self) -> RunPlan:
        """What a run does, with everything as it is set and bound now."""

    def _forget_plan(self) -> None:
        """Other programs, or other shapes: outputs of before are gone."""
        self._plan, self._frames = None, []

    def _planned(self) -> RunPlan:
        plan = self._new_plan()
        if self.is_asynchronous or plan.items > 1:
            count = _DOUBLE if self.is_asynchronous else 1
            if len(self._frames) != count or not self._frames[0].is_copied:
                self._frames = [Frame.copied(plan.program, plan.items) for _ in range(count)]
        else:
            self._frames = [live(plan.program)]
        self._plan = plan
        return plan

    def _execute(self, plan: RunPlan, number: int) -> None:
        frame = self._frames[(number - 1) % len(self._frames)]
        spent = 0
        for item in range(plan.items):
            for step in plan.before:
                step(item)
            began = perf_counter_ns()
            if self._is_measured:
                self.seconds = measured(plan.program, plan.pixels)
            else:
                plan.program.run(plan.pixels)
            spent += perf_counter_ns() - began
            for step in plan.after:
                step(item)
            if frame.is_copied:
                frame.take(plan.program, item)
        self.last_run_us = spent // 1000
        frame.number = number
