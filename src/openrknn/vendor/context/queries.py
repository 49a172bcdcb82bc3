"""What a context knows: typed queries, and what keeps it from running."""

from __future__ import annotations

import ctypes
from typing import Any, cast

from openrknn.chips import Chip
from openrknn.vendor.context.answers import (
    QUERIES,
    InputRange,
    IoCounts,
    MemoryInfo,
    MemorySize,
    SdkVersion,
    TensorAttributes,
)
from openrknn.vendor.context.perf import PerfDetail
from openrknn.vendor.errors import CallError, ClosedError
from openrknn.vendor.library.handle import Handle
from openrknn.vendor.memory.owner import MemoryOwner
from openrknn.vendor.tables.enums import InitFlag, TensorFormat
from openrknn.vendor.tables.enums import QueryCommand as Q
from openrknn.vendor.tables.platforms import refusal

_ONE_SHAPE = (-1, -5, -6)
"""How libraries answer INPUT_DYNAMIC_RANGE for a model that is not dynamic, or if they do not know the question."""


class ContextQueries(MemoryOwner):
    """A context as far as asking goes. Answers that cannot change are asked once."""

    def __init__(
        self, handle: Handle, flags: InitFlag, chip: Chip | None, family: set[str] | None = None
    ) -> None:
        super().__init__(handle)
        self._family = set() if family is None else family
        """What was done to this context or to one that was duplicated from the same."""
        self.flags = flags
        self.chip = chip
        """The chip that the model is for, or that the device tree names; None if neither is known."""
        self._blockers: dict[str, str] = {}
        self._cache: dict[tuple[Q, int], Any] = {}
        self._generation = 0
        self._runs = 0
        self._shaped = False
        self.dynamic: bool = self._is_dynamic()
        """Whether the model takes several shapes; then `set_input_shapes` comes before everything else."""
        if self.dynamic:
            self._blockers["shape"] = "the model takes several shapes; choose with set_input_shapes first"
        if InitFlag.COLLECT_MODEL_INFO_ONLY in flags:
            self._blockers["info"] = "the context was opened with COLLECT_MODEL_INFO_ONLY: it only answers queries"

    # ---------------------------------------------------------------------------------------------- any query

    def query(self, command: Q, index: int = 0) -> Any:
        """`rknn_query`: the answer to a command as an object of `openrknn.vendor.context.answers`.

        `index` says which input or output, for the commands that are about one.
        """
        command = Q(command)
        row = QUERIES[command]
        with self._lock:
            self._ensure_open()
            self._require("rknn_query", query=command)
            if row.tensor:
                self._check_index(row.tensor, index)
            self._check_order(command)
            answer = row.make(self.library.structs, index)
            about = f"{command.name} {index}" if row.tensor else command.name
            self._call("rknn_query", int(command), ctypes.byref(answer), ctypes.sizeof(answer), about=about)
            if command is Q.MEM_SIZE:
                self._family.add("memory size")
            return row.read(answer)

    def _check_order(self, command: Q) -> None:
        """Questions that the library answers with rubbish if they come too early."""
        if command in (Q.PERF_RUN, Q.PERF_DETAIL) and not self._runs:
            raise ValueError(f"{command.name} can be asked after a run")
        if command is Q.PERF_DETAIL and InitFlag.COLLECT_PERF_MASK not in self.flags:
            raise ValueError("PERF_DETAIL needs a context that was opened with InitFlag.COLLECT_PERF_MASK")
        if command.name.startswith("CURRENT_") and not self._shaped:
            raise ValueError(f"{command.name} can be asked of a dynamic model, after set_input_shapes")

    def _check_index(self, tensor: str, index: int) -> None:
        counts = self.counts
        count = counts.inputs if tensor == "input" else counts.outputs
        if not 0 <= index < count:
            raise IndexError(f"there is no {tensor} {index}; the model has {count}")

    def _known(self, command: Q, index: int = 0) -> Any:
        """The answer to a query, asked once for each choice of shapes."""
        self._ensure_open()
        key = (command, index)
        if key not in self._cache:
            self._cache[key] = self.query(command, index)
        return self._cache[key]

    def _tensors(self, tensor: str, command: Q, current: Q | None = None) -> tuple[TensorAttributes, ...]:
        count = self.counts.inputs if tensor == "input" else self.counts.outputs
        asked = current if current is not None and self._shaped else command
        return tuple(self._known(asked, index) for index in range(count))

    # ---------------------------------------------------------------------------------------------- by name

    @property
    def counts(self) -> IoCounts:
        """How many inputs and outputs."""
        return cast(IoCounts, self._known(Q.IN_OUT_NUM))

    @property
    def inputs(self) -> tuple[TensorAttributes, ...]:
        """What `set_inputs` takes; of a dynamic model, for the shapes that were chosen."""
        return self._tensors("input", Q.INPUT_ATTR, Q.CURRENT_INPUT_ATTR)

    @property
    def outputs(self) -> tuple[TensorAttributes, ...]:
        """What `get_outputs` gives."""
        return self._tensors("output", Q.OUTPUT_ATTR, Q.CURRENT_OUTPUT_ATTR)

    @property
    def native_inputs(self) -> tuple[TensorAttributes, ...]:
        """Inputs as the NPU reads them."""
        return self._tensors("input", Q.NATIVE_INPUT_ATTR, Q.CURRENT_NATIVE_INPUT_ATTR)

    @property
    def native_outputs(self) -> tuple[TensorAttributes, ...]:
        """Outputs as the NPU writes them."""
        return self._tensors("output", Q.NATIVE_OUTPUT_ATTR, Q.CURRENT_NATIVE_OUTPUT_ATTR)

    @property
    def nhwc_inputs(self) -> tuple[TensorAttributes, ...]:
        """Inputs as the NPU reads them, with channels last where it can."""
        return self._tensors("input", Q.NATIVE_NHWC_INPUT_ATTR)

    @property
    def nhwc_outputs(self) -> tuple[TensorAttributes, ...]:
        """Outputs with channels last."""
        if self._shaped:  # the query keeps answering for the largest shape
            return tuple(_channels_last(tensor) for tensor in self.outputs)
        return self._tensors("output", Q.NATIVE_NHWC_OUTPUT_ATTR)

    @property
    def input_ranges(self) -> tuple[InputRange, ...]:
        """The shapes that a dynamic model takes; empty for a model with one shape."""
        if not self.dynamic:
            return ()
        return tuple(self._known(Q.INPUT_DYNAMIC_RANGE, index) for index in range(self.counts.inputs))

    @property
    def sdk_version(self) -> SdkVersion:
        """Library and driver."""
        return cast(SdkVersion, self._known(Q.SDK_VERSION))

    @property
    def custom_string(self) -> str:
        """The text that was given when the model was built."""
        return cast(str, self._known(Q.CUSTOM_STRING))

    @property
    def memory_size(self) -> MemorySize:
        """How much memory the context needs and has."""
        return cast(MemorySize, self.query(Q.MEM_SIZE))

    @property
    def device_memory(self) -> MemoryInfo:
        """Where the library keeps the model (RV1103 and RV1106)."""
        return cast(MemoryInfo, self.query(Q.DEVICE_MEM_INFO))

    @property
    def run_time_us(self) -> int:
        """Microseconds of the last run."""
        return cast(int, self.query(Q.PERF_RUN))

    @property
    def perf_detail(self) -> PerfDetail:
        """The time of every operator; needs InitFlag.COLLECT_PERF_MASK."""
        return cast(PerfDetail, self.query(Q.PERF_DETAIL))

    # ---------------------------------------------------------------------------------------------- inside

    def _is_dynamic(self) -> bool:
        if InitFlag.COLLECT_MODEL_INFO_ONLY in self.flags or self.library.version < (1, 5, 0):
            return False
        if self.chip and self.library.check_platform and refusal(self.chip, "rknn_query", Q.INPUT_DYNAMIC_RANGE):
            return False
        try:
            self._cache[Q.INPUT_DYNAMIC_RANGE, 0] = self.query(Q.INPUT_DYNAMIC_RANGE)
        except CallError as error:
            if error.code not in _ONE_SHAPE:
                raise
            return False
        return True

    def _require(self, function: str, *, query: Q | None = None, flags: InitFlag = InitFlag.PRIOR_HIGH) -> None:
        self.library.require(function, query=query, flags=flags, chip=self.chip)

    def _on_close(self) -> None:
        self._blockers["closed"] = ""

    def _raise_blocked(self) -> None:
        """Say why the context cannot run."""
        if "closed" in self._blockers:
            raise ClosedError("this context was closed; make a new one")
        raise ValueError(next(iter(self._blockers.values())))


def _channels_last(tensor: TensorAttributes) -> TensorAttributes:
    if tensor.format is not TensorFormat.NCHW or len(tensor.shape) != 4:
        return tensor
    batches, channels, height, width = tensor.shape
    return tensor.replaced(
        format=TensorFormat.NHWC,
        shape=(batches, height, width, channels),
        size_with_stride_bytes=tensor.size_bytes,
    )
