"""`RKNN`: the vendor's toolkit class, as far as it runs models that exist.

Methods that run models return what the vendor's return (0 and -1, arrays and None). Methods that make models raise
`UnsupportedError`: a call that silently made nothing would be worse.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

from openrknn.chips import chip_named
from openrknn.errors import UnsupportedError
from rknn.api.measure import accuracy_report, memory_table, performance_table
from rknnlite.api import RKNNLite
from rknnlite.api.platforms import show
from rknnlite.api.rknn_log import LOGGER
from rknnlite.engine.codes import CAUGHT
from rknnlite.engine.failures import NOT_INITIALIZED, failed

__all__ = ["RKNN"]


class RKNN:
    """A `.rknn` model on this machine: on the NPU that is there, or on the software NPU."""

    NPU_CORE_AUTO = RKNNLite.NPU_CORE_AUTO
    NPU_CORE_0 = RKNNLite.NPU_CORE_0
    NPU_CORE_1 = RKNNLite.NPU_CORE_1
    NPU_CORE_2 = RKNNLite.NPU_CORE_2
    NPU_CORE_0_1 = RKNNLite.NPU_CORE_0_1
    NPU_CORE_0_1_2 = RKNNLite.NPU_CORE_0_1_2
    NPU_CORE_ALL = RKNNLite.NPU_CORE_ALL

    def __init__(self, verbose: bool = False, verbose_file: str | None = None) -> None:
        self.rknn_base = RKNNLite(verbose, verbose_file)
        self._path: str | os.PathLike[str] | None = None

    # -- running models ------------------------------------------------------------------------------------------

    def load_rknn(self, path: str | os.PathLike[str]) -> int:
        """Read the file."""
        self._path = path
        return self.rknn_base.load_rknn(path)

    def init_runtime(  # noqa: PLR0917  (the vendor's signature)
        self,
        target: str | None = None,
        device_id: str | None = None,
        perf_debug: bool = False,
        eval_mem: bool = False,
        async_mode: bool = False,
        core_mask: int = 0,
        fallback_prior_device: str = "cpu",
    ) -> int:
        """Bring up the runtime here. `target` names the board that would be asked: it has to fit the model."""
        if self.rknn_base.init_runtime(None, device_id, async_mode, core_mask):
            return -1
        if target is not None:
            try:
                self._check_target(target)
            except CAUGHT as error:
                self.rknn_base.release()
                return failed(-1, "Catch exception when init runtime!", error)
        return 0

    def inference(
        self,
        inputs: Any,
        data_format: str | list[str] | None = None,
        inputs_pass_through: list[int] | None = None,
        get_frame_id: bool = False,
    ) -> list[Any] | None:
        """Run the model on a list of arrays."""
        return self.rknn_base.inference(inputs, None, data_format, inputs_pass_through, get_frame_id)

    def get_sdk_version(self) -> str | None:
        """Who runs the model."""
        return self.rknn_base.get_sdk_version()

    def list_devices(self) -> tuple[list[str], list[str]]:
        """Boards on adb and on ntb: none, because this runs on the machine itself."""
        return self.rknn_base.list_devices()

    def release(self) -> None:
        """Give everything back. Twice is allowed."""
        self.rknn_base.release()

    # -- measuring -----------------------------------------------------------------------------------------------

    def eval_perf(self, is_print: bool = True, fix_freq: bool = True) -> str | None:
        """What each operator costs: seconds here, and an estimate for a board."""
        if self.rknn_base.rknn_runtime is None:
            return failed(None, NOT_INITIALIZED)
        text = performance_table(self.rknn_base.rknn_runtime)
        if is_print:
            show(text)
        return text

    def eval_memory(self, is_print: bool = True) -> dict[str, int] | None:
        """Bytes on the device, by use."""
        if self.rknn_base.rknn_runtime is None:
            return failed(None, NOT_INITIALIZED)
        found, text = memory_table(self.rknn_base.rknn_runtime)
        if is_print:
            show(text)
        return found

    def accuracy_analysis(
        self,
        inputs: list[str],
        output_dir: str = "./snapshot",
        target: str | None = None,
        device_id: str | None = None,
        *,
        onnx: str | os.PathLike[str] | None = None,
    ) -> int:
        """Compare the model with its ONNX source, layer by layer; text and numbers go to `output_dir`.

        The vendor's toolkit has the source because it converted it a moment ago; here `onnx` names it.
        """
        if self._path is None or onnx is None:
            return failed(-1, "accuracy_analysis: call load_rknn first, and name the model's source with onnx=")
        try:
            accuracy_report(self._path, onnx, inputs, output_dir)
        except CAUGHT as error:
            return failed(-1, "Catch exception when comparing the models.", error)
        return 0

    # -- making models -------------------------------------------------------------------------------------------

    def config(self, *_arguments: object, **_options: object) -> NoReturn:
        """Only the vendor's toolkit converts."""
        _cannot("config")

    def load_onnx(self, *_arguments: object, **_options: object) -> NoReturn:
        """Only the vendor's toolkit converts."""
        _cannot("load_onnx")

    def load_pytorch(self, *_arguments: object, **_options: object) -> NoReturn:
        """Only the vendor's toolkit converts."""
        _cannot("load_pytorch")

    def load_tflite(self, *_arguments: object, **_options: object) -> NoReturn:
        """Only the vendor's toolkit converts."""
        _cannot("load_tflite")

    def build(self, *_arguments: object, **_options: object) -> NoReturn:
        """Only the vendor's toolkit converts."""
        _cannot("build")

    def export_rknn(self, *_arguments: object, **_options: object) -> NoReturn:
        """Only the vendor's toolkit converts."""
        _cannot("export_rknn")

    def _check_target(self, target: str) -> None:
        runtime = self.rknn_base.rknn_runtime
        if runtime is not None and chip_named(target).target != chip_named(runtime.target_soc).target:
            raise ValueError(f"the model is for {runtime.target_soc}, not for {target}")
        LOGGER.info("target %s: no board is asked; the model runs here", target)


def _cannot(method: str) -> NoReturn:
    raise UnsupportedError(
        f"RKNN.{method}: openrknn runs .rknn models and does not make them yet. Convert with the vendor's "
        "rknn-toolkit2 in an environment of its own, and load the result here with load_rknn"
    )
