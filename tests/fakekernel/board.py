"""Buffers and jobs on an emulated board, from a program's view: what the tests of the drivers have in common."""

from __future__ import annotations

import mmap
import time
from dataclasses import dataclass

from openrknn.board import streams
from openrknn.uapi import rknpu, rocket
from openrknn.uapi.rknpu import JobFlag, MemoryFlag
from tests.fakekernel.client import Answer, File, block, words

CACHED = MemoryFlag.NON_CONTIGUOUS | MemoryFlag.CACHEABLE


@dataclass
class Memory:
    """A mapped buffer."""

    handle: int
    address: int
    object: int
    map: mmap.mmap

    def write(self, data: bytes) -> None:
        self.map[: len(data)] = data

    def read(self, size: int) -> bytes:
        return self.map[:size]


def allocate(file: File, size: int, flags: int = CACHED) -> Memory:
    """A buffer of the vendor's driver."""
    made = file.ioctl(rknpu.MEM_CREATE, flags=flags, size=size).values
    offset = file.ioctl(rknpu.MEM_MAP, handle=made["handle"]).values["offset"]
    return Memory(made["handle"], made["dma_addr"], made["obj_addr"], file.map(offset, made["size"]))


def rocket_allocate(file: File, size: int) -> Memory:
    made = file.ioctl(rocket.CREATE_BO, size=size).values
    return Memory(made["handle"], made["dma_address"], 0, file.map(made["offset"], size))


@dataclass
class Product:
    """A matrix product that is ready to run: buffers filled, commands written."""

    file: File
    a: Memory
    b: Memory
    c: Memory
    commands: Memory
    tasks: Memory
    amount: int
    wanted: bytes

    @property
    def result(self) -> bytes:
        return self.c.read(len(self.wanted))

    @property
    def status(self) -> int:
        place = rknpu.TASK.offsets["int_status"]
        return int.from_bytes(self.tasks.map[place : place + 4], "little")

    def count_from_base(self) -> int:
        """Let addresses in commands count from the lowest one, which is returned: as in images that are linked at 0."""
        base = min(memory.address for memory in (self.a, self.b, self.c, self.commands))
        a, b, c = (memory.address - base for memory in (self.a, self.b, self.c))
        body = streams.product_body(a, b, c)
        self.commands.write(streams.to_bytes(body + streams.tail(streams.PRODUCT_MASK)))
        self.tasks.write(task(self.commands.address, len(body)))
        return base

    def submit(self, **changes: int) -> Answer:
        """Run it on core 0, or as `changes` say."""
        values = {
            "flags": JobFlag.PC | JobFlag.PINGPONG, "timeout": 6000, "task_number": 1,
            "task_obj_addr": self.tasks.object, "core_mask": 1, "fence_fd": -1, "subcore1": 1,
        }  # fmt: skip
        return self.file.ioctl(rknpu.SUBMIT, **{**values, **changes})


def product(file: File, seed: int = 0) -> Product:
    """Prepare a matrix product with the vendor's driver."""
    a, b, c, commands = (allocate(file, 4096) for _ in range(4))
    tasks = allocate(file, 4096, CACHED | MemoryFlag.KERNEL_MAPPING)
    left, right, wanted = streams.operands(seed)
    a.write(left)
    b.write(right)
    body = streams.product_body(a.address, b.address, c.address)
    commands.write(streams.to_bytes(body + streams.tail(streams.PRODUCT_MASK)))
    tasks.write(task(commands.address, len(body)))
    return Product(file, a, b, c, commands, tasks, len(body), wanted)


def task(address: int, amount: int, mask: int = 0x300, operator: int = 0) -> bytes:
    """One task descriptor of the vendor's driver."""
    return rknpu.TASK.pack({
        "op_idx": operator, "int_mask": mask, "int_clear": rknpu.INTERRUPT_CLEAR, "regcfg_amount": amount,
        "regcmd_addr": address,
    })  # fmt: skip


def rocket_submit(
    file: File, tasks: list[tuple[int, int]], read: list[int], written: list[int], *, gap: int = 0, **changes: int
) -> None:
    """One job; `changes` go into the job or the submit. `gap`: bytes of each task that this driver does not know."""
    job = {
        "tasks": 1, "in_bo_handles": 1, "out_bo_handles": 1,
        "task_count": len(tasks), "task_struct_size": rocket.TASK.size + gap,
        "in_bo_handle_count": len(read), "out_bo_handle_count": len(written),
    }  # fmt: skip
    job |= {name: value for name, value in changes.items() if name in job}
    submit = {"jobs": 1, "job_count": 1, "job_struct_size": rocket.JOB.size}
    submit |= {name: value for name, value in changes.items() if name not in job}
    descriptors = b"".join(words(address, count) + bytes(gap) for address, count in tasks)
    blocks = block(rocket.JOB.pack(job)) + block(descriptors) + block(words(*read)) + block(words(*written))
    file.send(rocket.SUBMIT, submit, blocks=blocks)


def prepare(file: File, handle: int, seconds: float = 600) -> None:
    """PREP_BO."""
    file.ioctl(rocket.PREP_BO, handle=handle, timeout_ns=time.monotonic_ns() + int(seconds * 1e9))
