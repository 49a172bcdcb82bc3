"""What each C function is for and what it is called in Python: the words of `docs/capi/functions`.

The signatures, versions and chips come from the tables; `tools/make_capi_docs.py` puts both together. Traps are what
runtime 1.5.2 was seen to do; openrknn guards against each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["MANUAL", "Entry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One function in words."""

    summary: str
    python: str
    """How it is called; lines of code."""
    parameters: Mapping[str, str]
    """C parameter -> what it is in Python."""
    traps: tuple[str, ...] = ()
    see: tuple[str, ...] = ()


def _entry(
    summary: str, python: str, parameters: dict[str, str], *traps: str, see: tuple[str, ...] = ()
) -> Entry:
    return Entry(summary, python, MappingProxyType(parameters), traps, see)


_CONTEXTS = {
    "rknn_init": _entry(
        "Loads a model and makes a context.",
        'with Context("model.rknn", InitFlag.COLLECT_PERF_MASK) as context:\n    ...',
        {
            "context": "the new `Context`",
            "model": "`model`: a path, bytes, any buffer, or a `TensorMemory` that holds the model",
            "size": "follows from `model`",
            "flag": "`flags`: members of `InitFlag`; some follow from the other arguments",
            "extend": "`share_weights`, `share_sram`, `model_offset`, `model_size`, `key`",
        },
        "A damaged file, a folder instead of a file and a file that is cut off crash the library. Our own reader looks "
        "first and raises `FormatError`; `check=False` leaves that out.",
        "Weights of another network are shared without an error. `Context` compares the names and sizes of the "
        "weights.",
        "A model behind zeros in a larger file (`model_offset`) is not found.",
        see=("rknn_dup_context", "rknn_destroy"),
    ),
    "rknn_dup_context": _entry(
        "Makes another context of the same model that shares its weights: one for each thread.",
        "copy = context.duplicate()",
        {"context_in": "the context itself", "context_out": "the new `Context`"},
        "It crashes if the memory size (RKNN_QUERY_MEM_SIZE) was asked of the context or of one of its duplicates "
        "before. `duplicate` raises `ValueError` then: duplicate first.",
        "The copy of a dynamic model has no shape yet.",
    ),
    "rknn_destroy": _entry(
        "Gives back a context and everything that belongs to it.",
        "context.close()          # or the end of `with Context(...)`",
        {"context": "the context itself"},
        "A second call crashes the library; `close` may be called as often as you like.",
        "The library does not know who still uses the memory of a context. `close` ends the use of the context at "
        "once, "
        "but the library is told when the last array over its memory is gone and no other context shares its weights.",
    ),
    "rknn_query": _entry(
        "Asks for tensors, versions, times and sizes.",
        "context.inputs, context.native_outputs, context.sdk_version, context.perf_detail\n"
        "context.query(QueryCommand.CUSTOM_STRING)",
        {
            "context": "the context itself",
            "cmd": "a property of `Context`, or a `QueryCommand`",
            "info": "the answer, as an object of `openrknn.vendor.answers`",
            "size": "follows from the command and the library's version",
        },
        "RKNN_QUERY_PERF_RUN before the first run answers a random number, RKNN_QUERY_PERF_DETAIL without "
        "RKNN_FLAG_COLLECT_PERF_MASK an empty text. Both raise `ValueError`.",
    ),
    "rknn_set_core_mask": _entry(
        "Says which cores work on a context.",
        "context.set_core_mask(CoreMask.CORE_0_1)",
        {"context": "the context itself", "core_mask": "`mask`: a `CoreMask`"},
        "Masks 5 and 6 (cores 0 and 2, 1 and 2) are refused by every known version; `CoreMask` does not have them.",
    ),
    "rknn_set_batch_core_num": _entry(
        "Says how many cores share the batches of a model that was built with `rknn_batch_size` above 1.",
        "context.set_batch_core_num(2)",
        {"context": "the context itself", "core_num": "`count`"},
    ),
    "rknn_set_input_shapes": _entry(
        "Chooses one of the shapes of a dynamic model, for all inputs at once.",
        'context.set_input_shapes([(1, 224, 224, 3)])\ncontext.set_input_shapes({"images": (1, 224, 224, 3)})',
        {
            "ctx": "the context itself",
            "n_inputs": "follows from `shapes`",
            "attr": "`shapes`: one of `context.input_ranges` for each input, by position, number or name",
        },
        "A run, an input or a binding before a shape was chosen ends the process (uncaught C++ exception). All of them "
        "raise `ValueError` first.",
        "After memory was bound for one of the shapes, going back to an earlier one fails. Use one context for each "
        "choice of shapes (`Session` does).",
        "Prepared inputs and outputs and bound memory belong to one choice of shapes; they say so when it changed.",
    ),
    "rknn_set_input_shape": _entry(
        "The function of 1.5.0 for one input; `rknn_set_input_shapes` replaced it.",
        'context.set_input_shape("images", (1, 224, 224, 3))',
        {"ctx": "the context itself", "attr": "`which` and `shape`"},
        see=("rknn_set_input_shapes",),
    ),
}

