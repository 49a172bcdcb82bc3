"""Cases for jobs of the driver `rocket`: what is dropped, what runs, and what it leaves in memory.

Addresses in a file of rocket are known before: the lowest free page comes first. So the commands of a job can be
written down here.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.board import streams
from openrknn.board.iommu import PAGE_BYTES
from openrknn.board.program_text import ALL_ONES, NOWHERE, PROTECTION, Script, Value
from openrknn.uapi import drm, rocket

__all__ = ["job_cases"]

_A, _B, _C, _COMMANDS = (number * PAGE_BYTES for number in range(4))
_HANDLES = {"a": 1, "b": 2, "c": 3, "k": 4}
_WAIT_NS = 60_000_000_000


def job_cases() -> Iterator[Script]:
    """All of them."""
    yield from _submitting()
    yield from _jobs()
    yield from _processes()


def _ready_job(case: Script, seed: int = 0) -> str:
    """A file with a product in its first four buffers."""
    file = case.open()
    for name in "abck":
        argument = case.call(file, rocket.CREATE_BO, size=PAGE_BYTES)
        case.do("map", name, file, PAGE_BYTES, case.get("offset", argument, rocket.CREATE_BO, "offset"), PROTECTION)
    left, right, _ = streams.operands(seed)
    body = streams.product_body(_A, _B, _C) + streams.tail(streams.PRODUCT_MASK)
    for name, data in (("a", left), ("b", right), ("k", streams.to_bytes(body))):
        case.do("write", f"${name}", data.hex())
    return file


def _words() -> int:
    return len(streams.product_body(0, 0, 0)) + len(streams.tail(0))


def _handles(case: Script, name: str, text: str) -> None:
    numbers = [_HANDLES.get(letter, ord(letter)) for letter in text]
    case.do("bytes", name, b"".join(number.to_bytes(4, "little") for number in numbers).hex() or "00")


def _submit(case: Script, file: str, read: str, written: str, **changes: Value) -> None:
    """A job of one task; `changes` are for the job, and with `submit_` for the ioctl."""
    task = rocket.TASK.pack({"regcmd": _COMMANDS, "regcmd_count": int(changes.pop("words", _words()))})
    case.do("bytes", "tasks", (task + bytes(64)).hex())
    _handles(case, "ins", read)
    _handles(case, "outs", written)
    outer = {name.removeprefix("submit_"): value for name, value in changes.items() if name.startswith("submit_")}
    job: dict[str, Value] = {
        "tasks": "$tasks", "in_bo_handles": "$ins", "out_bo_handles": "$outs", "task_count": 1,
        "task_struct_size": rocket.TASK.size, "in_bo_handle_count": len(read), "out_bo_handle_count": len(written),
        **{name: value for name, value in changes.items() if not name.startswith("submit_")},
    }  # fmt: skip
    case.do("buffer", "job", rocket.JOB.size + 64)
    for field in rocket.JOB.fields:
        case.do("set64" if field.type == "u64" else "set32", f"$job+{rocket.JOB.offsets[field.name]}", job[field.name])
    values: dict[str, Value] = {"jobs": "$job", "job_count": 1, "job_struct_size": rocket.JOB.size, **outer}
    case.do("ioctl", file, f"{rocket.SUBMIT.request:#x}", case.argument(rocket.SUBMIT, values))


def _finish(case: Script, file: str) -> None:
    """Wait, and say what is in C."""
    case.do("later", "deadline", _WAIT_NS)
    case.call(file, rocket.PREP_BO, handle=_HANDLES["c"], timeout_ns="$deadline")
    case.do("sum", "$c", streams.ROWS * streams.COLUMNS * 2)


def _submitting() -> Iterator[Script]:
    """One thing is wrong, or unusual: does the ioctl report it, and does the job run?"""
    wrong: dict[str, dict[str, Value]] = {
        "nothing": {},
        **{f"job-size-{size}": {"submit_job_struct_size": size} for size in (0, 8, 39, 40, 48, 64)},
        **{f"jobs-{count}": {"submit_job_count": count} for count in (0, 1)},
        **{f"reserved-{value}": {"submit_reserved": value} for value in (1, ALL_ONES)},
        "no-jobs-and-reserved": {"submit_job_count": 0, "submit_reserved": 1},
        **{f"jobs-at-{place}": {"submit_jobs": place} for place in (0, NOWHERE)},
        **{f"task-size-{size}": {"task_struct_size": size} for size in (0, 4, 7, 8, 16, 64)},
        "no-tasks": {"task_count": 0},
        **{f"tasks-at-{place}": {"tasks": place} for place in (0, NOWHERE)},
        **{f"inputs-at-{place}": {"in_bo_handles": place} for place in (0, NOWHERE)},
        **{f"outputs-at-{place}": {"out_bo_handles": place} for place in (0, NOWHERE)},
        "no-words": {"words": 0},
        "one-word-less": {"words": _words() - 1},  # words are fetched in pairs: the last one comes along
        "no-inputs": {"in_bo_handle_count": 0},
    }
    for name, changes in wrong.items():
        case = Script(f"submit-{name}")
        file = _ready_job(case)
        _submit(case, file, "abk", "c", **changes)
        _finish(case, file)
        yield case
    for read in ("", "a", "abck"):  # a program cannot wait for the end of such a job, only for the next one's
        case = Script(f"submit-without-outputs-{read or 'none'}")
        file = _ready_job(case)
        _submit(case, file, read, "")
        _submit(case, file, "abk", "c")
        _finish(case, file)
        yield case


def _jobs() -> Iterator[Script]:
    lists = ("abk c", "ab c", " c", "abk ck", "aab c", "ab cc", "abc c", "abkx c", "abk cx", "kba c", " abck")
    for both in lists:
        read, _, written = both.partition(" ")
        case = Script(f"lists-{read or 'none'}-{written or 'none'}")
        file = _ready_job(case)
        _submit(case, file, read, written)
        _finish(case, file)
        yield case
    for seed in range(1, 6):
        case = Script(f"product-{seed}")
        file = _ready_job(case, seed)
        for _ in range(seed):
            _submit(case, file, "abk", "c")
        _finish(case, file)
        yield case
    case = Script("a-buffer-closed-after-submit")
    file = _ready_job(case)
    _submit(case, file, "abk", "c")
    for handle in (1, 2, 4):
        case.call(file, drm.GEM_CLOSE, handle=handle)
    _finish(case, file)
    yield case
    case = Script("two-files-at-once")
    first = _ready_job(case, 1)
    case.do("dup", "first", first)
    case.do("dup", "unused", first)
    second = _ready_job(case, 2)
    _submit(case, second, "abk", "c")
    _finish(case, second)
    yield case


def _processes() -> Iterator[Script]:
    """Children use what they inherit; a program that is killed leaves a driver that works."""
    case = Script("a-child-uses-the-file")
    file = _ready_job(case)
    case.do("child")
    _submit(case, file, "abk", "c")
    _finish(case, file)
    case.do("end")
    case.do("sum", "$c", streams.ROWS * streams.COLUMNS * 2)
    made = case.call(file, rocket.CREATE_BO, size=PAGE_BYTES)
    case.show(made, rocket.CREATE_BO, "handle", "dma_address")
    yield case
    for name, waits in (("with-its-job", False), ("after-its-job", True)):
        case = Script(f"killed-{name}")
        case.do("child")
        file = _ready_job(case)
        _submit(case, file, "abk", "c")
        if waits:
            _finish(case, file)
        case.do("kill")
        case.do("end")
        file = _ready_job(case)
        _submit(case, file, "abk", "c")
        _finish(case, file)
        yield case
    for count in (1, 10, 50):
        case = Script(f"opened-and-closed-{count}-times")
        for _ in range(count):
            file = case.open()
            case.call(file, rocket.CREATE_BO, size=PAGE_BYTES)
            case.do("close", file)
        made = case.call(case.open(), rocket.CREATE_BO, size=PAGE_BYTES)
        case.show(made, rocket.CREATE_BO, "handle", "dma_address")
        yield case
