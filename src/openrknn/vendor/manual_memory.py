"""Memory that CPU and NPU share."""

from __future__ import annotations

from openrknn.vendor.manual_entry import entry

__all__ = ["MEMORY"]

MEMORY = {
    "rknn_create_mem": entry(
        "Allocates memory that CPU and NPU share.",
        "memory = context.create_memory(4096)\nmemory.array(np.int8, (64, 64))[...] = 0",
        {"ctx": "the context itself", "size": "`size_bytes`"},
        see=("rknn_create_mem2", "rknn_mem_sync", "rknn_set_io_mem"),
    ),
    "rknn_create_mem2": entry(
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
    "rknn_create_mem_from_fd": entry(
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
    "rknn_create_mem_from_phys": entry(
        "Uses memory at an address of the device.",
        "memory = context.memory_from_physical(0x1000_0000, size, buffer=mapping)",
        {
            "ctx": "the context itself",
            "phys_addr": "`address`",
            "virt_addr": "`buffer`: where the CPU sees it, if it does",
            "size": "`size_bytes`",
        },
    ),
    "rknn_create_mem_from_mb_blk": entry(
        "Uses a block of the vendor's media library. No known library exports it.",
        "memory = context.memory_from_mb_blk(block)",
        {"ctx": "the context itself", "mb_blk": "`block`: its address", "offset": "`offset`"},
        see=("rknn_create_mem_from_fd",),
    ),
    "rknn_destroy_mem": entry(
        "Gives back a memory.",
        "memory.close()          # or the end of `with context.create_memory(...)`",
        {"ctx": "the context that it belongs to", "mem": "the memory itself"},
        "A second call ends the process; `close` may be called as often as you like.",
        "A run with memory that was destroyed crashes. After `close` the run raises `ValueError` until another is "
        "bound.",
        "Arrays over it stay valid: the library is told when the last one is gone.",
    ),
    "rknn_mem_sync": entry(
        "Brings CPU caches and memory together.",
        "memory.sync(SyncMode.TO_DEVICE)      # after writing\nmemory.sync(SyncMode.FROM_DEVICE)    # before reading",
        {"context": "the context that it belongs to", "mem": "the memory itself", "mode": "`mode`: a `SyncMode`"},
    ),
    "rknn_set_io_mem": entry(
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
    "rknn_set_weight_mem": entry(
        "Lets the weights live in a memory of the caller's.",
        "context = Context(model, InitFlag.MEM_ALLOC_OUTSIDE)\ncontext.set_weight_memory()",
        {"ctx": "the context itself", "mem": "`memory`; without one a memory of the right size is made"},
        "A memory that is too small is taken. It raises here.",
    ),
    "rknn_set_internal_mem": entry(
        "Lets intermediate tensors live in a memory of the caller's; models that run one after the other can share it.",
        "first.set_internal_memory(memory)\nsecond.set_internal_memory(second.memory_from_fd(memory.fd, size))",
        {"ctx": "the context itself", "mem": "`memory`; without one a memory of the right size is made"},
        "A memory that is too small is taken, and a run without any returns success. Both raise here.",
    ),
}
