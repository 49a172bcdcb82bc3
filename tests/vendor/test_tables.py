"""Structs, enumerations, flags and functions: against a C compiler, the copied facts and the reference."""

from __future__ import annotations

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from openrknn.vendor.library.structs import structs_for
from openrknn.vendor.tables.codes import CODES
from openrknn.vendor.tables.enums import MEANINGS, InitFlag
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.layouts import ARM32, LP64, STRUCTS, place, struct_named
from openrknn.vendor.tables.names import ENUMS, LIMITS, SENTINELS, SINCE, c_name, members, since
from openrknn.vendor.tables.versions import KNOWN_VERSIONS, Version
from tests.vendor.compiler import native_compiler
from tests.vendor.facts import OFFSETS, SIZES, VARIANTS
from tests.vendor.layouts_of_c import ask

V232 = Version.parse("2.3.2")
OLDEST_REFERENCE = Version.parse("1.5.2")
REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "capi.json"


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    """The project's reference data; only developers have it."""
    if not REFERENCE.is_file():
        pytest.skip("the reference data (capi.json) is not beside this repository")
    data: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize(("column", "pointer_bytes"), [(0, LP64), (1, ARM32)])
def test_layouts_equal_the_facts(column: int, pointer_bytes: int) -> None:
    for name, sizes in SIZES.items():
        found = place(name, V232, pointer_bytes)
        assert (name, found.size_bytes) == (name, sizes[column])
        assert (name, tuple(found.offsets.values())) == (name, OFFSETS[name][column])
    assert set(STRUCTS) - set(SIZES) == {"rknn_decrypt_key_mem"}


def test_layouts_of_other_versions() -> None:
    for (version, name), size in VARIANTS.items():
        assert (version, name, place(name, Version.parse(version)).size_bytes) == (version, name, size)


def test_the_struct_of_2_5_0_has_its_key_at_24() -> None:
    assert place("rknn_init_extend", Version.parse("2.5.0")).offsets["user_key"] == 24


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
def test_layouts_equal_the_compiler(version: Version, tmp_path: Path) -> None:
    answers = ask(native_compiler(), version, tmp_path)
    checked = 0
    for name in STRUCTS:
        found = place(name, version)
        assert (name, found.size_bytes) == (name, answers[f"sizeof {name}"])
        for field, offset in found.offsets.items():
            assert (name, field, offset) == (name, field, answers[f"offset {name}.{field}"])
            checked += 1
    assert checked > 100


@pytest.mark.parametrize(
    ("machine", "options", "pointer_bytes"),
    [
        ("aarch64-linux-gnu", [], LP64),
        # 64-bit Arm with 32-bit pointers: the same sizes and alignments as 32-bit Arm.
        ("aarch64-linux-gnu", ["-mabi=ilp32", "-ffreestanding", "-D__arm__"], ARM32),
        ("arm-linux-gnueabihf", [], ARM32),
    ],
)
def test_layouts_equal_the_cross_compilers(
    machine: str, options: list[str], pointer_bytes: int, tmp_path: Path
) -> None:
    path = shutil.which(f"{machine}-gcc")
    if not path:
        pytest.skip(f"no compiler for {machine} (Debian: apt install gcc-{machine})")
    answers = ask(path, V232, tmp_path, options)
    for name in STRUCTS:
        found = place(name, V232, pointer_bytes)
        assert (name, found.size_bytes) == (name, answers[f"sizeof {name}"])
        assert {f: answers[f"offset {name}.{f}"] for f in found.offsets} == dict(found.offsets)


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
def test_ctypes_classes_lie_as_the_table_says(version: Version) -> None:
    pointer_bytes = ctypes.sizeof(ctypes.c_void_p)
    for name in STRUCTS:
        made = getattr(structs_for(version), name)
        expected = place(name, version, pointer_bytes)
        assert ctypes.sizeof(made) == expected.size_bytes
        for field in struct_named(name, version).fields:
            assert getattr(made, field.name).offset == expected.offsets[field.name]


def test_values_equal_the_compiler(tmp_path: Path) -> None:
    answers = ask(native_compiler(), V232, tmp_path)
    for kind, _ in ENUMS.values():
        for name, member in members(kind):
            assert (name, int(member)) == (name, answers[f"value {name}"])


def test_versions_share_classes_where_nothing_changed() -> None:
    old, new = structs_for(Version.parse("1.5.2")), structs_for(V232)
    assert old.rknn_tensor_attr is new.rknn_tensor_attr
    assert old.rknn_matmul_info is not new.rknn_matmul_info
    with pytest.raises(AttributeError, match="no struct 'rknn_nothing'"):
        _ = new.rknn_nothing


