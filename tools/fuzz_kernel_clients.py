"""The programs of `tools.fuzz_kernel`: one that computes, and hostile ones. They speak the protocol without a library.

python -m tools.fuzz_kernel_clients good FOLDER BOARD COUNT          until its input ends, if COUNT is 0
python -m tools.fuzz_kernel_clients hostile FOLDER BOARD COUNT SEED
"""

from __future__ import annotations

import contextlib
import errno
import json
import mmap
import os
import random
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from openrknn.board import streams
from openrknn.fakekernel.protocol import KIND_BITS, LENGTH, MAX_PAYLOAD, REQUEST, Op
from openrknn.uapi import rknpu, rocket
from openrknn.uapi.ioctl import Ioctl
from openrknn.uapi.layout import Struct
from openrknn.uapi.rknpu import JobFlag
from openrknn.uapi.tables import TABLES
from tests.fakekernel import board
from tests.fakekernel.client import Client, File, block, words

NODES = {
    "rknpu": ("/dev/dri/card1", "/dev/dri/renderD129", "/dev/dma_heap/system"),
    "rocket": ("/dev/accel/accel0",),
    "misc": ("/dev/rknpu", "/dev/dma_heap/cma"),
}
ODD = (0, 1, 2, 3, 8, 4095, 4096, 0xFFFF, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)
LARGEST = 4 << 20
"""More memory would be taken from the program that works: an address space has 4 GB, on boards as well."""
MOST_FILES, MOST_KNOWN, LIFE = 4, 64, 400
GENTLE = {"timeout": 20, "timeout_ns": 0}


