"""Writes `docs/hardware/registers/*.md`, `roundings.md` and `ignored.md` out of their tables.

python tools/make_hardware_docs.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from openrknn.chip.manual import pages
from openrknn.chip.maps import all_maps
from openrknn.isa.ignored import IGNORED
from openrknn.verify.rules import QUESTIONS, Question

HARDWARE = Path(__file__).parents[1] / "docs" / "hardware"


def manual() -> dict[str, str]:
    """Every page: file name -> Markdown."""
    seen = json.loads((HARDWARE / "seen.json").read_text(encoding="utf-8"))
    return pages(all_maps(), seen)


def tables() -> dict[str, str]:
    """The pages beside the manual."""
    return {"roundings.md": roundings_page(), "ignored.md": ignored_page()}


def main() -> int:
    """Write the pages and remove those that no longer exist."""
    folder = HARDWARE / "registers"
    folder.mkdir(exist_ok=True)
    written = manual()
    for old in folder.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, text in tables().items():
        (HARDWARE / name).write_text(text, encoding="utf-8")
    print(f"{len(written)} pages in {folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder}")
    return 0


def roundings_page() -> str:
    """`docs/hardware/roundings.md`"""
    return "\n".join(_roundings()) + "\n"


def _roundings() -> Iterator[str]:
    settled = [question for question in QUESTIONS.values() if question.grade != "?"]
    left = [question for question in QUESTIONS.values() if question.grade == "?"]
    yield from (
        "# Roundings and their evidence",
        "",
        "Every place of the pipeline where a number loses bits, the rule that the software NPU has there, and its",
        "evidence. The grades are those of the [register manual](registers/index.md); *open* means that no witness",
        "tells the candidates apart on an RK3588. `openrknn verify` has a case for each row, whose result is another",
        "one under every candidate, so that one run on one board names the board's rule in all of them.",
        "",
        "## Settled by boards",
        "",
    )
    yield from _table(settled)
    yield from ("", "## Open on the RK3588", "")
    yield from _table(left)
    yield from (
        "",
        "On RV1103 more is settled: averages of 2 x 2, products and sums of tensors, and convolutions round halves to",
        "even with the zero point included, and the round bit of the output converter sends them away from zero",
        "(dnhkng/open-rknpu: 10.6 million bytes of a Luckfox board, all equal to integer models). RK3576 rounds to the",
        "nearest number in its output converter; no recording has a tie. None is known of RK3562. See",
        "[ledgers of others](ledgers.md).",
    )
    yield from _FLOAT_SUMS


_FLOAT_SUMS = (
    "",
    "## Sums of floating point products",
    "",
    "The array adds up the products of 32 channels at one position of the kernel, and adds that sum to the",
    "accumulator, which is single precision and rounds to nearest. The order is part of the rule: groups of 32",
    "channels, of each the kernel's rows, of each its columns. `numerics.multiply_floats` has the additions,",
    "`npu/blocks/core.py` the order; every set of kernels gives the same bits, with any number of threads.",
    "",
    "Evidence: allbilly/rk3588 published the largest error of each of 190 fp16 convolutions on an RK3588, to four",
    "digits, and inputs that can be made again. Outputs that lie nearly in the middle of two fp16 numbers tell",
    "the candidates apart:",
    "",
    "| sum | recordings that it misses | decided by |",
    "|---|---|---|",
    "| **groups of 32, in single precision** | **none** | |",
    "| groups of 32, each exact, then single precision | none | |",
    "| exact, rounded once | 1 | output (200, 7, 7) of 528 x 14 x 14, 256 kernels |",
    "| one by one, without groups | 1 | output (103, 1, 1) of 192 x 7 x 7, 384 kernels of 3 x 3 |",
    "| groups of 8; of 16; of 64 | 4; 3; 3 | output (25, 2, 4) of 512 x 14 x 14, in three of them |",
    "| groups of 32, additions that cut off | 9 | |",
    "| groups of 32, an accumulator of 23; 22; 21; 20 bits | 5; 4; 8; 22 | |",
    "",
    "Grade S for groups of 32 and for single precision to nearest, on RK3588. *Open*: in which order the array adds",
    "the 32 (one by one, as here, and exactly cannot be distinguished), whether rows and columns come before groups",
    "of channels, and what other chips do; they have the same rule here.",
)


def _table(questions: list[Question]) -> Iterator[str]:
    yield "| case of `verify` | what is rounded | rule | other candidates | grade | evidence |"
    yield "|---|---|---|---|---|---|"
    for question in questions:
        others = "; ".join(name for name in question.candidates if name != question.ours)
        grade = "open" if question.grade == "?" else question.grade
        cells = question.case, question.formula, f"**{question.ours}**", others, grade, question.evidence
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"


def ignored_page() -> str:
    """`docs/hardware/ignored.md`"""
    rows = [
        f"| {row.family} | {row.kind} | `{row.place}` | {row.bits:#010x} | {_cell(row.run)} |"
        for row in sorted(IGNORED)
    ]
    lines = (
        "# What boards ignore",
        "",
        "Undeclared bits, words without a target, stages that were not configured: programs with these pass on boards,",
        "so they do not stop the software NPU either. They are notes: `Session.notes`, the findings of `openrknn",
        "inspect`, lines of `openrknn run` and `openrknn exec` (`notes` in their JSON). `strict=True` and `--strict`",
        "refuse them. Whatever is not in this table may change a result and stops a run, by name.",
        "",
        "| family | kind | place | bits | shown by |",
        "|---|---|---|---|---|",
        *rows,
    )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(main())
