"""An ONNX model, run in float by ONNX Runtime: the same pipeline as a `.rknn`, without its rounding."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.container.metadata import Metadata, read_metadata
from openrknn.container.onnxdata import check_onnx_file
from openrknn.container.specs import Specs, TensorSpec
from openrknn.errors import BadReferenceError, FormatError
from openrknn.evaluate.errors import EvaluationError
from openrknn.evaluate.truth import Array
from openrknn.extras import how_to_install
from openrknn.installed_onnxruntime import installed

_CHANNELS = (1, 3, 4)
_SILENT = 3
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8,
          "tensor(int8)": np.int8, "tensor(int32)": np.int32, "tensor(int64)": np.int64,
          "tensor(double)": np.float64, "tensor(bool)": np.bool_}  # fmt: skip


class OnnxModel:
    """Computes an ONNX file in float.

    `mean` and `std` are applied to pixels, which come as uint8: (x - mean) / std. `size` is height and width for a
    model that leaves them open.
    """

    batch_size = 1

    def __init__(
        self, path: str | os.PathLike[str], *, mean: Sequence[float] = (0.0,), std: Sequence[float] = (1.0,),
        size: tuple[int, int] | None = None, threads: int = 0,
    ) -> None:  # fmt: skip
        self.path: str | None = os.fspath(path)
        self._session = _session(self.path, threads)
        self.metadata: Metadata = read_metadata(self._session.get_modelmeta().custom_metadata_map)[0]
        self.mean, self.std = np.array(mean, np.float32), np.array(std, np.float32)
        if not np.all(self.std > 0):
            raise EvaluationError(f"std has to be positive, not {list(std)}")
        self._inputs = list(self._session.get_inputs())
        self.is_image = len(self._inputs) == 1 and self._image_shape(size) is not None
        self._shape: tuple[int, ...] = self._image_shape(size) or () if self.is_image else ()
        self._is_nhwc = self.is_image and self._shape[1] not in _CHANNELS
        self.inputs = Specs(self._input_specs())
        self.outputs = Specs(self._output_specs()) if self.is_image else Specs(())

    @property
    def takes_pixels(self) -> bool:
        """Whether its input is uint8: it normalises itself."""
        return bool(self._inputs[0].type == "tensor(uint8)")

    def _image_shape(self, size: tuple[int, int] | None) -> tuple[int, ...] | None:
        """The shape of the input if it is an image, with open dimensions filled in."""
        declared = list(self._inputs[0].shape)
        if len(declared) != 4:
            return None
        if not isinstance(declared[0], int):
            declared[0] = 1
        channels = 3 if declared[3] in _CHANNELS and declared[1] not in _CHANNELS else 1
        places = [at for at in (1, 2, 3) if at != channels]
        wanted = size or self.metadata.imgsz
        for at, place in enumerate(places):
            if not isinstance(declared[place], int) or declared[place] < 1:
                if wanted is None:
                    raise EvaluationError(f"{self.path}: its input leaves height and width open; give --size HxW")
                declared[place] = wanted[at]
        if declared[0] != 1 or declared[channels] not in _CHANNELS:
            return None
        return tuple(int(one) for one in declared)

    def _input_specs(self) -> list[TensorSpec]:
        if not self.is_image:
            return [
                TensorSpec(one.name, tuple(n if isinstance(n, int) else 0 for n in one.shape), "float32", "undefined")
                for one in self._inputs
            ]
        shape = self._shape if self._is_nhwc else (self._shape[0], *self._shape[2:], self._shape[1])
        return [TensorSpec(self._inputs[0].name, shape, "float32", "nhwc", is_image=True)]

    def _output_specs(self) -> list[TensorSpec]:
        """By a run: many files do not say the shapes of their outputs, or leave them open."""
        blank = np.zeros(self.inputs[0].shape, np.uint8)
        found = self.run({self.inputs[0].name: blank})
        return [
            TensorSpec(name, tuple(value.shape), "float32", "nchw" if value.ndim == 4 else "undefined")
            for name, value in found.items()
        ]

    def run(self, inputs: object, **_: Any) -> dict[str, Array]:
        """`inputs`: name -> array; pixels as uint8 [1, height, width, channels], others as the model takes them."""
        if not isinstance(inputs, Mapping):
            raise TypeError("inputs are given by name")
        feeds = {one.name: self._feed(one, inputs[one.name]) for one in self._inputs}
        names = [one.name for one in self._session.get_outputs()]
        try:
            values = self._session.run(names, feeds)
        except Exception as error:  # its errors have no common class that it exports
            raise EvaluationError(f"{self.path}: ONNX Runtime: {str(error).splitlines()[0][:300]}") from error
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}

    def _feed(self, declared: Any, value: Array) -> Array:
        if self.is_image and value.dtype == np.uint8 and value.ndim == 4:
            if not self.takes_pixels:
                value = (value.astype(np.float32) - self.mean) / self.std
            if not self._is_nhwc:
                value = value.transpose(0, 3, 1, 2)
        wanted = [n if isinstance(n, int) else -1 for n in declared.shape]
        if all(n > 0 for n in wanted) and list(value.shape) != wanted and value.size == int(np.prod(wanted)):
            value = value.reshape(wanted)
        return np.ascontiguousarray(value.astype(_TYPES.get(declared.type, np.float32)))


def _session(path: str, threads: int) -> Any:
    try:
        onnxruntime = installed()
    except ImportError:
        raise EvaluationError(f"{path}: running ONNX needs onnxruntime; {how_to_install('evaluate')}") from None
    try:
        check_onnx_file(path)
    except (BadReferenceError, FormatError) as error:
        raise EvaluationError(f"{path}: {error}") from None
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror or error}") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the NPU's work needs the cores, too
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its errors have no common class that it exports
        raise EvaluationError(f"{path}: ONNX Runtime does not take it: {str(error).splitlines()[0][:300]}") from error
