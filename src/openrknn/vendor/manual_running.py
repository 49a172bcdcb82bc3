"""Running: inputs, outputs, operators of the user's."""

from __future__ import annotations

from openrknn.vendor.manual_entry import entry

__all__ = ["RUNNING"]

RUNNING = {
    "rknn_inputs_set": entry(
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
    "rknn_run": entry(
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
    "rknn_wait": entry(
        "Waits for a run that did not block.",
        "context.run(non_blocking=True)\ncontext.wait()",
        {"context": "the context itself", "extend": "the options of the run that is waited for, and `timeout_ms`"},
        "1.5.2 returns RKNN_ERR_FAIL, whatever came before. Use threads with one context each.",
        see=("rknn_dup_context",),
    ),
    "rknn_outputs_get": entry(
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
    "rknn_outputs_release": entry(
        "Gives back what `rknn_outputs_get` allocated.",
        "context.get_outputs()          # releases by itself",
        {"context": "the context itself", "n_ouputs": "all outputs", "outputs": "those of the call before"},
        "Releasing twice ends the process. openrknn passes buffers of its own, so that nothing is allocated, and calls "
        "it once after each `rknn_outputs_get`.",
    ),
    "rknn_register_custom_ops": entry(
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
    "rknn_custom_op_get_op_attr": entry(
        "Reads an attribute of a custom operator, inside one of its functions.",
        'axis = int(op.attribute("axis")[0])',
        {
            "op_ctx": "`op`, the `Operation` that the function was given",
            "attr_name": "`name`",
            "op_attr": "the answer: an array of its own; `KeyError` if there is no such attribute",
        },
    ),
}
