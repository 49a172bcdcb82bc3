"""The 35 functions of the C API as a table: signatures, since when, and older names and signatures.

Facts: headers of 1.3.0 to 2.3.2 (see `openrknn.vendor.tables.layouts`), and the names that librknnrt 1.5.2 and
librknnmrt 2.3.2 export. The types are those of the C headers; `openrknn.vendor.library.structs` makes `ctypes` of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from openrknn.vendor.tables.versions import Version


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; arrays are written as pointers."""

    type: str
    name: str


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as one range of versions has it."""

    name: str
    """The exported name; older versions may have had another."""
    since: Version
    returns: str
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        return f"{self.returns} {self.name}({', '.join(f'{item.type} {item.name}' for item in self.parameters)})"


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its history."""

    name: str
    """The name in v2.3.2."""
    signatures: tuple[Signature, ...]
    """Oldest first."""

    @property
    def since(self) -> Version:
        """The first version that has it, under any name."""
        return self.signatures[0].since

    @property
    def newest(self) -> Signature:
        return self.signatures[-1]

    def signature(self, version: Version) -> Signature:
        """As a library of this version has it; for one that is too old, the oldest."""
        return next((found for found in reversed(self.signatures) if found.since <= version), self.signatures[0])


_TABLE = """
1.3.0   int rknn_init(rknn_context* context, void* model, uint32_t size, uint32_t flag, rknn_init_extend* extend)
1.3.0   int rknn_dup_context(rknn_context* context_in, rknn_context* context_out)
1.3.0   int rknn_destroy(rknn_context context)
1.3.0   int rknn_query(rknn_context context, rknn_query_cmd cmd, void* info, uint32_t size)
1.3.0   int rknn_inputs_set(rknn_context context, uint32_t n_inputs, rknn_input* inputs)
1.3.0   int rknn_set_batch_core_num(rknn_context context, int core_num)
1.3.0   int rknn_set_core_mask(rknn_context context, rknn_core_mask core_mask)
1.3.0   int rknn_run(rknn_context context, rknn_run_extend* extend)
1.3.0   int rknn_wait(rknn_context context, rknn_run_extend* extend)
1.3.0   int rknn_outputs_get(rknn_context context, uint32_t n_outputs, rknn_output* outputs, rknn_output_extend* extend)
1.3.0   int rknn_outputs_release(rknn_context context, uint32_t n_ouputs, rknn_output* outputs)
1.3.0   rknn_tensor_mem* rknn_create_mem_from_phys(rknn_context ctx, uint64_t phys_addr, void* virt_addr, uint32_t size)
1.3.0   rknn_tensor_mem* rknn_create_mem_from_fd(rknn_context ctx, int32_t fd, void* virt_addr, uint32_t size, int32_t offset)
1.3.0   rknn_tensor_mem* rknn_create_mem_from_mb_blk(rknn_context ctx, void* mb_blk, int32_t offset)
1.3.0   rknn_tensor_mem* rknn_create_mem(rknn_context ctx, uint32_t size)
2.0.0b0 rknn_tensor_mem* rknn_create_mem2(rknn_context ctx, uint64_t size, uint64_t alloc_flags)
1.3.0   int rknn_destroy_mem(rknn_context ctx, rknn_tensor_mem* mem)
1.3.0   int rknn_set_weight_mem(rknn_context ctx, rknn_tensor_mem* mem)
1.3.0   int rknn_set_internal_mem(rknn_context ctx, rknn_tensor_mem* mem)
1.3.0   int rknn_set_io_mem(rknn_context ctx, rknn_tensor_mem* mem, rknn_tensor_attr* attr)
1.5.0   int rknn_set_input_shape(rknn_context ctx, rknn_tensor_attr* attr)
1.5.2   int rknn_set_input_shapes(rknn_context ctx, uint32_t n_inputs, rknn_tensor_attr* attr)
1.6.0   int rknn_mem_sync(rknn_context context, rknn_tensor_mem* mem, rknn_mem_sync_mode mode)
1.5.0   int rknn_matmul_create(rknn_matmul_ctx* ctx, rknn_matmul_info* info, rknn_matmul_io_attr* io_attr)
2.0.0b0 int rknn_matmul_create_dyn_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs)
2.1.0   int rknn_matmul_create_dynamic_shape(rknn_matmul_ctx* ctx, rknn_matmul_info* info, int shape_num, rknn_matmul_shape* dynamic_shapes, rknn_matmul_io_attr* io_attrs)
1.5.0   int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem* mem, rknn_matmul_tensor_attr* attr)
1.5.0   int rknn_matmul_set_core_mask(rknn_matmul_ctx context, rknn_core_mask core_mask)
2.0.0b0 int rknn_matmul_set_quant_params(rknn_matmul_ctx context, rknn_quant_params* params)
2.0.0b0 int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params* params, float* scale)
2.0.0b0 int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape* shape)
1.5.0   int rknn_matmul_run(rknn_matmul_ctx ctx)
1.5.0   int rknn_matmul_destroy(rknn_matmul_ctx ctx)
2.0.0b0 int rknn_B_normal_layout_to_native_layout(void* B_input, void* B_output, int K, int N, int subN, int subK, rknn_matmul_type type)
2.1.0   int rknn_B_normal_layout_to_native_layout(void* B_input, void* B_output, int K, int N, rknn_matmul_info* info)
1.6.0   int rknn_register_custom_ops(rknn_context ctx, rknn_custom_op* op, uint32_t custom_op_num)
1.6.0   void rknn_custom_op_get_op_attr(rknn_custom_op_context* op_ctx, const char* attr_name, rknn_custom_op_attr* op_attr)
"""  # noqa: E501

_OLD_NAMES = {"rknn_matmul_create_dyn_shape": "rknn_matmul_create_dynamic_shape"}
_ROW = re.compile(r"^(?P<since>\S+)\s+(?P<returns>\S+) (?P<name>\w+)\((?P<parameters>.*)\)$")


def _signature(row: str) -> Signature:
    match = _ROW.match(row)
    if not match:
        raise ValueError(f"not a signature: {row!r}")
    pairs = [part.removeprefix("const ").rsplit(" ", 1) for part in match["parameters"].split(", ")]
    parameters = tuple(Parameter(kind, name) for kind, name in pairs)
    return Signature(match["name"], Version.parse(match["since"]), match["returns"], parameters)


def _functions() -> dict[str, Function]:
    histories: dict[str, list[Signature]] = {}
    for row in _TABLE.strip().splitlines():
        signature = _signature(row)
        histories.setdefault(_OLD_NAMES.get(signature.name, signature.name), []).append(signature)
    return {name: Function(name, tuple(history)) for name, history in histories.items()}


FUNCTIONS: Mapping[str, Function] = MappingProxyType(_functions())
"""Every function by its name in v2.3.2, in the order of the headers."""
