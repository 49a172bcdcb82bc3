"""PC: fetches command words, follows the chain from task to task, counts tasks and raises interrupts.

What the driver does to start a run [K]: BASE_ADDRESS = 1 (slave mode); BASE_ADDRESS = the first task's commands;
REGISTER_AMOUNTS for it; INTERRUPT_MASK = int_mask of the last task; INTERRUPT_CLEAR = int_mask of the first;
TASK_CON; TASK_DMA_BASE_ADDR; OPERATION_ENABLE = 1, then 0. The PC then follows BASE_ADDRESS and REGISTER_AMOUNTS
from tail to tail; after TASK_CON.task_number tasks the last task's interrupt fires. In streams only the two tail
words of a task write to this block.
"""

from __future__ import annotations

from openrknn.isa import common, words
from openrknn.isa.blocks import Block
from openrknn.isa.fields import Address, Flag, Unsigned
from openrknn.isa.registers import Register, registers_in
from openrknn.isa.words import Target

__all__ = ["PC"]


class Version(Register, offset=0x0000, name="VERSION", evidence="MK"):
    """Version of the NPU; the driver adds VERSION_NUM to it."""

    version = Unsigned(31, 0, "Version.")


class VersionNum(Register, offset=0x0004, name="VERSION_NUM", evidence="MK"):
    """Number that belongs to the version."""

    version_num = Unsigned(31, 0, "Version number.")


class OperationEnable(common.OperationEnable, offset=0x0008, name="OPERATION_ENABLE", evidence="TK"):
    """Starts the fetching of tasks. The driver writes 1 and then 0."""


class BaseAddress(Register, offset=words.BASE.offset, name="BASE_ADDRESS", evidence="TEK"):
    """Where the commands of the next task are.

    First tail word of a task (an all-zero word after the last one). The driver writes 1 (slave mode) before it
    writes the address of the first task. In a file it holds the offset from the first command; the loader adds the
    address. Streams start at multiples of 64 bytes.
    """

    pc_sel = Flag(0, "0: fetch commands by DMA; 1: slave mode, the CPU writes registers.", evidence="TK")
    pc_source_addr = Address(31, 4, "Address of the commands.")


class RegisterAmounts(Register, offset=words.AMOUNTS.offset, name="REGISTER_AMOUNTS", evidence="EK"):
    """How much to fetch for the next task. Second tail word of a task, 0 after the last one.

    The amount is (commands of the body + 4 tail words) in units of two commands, rounded up, minus one: see
    `openrknn.isa.fetch_amount`. On RK3566/68 and RV1103B/RV1106B the unit is one command.
    """

    pc_data_amount = Unsigned(
        15, 0, "Units to fetch, minus one.",
        notes="Not a Size: 0 after the last task means nothing, not one unit.",
    )
    barrier = Unsigned(
        17, 16, "Cores that must meet before the next task: cores - 1 in streams for two or three cores, else 0.",
        evidence="E",
        notes="Reserved in the reference manual. Running each core's list to its end gives wrong results.",
    )


class _Interrupts(Register, evidence="TK"):
    """One bit per event; blocks have one per register group."""

    cna_feature_0 = Flag(0, "CNA feature fetch, group 0.")
    cna_feature_1 = Flag(1, "CNA feature fetch, group 1.")
    cna_weight_0 = Flag(2, "CNA weight fetch, group 0.")
    cna_weight_1 = Flag(3, "CNA weight fetch, group 1.")
    cna_csc_0 = Flag(4, "CNA sequencer, group 0.")
    cna_csc_1 = Flag(5, "CNA sequencer, group 1.")
    core_0 = Flag(6, "CORE, group 0.")
    core_1 = Flag(7, "CORE, group 1.")
    dpu_0 = Flag(8, "DPU, group 0.")
    dpu_1 = Flag(9, "DPU, group 1.")
    ppu_0 = Flag(10, "PPU, group 0.")
    ppu_1 = Flag(11, "PPU, group 1.")
    dma_read_error = Flag(12, "A DMA read failed.")
    dma_write_error = Flag(13, "A DMA write failed.")
    unnamed = Unsigned(
        16, 14, "Part of the register, without a name.", evidence="TK", notes="Task records clear 0x1ffff."
    )


class InterruptMask(_Interrupts, offset=0x0020, name="INTERRUPT_MASK", reset=0x1FFFF):
    """Events that raise the interrupt; counts for the last task of a run.

    The driver writes the last task's int_mask: 0x300 for a task that ends in the DPU, 0xc00 for the PPU. It takes
    the interrupt as done when, after or-ing each pair of groups, the status equals the mask.
    """


class InterruptClear(_Interrupts, offset=0x0024, name="INTERRUPT_CLEAR"):
    """Write 1 to clear an event. The driver writes the first task's int_mask before a run."""


class InterruptStatus(_Interrupts, offset=0x0028, name="INTERRUPT_STATUS"):
    """Events that happened and that the mask lets through."""


class InterruptRawStatus(_Interrupts, offset=0x002C, name="INTERRUPT_RAW_STATUS"):
    """Events that happened, masked or not."""


class TaskCon(Register, offset=0x0030, name="TASK_CON", evidence="TK"):
    """How many tasks to run. The driver writes ((6 | ping-pong) << 12) | tasks."""

    task_number = Unsigned(11, 0, "Tasks in this run, at most 4095.")
    task_pp_en = Flag(12, "Fetch the next task's commands while a task runs; off: after it has ended.")
    task_count_clear = Flag(13, "Write 1: the task counter becomes 0.")
    driver_bit = Flag(14, "Always set by the driver.", evidence="K", notes="Reserved in the reference manual.")


class TaskDmaBaseAddr(Register, offset=0x0034, name="TASK_DMA_BASE_ADDR", evidence="TK"):
    """Added to every DMA address of every block. The RK3588 runtime leaves it 0; RV1103/06 images may rely on it."""

    dma_base_addr = Address(31, 4, "Base of all DMA addresses.")


class TaskStatus(Register, offset=0x003C, name="TASK_STATUS", evidence="T"):
    """Progress of the run. Read only."""

    task_counter = Unsigned(11, 0, "Tasks done.")
    first_working = Flag(12, "The first task works.")
    last_working = Flag(13, "The last task works.")
    other = Unsigned(
        27, 14, "Whether the first and the last task's commands are being fetched.",
        notes="The manual gives these two flags the bits 12 and 13 as well, which cannot be.",
    )


PC = Block("PC", Target.PC, 0x0000, registers_in(globals()), shadowed=False, text=__doc__)
