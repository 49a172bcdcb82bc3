"""`RKNN`: the vendor's toolkit class: runs models, and makes them of ONNX files with openrknn's own compiler.

Methods return what the vendor's return (0 and -1, arrays and None). What the compiler cannot do is refused by name: a
call that silently did something else would be worse.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import numpy as np

from openrknn.chips import chip_named
from openrknn.compiler import read_model, read_tensorflow
from openrknn.container import write_atomically
from openrknn.errors import UnsupportedError
from rknn.api.convert import Conversion
from rknn.api.hybrid import between, read_layers, read_steps, write_steps
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
        self._conversion = Conversion()
        self._built: bytes | None = None

    # -- running models ------------------------------------------------------------------------------------------

    def load_rknn(self, path: str | os.PathLike[str]) -> int:
        """Read the file."""
        self._path, self._built = path, None
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
        """Run the model on a list of arrays; a picture may come without its batch dimension, as in the toolkit."""
        runtime = self.rknn_base.rknn_runtime
        if runtime is not None and isinstance(inputs, list):
            ranks = [len(spec.shape) for spec in runtime.session.inputs]
            inputs = [
                value[None] if isinstance(value, np.ndarray) and value.ndim == rank - 1 == 3 else value
                for value, rank in zip(inputs, [*ranks, *[0] * len(inputs)], strict=False)
            ]
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

        After `build` the source is known; after `load_rknn` the argument `onnx` names it.
        """
        source = onnx or (self._conversion.onnx_file(output_dir) if self._built is not None else None)
        model = self._built if self._built is not None else self._path
        if source is None or model is None:
            return failed(-1, "accuracy_analysis: call build first, or load_rknn and name the source with onnx=")
        try:
            accuracy_report(model, source, inputs, output_dir)
        except CAUGHT as error:
            return failed(-1, "Catch exception when comparing the models.", error)
        return 0

    # -- making models -------------------------------------------------------------------------------------------

    def config(self, mean_values: Any = None, std_values: Any = None, **options: Any) -> int:
        """What the conversion should make; `rknn.api.settings` lists the options of toolkit 2.5.0."""
        try:
            self._conversion.configure({"mean_values": mean_values, "std_values": std_values, **options})
        except CAUGHT as error:
            return failed(-1, "Catch exception when config!", error)
        return 0

    def load_onnx(
        self,
        model: str | os.PathLike[str],
        inputs: list[str] | None = None,
        input_size_list: list[list[int]] | None = None,
        input_initial_val: Any = None,
        outputs: list[str] | None = None,
    ) -> int:
        """Read the model; names and shapes are checked here, the rest by `build`."""
        try:
            self._conversion.load(model, inputs or (), input_size_list or (), outputs or (), input_initial_val or ())
        except CAUGHT as error:
            return failed(-1, "Catch exception when loading the ONNX model!", error)
        return 0

    def build(
        self,
        do_quantization: bool = True,
        dataset: Any = None,
        rknn_batch_size: int | None = None,
        auto_hybrid: bool = False,
    ) -> int:
        """Compile with openrknn's own compiler; int8 with the pictures or arrays that `dataset` lists."""
        try:
            made = self._conversion.build(
                quantize=do_quantization, dataset=dataset, batch=rknn_batch_size, auto_hybrid=auto_hybrid
            )
        except CAUGHT as error:
            return failed(-1, "Catch exception when building RKNN model!", error)
        return self._take(made.data)

    def hybrid_quantization_step1(
        self,
        dataset: str = "dataset.txt",
        rknn_batch_size: int | None = None,
        proposal: bool = False,
        proposal_dataset_size: int = 1,
        custom_hybrid: Any = None,
    ) -> int:
        """Write NAME.quantization.cfg, where operators can be given to fp16, and two files for step 2.

        With `proposal` it lists those that `auto_hybrid` would choose, with `custom_hybrid` what lies between the two
        values of each pair.
        """
        try:
            if self._conversion.model is None:
                raise ValueError("call load_onnx first")
            if proposal and proposal_dataset_size != 1:
                LOGGER.warning("proposal_dataset_size has no effect: two items of the data set are looked at")
            made = self._conversion.build(quantize=True, dataset=dataset, auto_hybrid=proposal)
            layers = [choice.output for choice in made.precision if choice.precision == "fp16"]
            if custom_hybrid is not None:
                source = read_model(self._conversion.source)
                layers = list(dict.fromkeys([*layers, *between(source, made, custom_hybrid)]))
            write_steps(self._conversion.onnx_file(), made, dataset, rknn_batch_size, layers)
        except CAUGHT as error:
            return failed(-1, "Catch exception in hybrid_quantization_step1!", error)
        return 0

    def hybrid_quantization_step2(self, model_input: str, data_input: str, model_quantization_cfg: str) -> int:
        """Build with the operators of the .quantization.cfg in fp16. `config` and `load_onnx` may be left as they are.

        In a new program `config` has to be called again, with the options of step 1.
        """
        try:
            model, dataset, batch = read_steps(model_input, data_input)
            if self._conversion.model is None:
                self._conversion.load(model, (), (), ())
            layers = read_layers(model_quantization_cfg)
            made = self._conversion.build(quantize=True, dataset=dataset, batch=batch, fp16_layers=layers)
        except CAUGHT as error:
            return failed(-1, "Catch exception in hybrid_quantization_step2!", error)
        return self._take(made.data)

    def _take(self, data: bytes) -> int:
        self._built = self.rknn_base.rknn_data = data
        return 0

    def export_rknn(self, export_path: str | os.PathLike[str], **options: Any) -> int:
        """Write the file: completely, or not at all."""
        if self._built is None:
            return failed(-1, "export_rknn: call build first")
        for name in options:
            LOGGER.warning("export_rknn: %s has no effect", name)
        try:
            write_atomically(export_path, self._built)
        except CAUGHT as error:
            return failed(-1, "Catch exception when exporting RKNN model!", error)
        self._path = export_path
        return 0

    def load_pytorch(
        self, model: str | os.PathLike[str], input_size_list: list[list[int]] | None = None
    ) -> int:
        """Read a TorchScript file, whose input shapes have to be said, or a .pt2; PyTorch has to be installed."""
        try:
            sizes = input_size_list or []
            self._conversion.load(model, (), sizes, (), model=read_model(model, shapes=sizes))
        except CAUGHT as error:
            return failed(-1, "Catch exception when loading the PyTorch model!", error)
        return 0

    def load_tflite(
        self,
        model: str | os.PathLike[str],
        input_is_nchw: bool = False,
        inputs: list[str] | None = None,
        outputs: list[str] | None = None,
    ) -> int:
        """Read the model; scales of a quantised one are kept by `build(do_quantization=False)`."""
        try:
            self._conversion.load_tflite(model, inputs or (), outputs or (), is_nchw=input_is_nchw)
        except CAUGHT as error:
            return failed(-1, "Catch exception when loading the TFLite model!", error)
        return 0

    def load_tensorflow(
        self,
        tf_pb: str | os.PathLike[str],
        inputs: list[str],
        input_size_list: list[list[int]],
        outputs: list[str],
        input_is_nchw: bool = False,
    ) -> int:
        """Read a frozen graph; sizes with or without the batch. Needs the extra `tensorflow`."""
        try:
            model = read_tensorflow(
                tf_pb, inputs=inputs, sizes=input_size_list, outputs=outputs, input_is_nchw=input_is_nchw
            )
            self._conversion.load(tf_pb, [name.removesuffix(":0") for name in inputs], (), (), model=model)
        except CAUGHT as error:
            return failed(-1, "Catch exception when loading the TensorFlow model!", error)
        return 0

    def load_caffe(
        self,
        model: str | os.PathLike[str],
        blobs: str | os.PathLike[str] | None = None,
        input_name: list[str] | None = None,
    ) -> int:
        """Read a network; without `blobs` the .caffemodel beside it. `input_name` is the order of its inputs."""
        return self._load_pair("Caffe", model, blobs, input_name or [])

    def load_darknet(self, model: str | os.PathLike[str], weight: str | os.PathLike[str] | None = None) -> int:
        """Read a network; without `weight` the .weights beside it."""
        return self._load_pair("Darknet", model, weight, [])

    def _load_pair(
        self, kind: str, model: str | os.PathLike[str], weights: str | os.PathLike[str] | None, inputs: list[str]
    ) -> int:
        try:
            read = read_model(model if weights is None else (model, weights))
            self._conversion.load(model, inputs, (), (), model=read)
        except CAUGHT as error:
            return failed(-1, f"Catch exception when loading the {kind} model!", error)
        return 0

    def optimize_onnx(self, *_arguments: object, **_options: object) -> NoReturn:
        """The compiler cleans models up by itself."""
        _has_not("optimize_onnx", "the compiler folds and fuses by itself; `openrknn compile --show-graph` prints it")

    def codegen(self, *_arguments: object, **_options: object) -> NoReturn:
        """No C code is written."""
        _has_not("codegen", "the exported file runs in every program that uses the C API")

    def export_encrypted_rknn_model(self, *_arguments: object, **_options: object) -> NoReturn:
        """Files are not encrypted."""
        _has_not("export_encrypted_rknn_model", "export_rknn writes the plain file; encrypt the disk or the transport")

    def reg_custom_op(self, *_arguments: object, **_options: object) -> NoReturn:
        """Custom operators are given when the model runs."""
        _has_not("reg_custom_op", "cut the model before the operator with load_onnx(outputs=...)")

    def clear_op_cache(self) -> None:
        """There is no cache: nothing to do."""

    def _check_target(self, target: str) -> None:
        runtime = self.rknn_base.rknn_runtime
        if runtime is not None and chip_named(target).target != chip_named(runtime.target_soc).target:
            raise ValueError(f"the model is for {runtime.target_soc}, not for {target}")
        LOGGER.info("target %s: no board is asked; the model runs here", target)


def _has_not(method: str, instead: str) -> NoReturn:
    raise UnsupportedError(f"RKNN.{method}: openrknn does not have it; {instead}")
