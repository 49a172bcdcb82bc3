"""Matrix multiplication."""

from __future__ import annotations

from openrknn.vendor.manual_entry import entry

__all__ = ["MATMUL"]

MATMUL = {
    "rknn_matmul_create": entry(
        "Makes a matrix multiplication C [M, N] = A [M, K] * B [K, N].",
        "with Matmul(4, 64, 32, MatmulType.INT8_MM_INT8_TO_INT32) as matmul:\n    c = matmul(a, b)",
        {
            "ctx": "the new `Matmul`",
            "info": "`m`, `k`, `n`, `type`, `b_layout`, `ac_layout`, `b_quantization`, `ac_quantization`, "
            "`group_size`, "
            "`iommu_domain`",
            "io_attr": "`matmul.a`, `matmul.b`, `matmul.c`",
        },
        "A K of 0 ends the process, a negative M is taken. Both raise `ValueError`.",
        "With A and C in the NPU's layout (`ac_layout=NATIVE`) and M not a multiple of 4 it writes past the end of C.",
    ),
    "rknn_matmul_create_dynamic_shape": entry(
        "Makes a matrix multiplication of several shapes.",
        "matmul = Matmul(type=MatmulType.INT8_MM_INT8_TO_INT32, shapes=[(1, 64, 32), (8, 64, 32)])",
        {
            "ctx": "the new `Matmul`",
            "info": "as `rknn_matmul_create`",
            "shape_num": "follows from `shapes`",
            "dynamic_shapes": "`shapes`: (M, K, N) each",
            "io_attrs": "`matmul.a`, `matmul.b`, `matmul.c` of the current shape",
        },
        see=("rknn_matmul_set_dynamic_shape",),
    ),
    "rknn_matmul_set_dynamic_shape": entry(
        "Chooses one of the shapes.",
        "matmul.set_shape((8, 64, 32))",
        {"ctx": "the multiplication itself", "shape": "`shape`"},
    ),
    "rknn_matmul_set_io_mem": entry(
        "Lets a matrix live in a memory.",
        'left = matmul.bind("A")\nleft.array[:] = ...',
        {
            "ctx": "the multiplication itself",
            "mem": "`memory`; without one it is made",
            "attr": '`name`: "A", "B" or "C"',
        },
        "A B that is not in the NPU's own layout is read at this call, not at the run. `set_b` binds after it "
        "filled the "
        "memory; with `bind` fill it first.",
        "A memory that is too small is taken. It raises here.",
    ),
    "rknn_matmul_set_core_mask": entry(
        "Says which cores work on a multiplication.",
        "matmul.set_core_mask(CoreMask.CORE_1)",
        {"context": "the multiplication itself", "core_mask": "`mask`: a `CoreMask`"},
        "1.5.2 takes one core only.",
    ),
    "rknn_matmul_set_quant_params": entry(
        "Sets scales and zero points of a matrix.",
        'matmul.set_quantization("B", scales, zero_points)',
        {
            "context": "the multiplication itself",
            "params": "`name`, `scale`, `zero_point`: one, or one for each column",
        },
        see=("rknn_matmul_get_quant_params",),
    ),
    "rknn_matmul_get_quant_params": entry(
        "Asks for the scale of B after the library made its channels alike.",
        'matmul.get_quantization("B").scale',
        {"ctx": "the multiplication itself", "params": "those that were set", "scale": "`Scales.scale`"},
        see=("rknn_matmul_set_quant_params",),
    ),
    "rknn_matmul_run": entry(
        "Multiplies.",
        "matmul.run()             # with bound matrices\nc = matmul(a, b)         # NumPy in, NumPy out",
        {"ctx": "the multiplication itself"},
        "Without memory it runs on address 0 and returns success. `run` raises `ValueError`.",
    ),
    "rknn_matmul_destroy": entry(
        "Gives back a multiplication.",
        "matmul.close()           # or the end of `with Matmul(...)`",
        {"ctx": "the multiplication itself"},
    ),
    "rknn_B_normal_layout_to_native_layout": entry(
        "Turns B [K, N] into the NPU's own layout.",
        "native = matmul.b_to_native(b)      # by the library\nmatmul.set_b(b)                     # by openrknn",
        {
            "B_input": "`values`",
            "B_output": "the answer, as bytes",
            "K": "of the multiplication",
            "N": "of the multiplication",
            "info": "of the multiplication",
        },
    ),
}
