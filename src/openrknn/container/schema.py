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
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from openrknn.chip.facts import Patches, Slots
from openrknn.records import dataclass

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
        format_version=0, target=1, graphs=2, notes=3, toolkit_number=6, toolkit_text=7, platform=8, framework=9,
        framework_layout=10, custom_string=11, input_json=12, output_json=13, batch_text=14, shape_mode=16,
        dynamic_inputs=17, shared_weights=18, memory=19, blobs=20, custom_operators=21,
    ),
    graph=_slots(
        tensors=0, nodes=1, inputs=2, outputs=3, normalizations=4, relocations=7, image_patches=8, convert_patches=9,
        list_starts=10, output_tasks=12,
    ),
    tensor=_slots(
        dtype=0, layout=1, kind=2, native_shape=3, shape=4, name=5, granularity=6, quantized_type=7, minimum=8,
        maximum=9, scale=10, zero_point=11, size_bytes=12, offset=13, compressed=14, compressed_amounts=15,
        compressed_offsets=16, compressed_third=17, blob=18, pixel_alignment=19, row_alignment=20, memory_class=22,
    ),
    node=_slots(
        type=1, name=2, target=3, inputs=4, outputs=5, parameter_type=7, parameters=8, attributes=9, task_counts=10,
        lut_task_counts=11, workloads=12, mac_flag=13,
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
        format_version=0, target=1, graphs=2, notes=3, toolkit_number=4, toolkit_text=5, platform=6, framework=7,
        custom_string=8,
    ),
    graph=_slots(
        tensors=0, nodes=1, inputs=2, outputs=3, normalizations=4, relocations=5, image_patches=6, convert_patches=7,
    ),
    tensor=_slots(
        dtype=0, layout=1, kind=2, native_shape=3, shape=4, name=5, scale=6, zero_point=7, size_bytes=8, offset=9,
        identity=10, pixel_alignment=11, row_alignment=12, memory_class=14,
    ),
    node=_slots(
        type=1, name=2, target=3, inputs=4, outputs=5, parameter_type=6, parameters=7, attributes=8, task_counts=9,
        lut_task_counts=10, workloads=11,
    ),
    relocation=_slots(tensor=0, entries=1),
    ignored_node=(12,),
)


@cache
def patch_names(family: str, kind: str) -> tuple[str | None, ...]:
    """The registers of the slots of an "image" or "convert" patch; of CNA, unless the name says which block."""
    return tuple(None if slot is None else slot[0] for slot in _slots_of(family, kind))


@cache
def patch_offsets(family: str, kind: str) -> tuple[int | None, ...]:
    """`patch_names` as offsets, which is what commands hold."""
    return tuple(None if slot is None else slot[1] for slot in _slots_of(family, kind))


def patches_of(family: str) -> Patches:
    """What inputs patch on the chips of a family."""
    patches = import_module(f"openrknn.chip.{family}.facts").PATCHES
    assert isinstance(patches, Patches)
    return patches


def _slots_of(family: str, kind: str) -> Slots:
    patches = patches_of(family)
    return {"image": patches.image, "convert": patches.convert}[kind]
