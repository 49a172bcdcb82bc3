"""Which rules come into question where the hardware rounds, which of them the software NPU has, and on what evidence.

Each question belongs to a case of the battery whose answer is another one under every candidate: whatever NPU runs the
case says which rule it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from openrknn.verify.candidates import (
    AWAY,
    EVEN,
    FLOOR,
    UP,
    ZERO,
    Answer,
    Rule,
    average,
    average_twice,
    by_name,
    half_table,
    leaky,
    once,
    operand,
    shifts,
    source,
    table_answer,
    then_offset,
    third,
    to_bytes,
)  # fmt: skip
from openrknn.verify.cases import LOOKUP_FACTOR, Case

_ATOM = 16
_BOARDS = "PP-OCR's 16 scores (RK3588)"
_RV1103 = "dnhkng/open-rknpu (RV1103)"
_ORK = "six products of oRKLLM/ork-driver (RK3588)"


class Question(NamedTuple):
    """One rounding of the pipeline."""

    case: str
    formula: str
    candidates: Mapping[str, Rule]
    ours: str
    """The rule of the software NPU."""
    grade: str
    """Of the evidence (`openrknn.isa.evidence`), "?" if no witness tells these candidates apart on RK3588."""
    evidence: str
    lanes: int = 16
    """Bytes of each atom that the rule is about."""


def named_rule(name: str, case: Case, found: Answer) -> str:
    """The candidate that an answer shows: "" if nothing was asked, "none of ..." if it is another rule."""
    question = QUESTIONS.get(name)
    if question is None:
        return ""
    seen = found.reshape(-1, _ATOM)[:, : question.lanes].reshape(-1)
    fitting = [rule for rule, answer in question.candidates.items() if np.array_equal(answer(case), seen)]
    return " or ".join(fitting) or f"none of: {', '.join(question.candidates)}"


def _tables(case: str) -> dict[str, Rule]:
    factor = LOOKUP_FACTOR[case]
    return by_name((FLOOR, EVEN, UP, AWAY, ZERO), lambda given, name: table_answer(given, factor, name))


QUESTIONS: dict[str, Question] = {
    question.case: question
    for question in (
        Question("bs_ties", "BS: x * m >> n", shifts(source, 1), EVEN, "S", f"{_BOARDS}; {_RV1103}"),
        Question("bn_ties", "BN: x * m + a >> n", shifts(lambda case: 3 * source(case) + 5, 3), EVEN, "?",
                 f"even or up by {_BOARDS}; even on RV1103"),
        Question("bn_leaky", "BN, negative numbers only: (x < 0 ? x * m : x) >> n", {
            "both signs are shifted": lambda case: leaky(case, both=True),
            "only negative numbers are shifted": lambda case: leaky(case, both=False),
        }, "both signs are shifted", "S", "LPRNet and RetinaFace (RK3588)"),
        Question("out_ties", "output converter: x * scale + (offset << n) >> n", {
            "once, halves to even": lambda case: once(case, EVEN),
            "halves to even, then the offset": then_offset,
            "once, halves up": lambda case: once(case, UP),
            "once, halves away from zero": lambda case: once(case, AWAY),
            "once, rounded down": lambda case: once(case, FLOOR),
        }, "once, halves to even", "S", f"{_BOARDS}; {_RV1103}; without an offset {_ORK}"),
        Question("out_ties_bit", "output converter with its round bit: x >> n", shifts(source, 2), AWAY, "?",
                 f"RK3588's manual: \"round-up 0.5 to 1\"; away from zero by {_RV1103}, 12,288 bytes, up refuted"),
        Question("ew_converter", "operand of EW: e * scale >> n", shifts(lambda case: 3 * operand(case), 2), EVEN,
                 "?", f"not distinguished by {_BOARDS}"),
        Question("ew_converter_bit", "operand of EW with its round bit: e * scale >> n",
                 shifts(lambda case: 3 * operand(case), 2), AWAY, "?", "the output converter's bit (RV1103)"),
        Question("ew_product", "EW product: x * e >> n",
                 shifts(lambda case: source(case) * operand(case), 3), EVEN, "?",
                 f"never used by the vendor's files; the product is rounded in the output converter ({_RV1103})"),
        Question("input_converter", "input converter: (x + offset) * scale >> n",
                 shifts(lambda case: 3 * source(case), 2), EVEN, "?", f"not down by {_BOARDS}"),
        Question("input_converter_bit", "input converter with its round bit",
                 shifts(lambda case: 3 * source(case), 2), AWAY, "?", "the output converter's bit (RV1103)"),
        Question("truncate_ties", "CORE: acc >> CLIP_TRUNCATE", shifts(source, 1), EVEN, "?",
                 "OSNet (RK3566 file on RK3588) needs the shift, and does not tell how it rounds"),
        Question("truncate_ties_bit", "CORE with its round bit: acc >> CLIP_TRUNCATE", shifts(source, 1), AWAY, "?",
                 "the output converter's bit (RV1103)"),
        Question("average_ties", "average of 2 x 2: sum * (1/kw) * (1/kh)", {
            **by_name((EVEN, UP, AWAY, FLOOR, ZERO), lambda case, name: average(case, 2, name)),
            "halves to even along each axis": lambda case: average_twice(case, 2),
        }, EVEN, "?", f"even by {_RV1103}, 25,344 bytes"),
        Question("average_3", "average of 3 x 3: sum * (1/kw) * (1/kh)", {
            "to nearest": lambda case: average(case, 3, EVEN),
            FLOOR: lambda case: average(case, 3, FLOOR),
            ZERO: lambda case: average(case, 3, ZERO),
            "to nearest along each axis": lambda case: average_twice(case, 3),
        }, "to nearest", "?", "the vendor's simulator, within one step"),
        Question("lookup", "tables: T[i] + (T[i+1] - T[i]) * f >> s", _tables("lookup"), FLOOR,
                 "S", f"{_BOARDS}; the index probe of {_RV1103}"),
        Question("lookup_beyond", "tables: the slopes beyond both ends", _tables("lookup_beyond"), FLOOR,
                 "?", "as between the entries"),
        Question("half_lookup", "tables on fp16 numbers", {
            "a line, not rounded": lambda case: half_table(case, whole=""),
            "argument to even, result rounded down": lambda case: half_table(case, whole=EVEN),
            "argument and result rounded down": lambda case: half_table(case, whole=FLOOR),
        }, "a line, not rounded", "?", "the vendor's simulator, within one unit in the last place"),
        Question("half_third", "fp32 to fp16", {
            "to nearest": lambda case: third(case, towards_zero=False),
            "rounded towards zero": lambda case: third(case, towards_zero=True),
        }, "to nearest", "S", "all 190 fp16 convolutions of allbilly/rk3588 (Orange Pi 5)"),
        Question("half_to_int8", "fp16 to int8", by_name((EVEN, UP, AWAY, FLOOR, ZERO), to_bytes), EVEN, "?",
                 "the vendor's simulator, within one step", lanes=8),
    )
}  # fmt: skip
"""By case."""
