"""Where each value stands in a `.rknn`: the slots of every FlatBuffer table, by generation.

Facts only. The three generations hold the same things in different slots, so readers and the writer ask this table
for "the scale of a tensor" and never for "slot 10". None of the numbers is documented by the vendor; they were worked
out from files and from how the vendor's runtime reacts to changed ones (docs/format.md says how each was proved).

`ALWAYS_EMPTY` slots are vectors that every file has and none fills. A file that does fill one, or that has a slot
this table does not know, is reported (`Model.unknown`) and refused by the writer: what is not understood is not lost
in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = [
    "ALWAYS_EMPTY",
    "MINI",
    "PATCH_REGISTERS",
    "V1",
    "V6",
    "Generation",
]

ALWAYS_EMPTY: Final = "(always empty)"


def _slots(**numbers: int) -> Mapping[str, int]:
    return MappingProxyType(numbers)


@dataclass(frozen=True, slots=True)
class Generation:
    """The slots of one generation; a name that is missing does not exist in it."""

    name: str
    model: Mapping[str, int]
    graph: Mapping[str, int]
    tensor: Mapping[str, int]
    node: Mapping[str, int]
    relocation: Mapping[str, int]
    empty_model: tuple[int, ...] = ()
    empty_graph: tuple[int, ...] = ()
    ignored_node: tuple[int, ...] = ()
    """Slots that hold uninitialised memory of the converter."""


V6 = Generation(
    name="flatbuffer, model format 6",
    model=_slots(
        format_version=0,
        target=1,
        graphs=2,
        notes=3,
        toolkit_number=6,
        toolkit_text=7,
        platform=8,
        framework=9,
        framework_layout=10,
        custom_string=11,
        input_json=12,
        output_json=13,
        batch_text=14,
        shape_mode=16,
        dynamic_inputs=17,
        shared_weights=18,
        memory=19,
        blobs=20,
        custom_operators=21,
    ),
    graph=_slots(
        tensors=0,
        nodes=1,
        inputs=2,
        outputs=3,
        normalizations=4,
        relocations=7,
        image_patches=8,
        convert_patches=9,
        list_starts=10,
        output_tasks=12,
    ),
    tensor=_slots(
        dtype=0,
        layout=1,
        kind=2,
        native_shape=3,
        shape=4,
        name=5,
        granularity=6,
        quantized_type=7,
        minimum=8,
        maximum=9,
        scale=10,
        zero_point=11,
        size_bytes=12,
        offset=13,
        compressed=14,
        compressed_amounts=15,
        compressed_offsets=16,
        compressed_third=17,
        blob=18,
        pixel_alignment=19,
        row_alignment=20,
        memory_class=22,
    ),
    node=_slots(
        type=1,
        name=2,
        target=3,
        inputs=4,
        outputs=5,
        parameter_type=7,
        parameters=8,
        attributes=9,
        task_counts=10,
        lut_task_counts=11,
        workloads=12,
        mac_flag=13,
    ),
    relocation=_slots(tensor=0, entries=1, cores=2),
    empty_model=(4, 5, 15),
    empty_graph=(6, 13, 14, 15, 16),
)

V1 = Generation(
    name="flatbuffer, model format 1",
    model=_slots(**{name: number for name, number in V6.model.items() if number <= 14}, blobs=4),
    graph=_slots(tensors=0, nodes=1, inputs=2, outputs=3, normalizations=4),
    tensor=_slots(**{name: number for name, number in V6.tensor.items() if number <= 20}),
    node=_slots(**{name: number for name, number in V6.node.items() if number <= 9}, tasks=6),
    relocation=_slots(),
    empty_model=(5,),
    empty_graph=(5, 6),
)

MINI = Generation(
    name="mini",
    model=_slots(
        format_version=0,
        target=1,
        graphs=2,
        notes=3,
        toolkit_number=4,
        toolkit_text=5,
        platform=6,
        framework=7,
        custom_string=8,
    ),
    graph=_slots(
        tensors=0,
        nodes=1,
        inputs=2,
        outputs=3,
        normalizations=4,
        relocations=5,
        image_patches=6,
        convert_patches=7,
    ),
    tensor=_slots(
        dtype=0,
        layout=1,
        kind=2,
        native_shape=3,
        shape=4,
        name=5,
        scale=6,
        zero_point=7,
        size_bytes=8,
        offset=9,
        identity=10,
        pixel_alignment=11,
        row_alignment=12,
        memory_class=14,
    ),
    node=_slots(
        type=1,
        name=2,
        target=3,
        inputs=4,
        outputs=5,
        parameter_type=6,
        parameters=7,
        attributes=8,
        task_counts=9,
        lut_task_counts=10,
    ),
    relocation=_slots(tensor=0, entries=1),
    ignored_node=(11, 12),
)


def _offsets(*registers: int) -> tuple[int | None, ...]:
    return tuple(register or None for register in registers)


_LIKE_RK3562 = {
    "image": _offsets(0x102C, 0x100C, 0x1018, 0x1090, 0x1094, 0x1088, 0x103C),
    "convert": _offsets(0x1048, 0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0x1060, 0x1064, 0x1068, 0x3024, 0x1024),
}

PATCH_REGISTERS: Mapping[str, Mapping[str, tuple[int | None, ...]]] = MappingProxyType(
    {
        "rk3588": {
            "image": _offsets(0x1020, 0x100C, 0, 0x107C, 0x1080, 0x1070, 0x1044),
            "convert": _offsets(0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0x1180, 0, 0, 0, 0x301C, 0x1038),
        },
        "rk3566": {
            "image": _offsets(0x1020, 0x100C, 0x1018, 0x107C, 0x1080, 0x1070, 0x1044),
            "convert": _offsets(0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0, 0, 0, 0, 0, 0x1038, 0x1100, 0x1034),
        },
        "rk3562": {
            "image": _LIKE_RK3562["image"],
            "convert": (*_LIKE_RK3562["convert"], 0x1100, 0x1020),
        },
        "rk3576": _LIKE_RK3562,
        "rv1106": {
            "image": _offsets(0x1020, 0x100C, 0, 0x107C, 0x1080, 0x1070, 0x1044),
            "convert": _offsets(
                *(0x104C, 0x1050, 0x1054, 0x1058, 0x105C, 0x101C, 0x106C, 0x108C, 0x1094),
                *(0x301C, 0x1038, 0x1100, 0x1034),
            ),
        },
        "rv1106b": {
            "image": _offsets(0x101C, 0x100C, 0x1044, 0x1090, 0x1094, 0x1034, 0x1030),
            "convert": _offsets(
                *(0x1050, 0x1054, 0x1058, 0x105C, 0x1060, 0x1064, 0, 0, 0, 0, 0x1018, 0x1100, 0x1014),
            ),
        },
    }
)
"""Which register each slot of an input patch belongs to, by chip family.

Slots that a family does not use hold uninitialised memory of the converter. A slot counts only where the command
that it names writes the register listed here (1,001 of 1,001 patch tables in the corpus).
"""
