"""`RKNNLite`: the class that programs use.

Methods do not raise. They return -1 or None when something is wrong, and the log has the reason; that is the contract
of the vendor's wheel. With OPENRKNN_LITE_RAISE=1 in the environment the error itself comes out instead.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

from rknnlite.api import constants
from rknnlite.api.platforms import describe_families, describe_model, show
from rknnlite.api.rknn_log import RKNNLog
from rknnlite.api.rknn_runtime import RKNNRuntime
from rknnlite.engine.codes import CAUGHT
from rknnlite.engine.failures import NOT_INITIALIZED, failed
from rknnlite.engine.sources import Source, read_source

__all__ = ["RKNNLite"]

_STARS = "*" * 25


class RKNNLite:
    """A `.rknn` model: load it, bring up its runtime, and run it."""

    NPU_CORE_AUTO = constants.NPU_CORE_AUTO
    NPU_CORE_0 = constants.NPU_CORE_0
    NPU_CORE_1 = constants.NPU_CORE_1
    NPU_CORE_2 = constants.NPU_CORE_2
    NPU_CORE_0_1 = constants.NPU_CORE_0_1
    NPU_CORE_0_1_2 = constants.NPU_CORE_0_1_2
    NPU_CORE_ALL = constants.NPU_CORE_ALL

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.verbose = verbose
        self.rknn_log = RKNNLog(verbose, verbose_file)
        self.target = ""
        self.root_dir = str(Path(__file__).parent.parent)
        self.rknn_data: bytes | None = None
        self.rknn_runtime: RKNNRuntime | None = None
        self.rknn_user_key: bytes | None = None
        self.load_model_in_npu = False
        self._source: Source | None = None

    def load_rknn(self, path: str | os.PathLike[str], key_path: str | None = None) -> int:
        """Read the file. What is in it shows when the runtime is brought up."""
        if not os.path.exists(path):
            return failed(-1, f"Invalid RKNN model path: {path!s:.200}", FileNotFoundError(path))
        if key_path is not None:
            reason = ValueError("only the vendor's runtime can open encrypted models; leave key_path out")
            return failed(-1, "key_path is not supported", reason)
        try:
            self._source = read_source(path)
        except OSError as error:
            return failed(-1, f"Catch exception when loading RKNN model [{path}]!", error)
        self.rknn_data = self._source.data
        return 0

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Boards on adb and on ntb: none, because this runs on the machine itself."""
        show(f"{_STARS}\nNone devices connected.\n{_STARS}")
        return [], []

    def init_runtime(
        self, target: str | None = None, device_id: str | None = None, async_mode: bool = False, core_mask: int = 0
    ) -> int:
        """Bring up the runtime on what OPENRKNN_DEVICE says, by default on what is there."""
        if self.rknn_data is None:
            return failed(-1, "Model is not loaded yet, this interface should be called after load_rknn!")
        self._release_runtime()
        try:
            runtime = RKNNRuntime(self.root_dir, target, device_id, async_mode, core_mask)
            is_ours = self._source is not None and self.rknn_data is self._source.data
            runtime.build_graph(self._source if is_ours and self._source else self.rknn_data)
        except CAUGHT as error:
            return failed(-1, "Catch exception when init runtime!", error)
        self.rknn_runtime = runtime
        self.target = runtime.target_soc
        return 0

    def inference(  # noqa: PLR0917  (the vendor's signature)
        self,
        inputs: Any,
        data_type: str | list[str] | None = None,
        data_format: str | list[str] | None = None,
        inputs_pass_through: list[int] | None = None,
        get_frame_id: bool = False,
        reuse_outputs: bool = False,
    ) -> list[Any] | None:
        """Run the model on a list of arrays: a list of float32 arrays in the original shapes, or None.

        `data_format` is nhwc (default) or nchw, for all inputs or as a list. With `get_frame_id` the number of the
        outputs' run and of this run follow the arrays. With `reuse_outputs` the next call overwrites the arrays.
        """
        runtime = self.rknn_runtime
        if runtime is None:
            return failed(None, NOT_INITIALIZED)
        try:
            outputs = runtime.infer(inputs, data_type, data_format, inputs_pass_through, reuse=reuse_outputs)
        except CAUGHT as error:
            return failed(None, "Catch exception when running the model.", error)
        return [*outputs, runtime.frames, runtime.frames] if get_frame_id else outputs

    def get_sdk_version(self) -> str | None:
        """Who runs the model, in five lines of text."""
        if self.rknn_runtime is None:
            return failed(None, NOT_INITIALIZED)
        return self.rknn_runtime.get_sdk_version()[0]

    def list_support_target_platform(
        self, rknn_model: str | os.PathLike[str] | None = None
    ) -> OrderedDict[str, list[str]] | None:
        """Print which chips can run a model, and return it; without a model print all families of chips."""
        if rknn_model is None:
            show(describe_families())
            return None
        if not os.path.exists(rknn_model):
            return failed(None, f"The model {rknn_model} does not exist.", FileNotFoundError(rknn_model))
        try:
            found, text = describe_model(rknn_model)
        except CAUGHT as error:
            return failed(None, f"The model {rknn_model} cannot be read.", error)
        show(text)
        return found

    def release(self) -> None:
        """Give everything back. Twice is allowed; afterwards `init_runtime` brings the same model up again."""
        self._release_runtime()
        self.rknn_log.close()

    def _release_runtime(self) -> None:
        if self.rknn_runtime is not None:
            self.rknn_runtime.release()
            self.rknn_runtime = None
