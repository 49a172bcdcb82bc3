"""The tables against a C compiler, against the headers of this system, and against numbers that people wrote down."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from openrknn.uapi import dmabuf, drm, rknpu, rocket
from openrknn.uapi.ioctl import Array, Ioctl, direction_of, number_of, size_of, type_of
from openrknn.uapi.layout import Field, Struct
from openrknn.uapi.tables import TABLES

ALL = [ioctl for table in TABLES for ioctl in table.ioctls]


def compile_c(text: str, folder: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (Debian: apt install gcc)")
    source = folder / "check.c"
    source.write_text(text)
    done = subprocess.run(
        [compiler, "-std=gnu11", "-fsyntax-only", str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def structs() -> list[Struct]:
    found = {id(struct): struct for ioctl in ALL for struct in (ioctl.argument, *_elements(ioctl.arrays))}
    versions = [*rknpu.MEM_CREATE_BY_VERSION.values(), *rknpu.SUBMIT_BY_VERSION.values(), rknpu.TASK]
    return [*found.values(), *(struct for struct in versions if id(struct) not in found)]


def _elements(arrays: Iterable[Array]) -> Iterable[Struct]:
    for array in arrays:
        if isinstance(array.element, Struct):
            yield array.element
        yield from _elements(array.inside)


def test_offsets_and_sizes_are_those_of_the_compiler(tmp_path: Path) -> None:
    lines = ["#include <stdint.h>", "#include <stddef.h>"]
    for number, struct in enumerate(structs()):
        name = f"{struct.name}_{number}"
        lines.append(struct.declaration.replace(f"struct {struct.name}", f"struct {name}"))
        lines.append(f'_Static_assert(sizeof(struct {name}) == {struct.size}, "size");')
        lines += [
            f'_Static_assert(offsetof(struct {name}, {field}) == {offset}, "{field}");'
            for field, offset in struct.offsets.items()
        ]
    compile_c("\n".join(lines), tmp_path)


def check_header(header: str, pairs: Iterable[tuple[str, Ioctl]], folder: Path) -> None:
    lines = ["#include <stddef.h>", f"#include <{header}>"]
    for macro, ioctl in pairs:
        lines.append(f'_Static_assert({macro} == {ioctl.request:#x}u, "{macro}");')
        lines += [
            f'_Static_assert(offsetof(struct {ioctl.argument.name}, {field}) == {offset}, "{field}");'
            for field, offset in ioctl.argument.offsets.items()
        ]
    compile_c("\n".join(lines), folder)


def test_shared_descriptors_are_as_in_the_system_headers(tmp_path: Path) -> None:
    if not Path("/usr/include/linux/dma-heap.h").exists():
        pytest.skip("no kernel headers (Debian: apt install linux-libc-dev)")
    check_header("linux/dma-heap.h", [("DMA_HEAP_IOCTL_ALLOC", dmabuf.HEAP_ALLOC)], tmp_path)
    check_header("linux/dma-buf.h", [("DMA_BUF_IOCTL_SYNC", dmabuf.BUFFER_SYNC)], tmp_path)
    fences = [("SYNC_IOC_FILE_INFO", dmabuf.FENCE_INFO), ("SYNC_IOC_MERGE", dmabuf.FENCE_MERGE)]
    check_header("linux/sync_file.h", fences, tmp_path)


def test_drm_is_as_in_the_system_header(tmp_path: Path) -> None:
    folder = next((name for name in ("drm", "libdrm") if Path("/usr/include", name, "drm.h").exists()), None)
    if folder is None:
        pytest.skip("no drm.h (Debian: apt install libdrm-dev)")
    check_header(f"{folder}/drm.h", [(f"DRM_IOCTL_{ioctl.name}", ioctl) for ioctl in drm.IOCTLS], tmp_path)


@pytest.mark.parametrize(
    ("ioctl", "request_code"),
    [
        # strace of the vendor's runtime and of Mesa show these.
        (drm.VERSION, 0xC0406400),
        (drm.GEM_CLOSE, 0x40086409),
        (drm.GEM_FLINK, 0xC008640A),
        (drm.PRIME_HANDLE_TO_FD, 0xC00C642D),
        (rknpu.ACTION, 0xC0086440),
        (rknpu.SUBMIT, 0xC0686441),
        (rknpu.MEM_CREATE, 0xC0306442),
        (rknpu.MEM_MAP, 0xC0106443),
        (rknpu.MEM_DESTROY, 0xC0106444),
        (rknpu.MEM_SYNC, 0xC0206445),
        (rknpu.MISC_MEM_CREATE, 0xC0307202),
        (rocket.CREATE_BO, 0xC0186440),
        (rocket.SUBMIT, 0x40186441),
        (rocket.PREP_BO, 0x40106442),
        (rocket.FINI_BO, 0x40086443),
    ],
)
def test_request_codes(ioctl: Ioctl, request_code: int) -> None:
    assert ioctl.request == request_code


def test_a_request_code_can_be_taken_apart() -> None:
    code = rknpu.SUBMIT.request
    assert (direction_of(code), type_of(code), number_of(code), size_of(code)) == (3, ord("d"), 0x41, 104)


def test_arguments_by_version() -> None:
    sizes = [rknpu.mem_create_for(version).argument.size for version in ((0, 4, 2), (0, 8, 8), (0, 9, 2), (0, 9, 8))]
    assert sizes == [32, 40, 48, 48]
    assert {struct.size for struct in rknpu.SUBMIT_BY_VERSION.values()} == {104}
    assert rknpu.TASK.size == 40
    assert rknpu.version_code() == 908


def test_keys_are_unique_in_each_table() -> None:
    for table in TABLES:
        assert len(table.by_key) == len(table.ioctls), table.name


def test_pointers_and_descriptors_name_fields() -> None:
    def check(arrays: Iterable[Array], names: Iterable[str]) -> None:
        for array in arrays:
            wanted = {array.pointer, array.count} | ({array.stride} if array.stride else set())
            assert wanted <= set(names), array
            if array.inside:
                assert isinstance(array.element, Struct)
                check(array.inside, array.element.names)

    for ioctl in ALL:
        check(ioctl.arrays, ioctl.argument.names)
        for descriptor in ioctl.descriptors:
            owner = ioctl.argument if descriptor.array is None else descriptor.array.element
            assert isinstance(owner, Struct)
            assert descriptor.field in owner.names
            assert descriptor.array is None or descriptor.array is ioctl.arrays[0]
            assert (descriptor.when == "flag") == bool(descriptor.mask)


def test_values_come_back() -> None:
    values = {name: number + 1 for number, name in enumerate(rknpu.SUBMIT.argument.names)}
    data = rknpu.SUBMIT.pack(values)
    assert rknpu.SUBMIT.argument.unpack(data) == values
    assert data[64:68] == (values["subcore0"]).to_bytes(4, "little")


def test_a_short_argument_reads_as_zeros_at_its_end() -> None:
    old = rknpu.mem_create_for((0, 8, 8)).pack({"handle": 7, "sram_size": 9})
    values = rknpu.MEM_CREATE.argument.unpack(old)
    assert (values["handle"], values["sram_size"], values["iommu_domain_id"]) == (7, 9, 0)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="rknpu_action has no field volume"):
        rknpu.ACTION.pack({"volume": 11})


def test_gaps_and_packing() -> None:
    fields = (Field("a", "u8"), Field("b", "u32"), Field("c", "u16"), Field("d", "u64"), Field("e", "u8"))
    loose, tight = Struct("loose", fields), Struct("tight", fields, packed=True)
    assert (tuple(loose.offsets.values()), loose.size) == ((0, 4, 8, 16, 24), 32)
    assert (tuple(tight.offsets.values()), tight.size) == ((0, 1, 5, 7, 15), 16)