_RUNNING = {
    "rknn_inputs_set": _entry(
        "Copies inputs to where the NPU finds them, and converts them.",
        "context.set_inputs([image])\ninputs = context.prepare_inputs([image])   # check once,\ninputs.set()"
        "                                # set often",
        {
            "context": "the context itself",
            "n_inputs": "follows from `arrays`",
            "inputs": "`arrays`: one for each input, or by number or name; `pass_through` for bytes that the NPU reads "
            "as they are",
        },
        "Layouts and types that it cannot convert are logged and ignored, and the call returns success: NCHW for an "
        "image, int64, bool. They raise here.",
        "A layout number that it does not know crashes it.",
        see=("rknn_set_io_mem",),
    ),
    "rknn_run": _entry(
        "Runs the model and waits for the end.",
        "context.run()\ncontext.run(timeout_ms=500)",
        {
            "context": "the context itself",
            "extend": "`timeout_ms`, `non_blocking`, `fence_fd`; the answer is a `RunInfo`",
        },
        "1.5.2 takes the options and ignores them: it always waits, and the frame number stays 0.",
        "It runs with memory that was freed, and with a custom operator that is not registered it ends the process. "
        "Both "
        "raise `ValueError` first.",
        see=("rknn_wait",),
    ),
    "rknn_wait": _entry(
        "Waits for a run that did not block.",
        "context.run(non_blocking=True)\ncontext.wait()",
        {"context": "the context itself", "extend": "the options of the run that is waited for, and `timeout_ms`"},
        "1.5.2 returns RKNN_ERR_FAIL, whatever came before. Use threads with one context each.",
        see=("rknn_dup_context",),
    ),
    "rknn_outputs_get": _entry(
        "Copies outputs, converted to float32 or as they are.",
        "scores, boxes = context.get_outputs()\noutputs = context.prepare_outputs(want_float=False)   # allocate "
        "once,\n"
        "outputs.get()                                         # fill often",
        {
            "context": "the context itself",
            "n_outputs": "all outputs",
            "outputs": "`want_float`, and `out` for arrays of your own",
            "extend": "`OutputSet.frame_id`",
        },
        "A buffer that is too small and an output that does not exist are logged, nothing is copied, and the call "
        "returns "
        "success. Both raise here.",
        "Before the first run it hands out what its memory happens to hold; `ValueError` here.",
        see=("rknn_outputs_release", "rknn_set_io_mem"),
    ),
    "rknn_outputs_release": _entry(
        "Gives back what `rknn_outputs_get` allocated.",
        "context.get_outputs()          # releases by itself",
        {"context": "the context itself", "n_ouputs": "all outputs", "outputs": "those of the call before"},
        "Releasing twice ends the process. openrknn passes buffers of its own, so that nothing is allocated, and calls "
        "it once after each `rknn_outputs_get`.",
    ),
    "rknn_register_custom_ops": _entry(
        "Registers functions for operators that the library does not know.",
        "def softmax(op: Operation) -> None:\n    op.outputs[0].array[...] = ...\n\n"
        'context.register_custom_ops([CustomOp("cstSoftmax", softmax)])',
        {
            "ctx": "the context itself",
            "op": "`operators`: a `CustomOp` with Python functions for init, prepare, compute and destroy",
            "custom_op_num": "follows from `operators`",
        },
        "An exception in a function comes out of `Context.run`; the library gets an error code.",
        "Arrays over the operator's tensors are valid inside the function only. One that is kept raises `BufferError`.",
        see=("rknn_custom_op_get_op_attr",),
    ),
    "rknn_custom_op_get_op_attr": _entry(
        "Reads an attribute of a custom operator, inside one of its functions.",
        'axis = int(op.attribute("axis")[0])',
        {
            "op_ctx": "`op`, the `Operation` that the function was given",
            "attr_name": "`name`",
            "op_attr": "the answer: an array of its own; `KeyError` if there is no such attribute",
        },
    ),
}

