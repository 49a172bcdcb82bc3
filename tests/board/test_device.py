"""A core of a virtual board, as a driver and QEMU see it: the protocol, registers, IOMMU, interrupts, jobs."""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Iterator

import pytest

from openrknn.board import iommu, streams
from openrknn.board.domain import PHYSICAL, Domains
from openrknn.board.guest_memory import GuestMemory
from openrknn.board.npu_device import BAR_BYTES, RESET_OFFSET, NpuCore, Register, Shared
from openrknn.board.vfio_user import CONFIG_REGION, Command, MessageFlag
from openrknn.chips import chip_named
from openrknn.errors import AccessError
from tests.board.client import Client, RefusedError
from tests.board.one_core import (
    BANK,
    COMMANDS,
    DATA,
    INTERRUPT,
    OTHER_BANK,
    PAGE,
    RAM,
    RAM_BYTES,
    TABLE,
    A,
    Board,
    C,
    one_core,
    wait,
)  # fmt: skip


@pytest.fixture(params=[True, False], ids=["waits", "real-time"])
def waits(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def board(waits: bool) -> Iterator[Board]:
    with one_core(Shared(chip_named("rk3588"), waits=waits)) as made:
        yield made


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client(NpuCore(1, Shared(chip_named("rk3588"))))
    yield made
    made.close()


def test_the_version_is_agreed_on(client: Client) -> None:
    reply = client.call(Command.VERSION, struct.pack("<HH", 0, 3) + b'{"capabilities": {}}\0')
    assert struct.unpack_from("<HH", reply) == (0, 1)
    assert json.loads(reply[4:-1])["capabilities"]["pgsizes"] == PAGE
    with pytest.raises(RefusedError) as caught:
        client.call(Command.VERSION, struct.pack("<HH", 1, 0))
    assert caught.value.errno == errno.EINVAL


def test_it_is_a_pci_device_with_one_bar_and_one_line(client: Client) -> None:
    _, flags, regions, interrupts = struct.unpack("<IIII", client.call(Command.DEVICE_GET_INFO, bytes(16)))
    sizes, lines = {}, {}
    for index in range(regions):
        info = client.call(Command.DEVICE_GET_REGION_INFO, struct.pack("<IIIIQQ", 32, 0, index, 0, 0, 0))
        sizes[index] = struct.unpack("<IIIIQQ", info)[4]
    for index in range(interrupts):
        info = client.call(Command.DEVICE_GET_IRQ_INFO, struct.pack("<IIII", 16, 0, index, 0))
        lines[index] = struct.unpack("<IIII", info)[3]
    assert flags & 2
    assert {index: size for index, size in sizes.items() if size} == {0: BAR_BYTES, CONFIG_REGION: 256}
    assert {index: count for index, count in lines.items() if count} == {0: 1}


def test_the_configuration_space(client: Client) -> None:
    assert client.read(0, 2, CONFIG_REGION) == 0x1D87
    assert client.read(0x3D, 1, CONFIG_REGION) == 1
    client.write(0x10, 0xFFFF_FFFF, 4, CONFIG_REGION)
    assert client.read(0x10, 4, CONFIG_REGION) == -BAR_BYTES & 0xFFFF_FFFF
    client.write(0, 0x1234, 2, CONFIG_REGION)
    assert client.read(0, 2, CONFIG_REGION) == 0x1D87


@pytest.mark.parametrize(
    ("command", "payload"),
    [
        (Command.REGION_READ, struct.pack("<QII", BAR_BYTES, 0, 4)),
        (Command.REGION_READ, struct.pack("<QII", 0, 3, 4)),
        (Command.REGION_WRITE, struct.pack("<QII", 0, 0, 4)),
        (Command.DEVICE_GET_REGION_INFO, struct.pack("<IIIIQQ", 32, 0, 9, 0, 0, 0)),
        (Command.DEVICE_GET_IRQ_INFO, b"short"),
        (99, b""),
    ],
    ids=["outside", "no-region", "no-data", "no-such-region", "short", "unknown"],
)
def test_wrong_messages_are_refused_and_the_next_one_is_served(client: Client, command: int, payload: bytes) -> None:
    with pytest.raises(RefusedError):
        client.call(command, payload)
    assert client.read(Register.VERSION) == 0x46495245


def test_a_message_without_a_reply(client: Client) -> None:
    payload = struct.pack("<QII", Register.INTERRUPT_MASK, 0, 4) + b"\7\0\0\0"
    client.call(Command.REGION_WRITE, payload, flags=MessageFlag.NO_REPLY)
    assert client.read(Register.INTERRUPT_MASK) == 7


def test_a_message_that_cannot_be_ends_the_connection(client: Client) -> None:
    client.connection.sendall(struct.pack("<HHIII", 1, Command.REGION_READ, 3, 0, 0))
    with pytest.raises(ConnectionError):
        client.read(0)


def test_the_iommu_is_recognised_and_obeys(board: Board) -> None:
    """What rockchip-iommu does before it uses one."""
    register = iommu.Register
    for bank in (BANK, OTHER_BANK):
        board.client.write(bank + register.DTE_ADDR, 0xCAFEB000)
        assert board.client.read(bank + register.DTE_ADDR) == 0xCAFEB000
        for command, wanted in (
            (iommu.Command.ENABLE_PAGING, iommu.Status.PAGING_ENABLED),
            (iommu.Command.ENABLE_STALL, iommu.Status.STALL_ACTIVE),
        ):
            board.client.write(bank + register.COMMAND, command)
            assert board.client.read(bank + register.STATUS) & wanted
        board.client.write(bank + register.COMMAND, iommu.Command.FORCE_RESET)
        assert board.client.read(bank + register.DTE_ADDR) == 0
        assert not board.client.read(bank + register.STATUS) & iommu.Status.PAGING_ENABLED


def test_addresses_above_32_bits() -> None:
    assert iommu.physical(0x4000_0001) == 0x4000_0000
    assert iommu.physical(0x1234_5AB1) == 0xBA_1234_5000


def test_a_job_computes_and_interrupts(board: Board) -> None:
    board.set_up_paging()
    for seed in (1, 2):
        wanted = board.load(seed)
        board.start()
        wait(board)
        assert board.has_interrupt()
        assert board.client.read(Register.INTERRUPT_RAW_STATUS) & INTERRUPT
        assert board.client.read(Register.TASK_STATUS) == 1
        board.client.write(Register.INTERRUPT_CLEAR, 0x1FFFF)
        board.client.unmask()
        assert not board.has_interrupt()
        assert board.peek(board.page_of(C // PAGE), len(wanted)) == wanted


def test_the_line_is_a_level(board: Board) -> None:
    """Who unmasks it while it is still asked for hears of it again; who masks the source first does not."""
    board.set_up_paging()
    board.load()
    board.start()
    wait(board)
    assert board.has_interrupt()
    board.client.unmask()
    assert board.has_interrupt()
    board.client.write(Register.INTERRUPT_MASK, 0)
    board.client.unmask()
    assert not board.has_interrupt()


def test_an_interrupt_whose_cause_is_gone_is_taken_back(board: Board) -> None:
    """QEMU unmasks at the first access of a handler, and hears of the cause again before the handler clears it."""
    board.set_up_paging()
    board.load()
    board.start()
    wait(board)
    board.client.unmask()
    board.client.write(Register.INTERRUPT_CLEAR, 0x1FFFF)
    assert not board.has_interrupt()
    board.start()
    wait(board)
    assert board.has_interrupt()


def test_pages_that_move_are_followed(board: Board) -> None:
    board.set_up_paging()
    board.load(1)
    board.start()
    wait(board)
    assert board.has_interrupt()
    board.client.write(Register.INTERRUPT_CLEAR, 0x1FFFF)
    board.client.unmask()
    moved = DATA + 20 * PAGE
    board.poke(TABLE + 4 * (C // PAGE), struct.pack("<I", moved | 7))
    wanted = board.load(2)
    board.start()
    wait(board)
    assert board.peek(moved, len(wanted)) == wanted
    assert board.peek(board.page_of(C // PAGE), len(wanted)) == bytes(len(wanted))


def test_an_address_without_a_page_is_a_fault(board: Board) -> None:
    """The IOMMU says so, and the job never ends."""
    board.set_up_paging(2)  # C and the commands are not there
    board.load()
    board.start()
    wait(board)
    assert board.has_interrupt()
    assert board.client.read(BANK + iommu.Register.INT_STATUS) == 1
    assert board.client.read(BANK + iommu.Register.PAGE_FAULT_ADDR) == COMMANDS
    assert board.client.read(BANK + iommu.Register.STATUS) & iommu.Status.PAGE_FAULT_ACTIVE
    assert board.client.read(Register.INTERRUPT_RAW_STATUS) == 0
    board.client.write(BANK + iommu.Register.COMMAND, iommu.Command.PAGE_FAULT_DONE)
    board.client.write(BANK + iommu.Register.INT_CLEAR, 1)
    board.client.unmask()
    assert not board.has_interrupt()
    board.set_up_paging()
    wanted = board.load()
    board.start()
    wait(board)
    assert board.peek(board.page_of(C // PAGE), len(wanted)) == wanted


def test_a_task_that_ends_in_the_ppu_raises_no_interrupt_of_the_dpu(board: Board) -> None:
    board.set_up_paging()
    pool = streams.pool_body(A, C) + streams.tail(streams.POOL_MASK)
    board.poke(board.page_of(A // PAGE), bytes([8]) * 1024)
    board.poke(board.page_of(COMMANDS // PAGE), streams.to_bytes(pool))
    board.client.write(Register.BASE_ADDRESS, COMMANDS)
    board.client.write(Register.REGISTER_AMOUNTS, (len(pool) + 1) // 2 - 1)
    board.client.write(Register.INTERRUPT_MASK, INTERRUPT)
    board.client.write(Register.TASK_CON, 0x7001)
    board.client.write(Register.OPERATION_ENABLE, 1)
    board.client.write(RESET_OFFSET, 3)  # waits for the job
    assert not board.has_interrupt()
    assert board.peek(board.page_of(C // PAGE), 256) == bytes([8]) * 256


def test_a_reset_forgets_the_job_and_leaves_the_iommu(board: Board) -> None:
    board.set_up_paging()
    board.load()
    board.start(mask=0)
    board.client.write(RESET_OFFSET, 3)
    board.client.write(RESET_OFFSET, 0)
    assert board.client.read(Register.INTERRUPT_RAW_STATUS) == 0
    assert board.client.read(BANK + iommu.Register.STATUS) & iommu.Status.PAGING_ENABLED


def test_a_job_without_an_iommu_never_ends(board: Board) -> None:
    board.load()
    board.start()
    board.client.write(RESET_OFFSET, 1)
    assert not board.has_interrupt()


def test_registers_belong_to_the_core_and_not_to_an_address_space(board: Board) -> None:
    """What jobs of one program left, a job of another finds: it may leave out registers. A reset empties them."""
    board.set_up_paging()
    for _ in range(2):  # both groups of registers
        board.load(1)
        board.start()
        wait(board)
        assert board.has_interrupt()
        board.client.write(Register.INTERRUPT_CLEAR, 0x1FFFF)
        board.client.unmask()
    other = TABLE + PAGE * 100
    board.poke(other, struct.pack("<I", other + PAGE | 1))
    places = [other + (2 + number) * PAGE for number in range(4)]
    board.poke(other + PAGE, struct.pack("<4I", *(place | 7 for place in places)))
    left, right, wanted = streams.operands(2)
    commands = streams.to_bytes(streams.tail(streams.PRODUCT_MASK))
    for place, data in zip(places, (left, right, b"", commands), strict=True):
        board.poke(place, data)
    for bank in (BANK, OTHER_BANK):
        board.client.write(bank + iommu.Register.DTE_ADDR, other)
    board.start(words=4)
    wait(board)
    assert board.has_interrupt()
    assert board.peek(places[2], len(wanted)) == wanted
    board.poke(places[2], bytes(len(wanted)))
    board.client.write(RESET_OFFSET, 3)
    board.client.write(RESET_OFFSET, 0)
    board.start(words=4)
    board.client.write(RESET_OFFSET, 3)  # waits for the job
    assert board.peek(places[2], len(wanted)) == bytes(len(wanted))


def test_without_an_iommu_the_npu_sees_physical_memory() -> None:
    """RV1103 and RV1106. What changes in the guest's memory changes there."""
    descriptor = os.memfd_create("ram")
    os.ftruncate(descriptor, RAM_BYTES)
    os.pwrite(descriptor, b"here", 2 * PAGE)
    memory = GuestMemory()
    memory.add(RAM, RAM_BYTES, os.dup(descriptor), 0)
    domains = Domains(chip_named("rv1106"), memory)
    for wanted in (b"here", b"then"):
        os.pwrite(descriptor, wanted, 2 * PAGE)
        space = domains.at(PHYSICAL).space
        assert space.memory.view(RAM + 2 * PAGE, 4, "a test").tobytes() == wanted
    with pytest.raises(AccessError):
        space.memory.view(RAM - PAGE, 4, "a test")
    os.close(descriptor)
