"""`RKNNRuntime`: what `RKNNLite.rknn_runtime` is, for programs that reach inside; with the names beside it.

Unlike `RKNNLite`, its methods raise when something is wrong.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from openrknn import Session
from rknnlite.api.constants import *  # noqa: F403
from rknnlite.api.constants import RKNN_QUERY_INPUT_ATTR, RKNN_QUERY_OUTPUT_ATTR
from rknnlite.api.rknn_log import LOGGER
from rknnlite.api.structures import *  # noqa: F403
from rknnlite.api.structures import RKNNRtTensorAttr
from rknnlite.engine.context import Context
from rknnlite.engine.inputs import check_inputs
from rknnlite.engine.library import Library, add_context, destroy_context
from rknnlite.engine.outputs import Array
from rknnlite.engine.queries import QUERIES, api_version, driver_version
from rknnlite.engine.sources import Source

_RULE = "=" * 46


class RKNNRuntime:
    """A model on a device. `context` is a handle for the functions of `lib`."""

    def __init__(
        self,
        root_dir: str = "",
        target: str | None = None,
        device_id: str | None = None,
        async_mode: bool = False,
        core_mask: int = 0,
        **unknown: object,
    ) -> None:
        if target is not None:
            raise ValueError(
                f"target={target!r}: this machine is not connected to a board; leave target out, and choose with "
                "OPENRKNN_DEVICE where the model runs"
            )
        if async_mode:
            LOGGER.info("async_mode: each call returns the outputs of its own inputs")
        self.root_dir = root_dir
        self.target = target
        self.device_id = device_id
        self.async_mode = async_mode
        self.core_mask = core_mask
        self.target_soc = ""
        self.lib = Library()
        self.context = 0
        self.is_dynamic_shape = False
        self.graph_is_built = False
        self._ready: Context | None = None
        self._destroy: weakref.finalize[Any, Any] | None = None

    # -- the model -----------------------------------------------------------------------------------------------

    def build_graph(self, rknn_data: bytes | Source, load_model_in_npu: bool = False) -> None:
        """Put the model onto the device."""
        source = rknn_data if isinstance(rknn_data, Source) else Source(rknn_data)
        self._ready = context = Context(source, self.core_mask)
        self.context = add_context(context)
        # A runtime that is dropped without release() gives its memory back too; at exit the system does.
        self._destroy = weakref.finalize(self, destroy_context, self.context)
        self._destroy.atexit = False
        self.is_dynamic_shape = context.model.is_dynamic
        self.target_soc = context.model.chip.title
        self.graph_is_built = True
        LOGGER.info("the model runs on %s", driver_version(context))

    def set_core_mask(self, core_mask: int) -> int:
        """Let other cores work."""
        self._context().set_core_mask(core_mask)
        self.core_mask = core_mask
        return 0

    def release(self) -> None:
        """Give everything back. Twice is allowed."""
        if self._destroy is not None:
            self._destroy()
        self._ready = self._destroy = None
        self.context = 0
        self.graph_is_built = False

    # -- what it is ----------------------------------------------------------------------------------------------

    def get_in_out_num(self) -> tuple[int, int]:
        """How many inputs and outputs there are."""
        ports = self._context().ports
        return len(ports.inputs), len(ports.outputs)

    def get_tensor_attr(self, index: int, is_output: bool = False) -> RKNNRtTensorAttr:
        """Name, shape, type and scale of one input or output."""
        _, answer = QUERIES[RKNN_QUERY_OUTPUT_ATTR if is_output else RKNN_QUERY_INPUT_ATTR]
        found = answer(self._context(), index)
        if not isinstance(found, RKNNRtTensorAttr):
            raise TypeError("the query fills another struct")
        return found

    def get_output_shape(self, index: int) -> list[int]:
        """The shape of one output, for the current input shapes."""
        outputs = self._context().ports.outputs
        if not 0 <= index < len(outputs):
            raise ValueError(f"output {index} was asked for; there are {len(outputs)}")
        return list(outputs[index].shape)

    def get_sdk_version(self) -> tuple[str, str, str]:
        """A text for people, the version of the API, and what stands for the driver."""
        api, driver = api_version(), driver_version(self._context())
        return f"{_RULE}\nRKNN VERSION:\n  API: {api}\n  DRV: {driver}\n{_RULE}\n", api, driver

    def get_run_perf(self) -> str:
        """Microseconds of the last run; the vendor's wheel has them as text."""
        return str(self._context().last_nanoseconds // 1000)

    # -- running -------------------------------------------------------------------------------------------------

    def set_inputs(
        self,
        inputs: Sequence[Array] | Array,
        data_type: object = None,
        data_format: object = None,
        inputs_pass_through: object = None,
    ) -> int:
        """Check and copy the inputs for the next run."""
        context = self._context()
        with context.lock:
            values, passes = check_inputs(context, inputs, data_type, data_format, inputs_pass_through)
            context.hold(values, pass_through=passes)
        return 0

    def run(self, get_frame_id: bool = False) -> int | tuple[int, int]:
        """Run on the inputs that were set, and wait: 0, or (0, number of the run)."""
        context = self._context()
        with context.lock:
            context.run_held()
            return (0, context.frames) if get_frame_id else 0

    def get_outputs(self, get_frame_id: bool = False, reuse_outputs: bool = False) -> list[Any]:
        """float32 arrays, and the number of the run that they are from if that is wanted."""
        context = self._context()
        with context.lock:
            outputs: list[Any] = context.floats(reuse=reuse_outputs)
            return [*outputs, context.frames] if get_frame_id else outputs

    def infer(
        self, inputs: object, data_type: object, data_format: object, pass_through: object, *, reuse: bool
    ) -> list[Any]:
        """All three in one, without a copy of the inputs."""
        context = self._context()
        with context.lock:
            values, passes = check_inputs(context, inputs, data_type, data_format, pass_through)
            context.run(values, pass_through=passes)
            return context.floats(reuse=reuse)

    @property
    def frames(self) -> int:
        """How many runs there were."""
        return self._context().frames

    @property
    def session(self) -> Session:
        """openrknn's session, for everything that the vendor's API does not have."""
        return self._context().session

    def _context(self) -> Context:
        if self._ready is None:
            raise RuntimeError("the runtime was released, or has no model yet; call build_graph first")
        return self._ready

    def _get_rknn_api_lib_path(self) -> str:
        """Programs replace this to name a library of the vendor's; OPENRKNN_DEVICE=vendor:PATH does that here."""
        return ""
