"""The vendor's words for a conversion, as arguments of openrknn's compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.compiler import Compiled, compile_model

__all__ = ["Conversion"]

_METHODS = {"normal": "minmax", "mmse": "mse", "kl_divergence": "entropy"}
_TYPES = {None, "asymmetric_quantized-8", "w8a8", "float16"}
_HARMLESS = {"optimization_level", "single_core_mode", "model_pruning", "float_dtype", "verbose", "quantized_method"}
"""They say how the vendor's converter should work; the result is what counts."""


@dataclass(slots=True)
class Conversion:
    """What `config` and `load_onnx` were told."""

    target: str = ""
    mean: Sequence[Any] | None = None
    std: Sequence[Any] | None = None
    bgr: bool = False
    method: str = "minmax"
    is_float: bool = False
    custom_string: str = ""
    model: str | os.PathLike[str] | None = None
    inputs: list[str] = field(default_factory=list)
    shapes: list[Sequence[int]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def configure(self, options: dict[str, Any]) -> None:
        """Take the options of `config`; those that would change the result and are not there are refused by name."""
        given = {name: value for name, value in options.items() if value not in (None, False, [], "")}
        self.target = str(given.pop("target_platform", "") or "")
        if not self.target:
            raise ValueError("config: target_platform has to be named, for example 'rk3588'")
        self.mean, self.std = given.pop("mean_values", None), given.pop("std_values", None)
        self.bgr = bool(given.pop("quant_img_RGB2BGR", False))
        algorithm = given.pop("quantized_algorithm", "normal")
        if algorithm not in _METHODS:
            raise ValueError(f"config: quantized_algorithm {algorithm!r}; there are {', '.join(_METHODS)}")
        self.method = _METHODS[algorithm]
        kind = given.pop("quantized_dtype", None)
        if kind not in _TYPES:
            raise ValueError(f"config: quantized_dtype {kind!r} cannot be compiled; there are w8a8 and float16")
        self.is_float = kind == "float16"
        self.custom_string = str(given.pop("custom_string", "") or "")
        left = sorted(set(given) - _HARMLESS)
        if left:
            raise ValueError(f"config: openrknn's compiler does not have {', '.join(left)}")

    def build(self, *, quantize: bool, dataset: Any) -> Compiled:
        """Compile; pictures of the data set are normalised as the model will."""
        if self.model is None:
            raise ValueError("build: call load_onnx first")
        if not self.target:
            raise ValueError("build: call config(target_platform=...) first")
        is_int8 = quantize and not self.is_float
        if is_int8 and dataset is None:
            raise ValueError("build: do_quantization needs a dataset, a text file with one input per line")
        return compile_model(
            self.model, self.target, calibration=dataset if is_int8 else None, fp16=not is_int8,
            mean=self._per_input(self.mean), std=self._per_input(self.std), order="bgr" if self.bgr else "rgb",
            shapes=dict(zip(self.inputs, self.shapes, strict=False)), outputs=self.outputs, method=self.method,
            custom_string=self.custom_string,
        )  # fmt: skip

    def _per_input(self, values: Sequence[Any] | None) -> Any:
        """[[m, m, m]] for the first input, or by name where `load_onnx` named the inputs."""
        if values is None:
            return None
        nested = [list(entry) if isinstance(entry, list | tuple) else [entry] for entry in values]
        if not isinstance(values[0], list | tuple):
            return list(values)
        if self.inputs:
            return dict(zip(self.inputs, nested, strict=False))
        return nested[0]
