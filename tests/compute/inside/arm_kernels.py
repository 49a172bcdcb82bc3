"""Inside an aarch64 Python: every set of kernels gives the bytes that NumPy gave outside.

Arguments: the folder of the library, a file of (step, memory, address of the target, bytes that it must have).
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import openrknn
from openrknn.compute import native
from openrknn.npu import Program
from openrknn.npu.native import accelerate

openrknn.__path__.append(sys.argv[1])


def main() -> None:
    """Check, and print the names of the sets."""
    cases = pickle.loads(Path(sys.argv[2]).read_bytes())
    for number, (step, memory, address, wanted) in enumerate(cases):
        target = memory.at(address, 1, "target").data
        for kernels in native.available():
            for threads in (1, 2):
                native.set_threads(threads)
                target[...] = 0xA5
                step.native = None
                fast = accelerate(Program([step]), memory, kernels=kernels)
                if fast.reasons:
                    sys.exit(f"case {number}: {fast.reasons}")
                fast.run()
                if target.tobytes() != wanted:
                    sys.exit(f"case {number}, {kernels.name}, {threads} threads: other bytes than NumPy's\n{step!r}")
    print(len(cases), *(kernels.name for kernels in native.available()))


if __name__ == "__main__":
    main()
