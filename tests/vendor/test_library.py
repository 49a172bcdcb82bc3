"""Finding the library, its version, and functions that a version does not have."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest

from openrknn.errors import UnsupportedError
from openrknn.runtime import automatic
from openrknn.vendor import Library, LibraryNotFoundError, Version
from openrknn.vendor.library import find
from openrknn.vendor.tables import versions
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.versions import version_in_file
from tests.vendor.recording import Recorder

MISSING_IN_1_5_2 = {
    "rknn_B_normal_layout_to_native_layout": "2.0.0-beta0",
    "rknn_create_mem2": "2.0.0-beta0",
    "rknn_custom_op_get_op_attr": "1.6.0",
    "rknn_matmul_create_dynamic_shape": "2.0.0-beta0",
    "rknn_matmul_get_quant_params": "2.0.0-beta0",
    "rknn_matmul_set_dynamic_shape": "2.0.0-beta0",
    "rknn_matmul_set_quant_params": "2.0.0-beta0",
    "rknn_mem_sync": "1.6.0",
    "rknn_register_custom_ops": "1.6.0",
}


def test_all_35_functions_are_there(recorder: Recorder) -> None:
    assert len(FUNCTIONS) == 35
    assert recorder.library.exports == set(FUNCTIONS)
    for name in FUNCTIONS:
        assert callable(getattr(recorder.library, name))


def test_the_version_is_read_from_the_file(recorder: Recorder) -> None:
    assert recorder.library.version == Version.parse("2.3.2")
    assert version_in_file(recorder.library.path) == Version.parse("2.3.2")
    assert Library(recorder.library.path, version="1.6.0", chip=None).version == Version(1, 6)


def test_without_the_text_the_exports_tell_the_version(tmp_path: Path) -> None:
    for version, guess in (("1.5.2", "1.5.2"), ("1.6.0", "1.6.0"), ("2.0.0b0", "2.0.0b0"), ("2.1.0", "2.1.0")):
        source = Recorder.build(version).library.path
        data = source.read_bytes().replace(b"librknnrt version", b"librknnrt nothing")
        path = tmp_path / version / "librknnrt.so"
        path.parent.mkdir()
        path.write_bytes(data)
        assert Library(path, chip=None).version == Version.parse(guess)


@pytest.mark.parametrize(("name", "first"), MISSING_IN_1_5_2.items())
def test_a_missing_function_names_the_version_that_has_it(name: str, first: str) -> None:
    library = Recorder.build("1.5.2").library
    assert len(library.exports) == 25
    with pytest.raises(UnsupportedError, match=rf"{name} needs librknnrt {first} or newer; .* is 1\.5\.2"):
        library.function(name)


def test_a_function_that_nobody_exports() -> None:
    library = Recorder.build("1.5.2").library
    with pytest.raises(UnsupportedError, match=r"rknn_create_mem_from_mb_blk is not in .*could have it"):
        library.function("rknn_create_mem_from_mb_blk")
    with pytest.raises(AttributeError, match="no function 'rknn_nothing'"):
        library.function("rknn_nothing")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = library.nothing


def test_the_old_name_of_a_renamed_function_is_found() -> None:
    library = Recorder.build("2.0.0b0").library
    assert "rknn_matmul_create_dynamic_shape" in library.exports
    assert library.rknn_matmul_create_dynamic_shape.__name__ == "rknn_matmul_create_dyn_shape"


def test_raw_functions_refuse_the_wrong_struct(recorder: Recorder) -> None:
    library = recorder.library
    wrong = library.structs.rknn_input_output_num()
    with pytest.raises(ctypes.ArgumentError):
        library.rknn_set_io_mem(1, None, ctypes.byref(wrong))
    with pytest.raises(ctypes.ArgumentError):
        library.rknn_run("context", None)


def test_raw_functions_work(recorder: Recorder) -> None:
    library = recorder.library
    number = ctypes.c_uint64()
    assert library.rknn_init(ctypes.byref(number), b"model", 5, 0, None) == 0
    counts = library.structs.rknn_input_output_num()
    assert library.rknn_query(number, 0, ctypes.byref(counts), ctypes.sizeof(counts)) == 0
    assert (counts.n_input, counts.n_output) == (2, 2)
    assert library.check("rknn_destroy", number) == 0


# -------------------------------------------------------------------------------------------------- finding


def test_the_argument_comes_first(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(find.VARIABLE, str(tmp_path / "nowhere.so"))
    assert find.find_library(recorder.library.path) == recorder.library.path
    assert find.find_library(recorder.library.path.parent) == recorder.library.path
    with pytest.raises(LibraryNotFoundError, match=r"named by OPENRKNN_LIBRARY cannot be loaded: .*nowhere\.so is not"):
        find.find_library()
    monkeypatch.setenv(find.VARIABLE, str(recorder.library.path))
    assert find.find_library() == recorder.library.path


def test_openrknns_own_library_is_known_and_its_structs_can_be_chosen(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file says whose it is; OPENRKNN_ABI, which it obeys, decides about structs before the file does."""
    assert not recorder.library.is_open
    own = tmp_path / "librknnrt.so"
    own.write_bytes(recorder.library.path.read_bytes() + b"librknnrt version: 2.5.0 (openrknn 0.1.0)\0")
    assert Library(own, chip=None).is_open
    monkeypatch.setenv(versions.ABI_VARIABLE, "1.5")
    assert str(Library(own, chip=None).version) == "1.5.2"
    assert str(Library(own, version="1.6.0", chip=None).version) == "1.6.0"
    assert Library(recorder.library.path, chip=None).version == recorder.library.version
    monkeypatch.setenv(versions.ABI_VARIABLE, "new")
    with pytest.raises(UnsupportedError, match="OPENRKNN_ABI: 'new' is not a version"):
        Library(own, chip=None)


