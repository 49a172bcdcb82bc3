"""Cases for jobs of the driver `rknpu`: which run, on which cores, what they leave in memory, and what is refused.

Programs learn the addresses of their buffers from the driver, so each case writes them into the commands of its tasks.
Left out, because the driver reads memory of the kernel at a wrong place: tasks in a buffer without kernel mapping,
tasks behind the end of their buffer, and ranges without tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from openrknn.board import streams
from openrknn.board.iommu import PAGE_BYTES
from openrknn.board.program_text import ALL_ONES, CARD, PROTECTION, Script, Value
from openrknn.uapi import rknpu
from openrknn.uapi.rknpu import Action, JobFlag, MemoryFlag

__all__ = ["rknpu_job_cases"]

_FLAGS = MemoryFlag.NON_CONTIGUOUS | MemoryFlag.CACHEABLE | MemoryFlag.KERNEL_MAPPING
_RUN = JobFlag.PC | JobFlag.PINGPONG
_MARKS = {"a": 0xA0000000, "b": 0xB0000000, "c": 0xC0000000}
"""Stand for addresses in commands, until the case knows them."""
_DPU_DONE = 0x300
_MILLISECONDS = 2000
_RESULT_BYTES = streams.ROWS * streams.COLUMNS * 2
_AMOUNT_SHIFT = 1
_WAIT = 5000
_CORES = 3


def rknpu_job_cases() -> Iterator[Script]:
    """All of them."""
    yield from _products()
    yield from _wrong()
    yield from _chains()
    yield from _failing()
    yield from _fences()
    yield from _processes()


def _case(name: str) -> Script:
    return Script(name, CARD)


class _Job:
    """Buffers A, B, C, K (commands) and T (tasks) of one file, with products in them."""

    def __init__(self, case: Script, variable: str = "f", seed: int = 0, tasks: int = 1) -> None:
        self.case, self.count = case, tasks
        self.file = case.open(variable)
        for name in "abckt":
            made = case.call(self.file, rknpu.MEM_CREATE, size=PAGE_BYTES * (1 + (name == "k")), flags=_FLAGS)
            case.get(f"{name}_at", made, rknpu.MEM_CREATE, "dma_addr")
            handle = case.get("handle", made, rknpu.MEM_CREATE, "handle")
            if name == "t":
                case.get("object", made, rknpu.MEM_CREATE, "obj_addr")
            place = case.call(self.file, rknpu.MEM_MAP, handle=handle)
            offset = case.get("offset", place, rknpu.MEM_MAP, "offset")
            case.do("map", name, self.file, PAGE_BYTES * (1 + (name == "k")), offset, PROTECTION)
        left, right, _ = streams.operands(seed)
        case.do("write", "$a", left.hex())
        case.do("write", "$b", right.hex())
        self._write_commands()
        for number in range(tasks):
            self.task(number)

    def _write_commands(self) -> None:
        """Each product writes behind the one before; all but the last lead to the next."""
        body = streams.product_body(*(_MARKS[name] for name in "abc"))
        self.words = len(body)
        self.step = (self.words + len(streams.tail(0)) + 1 & ~1) * 8
        for number in range(self.count):
            is_last = number == self.count - 1
            amount = (self.words + len(streams.tail(0)) + 1 >> _AMOUNT_SHIFT) - 1
            link = 0 if is_last else _MARKS["a"]
            stream = body + streams.tail(streams.PRODUCT_MASK, link, 0 if is_last else amount)
            place = number * self.step
            self.case.do("write", f"$k+{place}", streams.to_bytes(stream).hex())
            for position, word in enumerate(stream):
                value = word >> 16 & ALL_ONES
                names = [name for name, mark in _MARKS.items() if mark == value]
                if names and position < self.words:
                    more = number * _RESULT_BYTES if names[0] == "c" else 0
                    self.case.do("set32", f"$k+{place + position * 8 + 2}", f"${names[0]}_at+{more}")
                elif names:
                    self.case.do("set32", f"$k+{place + position * 8 + 2}", f"$k_at+{place + self.step}")

    def task(self, number: int, **changes: Value) -> None:
        """Describe a task."""
        values: dict[str, Value] = {
            "op_idx": number, "enable_mask": streams.PRODUCT_MASK, "int_mask": _DPU_DONE,
            "int_clear": rknpu.INTERRUPT_CLEAR, "regcfg_amount": self.words,
            "regcmd_addr": f"$k_at+{number * self.step}", **changes,
        }  # fmt: skip
        for field in rknpu.TASK.fields:
            if field.name in values:
                place = f"$t+{number * rknpu.TASK.size + rknpu.TASK.offsets[field.name]}"
                self.case.do("set64" if field.type == "u64" else "set32", place, values[field.name])

    def submit(self, mask: int = 1, ranges: Mapping[int, tuple[int, int]] | None = None, **changes: Value) -> str:
        """Start it; `ranges` are the entries of `subcore`, else all tasks on every core of the mask."""
        entries = ranges
        if entries is None:
            first = 2 if mask == (1 << _CORES) - 1 else 0
            entries = {first + core: (0, self.count) for core in range(_CORES) if mask >> core & 1 or not mask}
        values: dict[str, Value] = {
            "flags": _RUN, "timeout": _MILLISECONDS, "task_number": self.count, "task_obj_addr": "$object",
            "core_mask": mask, "fence_fd": ALL_ONES, **changes,
        }  # fmt: skip
        argument = self.case.argument(rknpu.SUBMIT, values)
        offset = rknpu.SUBMIT.argument.offsets["subcore"]
        for entry, (start, number) in entries.items():
            self.case.do("set32", f"{argument}+{offset + 8 * entry}", start)
            self.case.do("set32", f"{argument}+{offset + 8 * entry + 4}", number)
        self.case.do("ioctl", self.file, f"{rknpu.SUBMIT.request:#x}", argument)
        self.case.show(argument, rknpu.SUBMIT, "task_counter")
        return argument

    def finish(self) -> None:
        """What is in C, and what the driver says about the last task."""
        self.case.do("sum", "$c", _RESULT_BYTES * self.count)
        place = (self.count - 1) * rknpu.TASK.size + rknpu.TASK.offsets["int_status"]
        self.case.do("get32", "status", f"$t+{place}")
        self.case.do("show", "$status")


def _products() -> Iterator[Script]:
    for mask in range(10):
        case = _case(f"job-mask-{mask}")
        job = _Job(case)
        job.submit(mask)
        job.finish()
        yield case
    for seed in range(1, 5):
        case = _case(f"job-product-{seed}")
        job = _Job(case, seed=seed)
        for core in range(seed):
            job.submit(1 << core % _CORES)
        job.finish()
        yield case
    for field, value in (
        ("priority", 1), ("priority", ALL_ONES), ("priority", 0x7FFFFFFF), ("task_start", 1), ("task_counter", 77),
        ("reserved", 1), ("task_number", 2), ("task_number", ALL_ONES), ("timeout", 6000),
    ):  # fmt: skip
        case = _case(f"job-{field.replace('_', '-')}-{value}")
        job = _Job(case)
        job.submit(1, None, **{field: value})
        job.finish()
        yield case
    case = _case("job-base-address")
    job = _Job(case)
    job.submit(task_base_addr=0xF)
    job.finish()
    yield case


def _wrong() -> Iterator[Script]:
    changes: dict[str, dict[str, Value]] = {
        "no-tasks": {"task_number": 0},
        "no-object": {"task_obj_addr": 0, "timeout": 100},
        "mask-ones": {"core_mask": ALL_ONES},
        "mask-8": {"core_mask": 8},
        **{f"flags-{flags:#x}": {"flags": flags} for flags in (0, 4, 0x20, 0x40, ALL_ONES & ~0x1A, 0x25)},
        "nonblock-without-pc": {"flags": JobFlag.NONBLOCK},
        **{f"domain-{domain}": {"iommu_domain_id": domain} for domain in (1, 15, 16, ALL_ONES)},
    }
    for name, change in changes.items():
        case = _case(f"submit-{name}")
        job = _Job(case)
        job.submit(1, None, **change)
        job.finish()
        if name.startswith("domain"):
            case.call(job.file, rknpu.ACTION, flags=Action.SET_IOMMU_DOMAIN_ID, value=0)
        case.call(job.file, rknpu.ACTION, flags=Action.GET_DRV_VERSION)
        job.submit()
        job.finish()
        yield case


def _chains() -> Iterator[Script]:
    for count in range(2, 6):
        for mask in (1, 2, 4):
            case = _case(f"chain-{count}-mask-{mask}")
            job = _Job(case, seed=count, tasks=count)
            job.submit(mask)
            job.finish()
            yield case
    for name, mask, ranges in (
        ("second-task", 1, {0: (1, 1)}), ("last-two", 1, {0: (2, 2)}),
        ("two-cores", 3, {0: (0, 2), 1: (2, 2)}),
        ("three-cores", 7, {2: (0, 1), 3: (1, 1), 4: (2, 2)}),
        ("two-cores-the-same", 3, {0: (0, 4), 1: (0, 4)}),
    ):  # fmt: skip
        case = _case(f"ranges-{name}")
        job = _Job(case, tasks=4)
        job.submit(mask, ranges)
        job.finish()
        yield case
    case = _case("chain-without-pingpong")
    job = _Job(case, tasks=3)
    job.submit(flags=JobFlag.PC)
    job.finish()
    yield case


def _failing() -> Iterator[Script]:
    """Jobs that never end: the driver waits, resets the NPU and says ETIMEDOUT; the next one runs.

    Only jobs without any interrupt: after one that is not the expected one, which that of a page fault is too, the
    driver frees the job and keeps it as the core's, and breaks with the next ones.
    """
    for mask in (0, 0x3, 0x200, 0xC00, 0xC0F):
        for core in (0, 2):
            case = _case(f"failing-mask-{mask:#x}-core-{core}")
            job = _Job(case)
            job.task(0, int_mask=mask)
            job.submit(1 << core, timeout=200)
            job.finish()
            job.task(0)
            job.submit(1 << core)
            job.finish()
            yield case
    case = _case("failing-chain-that-leads-nowhere")
    job = _Job(case)
    job.task(1)
    job.submit(1, {0: (0, 2)}, timeout=200)
    job.submit()
    job.finish()
    yield case
    case = _case("failing-and-then-a-reset")
    job = _Job(case)
    job.task(0, int_mask=0)
    job.submit(timeout=200)
    case.call(job.file, rknpu.ACTION, flags=Action.ACT_RESET)
    job.task(0)
    job.submit()
    job.finish()
    yield case
    for count in (2, 3):
        case = _case(f"failing-with-{count}-tasks")
        job = _Job(case, tasks=count)
        job.task(count - 1, int_mask=0)
        job.submit(timeout=200)
        job.finish()
        yield case


def _fences() -> Iterator[Script]:
    wanted = _RUN | JobFlag.NONBLOCK | JobFlag.FENCE_OUT
    for mask in (1, 4, 3):
        case = _case(f"fence-out-mask-{mask}")
        job = _Job(case)
        argument = job.submit(mask, flags=wanted)
        case.do("poll", case.get("fence", argument, rknpu.SUBMIT, "fence_fd"), _WAIT)
        job.finish()
        case.do("close", "$fence")
        yield case
    case = _case("fence-out-of-a-job-that-is-waited-for")
    job = _Job(case)
    argument = job.submit(flags=_RUN | JobFlag.FENCE_OUT)
    case.do("poll", case.get("fence", argument, rknpu.SUBMIT, "fence_fd"), 0)
    job.finish()
    yield case
    case = _case("fence-in-of-the-job-before")
    job = _Job(case)
    argument = job.submit(flags=wanted)
    fence = case.get("fence", argument, rknpu.SUBMIT, "fence_fd")
    job.submit(2, flags=_RUN | JobFlag.FENCE_IN, fence_fd=fence)
    job.finish()
    yield case
    case = _case("fence-in-that-was-signalled")
    job = _Job(case)
    fence = case.get("fence", job.submit(flags=wanted), rknpu.SUBMIT, "fence_fd")
    case.do("poll", fence, _WAIT)
    argument = job.submit(flags=_RUN | JobFlag.FENCE_IN, fence_fd=fence)
    case.show(argument, rknpu.SUBMIT, "fence_fd")
    job.finish()
    yield case
    for what in ("nothing", "memfd", "node"):
        case = _case(f"fence-in-of-{what}")
        job = _Job(case)
        if what == "memfd":
            case.do("memfd", "d", PAGE_BYTES)
        elif what == "node":
            case.open("d")
        job.submit(flags=_RUN | JobFlag.FENCE_IN, fence_fd=ALL_ONES if what == "nothing" else "$d")
        job.submit()
        job.finish()
        yield case
    for count in (1, 2, 5):
        case = _case(f"nonblocking-{count}-then-one-that-is-waited-for")
        job = _Job(case, seed=count)
        for _ in range(count):
            job.submit(flags=_RUN | JobFlag.NONBLOCK)
        job.submit()
        job.finish()
        yield case


def _processes() -> Iterator[Script]:
    case = _case("two-files-at-once")
    job = _Job(case, "f", 1)
    job.submit()
    job.finish()
    other = _Job(case, "g", 2)
    other.submit(2)
    other.finish()
    yield case
    case = _case("a-child-submits-the-job-of-its-parent")
    job = _Job(case)
    case.do("child")
    job.submit()
    case.do("end")
    job.finish()
    yield case
    for name, waits in (("with-its-job", False), ("after-its-job", True)):
        case = _case(f"killed-{name}")
        case.do("child")
        job = _Job(case)
        job.submit(flags=_RUN | (0 if waits else JobFlag.NONBLOCK))
        case.do("kill")
        case.do("end")
        job = _Job(case)
        job.submit()
        job.finish()
        yield case
    for count in (2, 8, 16):
        for mask in (0, 1, 7):
            case = _case(f"crowd-of-{count}-mask-{mask}")
            case.do("crowd", count)
            job = _Job(case, seed=count)
            for _ in range(2):
                job.submit(mask)
            job.finish()
            case.do("end")
            yield case
    case = _case("crowd-of-killed")
    case.do("crowd", 6)
    job = _Job(case)
    job.submit(flags=_RUN | JobFlag.NONBLOCK)
    case.do("kill")
    case.do("end")
    job = _Job(case)
    for core in range(_CORES):
        job.submit(1 << core)
    job.finish()
    yield case
