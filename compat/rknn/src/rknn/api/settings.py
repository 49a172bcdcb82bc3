"""The options of `RKNN.config`: what they mean here, which change nothing, and which are refused by name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openrknn.compiler import CompileOptions
from rknnlite.api.rknn_log import LOGGER

__all__ = ["Settings"]

_METHODS = {"normal": "minmax", "mmse": "mse", "kl_divergence": "entropy"}
_INT8, _FLOAT = ("w8a8", "asymmetric_quantized-8"), ("float16",)
_DEFAULTS: Mapping[str, Any] = {
    "mean_values": None, "std_values": None, "quantized_dtype": "w8a8", "quantized_algorithm": "normal",
    "quantized_method": "channel", "quantized_hybrid_level": 0, "target_platform": None, "quant_img_RGB2BGR": False,
    "float_dtype": "float16", "optimization_level": 3, "custom_string": None, "remove_weight": False,
    "compress_weight": False, "inputs_yuv_fmt": None, "single_core_mode": False, "dynamic_input": None,
    "model_pruning": False, "op_target": None, "quantize_weight": False, "remove_reshape": False,
    "sparse_infer": False, "mini_rknn": False, "enable_flash_attention": False, "auto_hybrid_cos_thresh": 0.98,
    "auto_hybrid_euc_thresh": None, "memory_plan_strategy": "BestFit", "compute_order": "WidthFirst",
    "compiler_control_file": None, "verbose": False,
}  # fmt: skip
"""Every option of toolkit 2.5.0."""
_REFUSED = (
    "quantized_hybrid_level", "remove_weight", "inputs_yuv_fmt", "op_target", "quantize_weight", "remove_reshape",
    "sparse_infer", "mini_rknn", "compiler_control_file",
)  # fmt: skip
"""They would change what the file is, and the compiler does not have it."""
_IGNORED = {
    "compress_weight": "weights are stored as they are",
    "auto_hybrid_euc_thresh": "auto_hybrid goes by the cosine",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `config`, in the compiler's terms."""

    target: str
    mean: Sequence[Any] | None = None
    std: Sequence[Any] | None = None
    order: str = "rgb"
    method: str = "minmax"
    is_float: bool = False
    custom_string: str = ""
    cores: int | None = None
    shape_sets: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """dynamic_input: for each graph the shapes of all inputs."""
    min_snr: float = 0.0
    """What auto_hybrid_cos_thresh is in decibels."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Check everything; the error names the option."""
        for name in given:
            if name not in _DEFAULTS:
                close = difflib.get_close_matches(name, _DEFAULTS, n=1, cutoff=0.0)[0]
                raise ValueError(f"config: there is no option {name!r}; did you mean {close!r}?")
        values = {**_DEFAULTS, **given}
        if not values["target_platform"]:
            raise ValueError("config: target_platform has to be named, for example 'rk3588'")
        CompileOptions(target=values["target_platform"])  # says which there are
        changed = {name for name, value in values.items() if value != _DEFAULTS[name] and value not in (None, False)}
        refused = sorted(changed.intersection(_REFUSED))
        if refused:
            raise ValueError(f"config: openrknn's compiler does not have {', '.join(refused)}")
        for name in sorted(changed.intersection(_IGNORED)):
            LOGGER.warning("config: %s has no effect: %s", name, _IGNORED[name])
        kind = _one_of(values, "quantized_dtype", (*_INT8, *_FLOAT))
        _one_of(values, "quantized_method", ("channel", "layer"))
        _one_of(values, "float_dtype", ("float16",))
        cosine = float(values["auto_hybrid_cos_thresh"])
        if not 0 < cosine < 1:
            raise ValueError(f"config: auto_hybrid_cos_thresh is between 0 and 1, not {cosine}")
        return cls(
            str(values["target_platform"]), values["mean_values"], values["std_values"],
            "bgr" if values["quant_img_RGB2BGR"] else "rgb",
            _METHODS[_one_of(values, "quantized_algorithm", tuple(_METHODS))], kind in _FLOAT,
            str(values["custom_string"] or ""), 1 if values["single_core_mode"] else None,
            _shape_sets(values["dynamic_input"]), -10 * math.log10(1 - cosine**2),
        )  # fmt: skip


def _one_of(values: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    if values[name] not in known:
        raise ValueError(f"config: {name} {values[name]!r} cannot be compiled; there are {', '.join(known)}")
    return str(values[name])


def _shape_sets(given: Any) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """[[shape of input 0, shape of input 1, ...], ...], one entry per graph."""
    try:
        sets = tuple(tuple(tuple(int(size) for size in shape) for shape in entry) for entry in given or ())
    except TypeError:
        sets = ((),)
    if not all(entry and all(entry) for entry in sets):
        raise ValueError(f"config: dynamic_input is like [[[1, 3, 224, 224]], [[1, 3, 192, 192]]], not {given!r}")
    if len({len(entry) for entry in sets}) > 1:
        raise ValueError("config: every entry of dynamic_input needs a shape for each input of the model")
    return sets