_MEMORY = {
    "rknn_create_mem": _entry(
        "Allocates memory that CPU and NPU share.",
        "memory = context.create_memory(4096)\nmemory.array(np.int8, (64, 64))[...] = 0",
        {"ctx": "the context itself", "size": "`size_bytes`"},
        see=("rknn_create_mem2", "rknn_mem_sync", "rknn_set_io_mem"),
    ),
    "rknn_create_mem2": _entry(
        "Allocates memory and says whether caches are used.",
        "memory = context.create_memory(4096, AllocFlag.NON_CACHEABLE)\n"
        "memory = memory_without_context(library, len(model))   # before there is a context",
        {
            "ctx": "the context itself, or none",
            "size": "`size_bytes`",
            "alloc_flags": "`flags`: members of `AllocFlag`",
        },
        see=("rknn_create_mem",),
    ),
    "rknn_create_mem_from_fd": _entry(
        "Uses a dma-buf of somebody else: a camera, a decoder, another context.",
        "memory = context.memory_from_fd(frame.fd, size, offset=0)",
        {
            "ctx": "the context itself",
            "fd": "`fd`; it stays yours and must stay open",
            "virt_addr": "`buffer`: a mapping of yours; without one the dma-buf is mapped",
            "size": "`size_bytes`",
            "offset": "`offset`",
        },
        "A descriptor that is none, an offset below 0 and a size beyond the end are taken without an error. They raise "
        "here.",
    ),
    "rknn_create_mem_from_phys": _entry(
        "Uses memory at an address of the device.",
        "memory = context.memory_from_physical(0x1000_0000, size, buffer=mapping)",
        {
            "ctx": "the context itself",
            "phys_addr": "`address`",
            "virt_addr": "`buffer`: where the CPU sees it, if it does",
            "size": "`size_bytes`",
        },
    ),
    "rknn_create_mem_from_mb_blk": _entry(
        "Uses a block of the vendor's media library. No known library exports it.",
        "memory = context.memory_from_mb_blk(block)",
        {"ctx": "the context itself", "mb_blk": "`block`: its address", "offset": "`offset`"},
        see=("rknn_create_mem_from_fd",),
    ),
    "rknn_destroy_mem": _entry(
        "Gives back a memory.",
        "memory.close()          # or the end of `with context.create_memory(...)`",
        {"ctx": "the context that it belongs to", "mem": "the memory itself"},
        "A second call ends the process; `close` may be called as often as you like.",
        "A run with memory that was destroyed crashes. After `close` the run raises `ValueError` until another is "
        "bound.",
        "Arrays over it stay valid: the library is told when the last one is gone.",
    ),
    "rknn_mem_sync": _entry(
        "Brings CPU caches and memory together.",
        "memory.sync(SyncMode.TO_DEVICE)      # after writing\nmemory.sync(SyncMode.FROM_DEVICE)    # before reading",
        {"context": "the context that it belongs to", "mem": "the memory itself", "mode": "`mode`: a `SyncMode`"},
    ),
    "rknn_set_io_mem": _entry(
        "Lets an input or output live in a memory, so that nothing is copied.",
        'image = context.bind_input("images", type=TensorType.UINT8)\nimage.array[...] = frame\n'
        "scores = context.bind_output(0)                          # what the NPU writes\n"
        "floats = context.bind_output(0, format=TensorFormat.NCHW, type=TensorType.FLOAT32)",
        {
            "ctx": "the context itself",
            "mem": "`memory`; without one a memory of the right size is made",
            "attr": "which tensor, `type`, `format`, `pass_through`, `height_stride`",
        },
        "An input stays what it was when it was first bound: pictures of another type, or `pass_through` where it was "
        "not, are read wrongly from then on. `bind_input` raises; use another context, not a duplicate of this one.",
        "With `pass_through`, or as int8, the ends of the padded rows of a picture are filled as if they were pixels, "
        "which spoils the right edge where the width is no multiple of 16. As uint8 pixels or float32 it is right.",
        "The index in the attributes is ignored, the name counts. `bind_input` and `bind_output` take both.",
        "With `pass_through` the size of the memory is not looked at. It is here.",
        "An output of another type than its own or float32 is written as float32, past the end of a buffer of the "
        "right "
        "size; an output without a layout that is bound as NCHW overwrites the heap. Only what works is taken.",
    ),
    "rknn_set_weight_mem": _entry(
        "Lets the weights live in a memory of the caller's.",
        "context = Context(model, InitFlag.MEM_ALLOC_OUTSIDE)\ncontext.set_weight_memory()",
        {"ctx": "the context itself", "mem": "`memory`; without one a memory of the right size is made"},
        "A memory that is too small is taken. It raises here.",
    ),
    "rknn_set_internal_mem": _entry(
        "Lets intermediate tensors live in a memory of the caller's; models that run one after the other can share it.",
        "first.set_internal_memory(memory)\nsecond.set_internal_memory(second.memory_from_fd(memory.fd, size))",
        {"ctx": "the context itself", "mem": "`memory`; without one a memory of the right size is made"},
        "A memory that is too small is taken, and a run without any returns success. Both raise here.",
    ),
}

