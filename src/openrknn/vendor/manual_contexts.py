"""Contexts: loading, asking, choosing."""

from __future__ import annotations

from openrknn.vendor.manual_entry import entry

__all__ = ["CONTEXTS"]

CONTEXTS = {
    "rknn_init": entry(
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
    "rknn_dup_context": entry(
        "Makes another context of the same model that shares its weights: one for each thread.",
        "copy = context.duplicate()",
        {"context_in": "the context itself", "context_out": "the new `Context`"},
        "It crashes if the memory size (RKNN_QUERY_MEM_SIZE) was asked of the context or of one of its duplicates "
        "before. `duplicate` raises `ValueError` then: duplicate first.",
        "The copy of a dynamic model has no shape yet.",
    ),
    "rknn_destroy": entry(
        "Gives back a context and everything that belongs to it.",
        "context.close()          # or the end of `with Context(...)`",
        {"context": "the context itself"},
        "A second call crashes the library; `close` may be called as often as you like.",
        "The library does not know who still uses the memory of a context. `close` ends the use of the context at "
        "once, "
        "but the library is told when the last array over its memory is gone and no other context shares its weights.",
    ),
    "rknn_query": entry(
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
    "rknn_set_core_mask": entry(
        "Says which cores work on a context.",
        "context.set_core_mask(CoreMask.CORE_0_1)",
        {"context": "the context itself", "core_mask": "`mask`: a `CoreMask`"},
        "Masks 5 and 6 (cores 0 and 2, 1 and 2) are refused by every known version; `CoreMask` does not have them.",
    ),
    "rknn_set_batch_core_num": entry(
        "Says how many cores share the batches of a model that was built with `rknn_batch_size` above 1.",
        "context.set_batch_core_num(2)",
        {"context": "the context itself", "core_num": "`count`"},
    ),
    "rknn_set_input_shapes": entry(
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
    "rknn_set_input_shape": entry(
        "The function of 1.5.0 for one input; `rknn_set_input_shapes` replaced it.",
        'context.set_input_shape("images", (1, 224, 224, 3))',
        {"ctx": "the context itself", "attr": "`which` and `shape`"},
        see=("rknn_set_input_shapes",),
    ),
}
