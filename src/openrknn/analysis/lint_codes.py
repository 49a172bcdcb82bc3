"""The names of all findings, for command lines and completion, which must not wait for the rules to be imported."""

from __future__ import annotations

RULE_CODES = (
    "layout-mismatch",
    "never-written",
    "overwritten",
    "out-of-bounds",
    "hardware-limit",
    "multiplier-overflow",
    "operand-format",
    "not-finite",
    "constant-channels",
    "cannot-decide",
    "lost-in-sum",
    "normalised-twice",
    "cpu-island",
    "input-rearranged",
    "input-ignored",
    "unproven-limit",
)
"""In the order of `catalogue.RULES`; a test compares the two."""

FILE_CODES = {
    "damaged": "Parts of the file contradict each other; the vendor's runtime does not check that and may crash.",
    "unknown-part": "The file has a part that openrknn does not know.",
    "broken-scale": "A scale is 0, negative, infinite or not a number: no value can be computed from it.",
    "far-zero-point": "A zero point does not fit its type: 0 cannot be stored, so padding is off by a constant.",
    "constant-range": "A tensor had one value only in calibration; at run time every other value is lost.",
    "shared-scale": "A Concat joins large numbers (boxes) and small ones (scores) under one scale: few of 256 levels "
    "are left for the small ones. Make them separate outputs, by cutting the last Concat.",
    "coarse-detections": "An output looks like boxes with scores and its step is too large for scores.",
    "few-levels": "An output used a few of its 256 levels in calibration.",
    "cpu-fallback": "Operators run on the CPU.",
    "custom-operator": "The vendor's runtime aborts when a custom operator is not registered.",
    "weights-missing": "The file was exported without weights.",
    "weights-compressed": "The NPU unpacks the weights while it loads them.",
    "newer-toolkit": "The file is newer than what openrknn was tested with.",
    "trailing-bytes": "Something follows the end of the model.",
    "two-platforms": "The file names two chips; the runtime looks at one of them.",
    "single-core": "Several cores cannot share one run of this model.",
    "stale-memory-plan": "The amounts of memory that the file states are not those of its tensors.",
    "mixed-outputs": "The outputs have different types.",
    "calibrated-as-bgr": "The calibration images were converted from RGB to BGR; this is not done at run time.",
}
"""Code -> what it means; found by `openrknn.analysis.findings` without a look at the commands."""

CODES = (*RULE_CODES, *FILE_CODES)
