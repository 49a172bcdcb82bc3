"""A C program that multiplies matrices, without C: packets for the engine's handlers, in one process.

products = Products("2.5.0")
product = products.create(4, 64, 32, MatmulType.INT8_MM_INT8_TO_INT32)
product.set("A", a)                 # packs A as its attribute says, into memory of its own, and binds it
product.set("B", b)
product.run()
product.get()                       # C as [M, N]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import openrknn.capi.calls.matmul  # noqa: F401 - registers the handlers
from openrknn import numerics
from openrknn.capi.call import Call, Reply
from openrknn.capi.client import Client
from openrknn.capi.handlers import HANDLERS
from openrknn.capi.memory import Memory
from openrknn.capi.structs import Codec, Values
from openrknn.capi.wire import Operation
from openrknn.vendor.matmul.matrices import decoded, pack_a, pack_b, stored, unpack_c
from openrknn.vendor.tables.enums import MatmulLayout, MatmulQuantization, MatmulType, TensorType
from openrknn.vendor.tables.versions import Version

Array = npt.NDArray[Any]
RANDOM = np.random.default_rng(15)
SEGMENT = 8192


def numbers(kind: TensorType, shape: Sequence[int]) -> Array:
    """Random numbers of a type; 4-bit numbers as int8."""
    if kind is TensorType.FLOAT16:
        return RANDOM.standard_normal(shape).astype(np.float16)
    limit = 128 if kind is TensorType.INT8 else 8
    return RANDOM.integers(-limit, limit, shape, dtype=np.int8)


def sums(a: Array, b: Array) -> Array:
    """Integers exactly; floats in single precision: 32 products, one by one, then what they are to the total."""
    if a.dtype.kind == "i":
        return a.astype(np.int64) @ b.astype(np.int64)
    products = a.astype(np.float32).T[:, :, None] * b.astype(np.float32)[:, None, :]
    total = np.zeros(products.shape[1:], np.float32)
    for first in range(0, len(products), 32):
        group = np.zeros_like(total)
        for product in products[first : first + 32]:
            group += product
        total += group
    return total


def exact(a: Array, b: Array, kind: MatmulType) -> Array:
    """C without scales."""
    return narrowed(sums(a, b), kind.types[2])


def narrowed(values: Array, kind: TensorType) -> Array:
    """As C stores it; bfloat16 as the float32 that it stands for."""
    match kind:
        case TensorType.INT8:
            return np.clip(np.rint(values), -128, 127).astype(np.int8)
        case TensorType.INT16:
            return np.clip(np.rint(values), -32768, 32767).astype(np.int16)
        case TensorType.INT32:
            return np.clip(np.rint(values), -(2**31), 2**31 - 1).astype(np.int32)
        case TensorType.FLOAT16:
            return values.astype(np.float16)
        case TensorType.BFLOAT16:
            return numerics.decode_bf16(numerics.encode_bf16(values.astype(np.float32)))
        case _:
            return values.astype(np.float32)


class Products:
    """A program."""

    def __init__(self, version: str = "2.5.0") -> None:
        self.program = Client(Codec(Version.parse(version)))
        self.codec = self.program.codec

    def ask(self, operation: Operation, **fields: Any) -> Reply:
        """One call; refusals come as CallError."""
        return HANDLERS[operation](self.program, Call(operation, **fields))

    def memory(self, size_bytes: int) -> int:
        """rknn_create_mem."""
        return self.program.add_memory(Memory.create(size_bytes))

    def destroy_memory(self, number: int) -> None:
        """rknn_destroy_mem."""
        self.program.memories.pop(number).close()

    def info(self, m: int, k: int, n: int, kind: int, **options: int) -> bytes:
        """rknn_matmul_info of this version."""
        b_layout, ac_layout = options.get("b_layout", 0), options.get("ac_layout", 0)
        values = {
            "M": m, "K": k, "N": n, "type": int(kind), "B_layout": b_layout, "AC_layout": ac_layout,
            "native_layout": b_layout, "perf_layout": ac_layout, "group_size": options.get("group_size", 0),
            "B_quant_type": options.get("b_quantization", MatmulQuantization.PER_LAYER_SYM),
            "AC_quant_type": options.get("ac_quantization", MatmulQuantization.PER_LAYER_SYM),
            "iommu_domain_id": options.get("iommu_domain", 0),
        }  # fmt: skip
        return self.codec.encode("rknn_matmul_info", values)

    def create(self, m: int, k: int, n: int, kind: int, **options: int) -> Product:
        """rknn_matmul_create."""
        reply = self.ask(Operation.MATMUL_CREATE, payload=self.info(m, k, n, kind, **options))
        product = Product(self, reply.value, [self.codec.decode("rknn_matmul_io_attr", reply.payload)])
        product.is_turned = options.get("b_layout") == MatmulLayout.TP_NORM
        return product

    def create_dynamic(self, shapes: Sequence[tuple[int, int, int]], kind: int, **options: int) -> Product:
        """rknn_matmul_create_dynamic_shape."""
        wanted = [self.codec.encode("rknn_matmul_shape", dict(zip("MKN", one, strict=True))) for one in shapes]
        payload = self.info(0, 0, 0, kind, **options) + b"".join(wanted)
        reply = self.ask(Operation.MATMUL_CREATE_DYNAMIC_SHAPE, a=len(shapes), payload=payload)
        answers = self.codec.decode_array("rknn_matmul_io_attr", reply.payload, len(shapes))
        return Product(self, reply.value, answers, shapes)

    def b_to_native(self, b: bytes, k: int, n: int, payload: bytes, tile: tuple[int, int] = (0, 0)) -> bytes:
        """rknn_B_normal_layout_to_native_layout."""
        source = os.memfd_create("b")
        os.write(source, b)
        fields = dict(zip("abcd", (k, n, *tile), strict=True))
        reply = self.ask(Operation.B_TO_NATIVE, payload=payload, descriptors=[source], **fields)
        return os.pread(reply.descriptors[0], reply.a, 0)

    def close(self) -> None:
        """The program ends."""
        self.program.close()


class Product:
    """A product of such a program."""

    def __init__(
        self, products: Products, context: int, answers: list[Values], shapes: Sequence[tuple[int, int, int]] = ()
    ) -> None:
        self._products, self.context = products, context
        self._answers, self._shapes = answers, list(shapes)
        self.attributes: Values = answers[0]
        self.memories: dict[str, int] = {}
        self.is_turned = False

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """dims of A, B and C."""
        return tuple(self.dims(name) for name in "ABC")

    def dims(self, name: str) -> tuple[int, ...]:
        attributes = self.attributes[name]
        return tuple(attributes["dims"][: attributes["n_dims"]])

    def kind(self, name: str) -> TensorType:
        return TensorType(self.attributes[name]["type"])

    def ask(self, operation: Operation, **fields: Any) -> Reply:
        return self._products.ask(operation, context=self.context, **fields)

    def bind(self, attributes: Values, memory: int, offset: int = 0) -> None:
        """rknn_matmul_set_io_mem."""
        size = self._products.program.memories[memory].size_bytes
        payload = self._products.codec.encode("rknn_matmul_tensor_attr", attributes)
        self.ask(Operation.MATMUL_SET_IO_MEM, memory=memory, a=offset, b=size - max(offset, 0), payload=payload)

    def write(self, name: str, values: Array) -> None:
        """Into the memory that the matrix has."""
        memory = self._products.program.memories[self.memories[name]]
        memory.array[: self.attributes[name]["size"]] = self.packed(name, values)

    def set(self, name: str, values: Array) -> None:
        """Write and bind."""
        self._allocate(name)
        self.write(name, values)
        self.bind(self.attributes[name], self.memories[name])

    def packed(self, name: str, values: Array) -> npt.NDArray[np.uint8]:
        """The bytes of a matrix in the layout of its attribute."""
        dims = self.dims(name)
        if len(dims) == 3:
            values = pack_a(values, dims[2])
        elif len(dims) == 4:
            values = pack_b(values, dims[2], dims[3], SEGMENT)
        elif name == "B" and self.is_turned:
            values = values.T
        return stored(values, self.kind(name))

    def run(self, *, bind: bool = True) -> None:
        """rknn_matmul_run."""
        if bind and "C" not in self.memories:
            self._allocate("C")
            self.bind(self.attributes["C"], self.memories["C"])
        self.ask(Operation.MATMUL_RUN)

    def get(self) -> Array:
        """C as [M, N]."""
        memory = self._products.program.memories[self.memories["C"]]
        flat = decoded(memory.array[: self.attributes["C"]["size"]], self.kind("C"))
        dims = self.dims("C")
        return unpack_c(flat.reshape(dims)) if len(dims) == 3 else flat.reshape(dims).copy()

    def set_shape(self, shape: tuple[int, int, int]) -> None:
        """rknn_matmul_set_dynamic_shape."""
        payload = self._products.codec.encode("rknn_matmul_shape", dict(zip("MKN", shape, strict=True)))
        self.ask(Operation.MATMUL_SET_DYNAMIC_SHAPE, payload=payload)
        self.attributes = self._answers[self._shapes.index(shape)]
        self.memories.clear()

    def set_core_mask(self, mask: int) -> None:
        """rknn_matmul_set_core_mask."""
        self.ask(Operation.MATMUL_SET_CORE_MASK, a=mask)

    def set_scales(self, name: str, scales: npt.ArrayLike, zeros: npt.ArrayLike = ()) -> None:
        """rknn_matmul_set_quant_params."""
        factors, points = np.asarray(scales, np.float32).reshape(-1), np.asarray(zeros, np.int32).reshape(-1)
        raw = self._products.codec.encode("rknn_quant_params", {"name": name})
        payload = raw + factors.tobytes() + points.tobytes()
        self.ask(Operation.MATMUL_SET_QUANT_PARAMS, a=factors.size, b=points.size, payload=payload)

    def destroy(self) -> None:
        """rknn_matmul_destroy."""
        self.ask(Operation.MATMUL_DESTROY)

    def _allocate(self, name: str) -> None:
        if name not in self.memories:
            self.memories[name] = self._products.memory(self.attributes[name]["size"])
