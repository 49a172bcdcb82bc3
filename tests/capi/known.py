"""Where our library answers something else than the vendor's runtime 1.5.2, and why.

docs/capi/differences.md is for users.

A row is (model or case, label of the call or field, reason), the first two as patterns of a shell. What no row names
must be equal.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from tests.capi.asking import CRASH

__all__ = ["unexplained"]

QUERIES = (
    ("*", "*SDK_VERSION*api_version", "the version says whose library it is"),
    ("*_w16a16i_dfp", "*PUT_ATTR_0_answer.*", "1.5.2 has no name for int16 (10) and a size below 0; ours says int16"),
    ("*_mini", "*", "1.5.2 does not load reduced models; ours does"),
    ("*_no_weights", "*", "1.5.2 loads a model without weights and computes nonsense; ours wants the weights first"),
    ("*_rmw", "*", "the same"),
    ("ppocrv4_det_rk3566_i8", "NATIVE_NHWC_OUTPUT_ATTR_0_answer.*", "1.5.2 says 480 channels of one, 110 MB"),
)
RUNS = (
    *QUERIES,
    ("*_w16a16i_dfp", "*", "1.5.2 takes no 16-bit inputs, and crashes in a run"),
    ("*_batch2", "float32_*", "1.5.2 overwrites its memory: a crash, or tasks at odd addresses"),
    ("cpu_sin_*", "*", "sines on the CPU: some int8 numbers are one step off"),
    ("cpu_common_rk3588_fp", "*_8", "LRN on the CPU: a power that is rounded differently, one number of 480"),
    ("gru_*", "*", "1.5.2 gives zeros for a GRU"),
    ("cpu_argmax_*", "bound_NATIVE_NHWC_OUTPUT_ATTR_bytes_1", "1.5.2 writes int64 with channels last as float32"),
    ("ppocrv4_det_rk3566_i8", "bound_NATIVE_NHWC_OUTPUT_ATTR_*", "1.5.2 says 480 channels of one, 110 MB"),
    ("lprnet-*", "*_raw_0", "divisions on the CPU between quantized maps: up to 4 steps, not explained yet"),
    ("lprnet-*", "*_float_0", "the same"),
    ("lprnet-*", "bound_*_bytes_0", "the same"),
    ("cpu_rk35*", "*", "sines on the CPU, as above"),
    ("gelu_*", "bound_NATIVE_OUTPUT_ATTR_*", "1.5.2 writes behind a memory of the size that it said"),
    ("slice__*", "bound_NATIVE_OUTPUT_ATTR_*", "1.5.2 writes behind a memory of the size that it said"),
    ("w30_*", "own_*_0", "ends of padded rows, as below"),
    ("w30_*", "bound_*_bytes_0", "ends of padded rows, as below"),
    ("two_inputs_*", "own_*_0", "ends of padded rows: 1.5.2 leaves what was there before; ours are the zero point"),
    ("two_inputs_*", "bound_*_bytes_0", "ends of padded rows: ours are the zero point, whatever the memory has there"),
    ("dynamic_*", "own_*_0", "ends of padded rows, as above"),
    ("dynamic_*", "bound_*_bytes_0", "ends of padded rows, as above"),
)
REFUSALS = (
    ("query SDK_VERSION*", "*api_version", "the version says whose library it is"),
    ("query PERF_DETAIL*", "*perf_data", "an address"),
    ("query PERF_DETAIL*", "*data_len", "times have other digits"),
    ("query PERF_RUN*", "*run_duration", "a time"),
    ("query NATIVE_NHWC_INPUT_ATTR one byte short", "*asked", "1.5.2 writes nothing and returns 0; ours -5"),
    ("query NATIVE_NHWC_INPUT_ATTR of a tensor*", "*", "1.5.2 writes nothing and returns 0; ours -5"),
    ("init of *", "*counts*", "1.5.2 leaves half a context behind a failed rknn_init; ours none"),
    (
        "init of a model without its last byte",
        "*init",
        "1.5.2 does not read the end of the file; ours says that it is cut",
    ),
    ("init with flag 0x20", "*counts*", "1.5.2 leaves half a context behind a failed rknn_init; ours none"),
    ("an input that is not there", "*set", "1.5.2 ignores it; ours returns -8"),
    ("an input of type [457]", "*set", "1.5.2 refuses int16, uint16 and uint32; ours converts them"),
    ("an input of layout 2", "*set", "1.5.2 says so in its log and ignores the input; ours returns -8"),
    ("a run with a struct of zeros", "*frame_id", "1.5.2 does not count frames; ours does"),
    ("an output into too little memory", "*get", "1.5.2 writes nothing and returns 0; ours -9"),
    ("an output into no memory", "*get", "1.5.2 writes nothing and returns 0; ours -5"),
    ("memory for an output of floats, too small", "*set", "1.5.2 writes behind the end; ours returns -1"),
    ("memory for * output, one byte short", "*set", "1.5.2 writes behind the end; ours returns -1"),
    ("too little memory for *", "*set", "1.5.2 writes behind the end; ours returns -1"),
    ("core mask 65535", "*set", "RKNN_NPU_CORE_ALL is of 2.0; ours knows it"),
)


def unexplained(
    table: tuple[tuple[str, str, str], ...], name: str, found: dict[str, tuple[Any, Any]]
) -> dict[str, tuple[Any, Any]]:
    """What no row of the table names, and what is a crash of ours."""

    def is_known(label: str, ours: Any) -> bool:
        return ours != CRASH and any(fnmatchcase(name, one) and fnmatchcase(label, two) for one, two, _ in table)

    return {label: pair for label, pair in found.items() if not is_known(label, pair[1])}
