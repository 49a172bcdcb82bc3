"""A matrix multiplication without numbers: creating it, its memory, its shapes, running it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip, chip_named
from openrknn.vendor.errors import call_error
from openrknn.vendor.library.handle import Handle
from openrknn.vendor.library.library import Library, default_library
from openrknn.vendor.library.structs import CONTEXT
from openrknn.vendor.matmul.specs import MatmulInfo, Matrix, Shape
from openrknn.vendor.memory.owner import MemoryOwner
from openrknn.vendor.memory.tensor_memory import TensorMemory
from openrknn.vendor.tables.enums import CoreMask, MatmulLayout, MatmulQuantization, MatmulType


@dataclass(frozen=True, slots=True)
class MatrixBinding:
    """A matrix in a memory."""

    matrix: Matrix
    memory: TensorMemory

    @property
    def array(self) -> npt.NDArray[np.uint8]:
        """Its bytes, in the layout that `matrix.shape` says, without a copy."""
        return self.memory.array(np.uint8, self.matrix.size_bytes)


class MatmulCore(MemoryOwner):
    """`rknn_matmul_ctx`: a matrix multiplication of one shape, or of several (`shapes`; 2.0.0-beta0)."""

    _what = "matrix multiplication"

    def __init__(
        self,
        m: int = 0,
        k: int = 0,
        n: int = 0,
        type: MatmulType = MatmulType.FLOAT16_MM_FLOAT16_TO_FLOAT32,  # noqa: A002 - the C API's name
        *,
        shapes: Iterable[tuple[int, int, int]] | None = None,
        b_layout: MatmulLayout = MatmulLayout.NORM,
        ac_layout: MatmulLayout = MatmulLayout.NORM,
        b_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM,
        ac_quantization: MatmulQuantization = MatmulQuantization.PER_LAYER_SYM,
        group_size: int = 0,
        iommu_domain: int = 0,
        library: Library | None = None,
        chip: Chip | str | None = None,
    ) -> None:
        used = library or default_library()
        self.chip: Chip | None = (chip_named(chip) if isinstance(chip, str) else chip) or used.chip
        self.info = MatmulInfo(
            MatmulType(type), MatmulLayout(b_layout), MatmulLayout(ac_layout), MatmulQuantization(b_quantization),
            MatmulQuantization(ac_quantization), group_size, iommu_domain,
        )  # fmt: skip
        self.shapes = tuple(Shape(*one) for one in shapes) if shapes is not None else (Shape(m, k, n),)
        self.dynamic = shapes is not None
        self.info.check(used, self.chip, list(self.shapes))
        value, self._attributes = self._create(used)
        super().__init__(Handle(used, value, "rknn_matmul_destroy"))
        self._bound: dict[str, MatrixBinding] = {}
        self._current = 0
        self._scales: dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]] = {}
        """Scales and zero points that the library may look at again."""
        self._blockers = {"shape": "choose a shape first: set_shape"} if self.dynamic else {}

    def _create(self, library: Library) -> tuple[int, Any]:
        number = CONTEXT(0)
        info = self.info.struct(library, self.shapes[0])
        answers = (library.structs.rknn_matmul_io_attr * len(self.shapes))()
        if not self.dynamic:
            library.require("rknn_matmul_create", chip=self.chip)
            library.check("rknn_matmul_create", ctypes.byref(number), ctypes.byref(info), answers)
            return number.value, answers
        library.require("rknn_matmul_create_dynamic_shape", chip=self.chip)
        count = len(self.shapes)
        kind = library.structs.rknn_matmul_shape
        wanted = (kind * count)(*(kind(*one) for one in self.shapes))
        library.check(
            "rknn_matmul_create_dynamic_shape", ctypes.byref(number), ctypes.byref(info), count, wanted, answers
        )
        return number.value, answers

    # ---------------------------------------------------------------------------------------------- what it is

    @property
    def shape(self) -> Shape:
        """M, K and N of the current shape."""
        return self.shapes[self._current]

    @property
    def a(self) -> Matrix:
        """A as stored in memory."""
        return self._matrix("A")

    @property
    def b(self) -> Matrix:
        """B as stored in memory."""
        return self._matrix("B")

    @property
    def c(self) -> Matrix:
        """C as stored in memory."""
        return self._matrix("C")

    def _matrix(self, name: str) -> Matrix:
        self._ensure_open()
        return Matrix.from_struct(getattr(self._attributes[self._current], name))

    def set_shape(self, shape: tuple[int, int, int]) -> None:
        """`rknn_matmul_set_dynamic_shape`: one of `shapes`; the matrices have to be bound again."""
        wanted = Shape(*shape)
        if not self.dynamic:
            raise ValueError("this multiplication has one shape; make it with shapes=[...] to choose")
        if wanted not in self.shapes:
            raise ValueError(f"{tuple(wanted)} is not one of {[tuple(one) for one in self.shapes]}")
        with self._lock:
            raw = self.library.structs.rknn_matmul_shape(*wanted)
            self._optional("rknn_matmul_set_dynamic_shape", ctypes.byref(raw))
            self._current = self.shapes.index(wanted)
            self._blockers.clear()
            self._bound.clear()

    def set_core_mask(self, mask: CoreMask) -> None:
        """`rknn_matmul_set_core_mask`."""
        mask = CoreMask(mask)
        self.library.require("rknn_matmul_set_core_mask", chip=self.chip)
        self.library.require_value(mask)
        self._call("rknn_matmul_set_core_mask", int(mask), about=mask.name)

    def _optional(self, name: str, *arguments: Any, about: str = "") -> None:
        """A function of the library on this multiplication, if library and chip have it."""
        self.library.require(name, chip=self.chip)
        self._call(name, *arguments, about=about)

    # ---------------------------------------------------------------------------------------------- matrices

    def bind(self, name: str, memory: TensorMemory | None = None) -> MatrixBinding:
        """`rknn_matmul_set_io_mem` for "A", "B" or "C"; without a memory one of the right size is made.

        A B that is not in the NPU's own layout is read here, not at the run: fill its memory first, and bind it again
        after every change.
        """
        if name not in ("A", "B", "C"):
            raise KeyError(f"the matrices are 'A', 'B' and 'C', not {name!r}")
        with self._lock:
            self._ensure_open()
            if "shape" in self._blockers:
                raise ValueError(self._blockers["shape"])
            matrix = self._matrix(name)
            if memory is None:
                memory = self.create_memory(matrix.size_bytes)
            elif memory.handle is not self._handle:
                raise ValueError(f"the memory for {name} belongs to another context")
            elif memory.pointer and memory.size_bytes < matrix.size_bytes:
                raise ValueError(f"{name} needs {matrix.size_bytes} bytes of memory, this one has {memory.size_bytes}")
            raw = getattr(self._attributes[self._current], name)
            self._call("rknn_matmul_set_io_mem", memory.pointer, ctypes.byref(raw), about=name)
            binding = self._bound[name] = MatrixBinding(matrix, memory)
            self._blockers.pop(name, None)
            memory.on_close(partial(self._memory_closed, name))
        return binding

    def _memory_closed(self, name: str, memory: TensorMemory) -> None:
        if name in self._bound and self._bound[name].memory is memory:
            del self._bound[name]

    # ---------------------------------------------------------------------------------------------- running

    def run(self) -> None:
        """`rknn_matmul_run`: all three matrices must be bound."""
        with self._lock:
            self._ensure_open()
            for name in ("A", "B", "C"):
                if name not in self._bound:
                    raise ValueError(f"matrix {name} has no memory; bind it first")
            code = self.library.function("rknn_matmul_run")(self._handle.value)
        if code < 0:
            raise call_error("rknn_matmul_run", code, self.library.version)
