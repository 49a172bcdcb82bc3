"""One folder per family of chips: what is known of its registers, and how they become configurations of blocks.

    <family>/facts       its chips, and the registers that inputs patch;  facts: what the facts of a chip are
    <family>/registers   the register map; RK3588 has one module per block, and the others say how theirs differ
    <family>/encode      from tasks in natural units to registers
    <family>/target      what the compiler has to know;  target: the class of it
    <family>/board       what boards do in a second, and how their kernels name the NPU
    <family>/decode      from the registers of a task to configurations of blocks
    decode_task          from the registers of a task to the task, the other direction of `encode`;  fetch: its parts
    limits               what a convolution may ask of the hardware: room in its buffer, programs that hang boards
    maps                 which chip has which register map
    decoders             which blocks a chip has, and which folder reads their registers
    task_registers       the registers of one task, by class or by name, and which were read;  watch: observer hooks
    compression          compressed weights, which all chips describe alike;  decompressor: how its registers count
    weight_scales        where commands say how weights are quantised
    manual               the register maps as pages of documentation

What chips share is in the folder of the oldest that has it.
"""

from __future__ import annotations

__all__ = ["FAMILIES"]

FAMILIES = ("rk3588", "rk3566", "rk3562", "rk3576", "rv1106", "rv1106b")
"""A family is a folder of this package; its name in upper case is its register map."""
