"""Runs in a clean root: a program for the vendor's runtime, on openrknn-lite."""

from importlib.metadata import version

import numpy as np

from openrknn.cli.common.examples import find_examples
from rknnlite.api import RKNNLite

lite = RKNNLite()
assert lite.load_rknn(str(find_examples() / "models/efficientnet_lite0_rk3588_i8.rknn")) == 0
assert lite.init_runtime() == 0
outputs = lite.inference(inputs=[np.zeros((1, 224, 224, 3), np.uint8)])
assert outputs is not None
assert outputs[0].size == 1000, outputs[0].shape
lite.release()
print("FACE rknnlite.api runs; rknn-toolkit-lite2 is", version("rknn-toolkit-lite2"))
