"""Runs in a clean root: a program for the vendor's converter, on openrknn-toolkit."""

from importlib.metadata import version

from openrknn.cli.common.examples import find_examples
from rknn.api import RKNN

rknn = RKNN()
assert rknn.config(target_platform="rk3588") == 0
assert rknn.load_onnx(str(find_examples() / "models/tiny.onnx")) == 0
assert rknn.build(do_quantization=False) == 0
assert rknn.export_rknn("tiny.rknn") == 0
rknn.release()
print("FACE rknn.api compiles; rknn-toolkit2 is", version("rknn-toolkit2"))
