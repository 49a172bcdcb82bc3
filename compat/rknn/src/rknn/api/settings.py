"""The options of `RKNN.config`: what they mean here, which change nothing, and which are refused by name."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.compiler import CompileOptions
from rknnlite.api.rknn_log import LOGGER

__all__ = ["Settings"]

_METHODS = {"normal": "cost", "mmse": "mse", "kl_divergence": "entropy"}
_INT8, _FLOAT = ("w8a8", "asymmetric_quantized-8"), ("float16",)
_DEFAULTS: Mapping[str, Any] = {
    "mean_values": None, "std_values": None, "quantized_dtype": "w8a8", "quantized_algorithm": "normal",
    "quantized_method": "channel", "quantized_hybrid_level": 0, "target_platform": None, "quant_img_RGB2BGR": False,
    "float_dtype": "float16", "optimization_level": 3, "custom_string": None, "remove_weight": False,
    "compress_weight": False, "inputs_yuv_fmt": None, "single_core_mode": False, "dynamic_input": None,
    "model_pruning": False, "op_target": None, "quantize_weight": False, "remove_reshape": False,
    "sparse_infer": False, "mini_rknn": False, "enable_flash_attention": False, "auto_hybrid_cos_thresh": 0.98,
    "auto_hybrid_euc_thresh": None, "memory_plan_strategy": "BestFit", "compute_order": "WidthFirst",
    "compiler_control_file": None, "verbose": False, "disable_rules": None,
}  # fmt: skip
"""Every option of toolkit 2.5.0; `disable_rules` is one of the names that its **kwargs takes."""
_REFUSED = {
    "quantized_hybrid_level": "build(auto_hybrid=True) finds the operators that int8 is not enough for",
    "remove_weight": "dynamic_input puts several shapes with one set of weights into a file, and rknn_dup_context "
    "shares the weights of a loaded model",
    "inputs_yuv_fmt": "give the model RGB: RGA converts on a board, and openrknn.vision here",
    "quantize_weight": "build(do_quantization=True, dataset=...) quantises weights and values, and auto_hybrid=True "
    "keeps in fp16 what needs it",
    "compiler_control_file": "it belongs to the vendor's compiler; `openrknn compile --help` lists what can "
    "be chosen here",
}
"""They would change what the file is, and the compiler does not have it: what to do instead."""
_NO_EFFECT = {
    "optimization_level": "everything is always optimised, and never at the cost of numbers",
    "compress_weight": "weights are stored as they are",
    "model_pruning": "channels that compute nothing are left out anyway, others never",
    "sparse_infer": "zeros among the weights are computed like other numbers",
    "enable_flash_attention": "attention runs on the NPU head by head anyway",
    "memory_plan_strategy": "the place of every tensor is planned in one way",
    "compute_order": "the order follows from what fits into the NPU's buffer",
    "auto_hybrid_euc_thresh": "auto_hybrid goes by the cosine",
    "disable_rules": "these are rewriting rules of the vendor's toolkit; openrknn has none of them to turn off",
}
"""They say how, not what: the numbers of the file are the same, and a warning says so."""
_INSTEAD = {
    ("quantized_dtype", "w8a16"): "build(do_quantization=False) makes weights and values fp16",
    ("quantized_dtype", "w4a16"): "build(do_quantization=False) makes weights and values fp16",
    ("quantized_dtype", "w16a16i"): "build(do_quantization=False) makes weights and values fp16",
    ("quantized_dtype", "w16a16i_dfp"): "build(do_quantization=False) makes weights and values fp16",
    ("quantized_algorithm", "gdq"): "quantized_algorithm='mmse', or build(auto_hybrid=True) with operators in fp16",
    ("float_dtype", "bfloat16"): "float16 is what the NPU computes in",
}
"""Values of options that people use, and what comes nearest."""
_PLACES = ("cpu", "npu", "auto")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of `config`, in the compiler's terms."""

    target: str
    mean: Sequence[Any] | None = None
    std: Sequence[Any] | None = None
    order: str = "rgb"
    method: str = "cost"
    is_float: bool = False
    custom_string: str = ""
    cores: int | None = None
    shape_sets: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """dynamic_input: for each graph the shapes of all inputs."""
    min_snr: float = 0.0
    """What auto_hybrid_cos_thresh is in decibels."""
    places: Mapping[str, str] = field(default_factory=dict)
    """op_target: where operators are to run."""
    removes_reshapes: bool = False

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
            told = "; ".join(f"{name} ({_REFUSED[name]})" for name in refused)
            raise ValueError(f"config: openrknn's compiler does not have {told}")
        for name in sorted(changed.intersection(_NO_EFFECT)):
            LOGGER.warning("config: %s has no effect: %s", name, _NO_EFFECT[name])
        if values["quantized_method"] == "layer":
            LOGGER.warning("config: quantized_method 'layer': weights have a scale for each channel, which is finer")
        _check_mini(str(values["target_platform"]), wanted=bool(values["mini_rknn"]))
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
            _shape_sets(values["dynamic_input"]), -10 * math.log10(1 - cosine**2), _places(values["op_target"]),
            bool(values["remove_reshape"]),
        )  # fmt: skip


def _one_of(values: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = values[name]
    if value not in known:
        instead = _INSTEAD.get((name, str(value)))
        nearest = f". Instead: {instead}" if instead else ""
        raise ValueError(f"config: {name} {value!r} cannot be compiled; there are {', '.join(known)}{nearest}")
    return str(value)


def _places(given: Any) -> dict[str, str]:
    """{operator: "cpu"}; what becomes of it is known when the model is built."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or any(str(place).lower() not in _PLACES for place in given.values()):
        raise ValueError(f"config: op_target is like {{'Softmax_1': 'cpu'}} with {', '.join(_PLACES)}, not {given!r}")
    return {str(name): str(place).lower() for name, place in given.items()}


def _check_mini(target: str, *, wanted: bool) -> None:
    """Small files without the full header are what RV1103 and RV1106 take, and others not."""
    is_mini = target.lower().startswith(("rv1103", "rv1106"))
    if wanted and not is_mini:
        raise ValueError(
            f"config: openrknn's compiler does not have mini_rknn for {target}; files for RV1103 and RV1106 are small "
            "ones anyway, and other chips take the usual file"
        )


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