def test_auto_does_not_take_openrknns_own_library_for_the_vendors(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "librknnrt.so"
    own.write_bytes(recorder.library.path.read_bytes() + b"librknnrt version: 2.5.0 (openrknn 0.1.0)\0")
    for path, has in ((own, False), (recorder.library.path, True)):
        monkeypatch.setenv(find.VARIABLE, str(path))
        assert automatic._has_library() is has


def test_usual_folders_and_wheels_are_searched(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(find.VARIABLE, raising=False)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(find, "FOLDERS", (str(tmp_path / "lib"),))
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    with pytest.raises(LibraryNotFoundError) as caught:
        find.find_library()
    assert str(tmp_path / "lib") in str(caught.value)
    assert [reason for _, reason in caught.value.attempts] == ["not there", "not there"]
    wheel = tmp_path / "site" / "rknpu.libs" / "librknnrt-db603b2a.so"
    wheel.parent.mkdir(parents=True)
    shutil.copy(recorder.library.path, wheel)
    assert find.find_library() == wheel
    usual = tmp_path / "lib" / "librknnmrt.so"
    usual.parent.mkdir()
    shutil.copy(recorder.library.path, usual)
    assert find.find_library() == usual
    assert Library(usual, chip=None).kind == "librknnmrt"


def test_every_unfit_file_is_named_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(find.VARIABLE, raising=False)
    monkeypatch.setattr(find, "FOLDERS", (str(tmp_path / "a"), str(tmp_path / "b")))
    monkeypatch.setattr("sys.path", [])
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "librknnrt.so").write_text("text")
    # An ELF header for a machine that this is not.
    other = 0xF3
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + other.to_bytes(2, "little") + bytes(44)
    (tmp_path / "b" / "librknnrt.so").write_bytes(header)
    with pytest.raises(LibraryNotFoundError) as caught:
        find.find_library()
    text = str(caught.value)
    assert "a/librknnrt.so: not a shared library" in text
    assert "b/librknnrt.so: for RISC-V, this Python is" in text
    assert "OPENRKNN_LIBRARY" in text


def test_a_library_without_the_c_api(tmp_path: Path) -> None:
    other = next(Path(folder) / "libm.so.6" for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64")
                 if (Path(folder) / "libm.so.6").exists())  # fmt: skip
    with pytest.raises(LibraryNotFoundError, match="exports no function of the RKNN C API"):
        Library(other, chip=None)
