"""One engine with one model in a process of its own: says when it is ready, and runs whenever it is told to.

    stdin   a number: run so many times (with real-time priority if REALTIME is set in the environment)
    stdout  one line of JSON each: what is running; [seconds, seconds of the processor] of each run; at the end the
            peak memory

The process has imported NumPy and nothing else when its memory is measured for the first time.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np  # noqa: F401  part of the interpreter that memory is counted above

_ANSWERS = os.dup(1)
os.dup2(2, 1)  # what an engine prints is not an answer


def memory_kib(name: str) -> int:
    """VmRSS or VmHWM of this process."""
    found = re.search(rf"^{name}:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


REALTIME = bool(os.environ.get("REALTIME"))
BEFORE_KIB = memory_kib("VmRSS")


def serve(run: Callable[[], object], about: Mapping[str, object]) -> None:
    """Answer until stdin ends."""
    run()
    _say(about)
    for line in sys.stdin:
        seconds = []
        _hurry(REALTIME)
        for _ in range(int(line)):
            before, busy = time.perf_counter(), time.process_time()
            run()
            seconds.append((time.perf_counter() - before, time.process_time() - busy))
        _hurry(False)
        _say(seconds)
    _say({"peak_bytes": (memory_kib("VmHWM") - BEFORE_KIB) * 1024})


def _hurry(is_urgent: bool) -> None:
    """Whether all threads of this process go before everything else."""
    if REALTIME:
        for thread in os.listdir("/proc/self/task"):
            kind, level = (os.SCHED_FIFO, 1) if is_urgent else (os.SCHED_OTHER, 0)
            os.sched_setscheduler(int(thread), kind, os.sched_param(level))


def _say(answer: object) -> None:
    os.write(_ANSWERS, (json.dumps(answer) + "\n").encode())
