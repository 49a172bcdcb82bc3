"""Worker processes that may die: what they do is written down before and after, and they are started again.

The vendor's toolkit damages its heap now and then, and a checker must survive what it checks.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

RESTART = 3
"""What a worker returns that wants to be started again."""


def current(folder: Path, number: int, tool: str) -> Path:
    """The file in which a worker says what it is at."""
    return folder / f"{tool}{number}"


def watch(commands: list[list[str]], notes: list[Path], patience: float, blame: Callable[[str, str], None]) -> None:
    """Keeps one process per command running until each has returned 0; `blame` gets what one died of, and at what."""
    running: dict[int, tuple[subprocess.Popen[bytes], float]] = {}
    finished: set[int] = set()
    while len(finished) < len(commands):
        for number in set(range(len(commands))) - finished:
            if number not in running:
                process = subprocess.Popen(commands[number], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                running[number] = process, time.monotonic()
                continue
            code = ended(*running[number], notes[number], patience)
            if code is None:
                continue
            del running[number]
            if code == 0:
                finished.add(number)
            elif code != RESTART:
                said = notes[number].read_text().strip() if notes[number].exists() else ""
                if not said:
                    raise SystemExit(f"a worker ends at once with code {code}: {' '.join(commands[number])}")
                blame(said, "late" if code == -9 else f"ended with code {code}")
                notes[number].write_text("")
        time.sleep(0.3)


def ended(process: subprocess.Popen[bytes], since: float, note: Path, patience: float) -> int | None:
    """The code of a process that ended, -9 for one that said nothing for too long, None for one at work."""
    code = process.poll()
    if code is not None:
        return code
    silent = time.time() - note.stat().st_mtime if note.exists() else 0.0
    if min(silent, time.monotonic() - since) < patience:
        return None
    process.kill()
    process.wait()
    return -9