_MATMUL = {
    "rknn_matmul_create": _entry(
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
    "rknn_matmul_create_dynamic_shape": _entry(
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
    "rknn_matmul_set_dynamic_shape": _entry(
        "Chooses one of the shapes.",
        "matmul.set_shape((8, 64, 32))",
        {"ctx": "the multiplication itself", "shape": "`shape`"},
    ),
    "rknn_matmul_set_io_mem": _entry(
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
    "rknn_matmul_set_core_mask": _entry(
        "Says which cores work on a multiplication.",
        "matmul.set_core_mask(CoreMask.CORE_1)",
        {"context": "the multiplication itself", "core_mask": "`mask`: a `CoreMask`"},
        "1.5.2 takes one core only.",
    ),
    "rknn_matmul_set_quant_params": _entry(
        "Sets scales and zero points of a matrix.",
        'matmul.set_quantization("B", scales, zero_points)',
        {
            "context": "the multiplication itself",
            "params": "`name`, `scale`, `zero_point`: one, or one for each column",
        },
        see=("rknn_matmul_get_quant_params",),
    ),
    "rknn_matmul_get_quant_params": _entry(
        "Asks for the scale of B after the library made its channels alike.",
        'matmul.get_quantization("B").scale',
        {"ctx": "the multiplication itself", "params": "those that were set", "scale": "`Scales.scale`"},
        see=("rknn_matmul_set_quant_params",),
    ),
    "rknn_matmul_run": _entry(
        "Multiplies.",
        "matmul.run()             # with bound matrices\nc = matmul(a, b)         # NumPy in, NumPy out",
        {"ctx": "the multiplication itself"},
        "Without memory it runs on address 0 and returns success. `run` raises `ValueError`.",
    ),
    "rknn_matmul_destroy": _entry(
        "Gives back a multiplication.",
        "matmul.close()           # or the end of `with Matmul(...)`",
        {"ctx": "the multiplication itself"},
    ),
    "rknn_B_normal_layout_to_native_layout": _entry(
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

MANUAL: Mapping[str, Entry] = MappingProxyType({**_CONTEXTS, **_RUNNING, **_MEMORY, **_MATMUL})
"""Every function by its name."""
