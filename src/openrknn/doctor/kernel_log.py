"""The kernel's log: from the kernel itself on this machine, from the files of /var/log below another root."""

from __future__ import annotations

import os
from pathlib import Path

from openrknn.monitor import files

__all__ = ["kernel_log"]

_FILES = ("/var/log/dmesg", "/var/log/kern.log")
_RECORD_BYTES = 16384
_MOST_RECORDS = 100_000


def kernel_log(root: Path) -> tuple[str, ...] | None:
    """Its lines, the oldest first; None where nobody may read it."""
    if root == Path("/") and (lines := _from_kernel()) is not None:
        return lines
    texts = [text for path in _FILES if (text := files.text(root, path)) is not None]
    return tuple(line for text in texts for line in text.splitlines()) if texts else None


def _from_kernel() -> tuple[str, ...] | None:
    """/dev/kmsg: one record per read, without waiting for the next."""
    try:
        descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    lines: list[str] = []
    try:
        while len(lines) < _MOST_RECORDS:
            try:
                record = os.read(descriptor, _RECORD_BYTES).decode("utf-8", "replace")
            except BrokenPipeError:  # overwritten while we read; the next read goes on
                continue
            except OSError:  # no more, or not allowed
                break
            if not record:
                break
            lines.append(record.partition(";")[2].partition("\n")[0])
    finally:
        os.close(descriptor)
    return tuple(lines) or None
