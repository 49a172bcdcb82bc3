"""The names of what a check can find, with a sentence for reports that explain them."""

from __future__ import annotations

from openrknn.analysis.lint_codes import CODES, FILE_CODES

__all__ = ["HELP_URI", "LINT", "RULES", "title_of"]

LINT = "lint/"
"""In front of the codes of `openrknn lint`."""
HELP_URI = "https://openrknn.github.io/openrknn/ci.html"

RULES = {
    "output-differs": "An output is further from what is expected than the tolerance allows.",
    "answer-differs": "The answer (classes, boxes, areas, text, transcript) is not the expected one.",
    "first-difference": "The first operator whose result is not the recorded one.",
    "saturated": "Many elements of a tensor are at the end of their range, and were not when the golden was made.",
    "weights-changed": "The weights of an operator are not the recorded ones, bit for bit.",
    "quantization-changed": "A tensor has another type, scale or zero point than recorded.",
    "commands-changed": "The commands of an operator are not the recorded ones.",
    "operator-added": "An operator is there that was not recorded.",
    "operator-removed": "A recorded operator is not there any more.",
    "operator-moved": "An operator runs somewhere else than recorded: on the CPU, or on the NPU.",
    "operator-changed": "An operator has another type than recorded.",
    "interface-changed": "An input or output has another name, type or shape than recorded.",
    "chip-changed": "The model is built for another chip.",
    "cpu-operators-grew": "More operators run on the CPU than the budget allows.",
    "over-budget": "The model costs more than its budget.",
    "cannot-check": "The model, the golden folder or a case could not be read or run.",
}
"""Code -> what it means."""


def title_of(code: str) -> str:
    """One sentence for any code."""
    if code.startswith(LINT):
        name = code.removeprefix(LINT)
        return FILE_CODES.get(name) or (f"A finding of `openrknn lint`: {name}." if name in CODES else code)
    return RULES.get(code, code)
