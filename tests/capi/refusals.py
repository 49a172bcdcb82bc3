"""Calls that should not be made, or not yet: one case each, with a context of its own.

A case adds lines to a script; both libraries are asked, and the codes are compared. Cases that make the vendor's
library crash are named in `CRASHES`: what they show is that ours does not.
"""

from __future__ import annotations

from tests.capi import refusals_calls, refusals_memory
from tests.capi.refusal_cases import CASES, Case

__all__ = ["CASES", "CRASHES", "Case", "refusals_calls", "refusals_memory"]

CRASHES = {
    "query NATIVE_OUTPUT_ATTR of a tensor that is not there": ("_1", -5),
    "context 0": ("_batch", -7),
    "context 1234": ("_query", -7),
    **{f"{function} after rknn_destroy": ("_again", -7) for function in (
        "rknn_query", "rknn_run", "rknn_destroy", "rknn_set_core_mask", "rknn_outputs_get", "rknn_inputs_set",
    )},
    "init from a folder": ("_init", -6),
    "an input without bytes": ("_set", -5),
    "an input of layout -1": ("_set", -5),
    "an input of layout 4": ("_set", -5),
    "inputs without structs": ("_set", -5),
    "outputs without structs": ("_get", -5),
    "outputs released twice": ("_again", -5),
    "memory that is destroyed twice": ("_twice", -5),
    "no shapes": ("_set", -5),
    "a dynamic model before its shapes are chosen": ("_inputs", -7),
    "a run of a dynamic model before its shapes are chosen": ("_run", -7),
    "a copy of context 0": ("_zero", -7),
}  # fmt: skip
"""Cases in which the vendor's library crashes: where, and what ours returns there."""