# -------------------------------------------------------------------------------------------------- the reference


def test_structs_equal_the_reference(reference: dict[str, Any]) -> None:
    for name, struct in reference["structs"].items():
        for suffix, pointer_bytes in (("", LP64), ("_arm32", ARM32)):
            found = place(name, V232, pointer_bytes)
            assert found.size_bytes == struct[f"sizeof{suffix}"]
            assert dict(found.offsets) == {field["name"]: field[f"offset{suffix}"] for field in struct["fields"]}
        for mine, theirs in zip(struct_named(name, V232).fields, struct["fields"], strict=True):
            kind = {"callback": "int (*)", "destroy_callback": "int (*)"}.get(mine.type, mine.type)
            assert theirs["type"].startswith(kind)
            assert list(mine.array) == theirs.get("array", [])


def test_enumerations_equal_the_reference(reference: dict[str, Any]) -> None:
    for name, enumeration in reference["enums"].items():
        kind, _ = ENUMS[name]
        mine = {c: int(member) for c, member in members(kind)}
        theirs = {value["name"]: value["value"] for value in enumeration["values"]}
        assert mine | {c: value for c, value in SENTINELS.items() if c in theirs} == theirs


def test_flags_limits_and_codes_equal_the_reference(reference: dict[str, Any]) -> None:
    assert {name: int(flag) for name, flag in members(InitFlag)} == reference["flags"]
    assert dict(LIMITS) == reference["limits"]
    newer = reference["observed_in_rknnlite_2.5.0"]["error_codes_new"]
    assert {name: entry.code for name, entry in CODES.items()} == reference["error_codes"] | newer


def test_functions_equal_the_reference(reference: dict[str, Any]) -> None:
    theirs = {name: one["signature"].replace("[]", "*") for name, one in reference["functions"].items()}
    mine = {name: str(function.newest) for name, function in FUNCTIONS.items()}
    assert mine == {name: text.replace("const ", "") for name, text in theirs.items()}


def test_first_versions_agree_with_the_reference(reference: dict[str, Any]) -> None:
    """The reference begins with 1.5.2; our table goes back to 1.3.0."""
    for name, function in reference["functions"].items():
        mine = FUNCTIONS[name].newest if name == "rknn_matmul_create_dynamic_shape" else FUNCTIONS[name].signatures[0]
        assert max(mine.since, OLDEST_REFERENCE) == Version.parse(function["since"])
    values = [value for one in reference["enums"].values() for value in one["values"]]
    for entry in [*values, *reference["defines"]]:
        name = entry["name"]
        # Runtime 1.5.2 has these two under the names of tensor types.
        if name in SENTINELS or name in ("RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32", "RKNN_INT8_MM_INT8_TO_INT32"):
            continue
        if name.startswith(("RKNN_ERR", "RKNN_MAX", "RKNN_CUSTOM", "RKNN_SUCC", "RKNN_WARNING")):
            continue
        assert (name, max(SINCE.get(name, OLDEST_REFERENCE), OLDEST_REFERENCE)) == (name, Version.parse(entry["since"]))


# -------------------------------------------------------------------------------------------------- names


def test_c_names() -> None:
    assert c_name(InitFlag.COLLECT_PERF_MASK) == "RKNN_FLAG_COLLECT_PERF_MASK"
    assert c_name(InitFlag.MEM_ALLOC_NO_CONTEXT) == "RKNN_MEM_FLAG_ALLOC_NO_CONTEXT"
    both = InitFlag.PRIOR_LOW | InitFlag.ENABLE_SRAM
    assert c_name(both) == "RKNN_FLAG_PRIOR_LOW|RKNN_FLAG_ENABLE_SRAM"
    assert since(InitFlag.ENABLE_SRAM) == Version.parse("1.6.0")
    assert since(InitFlag.PRIOR_LOW) is None


def test_every_flag_has_a_meaning() -> None:
    assert set(MEANINGS) == set(InitFlag.__members__.values())


def test_versions_compare() -> None:
    texts = ["1.3.0", "1.5.2", "2.0.0b0", "2.0.0-beta1", "2.0.0", "2.3.2"]
    parsed = [Version.parse(text) for text in texts]
    assert parsed == sorted(parsed)
    assert Version.parse("2.0.0b0 (35a6907d79@2024-03-24T10:31:14)") == Version.parse("v2.0.0-beta0")
    assert str(Version.parse("2.0.0b0")) == "2.0.0-beta0"
    assert str(Version.parse("1.5.2 (c6b7b351a@2023-08-23T15:28:22)")) == "1.5.2"
    for wrong in ("", "two", "2"):
        with pytest.raises(ValueError, match="not a version"):
            Version.parse(wrong)
