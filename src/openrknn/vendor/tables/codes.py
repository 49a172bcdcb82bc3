"""The error codes of the C API: what each means, what is likely behind it, and what to do.

Facts: rknn_api.h of v2.3.2; -14 to -16 of 2.5.0 from the constants of the vendor's Python wheel. The log lines are
those of librknnrt 1.5.2 that go with a code (% stands for a number or a name); the causes follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from openrknn.vendor.tables.versions import Version

SUCCESS = 0
TIMEOUT = -2
MALLOC_FAIL = -4
SKIP_CUSTOM_OP_COMPUTE = -14

_KEYS = Version(2, 5)
_LOG = "set RKNN_LOG_LEVEL=3 and read what the library prints"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One code; the texts continue "... returned -6 NAME: meaning; likely cause; remedy"."""

    code: int
    name: str
    meaning: str
    cause: str
    remedy: str
    logs: tuple[str, ...] = ()


_TABLE = (
    ErrorCode(
        SUCCESS,
        "RKNN_SUCC",
        meaning="it worked",
        cause="nothing",
        remedy="nothing to do",
    ),
    ErrorCode(
        -1,
        "RKNN_ERR_FAIL",
        meaning="the call failed",
        cause="an argument that the library does not take, or a job that the driver refused",
        remedy=_LOG,
        logs=(
            "Not support core mask: %, fallback to single core auto mode",
            "rknn_set_core_mask: failed to set core mask: %",
            "rknn_set_batch_core_num: failed to set core_num %",
            "rknn_set_io_mem, input memory size(%) < model input size(%)",
            "% input format only support pass_through == 1",
            "rknn_set_input_shapes error, input name = % supported input shapes are as follows:",
            "rknn_query, unsupported cmd(%)!",
            "rknn_run is denied if set RKNN_FLAG_COLLECT_MODEL_INFO_ONLY flag!",
            "failed to submit!, op id: %, op name: %, flags: %, task start: %, task number: %, run task counter: %",
        ),
    ),
    ErrorCode(
        TIMEOUT,
        "RKNN_ERR_TIMEOUT",
        meaning="the NPU did not finish in time",
        cause="a hanging NPU, a driver that does not fit, or other programs on the same cores",
        remedy="run it again with one core (CoreMask.CORE_0); see `dmesg` for rknpu",
    ),
    ErrorCode(
        -3,
        "RKNN_ERR_DEVICE_UNAVAILABLE",
        meaning="there is no NPU",
        cause="a missing rknpu driver, a container without /dev/dri, or missing rights to it",
        remedy="look for the driver (`dmesg | grep -i rknpu`) and for a readable /dev/dri/renderD*",
        logs=(
            "failed to open rknpu module, need to insmod rknpu dirver!",
            "failed to open rknn device!",
        ),
    ),
    ErrorCode(
        MALLOC_FAIL,
        "RKNN_ERR_MALLOC_FAIL",
        meaning="memory for the NPU could not be allocated",
        cause="too little memory, or a full 4 GB address space of the NPU",
        remedy="close contexts and memories that are not needed, or share weights (Context.duplicate)",
        logs=(
            "failed to allocate handle, ret: %, errno: 12, errstr: Cannot allocate memory",
            "rknn_create_mem, invalid size: 0",
        ),
    ),
    ErrorCode(
        -5,
        "RKNN_ERR_PARAM_INVALID",
        meaning="an argument is wrong",
        cause="a size, index or struct that does not fit the model or this version of the library",
        remedy=_LOG,
        logs=(
            "rknn_query, info_len(%) < sizeof(%)(%)!",
            "rknn_query, cmd = % is not in [0, 17]!",
            "rknn_query, RKNN_QUERY_INPUT_ATTR, p_attr->index(%) >= input_num(%)!",
            "rknn_query, info == nullptr!",
            "rknn_inputs_set, param input size(%) < model input size(%)",
            "rknn_set_input_shapes error, % fmt(%) is invalid, only support NHWC or UNDEFINED layout input",
            "Must set RKNN_FLAG_MEM_ALLOC_OUTSIDE flag in rknn_init(), when using rknn_set_weight_mem()!",
            "rknn_init_extend is not set!",
            "rknn_matmul_create, matmul K must be align with %!",
            "rknn_matmul_create, matmul N must be align with %!",
            "rknn_matmul_create, matmul K must be less than or equal %!",
            "rknn_matmul_create, meet unsupported matmul dtype: %",
        ),
    ),
    ErrorCode(
        -6,
        "RKNN_ERR_MODEL_INVALID",
        meaning="the model cannot be used here",
        cause=(
            "a damaged file, a model for another chip, one built by a newer toolkit than this library, or a "
            "static model where a dynamic one is needed"
        ),
        remedy="`openrknn inspect` shows chip, toolkit and the oldest library that loads the model",
        logs=(
            "parseRKNN: invalid RKNN_MAGIC!",
            "parseRKNN: rknn model is too small!",
            "parseRKNN from path: Invalid RKNN format!",
            "rknn_init, load model failed!",
            "This rknn model is for %, but current platform is %",
            "RKNN model version is %, but current librknnrt.so is support model version <= %",
            "rknn_set_input_shapes error, rknn model is static shape type, please export rknn with dynamic_shapes",
        ),
    ),
    ErrorCode(
        -7,
        "RKNN_ERR_CTX_INVALID",
        meaning="the context is not one, or not ready",
        cause="a context that was destroyed, or a dynamic model whose shape was not chosen yet",
        remedy="choose the shapes first (Context.set_input_shapes)",
        logs=(
            "query RKNN_QUERY_CURRENT_INPUT_ATTR error, please call rknn_set_input_shape first",
        ),
    ),
    ErrorCode(
        -8,
        "RKNN_ERR_INPUT_INVALID",
        meaning="an input is wrong",
        cause="an index, size, type or layout that the model does not take",
        remedy="compare with Context.inputs",
    ),
    ErrorCode(
        -9,
        "RKNN_ERR_OUTPUT_INVALID",
        meaning="an output is wrong",
        cause="an index or a buffer that does not fit the model",
        remedy="compare with Context.outputs",
    ),
    ErrorCode(
        -10,
        "RKNN_ERR_DEVICE_UNMATCH",
        meaning="library and kernel driver do not fit",
        cause="a driver that is older than the library wants",
        remedy="update the driver, or use the library that came with this system",
        logs=(
            "Mismatch driver version, % requires driver version >= %, but you have driver version: % which "
            "is incompatible!",
            "Current driver version: %, recommend to upgrade the driver to the new version: >= %",
        ),
    ),
    ErrorCode(
        -11,
        "RKNN_ERR_INCOMPATILE_PRE_COMPILE_MODEL",
        meaning="the model was compiled ahead for another driver",
        cause="a model of the first NPU generation",
        remedy="build it again with rknn-toolkit2 for this chip",
    ),
    ErrorCode(
        -12,
        "RKNN_ERR_INCOMPATILE_OPTIMIZATION_LEVEL_VERSION",
        meaning="the model's optimisation level does not fit the driver",
        cause="a model that was built with another generation of the toolkit",
        remedy="build it again, or update library and driver",
    ),
    ErrorCode(
        -13,
        "RKNN_ERR_TARGET_PLATFORM_UNMATCH",
        meaning="the model is for another chip",
        cause="the wrong file for this board",
        remedy="build it with target_platform set to this chip; `openrknn inspect` shows what it was built for",
        logs=(
            "This shared library is for RK356X/RK3588 platforms only!, hw_version = %",
        ),
    ),
    ErrorCode(
        SKIP_CUSTOM_OP_COMPUTE,
        "RKNN_WARNING_SKIP_CUSTOM_OP_COMPUTE",
        meaning="a custom operator asked to be skipped",
        cause="a callback that returned this value",
        remedy="only callbacks of custom operators return it",
    ),
)

