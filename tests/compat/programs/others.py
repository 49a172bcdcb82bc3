"""Shorter habits of other programs: ONNX-like sessions, tokens, one runtime per core."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rknnlite.api import RKNNLite


class InferenceSession:
    """Looks like ONNX Runtime's: names and shapes from the inner runtime, NCHW by default."""

    def __init__(self, path: str) -> None:
        self.lite = RKNNLite(verbose=False)
        if self.lite.load_rknn(path) != 0 or self.lite.init_runtime(core_mask=RKNNLite.NPU_CORE_0_1) != 0:
            raise RuntimeError("no runtime")
        runtime: Any = self.lite.rknn_runtime
        n_input, n_output = runtime.get_in_out_num()
        attributes = [runtime.get_tensor_attr(index) for index in range(n_input)]
        self.inputs = [(attr.name.decode(), [attr.dims[axis] for axis in range(attr.n_dims)]) for attr in attributes]
        self.outputs = [runtime.get_output_shape(index) for index in range(n_output)]

    def version(self) -> dict[str, str]:
        """Taken apart line by line."""
        lines = str(self.lite.get_sdk_version()).split("\n")
        return {"api": lines[2].split(": ")[1].split(" ")[0], "driver": lines[3].split(": ")[1]}

    def run(self, feed: dict[str, Any]) -> list[Any]:
        """All outputs."""
        outputs = self.lite.inference(inputs=[feed[name] for name, _ in self.inputs], data_format="nchw")
        if outputs is None:
            raise RuntimeError("no outputs")
        return outputs


def embed(path: str, tokens: Any) -> Any:
    """A text model: the platform is asked first, and the type is said."""
    lite = RKNNLite(verbose=False)
    supported = lite.list_support_target_platform(path)
    if supported is None or "rk3588" not in [name.lower() for name in supported["support_target_platform"]]:
        raise RuntimeError("not for this board")
    lite.load_rknn(path)
    lite.init_runtime()
    outputs = lite.inference(inputs=[tokens], data_type=str(tokens.dtype), data_format="nhwc")
    return None if outputs is None else outputs[0]


def frames(path: str, pictures: Iterable[Any]) -> list[Any]:
    """One runtime per core, one thread per runtime."""
    lites = []
    for mask in (RKNNLite.NPU_CORE_0, RKNNLite.NPU_CORE_1, RKNNLite.NPU_CORE_2):
        lite = RKNNLite()
        if lite.load_rknn(path) or lite.init_runtime(core_mask=mask):
            raise RuntimeError("no runtime")
        lites.append(lite)
    with ThreadPoolExecutor(max_workers=len(lites)) as executor:
        futures = [
            executor.submit(lites[number % len(lites)].inference, [np.asarray(picture)])
            for number, picture in enumerate(pictures)
        ]
        results = [future.result() for future in futures]
    for lite in lites:
        lite.release()
    return results
