"""openrknn.Session on the software NPU: MODEL.rknn, answers beside it in MODEL.npz, number of threads."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from worker import serve

if __name__ == "__main__":
    path, threads = Path(sys.argv[1]), sys.argv[2]
    os.environ["OPENRKNN_THREADS"] = threads
    import numpy as np

    import openrknn
    from openrknn import compute

    with np.load(path.with_suffix(".npz")) as arrays:
        inputs = [arrays[name] for name in sorted(arrays.files) if name.startswith("x")]
    with openrknn.Session(path, device="software") as session:
        session.run(inputs)
        serve(
            lambda: session.run(inputs),
            {
                "version": openrknn.__version__,
                "kernels": compute.active(),
                "threads": compute.threads(),
                "model_bytes": path.stat().st_size,
                "activation_bytes": session.memory().internal + session.memory().inputs + session.memory().outputs,
            },
        )