_NEWER = (
    ErrorCode(
        -14,
        "RKNN_ERR_KEY_INVALID",
        meaning="the key of an encrypted model is wrong",
        cause="a key for another model, or none",
        remedy="pass the key with Context(..., key=...)",
    ),
    ErrorCode(
        -15,
        "RKNN_ERR_DECRYPT_FAILED",
        meaning="the model could not be decrypted",
        cause="a damaged file or a key for another one",
        remedy="copy the model again and pass its own key",
    ),
    ErrorCode(
        -16,
        "RKNN_ERR_SOC_BIND_FAILED",
        meaning="the model is bound to another chip",
        cause="a model that was encrypted for one board",
        remedy="run it on the board that it was bound to, or build it again",
    ),
)

CODES: Mapping[str, ErrorCode] = MappingProxyType({entry.name: entry for entry in (*_TABLE, *_NEWER)})
"""Every code by its name; -14 has two, as the vendor gave it out twice."""


def explain(code: int, call: str = "", version: Version = _KEYS) -> ErrorCode:
    """The entry of a code. -14 is about keys where 2.5 or newer loads a model, else about custom operators."""
    if code == SKIP_CUSTOM_OP_COMPUTE and version >= _KEYS and call == "rknn_init":
        return CODES["RKNN_ERR_KEY_INVALID"]
    unknown = ErrorCode(code, f"RKNN_ERR_{-code}", "a code that no known header names", "a newer library", _LOG)
    return next((entry for entry in CODES.values() if entry.code == code), unknown)