class Hostile:
    """One program after the other, each with a few hundred messages."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        self.counts = {"messages": 0, "refused": 0, "hung_up": 0}
        self._folder, self._name, self._dice = folder, name, random.Random(seed)
        lines = (folder / "paths").read_text().splitlines()
        self._texts = [line.split()[-1] for line in lines if line.startswith("node ") and "/dev/" not in line]

    def attack(self, count: int) -> None:
        while self.counts["messages"] < count:
            self._live(min(LIFE, count - self.counts["messages"]))

    def _live(self, count: int) -> None:
        """A program that ends with everything open."""
        self._known: list[int] = [0]
        self._descriptors = [os.memfd_create("m", self._dice.choice((0, os.MFD_ALLOW_SEALING))), *os.pipe()]
        os.ftruncate(self._descriptors[0], self._dice.choice((0, 5000, 4096, 65536)))
        self._client = Client(self._folder)
        self._files: list[File] = []
        end = self.counts["messages"] + count
        try:
            while self.counts["messages"] < end:
                self._act()
        finally:
            self._client.close()
            for number in (*self._descriptors, *(file.descriptor for file in self._files)):
                os.close(number)

    def _act(self) -> None:
        acts: list[tuple[int, Callable[[], None]]] = [
            (60, self._ioctl), (8, self._random_ioctl), (6, self._map), (4, self._odd_request), (6, self._damaged),
            (4, self._text), (3, self._close_one), (4, self._job), (5, self._open),
        ]  # fmt: skip
        act = self._dice.choices([act for _, act in acts], [weight for weight, _ in acts])[0]
        if not self._files:
            act = self._open
        self.counts["messages"] += 1
        try:
            act()
        except ConnectionError:
            self.counts["hung_up"] += 1
            self._client.close()
            self._client = Client(self._folder)
        except OSError:
            self.counts["refused"] += 1

    # -- acts ----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if len(self._files) >= MOST_FILES:
            self._close_one()
        self._files.append(self._client.open(self._dice.choice(NODES[self._name])))

    def _close_one(self) -> None:
        if self._files:
            self._files.pop(self._dice.randrange(len(self._files))).close()

    def _ioctl(self) -> None:
        file = self._dice.choice(self._files)
        ioctl = self._dice.choice(TABLES[file.value & ((1 << KIND_BITS) - 1)].ioctls)
        values = self._values(ioctl.argument)
        answer = file.send(ioctl, values, blocks=self._blocks(ioctl, values), descriptor=self._descriptor())
        self._known = [*self._known[1 - MOST_KNOWN :], *answer.values.values()][-MOST_KNOWN:]
        self._keep(answer.descriptor)

    def _random_ioctl(self) -> None:
        file, dice = self._dice.choice(self._files), self._dice
        ioctl = dice.choice(TABLES[file.value & ((1 << KIND_BITS) - 1)].ioctls)
        request = dice.choice((dice.getrandbits(32), ioctl.request ^ 1 << dice.randrange(32), ioctl.request))
        payload = dice.randbytes(dice.choice((0, 1, 8, 64, request >> 16 & 0x3FFF, 5000)))
        if (ioctl.name, request) == ("SUBMIT", ioctl.request):  # a random time limit could be an hour
            payload = b""
        self._call(Op.IOCTL, file.key, a=request, payload=payload)

    def _map(self) -> None:
        offset = self._dice.choice((*self._known, *ODD))
        size = self._dice.choice((0, 1, 4096, 65536, 1 << 40))
        answer = self._client.call(Op.MMAP, self._dice.choice(self._files).key, a=offset & ((1 << 64) - 1), b=size)
        if answer[3] >= 0:
            with contextlib.suppress(OSError, ValueError, IndexError):
                mmap.mmap(answer[3], size)[:8] = b"scribble"
            os.close(answer[3])
        self._check(answer[0])

    def _odd_request(self) -> None:
        key = self._dice.choice((self._files[0].key, self._files[0].key + self._dice.randrange(-50, 50), 0, 1 << 63))
        self._call(self._dice.choice((*Op, 0, 99)), key, a=self._dice.choice(ODD), b=self._dice.choice(ODD))

    def _damaged(self) -> None:
        """A connection of its own that ends somewhere."""
        dice = self._dice
        head = REQUEST.pack(dice.choice((*Op, 77)), dice.choice((0, 5, 1000, MAX_PAYLOAD, MAX_PAYLOAD + 1)), 1, 2, 3)
        data = dice.choice((head, dice.randbytes(100), head + dice.randbytes(50)))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._folder / "socket"))
            passed = [dice.choice(self._descriptors) for _ in range(dice.choice((0, 0, 1, 2, 9)))]
            socket.send_fds(connection, [data[: dice.randrange(1, len(data) + 1)]], passed)
            if dice.random() < 0.5:
                connection.sendall(dice.randbytes(dice.randrange(1, 200)))

    def _text(self) -> None:
        if not self._texts:
            return
        file = self._client.open(self._dice.choice(self._texts), self._dice.choice((os.O_RDONLY, os.O_RDWR)))
        with contextlib.suppress(OSError):
            os.write(file.descriptor, self._dice.choice((b"1", b"on", b"off", b"9" * 3000, "²".encode(), b"\xff")))
        file.close()

    def _job(self) -> None:
        """Commands that mean nothing, or a product in memory of its own."""
        file, dice = self._dice.choice(self._files), self._dice
        if self._name == "rocket":
            memory = board.rocket_allocate(file, 4096)
        elif file.value & ((1 << KIND_BITS) - 1) == 0 and self._name == "rknpu":
            memory = board.allocate(file, 4096, board.CACHED | rknpu.MemoryFlag.KERNEL_MAPPING)
        else:
            return self._ioctl()
        amount = dice.choice((1, 5, 20, 400, 4096, 1 << 31))
        if self._name == "rocket":
            memory.write(dice.randbytes(4096))
            tasks, handles = [(memory.address, amount)] * dice.choice((1, 3)), [memory.handle]
            board.rocket_submit(file, tasks, handles, handles)
        else:
            # Commands of 0 change nothing: the job before would run again, whoever's it was. So does a board.
            place = memory.address + 64 * dice.randrange(2, 70)
            memory.write((board.task(place, min(max(amount, 1), 4096)) * 2).ljust(128, b"\0") + dice.randbytes(3968))
            kinds = (0, JobFlag.NONBLOCK, JobFlag.PINGPONG, JobFlag.NONBLOCK | JobFlag.FENCE_OUT)
            flags = JobFlag.PC | dice.choice(kinds)
            number, cores = dice.choice((1, 1, 2, 70)), dice.choice((0, 1, 2, 4, 3, 7, 8))
            answer = file.ioctl(
                rknpu.SUBMIT, flags=flags, timeout=20, task_number=number, task_obj_addr=memory.object, core_mask=cores,
                fence_fd=-1, subcore1=number, subcore3=number, subcore5=number,
            )  # fmt: skip
            self._keep(answer.descriptor)
        return None

    # -- values --------------------------------------------------------------------------------------------------

    def _values(self, struct: Struct) -> dict[str, int]:
        values = {}
        for field in struct.fields:
            for name in [field.name] if field.count == 1 else [f"{field.name}{index}" for index in range(field.count)]:
                values[name] = self._value(field.name, 8 * field.element_bytes, field.type.startswith("s"))
        return values

    def _value(self, name: str, bits: int, is_signed: bool) -> int:
        dice = self._dice
        if name in GENTLE:
            return GENTLE[name]
        if name in ("size", "len"):
            return dice.choice((0, 1, 4096, 5000, 65536, LARGEST, 1 << 32, 1 << 62)) & ((1 << bits) - 1)
        pool = self._known if dice.random() < 0.6 else ODD
        value = (dice.choice(pool) if dice.random() < 0.9 else dice.getrandbits(bits)) & ((1 << bits) - 1)
        return value - (1 << bits) if is_signed and value >> (bits - 1) else value

    def _blocks(self, ioctl: Ioctl, values: dict[str, int]) -> bytes:
        """What the pointers point to: well formed, too long, too short, or nothing."""
        dice = self._dice
        if not ioctl.arrays or dice.random() < 0.2:
            return dice.randbytes(dice.choice((0, 3, 64)))
        if ioctl is rocket.SUBMIT:
            values |= {"job_count": 1, "job_struct_size": rocket.JOB.size, "reserved": 0, "jobs": 1}
            tasks = words(*(dice.choice(self._known) & 0xFFFFFFFF for _ in range(4)))
            job = self._values(rocket.JOB) | {"task_struct_size": rocket.TASK.size}
            job["task_count"] = dice.choice((1, 2, 9))
            handles = words(*(dice.choice(self._known) & 0xFFFFFFFF for _ in range(dice.randrange(3))))
            return block(rocket.JOB.pack(job)) + block(tasks) + block(handles) + block(handles)
        return b"".join(LENGTH.pack(dice.choice((0, 4, 8, 1 << 31))) + dice.randbytes(8) for _ in ioctl.arrays)

    def _descriptor(self) -> int:
        return self._dice.choice((-1, -1, *self._descriptors, *(file.descriptor for file in self._files)))

    # -- details -------------------------------------------------------------------------------------------------

    def _keep(self, descriptor: int) -> None:
        if descriptor >= 0:
            self._descriptors.append(descriptor)
            if len(self._descriptors) > MOST_FILES + 4:
                os.close(self._descriptors.pop(3))

    def _call(self, op: int, key: int, *, a: int = 0, b: int = 0, payload: bytes = b"") -> None:
        result, _, _, descriptor = self._client.call(op, key, a=a, b=b, payload=payload, descriptor=self._descriptor())
        self._keep(descriptor)
        self._check(result)

    @staticmethod
    def _check(result: int) -> None:
        if result < 0:
            raise OSError(-result, errno.errorcode.get(-result, "?"))


def products(folder: Path, name: str, count: int) -> dict[str, int]:
    """Matrix products, so many or until the input ends; each result is checked."""
    counts = {"products": 0, "wrong_products": 0}
    with Client(folder) as client:
        while not counts["products"] or counts["products"] < count or (not count and not _input_ended()):
            file = client.open(NODES[name][0])
            counts["wrong_products"] += not _product(file, name, counts["products"])
            counts["products"] += 1
            file.close()
    return counts


def _product(file: File, name: str, seed: int) -> bool:
    if name == "misc":
        action = next(ioctl for ioctl in rknpu.MISC_IOCTLS if ioctl.name == "ACTION")
        return file.ioctl(action, flags=rknpu.Action.GET_DRV_VERSION).values["value"] > 0
    if name == "rknpu":
        job = board.product(file, seed)
        job.submit(timeout=60_000)
        return job.result == job.wanted
    a, b, c, commands = (board.rocket_allocate(file, 4096) for _ in range(4))
    left, right, wanted = streams.operands(seed)
    a.write(left)
    b.write(right)
    body = streams.product_body(a.address, b.address, c.address)
    commands.write(streams.to_bytes(body + streams.tail(streams.PRODUCT_MASK)))
    board.rocket_submit(file, [(commands.address, len(body) + 4)], [a.handle, b.handle], [c.handle])
    file.ioctl(rocket.PREP_BO, handle=c.handle, timeout_ns=1 << 62)
    return c.read(len(wanted)) == wanted


def _input_ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def main() -> None:
    """Be one of the programs, and say what came of it."""
    role, folder, name, count, *seed = sys.argv[1:]
    if role == "good":
        print(json.dumps(products(Path(folder), name, int(count))))
    else:
        hostile = Hostile(Path(folder), name, int(seed[0]))
        hostile.attack(int(count))
        print(json.dumps(hostile.counts))


if __name__ == "__main__":
    main()
