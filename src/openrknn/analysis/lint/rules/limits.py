"""Tasks that do not fit into the hardware, or are close to what hangs it; `openrknn.chip.limits` has the rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from openrknn.analysis.lint.context import Found, LintContext, Rule, place
from openrknn.analysis.lint.finding import Severity


def _of_tasks(context: LintContext, texts: Mapping[int, str], why: str) -> Iterator[Found]:
    for work, step in context.steps():
        if step.task in texts:
            yield Found(place(work.operator, step), texts[step.task], why)


def _broken(context: LintContext) -> Iterator[Found]:
    texts = context.decoded.limits if context.decoded is not None else {}
    why = "the result is wrong, or the NPU hangs until a reset or a power cycle; the software NPU refuses the task"
    return _of_tasks(context, texts, why)


def _unproven(context: LintContext) -> Iterator[Found]:
    decoded = context.decoded
    texts: dict[int, str] = {}
    if decoded is not None:
        texts = {task: said for task, said in decoded.unproven.items() if task not in decoded.limits}
    return _of_tasks(context, texts, "no board is known to have run it; the software NPU runs it")


HARDWARE_LIMIT = Rule(
    "hardware-limit",
    Severity.ERROR,
    "a task does not fit into the hardware, or is known to hang boards",
    "Rows and weights of a convolution share the banks of a buffer on the chip. Rows that do not fit overwrite each "
    "other, and some ways to share the banks hang the NPU. Every program of the vendor's converter keeps these limits; "
    "the page \"Limits of the hardware\" of the manual has each of them with its source.",
    "compile the model again, with the vendor's converter or with openrknn, which never emits such a task; a program "
    "written by hand has to give more banks to what does not fit, or to be cut into smaller tasks",
    "ork-driver's fp16 product of 1024 x 1024 x 16 on a Rock 5B, before its fix",
    _broken,
)

UNPROVEN_LIMIT = Rule(
    "unproven-limit",
    Severity.WARNING,
    "a task is close to a hardware limit and has not been measured on a board",
    "The task is neither among what boards have run nor among what is known to fail, and it is next to the latter.",
    "try it on a board that may be switched off and on, with a timeout; please report what it did",
    "int4 products of several rows in ork-driver: whether they start depends on the clock of the board's memory",
    _unproven,
)
