"""`.npy` and `.npz` of other people: damage has a name, and no header is believed."""

from __future__ import annotations

import io
import random
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from openrknn.cli.main import main
from openrknn.errors import FormatError
from openrknn.numpyfiles import NpzFile, read_npy

GOLDENS = Path(__file__).parent / "goldens"
LARGEST = 1 << 20


def npy(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def giant(shape: tuple[int, ...]) -> bytes:
    """A header that announces more than follows."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(64)


@pytest.mark.parametrize("array", [np.arange(24.0).reshape(2, 3, 4), np.float32(3), np.zeros((0, 4), np.int8),
                                   np.asfortranarray(np.arange(6).reshape(2, 3)), np.array([True, False])])  # fmt: skip
def test_arrays_are_read_as_numpy_reads_them(tmp_path: Path, array: object) -> None:
    wanted = np.asarray(array)
    (tmp_path / "a.npy").write_bytes(npy(wanted))
    np.savez_compressed(tmp_path / "a.npz", x=wanted)
    with NpzFile(tmp_path / "a.npz", largest_bytes=LARGEST) as archive:
        assert archive.names == ("x",)
        for found in (read_npy(tmp_path / "a.npy"), archive.read("x")):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            assert np.array_equal(found, wanted)
            assert found.flags.writeable


@pytest.mark.parametrize("shape", [(2**40,), (2**31, 2**31, 2**31), (1000, 1000)])
def test_a_header_is_not_believed(tmp_path: Path, shape: tuple[int, ...]) -> None:
    (tmp_path / "a.npy").write_bytes(giant(shape))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", giant(shape))
    tracemalloc.start()
    with pytest.raises(FormatError, match="announces"):
        read_npy(tmp_path / "a.npy")
    with NpzFile(tmp_path / "a.npz", largest_bytes=LARGEST) as opened, pytest.raises(FormatError, match="announces"):
        opened.read("x")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_bomb_is_not_inflated(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy(np.zeros(8 << 20, np.uint8)))
    tracemalloc.start()
    with NpzFile(tmp_path / "a.npz", largest_bytes=LARGEST) as opened, pytest.raises(FormatError, match="more than"):
        opened.read("x")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("array", [np.array(["text"]), np.zeros(2, [("a", "i4")]), np.array([b"abc"])])
def test_only_numbers_are_read(tmp_path: Path, array: object) -> None:
    (tmp_path / "a.npy").write_bytes(npy(array))
    with pytest.raises(FormatError, match="not numbers"):
        read_npy(tmp_path / "a.npy")


def test_damaged_files_have_a_named_error(tmp_path: Path) -> None:
    """Every byte flipped, every end cut: an array or a FormatError."""
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.arange(50.0))
    rng, damaged = random.Random(1), tmp_path / "a"
    outcomes = set()
    for data, read in ((npy(np.arange(50.0)), "npy"), (stream.getvalue(), "npz")):
        for _ in range(300):
            broken = bytearray(data)
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            damaged.write_bytes(broken[: rng.choice((len(broken), rng.randrange(len(broken))))])
            try:
                if read == "npy":
                    read_npy(damaged)
                else:
                    with NpzFile(damaged, largest_bytes=LARGEST) as archive:
                        archive.read(archive.names[0])
                outcomes.add("read")
            except (FormatError, IndexError) as error:
                outcomes.add(type(error).__name__)
    assert outcomes >= {"read", "FormatError"}


@pytest.mark.parametrize(("name", "data"), [("giant.npy", giant((2**40,))), ("cut.npz", b"PK\x03\x04" + bytes(20)),
                                            ("text.npy", b"hello"), ("empty.npz", b"")])  # fmt: skip
def test_run_says_what_is_wrong_with_an_input(
    tmp_path: Path, name: str, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert main(["run", str(GOLDENS / "conv_rk3588_i8.rknn"), "--input", str(tmp_path / name)]) != 0
    said = capsys.readouterr().err
    assert name in said
    assert "Traceback" not in said
