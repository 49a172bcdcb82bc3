"""Runs TFLite models through Mesa's delegate, in a guest or below `openrknn exec`; imports nothing of openrknn.

    teflon_program.py DELEGATE FOLDER TARGET

Reads `NAME.tflite` and `NAME.in` (bytes of the input) from FOLDER. Writes `NAME.out` to TARGET and prints a line for
each: name, exit code, number of pieces of the graph that the delegate took, a checksum. Each model is run by a child,
so that one that ends its process is one line.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate


def run(path: Path, delegate: str, target: Path) -> None:
    """One model."""
    delegates = [load_delegate(delegate)] if delegate else []
    interpreter = Interpreter(str(path), experimental_delegates=delegates, num_threads=1)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()[0]
    data = np.fromfile(path.with_suffix(".in"), details["dtype"]).reshape(details["shape"])
    interpreter.set_tensor(details["index"], data)
    interpreter.invoke()
    output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    output.tofile(target)
    names = [operator["op_name"] for operator in interpreter._get_ops_details()]
    taken = names.count("DELEGATE")  # its nodes come behind the operators that they stand for
    print(path.stem, 0, taken, hashlib.sha256(output.tobytes()).hexdigest()[:16], flush=True)


def main() -> None:
    delegate, folder, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    for path in sorted(folder.glob("*.tflite")):
        child = os.fork()
        if child == 0:
            run(path, delegate, target / f"{path.stem}.out")
            sys.stdout.flush()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            print(path.stem, code, 0, "-", flush=True)


if __name__ == "__main__":
    main()
