"""`Matmul`: C = A * B on the NPU, on a board or without one.

with Matmul(4, 64, 32, "int8") as matmul:           # device="software": the NPU in this process
    c = matmul(a, b)                                # NumPy in, NumPy out
    c = matmul(other)                               # B stays where it is
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.chips import CHIPS, Chip, chip_named
from openrknn.closing import Closing
from openrknn.device import Device, open_device
from openrknn.errors import UnsupportedError
from openrknn.runtime.automatic import named_device
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.matmul.own import OwnProduct, has_commands, kind_of
from openrknn.vendor.tables.enums import MatmulType, TensorType

Array = npt.NDArray[Any]
_SHORT = {
    "fp16": MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32,
    "float16": MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32,
    "int8": MatmulType.INT8_MM_INT8_TO_INT32,
    "int4": MatmulType.INT4_MM_INT4_TO_INT16,
}
_DTYPES = {
    TensorType.FLOAT16: np.float16, TensorType.INT8: np.int8, TensorType.INT4: np.int8, TensorType.FLOAT32: np.float32,
    TensorType.INT32: np.int32, TensorType.INT16: np.int16, TensorType.BFLOAT16: np.float32,
}  # fmt: skip


class _Product(Protocol):
    """What multiplies."""

    def set_a(self, values: Array) -> None: ...

    def set_b(self, values: Array) -> None: ...

    def run(self) -> None: ...

    def get_c(self) -> Array: ...

    def close(self) -> None: ...


class Matmul(Closing):
    """C [M, N] = A [M, K] * B [K, N].

    `type` is a `MatmulType`, its name, or "fp16", "int8", "int4". 4-bit matrices come as int8 from -8 to 7, bfloat16
    results as float32. `b_scale` is what an integer B is multiplied by where A is float16, and what the sums of
    integers are multiplied by where C is float or int8: one number, or one for each column.

    `device` is "software" (the NPU in this process; "software:rk3576": RK3576), "rknpu" or an open `Device` (our own
    register commands on the kernel driver), "vendor" (the vendor's library), or "auto", as for `Session`. The NPU
    multiplies int8 to exact int32, float16 with sums in float32, on RK3588 one row of int4 to int16, on RK3576 also an
    int8 or int4 B by a wider A; all other types are widened to these before and narrowed after, exactly and with one
    rounding. Integer results that do not fit their type saturate. On "vendor" the library does what it has, and takes
    no `b_scale`.
    """

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        type: MatmulType | str = "fp16",  # noqa: A002 - the C API's name
        *,
        device: str | Device = "software",
        b_scale: npt.ArrayLike = 1.0,
    ) -> None:
        self.shape = (m, k, n)
        self.type = _type(type)
        for name, size in (("M", m), ("K", k), ("N", n)):
            if not _is_size(size):
                raise ValueError(f"{name} is a number from 1 to {(1 << 20) - 1}, not {size!r}")
        self._scale = _scales(b_scale, n)
        self._has_b = False
        self._device: Device | None = None
        if isinstance(device, str):
            chip = _chip(device)
            device = named_device(device, chip)
        if isinstance(device, str) and device.partition(":")[0] == "vendor":
            self._product: _Product | None = self._on_vendor(device)
            self._widens = False
            self.device_name = device
            """Where it multiplies; says which one "auto" took."""
            return
        if isinstance(device, str):
            self._device = device = open_device(device, chip)
        if not has_commands(device.chip):
            title = device.chip.title
            raise UnsupportedError(f"openrknn has commands for matrix products of RK3588 and RK3576, not of {title}")
        self._widens = True
        self.device_name = device.name
        a, b, _ = self.type.types
        # With another scale, what multiplies A is a float16 number.
        b_bits = b.bits if a is not TensorType.FLOAT16 or np.all(self._scale == 1) else a.bits
        kind = kind_of(device.chip, m, k, bits=a.bits, b_bits=b_bits)
        self._widens_b = kind.b_bits == 16
        try:
            self._product = OwnProduct(device, m, k, n, kind)
        except BaseException:
            self._close_device()
            raise

    def __call__(self, a: npt.ArrayLike, b: npt.ArrayLike | None = None) -> Array:
        """C for A, and for B unless it stays what it was."""
        product = self._open()
        m, k, n = self.shape
        kind_a, kind_b, _ = self.type.types
        product.set_a(self._widened(_checked(a, kind_a, (m, k), "A"), kind_a))
        if b is not None:
            values = _checked(b, kind_b, (k, n), "B")
            product.set_b(self._wide_b(values, kind_b))
            self._has_b = True
        if not self._has_b:
            raise ValueError("B is missing; it is needed in the first call")
        product.run()
        return self._narrowed(product.get_c()) if self._widens else product.get_c()

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        if self._product is not None:
            self._product.close()
            self._product = None
            self._close_device()

    def _open(self) -> _Product:
        if self._product is None:
            raise ClosedError("this matrix multiplication was closed; make another one")
        return self._product

    def _close_device(self) -> None:
        if self._device is not None:
            self._device.close()
            self._device = None

    def _on_vendor(self, device: str) -> _Product:
        from openrknn.runtime.vendor.engine import vendor_library  # here: few need it
        from openrknn.vendor.matmul.matmul import Matmul as VendorMatmul

        if np.any(self._scale != 1):
            raise UnsupportedError(
                "b_scale= is for our own commands; with the library use set_quantization of openrknn.vendor.Matmul"
            )
        made = VendorMatmul(*self.shape, self.type, library=vendor_library(device))
        made.bind("C")
        return made

    # ---------------------------------------------------------------------------------------------- types

    def _widened(self, values: Array, kind: TensorType) -> Array:
        return values if not self._widens or kind is not TensorType.INT4 else values.astype(np.int8)

    def _wide_b(self, values: Array, kind: TensorType) -> Array:
        if not self._widens or kind is TensorType.FLOAT16 or not self._widens_b:
            return values
        return (values.astype(np.float32) * self._scale).astype(np.float16)

    def _narrowed(self, sums: Array) -> Array:
        kind = self.type.types[2]
        if sums.dtype.kind == "i":
            if kind is TensorType.INT32:
                return sums if sums.dtype == np.int32 else numerics.saturate(sums, np.int32)
            if kind is TensorType.INT16:
                return numerics.saturate(sums, np.int16)
            real = sums.astype(np.float64) * self._scale
            if kind is TensorType.INT8:
                return numerics.saturate(numerics.round_to_integer(real), np.int8)
            return real.astype(_DTYPES[kind])
        if kind is TensorType.BFLOAT16:
            return numerics.decode_bf16(numerics.encode_bf16(sums))
        with np.errstate(over="ignore"):
            return sums.astype(_DTYPES[kind], copy=False)


def _chip(device: str) -> Chip:
    """The one that multiplies: the software NPU is of any chip, "software:rk3576"; the others are RK3588."""
    kind, _, name = device.partition(":")
    return chip_named(name) if kind == "software" and name else CHIPS["rk3588"]


def _type(given: MatmulType | str) -> MatmulType:
    if isinstance(given, str):
        if given.lower() in _SHORT:
            return _SHORT[given.lower()]
        name = given.removeprefix("RKNN_")
        if name not in MatmulType.__members__:
            known = ", ".join([*_SHORT, *MatmulType.__members__])
            raise ValueError(f"no matrix product is called {given!r}; there are {known}")
        return MatmulType[name]
    return MatmulType(given)


def _scales(given: npt.ArrayLike, n: int) -> npt.NDArray[np.float32]:
    scales = np.asarray(given, np.float32).reshape(-1)
    if scales.size not in (1, n):
        raise ValueError(f"b_scale= is one number or one for each of {n} columns, not {scales.size}")
    if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
        raise ValueError("b_scale= must be positive")
    return scales


def _checked(given: npt.ArrayLike, kind: TensorType, shape: tuple[int, int], name: str) -> Array:
    values = np.asarray(given)
    dtype = _DTYPES[kind]
    if values.dtype != dtype:
        wanted = np.dtype(dtype)
        raise TypeError(f"matrix {name} is {kind.name.lower()}, so the array must be {wanted}, not {values.dtype}")
    if values.shape != shape:
        raise ValueError(f"matrix {name} is {list(shape)}, the array is {list(values.shape)}")
    if kind is TensorType.INT4 and values.size and not -8 <= int(values.min()) <= int(values.max()) <= 7:
        raise ValueError(f"matrix {name}: a 4-bit number must be between -8 and 7")
    return values


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 20
