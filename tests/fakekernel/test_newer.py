"""Newer runtimes of the vendor (32-bit Arm) on the emulated device: the bytes that our Session gives.

As tests/fakekernel/test_vendor.py does with runtime 1.5.2, for the chips that this does not know too. The runtimes are
not to be had as packages; `tools/setup-witness FOLDER` takes them from a folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from openrknn.compiler import compile_model
from openrknn.container.writer import encode
from openrknn.fakekernel.device import Device
from openrknn.runtime.session import Session
from openrknn.vendor.matmul.matrices import stored
from openrknn.vendor.tables.enums import MatmulType
from tests.capi.products import exact, numbers
from tests.fakekernel.newer import both_of_mini, multiply, witness_of
from tests.fakekernel.test_preload import need_emulator
from tests.fakekernel.test_vendor import goldens
from tests.fakekernel.vendor import both
from tests.runtime.cases import GOLDENS
from tests.witness import runtimes
from tests.witness.runtimes import Runtime, recognise
from tests.witness.testimony import WitnessMissingError

RK = {"2.0.0b8": ("rk3588", "rk3576", "rk3566", "rk3562"), "1.6.0": ("rk3588", "rk3566", "rk3562")}
MINI = ("rv1106", "rv1103", "rv1106b", "rv1103b")
DIFFERENT = {"cpu_sin_rk3588_i8": "the vendor's sine of the CPU cuts off where ours and the simulator's rounds"}
REFUSED = {
    ("2.0.0b8", "layer_norm_rk3588_fp"): "the runtime says: Verify ModelBuffer failed",
    ("2.0.0b8", "deconv3_rk3588_i8"): "the runtime crashes",
    ("2.3.2", "matmul_rv1106b_i8"): "the runtime crashes in rknn_set_io_mem",
}
"""Files that a runtime does not take."""


@pytest.fixture(scope="module")
def devices() -> Iterator[dict[str, Device]]:
    made: dict[str, Device] = {}
    yield made
    for device in made.values():
        device.stop()


def device_of(devices: dict[str, Device], chip: str) -> Device:
    if chip not in devices:
        devices[chip] = Device(chip)
        devices[chip].start()
    return devices[chip]


def need(name: str, version: str) -> None:
    try:
        runtimes.find(name, version)
        runtimes.driver("driver")
    except WitnessMissingError as missing:
        pytest.skip(f"no vendor witness: {missing}")
    need_emulator(runtimes.MACHINE)


def cases() -> Iterator[tuple[str, str, Path]]:
    for version, chips in RK.items():
        for chip in chips:
            yield from ((version, chip, path) for path in goldens(chip))


@pytest.mark.witness
@pytest.mark.parametrize(("version", "chip", "path"), [*cases()], ids=lambda value: getattr(value, "stem", value))
def test_goldens(devices: dict[str, Device], version: str, chip: str, path: Path) -> None:
    need("rknnrt", version)
    if (version, path.stem) in REFUSED:
        pytest.skip(REFUSED[version, path.stem])
    for name, ours, theirs in both(device_of(devices, chip), witness_of(version), path):
        if path.stem in DIFFERENT:
            assert ours != theirs, f"{name}: an exception that is none any more: {DIFFERENT[path.stem]}"
        else:
            assert ours == theirs, name


@pytest.mark.witness
@pytest.mark.parametrize(
    ("chip", "path"), [(chip, path) for chip in MINI for path in goldens(chip)],
    ids=lambda value: getattr(value, "stem", value),
)  # fmt: skip
def test_mini_files(devices: dict[str, Device], chip: str, path: Path) -> None:
    need("rknnmrt", "2.3.2")
    if ("2.3.2", path.stem) in REFUSED:
        pytest.skip(REFUSED["2.3.2", path.stem])
    for name, ours, theirs in both_of_mini(device_of(devices, chip), "2.3.2", path):
        assert np.array_equal(ours, theirs), name


@pytest.mark.witness
@pytest.mark.parametrize("name", ["activations", "conv", "gemm", "residual", "two_inputs"])
def test_mini_files_of_our_compiler(devices: dict[str, Device], name: str, tmp_path: Path) -> None:
    """They hold what librknnmrt looks for, where it looks for it."""
    need("rknnmrt", "2.3.2")
    network = onnx.load(GOLDENS / f"{name}.onnx")
    shapes = {one.name: [size.dim_value for size in one.type.tensor_type.shape.dim] for one in network.graph.input}
    random = np.random.default_rng(1)
    values = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    path = tmp_path / "own.rknn"
    path.write_bytes(encode(compile_model(network, "rv1106", calibration=[values]).model))
    with Session(path) as session:
        fed = [
            random.integers(0, 256, spec.shape).astype(np.uint8) if spec.is_image else values[spec.name]
            for spec in session.inputs
        ]
    for output, ours, theirs in both_of_mini(device_of(devices, "rv1106"), "2.3.2", path, fed):
        assert np.array_equal(ours, theirs), output


_FLOATS, _INTEGERS = MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32, MatmulType.INT8_MM_INT8_TO_INT32
PRODUCTS = [
    *((chip, kind) for chip in ("rk3588", "rk3576", "rk3566", "rk3562") for kind in (_FLOATS, _INTEGERS)),
    ("rk3588", MatmulType.INT4_MM_INT4_TO_INT16),
    ("rk3576", MatmulType.FLOAT16_MM_INT8_TO_FLOAT32),
    ("rk3576", MatmulType.FLOAT16_MM_INT4_TO_FLOAT32),
    ("rk3576", MatmulType.INT8_MM_INT4_TO_INT32),
]
"""What runtime 2.0.0b8 takes."""


@pytest.mark.witness
@pytest.mark.parametrize(("chip", "kind"), PRODUCTS, ids=lambda value: getattr(value, "name", value))
def test_products(devices: dict[str, Device], chip: str, kind: MatmulType) -> None:
    need("rknnrt", "2.0.0b8")
    a, b = numbers(kind.types[0], (4, 64)), numbers(kind.types[1], (64, 64))
    operands = stored(a, kind.types[0]).tobytes(), stored(b, kind.types[1]).tobytes()
    product = multiply(device_of(devices, chip), "2.0.0b8", int(kind), (4, 64, 64), operands)
    assert product.problem == ""
    wanted = exact(a.astype(np.float16), b.astype(np.float16), kind) if a.dtype.kind == "f" else exact(a, b, kind)
    got = np.frombuffer(product.result, wanted.dtype).reshape(wanted.shape)
    assert np.allclose(got, wanted, rtol=1e-5, atol=1e-5) if got.dtype.kind == "f" else np.array_equal(got, wanted)


def fake(width: int, machine: int, text: bytes) -> bytes:
    header = bytearray(64)
    header[:6] = b"\x7fELF" + bytes((width, 1))
    header[18] = machine
    return bytes(header) + text


def test_runtimes_are_recognised_by_what_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"\0librknnrt version: 2.0.0b8 (6a4aa00a53@2024-04-28T22:15:09)\0libc.so.6\0"
    assert recognise(fake(1, 40, said)) == Runtime("rknnrt", "2.0.0b8", "armhf", "glibc")
    assert recognise(fake(2, 183, said)) == Runtime("rknnrt", "2.0.0b8", "aarch64", "glibc")
    mini = b"\0librknnmrt version: 2.3.2 (x)\0libc.so.0\0"
    assert recognise(fake(1, 40, mini)) == Runtime("rknnmrt", "2.3.2", "armhf", "uClibc")
    assert recognise(b"!<arch>\n" + fake(1, 40, mini)) == Runtime("rknnmrt", "2.3.2", "armhf", "none")
    assert recognise(fake(1, 40, b"no version")) is None
    assert recognise(said) is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    given = tmp_path / "given"
    given.mkdir()
    (given / "whatever").write_bytes(fake(1, 40, said))
    (given / "other").write_bytes(fake(1, 40, mini))
    (given / "README").write_text("no runtime")
    assert [line.rpartition(": ")[2] for line in runtimes.install(given)] == [
        "not used, only armhf with glibc and archives are", "taken as librknnrt-2.0.0b8-armhf.so",
    ]  # fmt: skip
    assert runtimes.find("rknnrt", "2.0.0b8").read_bytes() == (given / "whatever").read_bytes()
    with pytest.raises(WitnessMissingError, match="run tools/setup-witness FOLDER"):
        runtimes.find("rknnmrt", "2.3.2")
