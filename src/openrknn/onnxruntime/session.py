"""`InferenceSession`: ONNX Runtime's, with parts of the model on the NPU."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.compiler.errors import OptionError
from openrknn.compiler.importer.read import read_model
from openrknn.errors import RknnError
from openrknn.onnxruntime.binding import IOBinding
from openrknn.onnxruntime.input_checks import InputChecker, NodeArg, check_files, unknown_output
from openrknn.onnxruntime.options import Request, cpu_options, partition_options, request
from openrknn.onnxruntime.profiling import Profiling
from openrknn.onnxruntime.real import CPU, RKNN, onnxruntime, state
from openrknn.partition import Parted, Port
from openrknn.partition.ports import element_word

_FALLBACK = "The NPU's parts of this session are given up, and all of it runs in ONNX Runtime on the CPU"


class InferenceSession(onnxruntime.InferenceSession):  # type: ignore[misc]
    """A model ready to run.

    With `RknnExecutionProvider` among `providers`, or without any, the model is split: what the NPU can do becomes
    parts for it, and the rest runs in ONNX Runtime. Without it this *is* ONNX Runtime's session.
    """

    parted: Parted | None = None
    """The model in parts; None if our provider has nothing to do with this session."""
    _profiling: Profiling | None = None

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str] | Any,
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ) -> None:
        asked = request(providers, provider_options)
        if hasattr(path_or_bytes, "SerializeToString"):  # an onnx.ModelProto: more than ONNX Runtime takes
            path_or_bytes = path_or_bytes.SerializeToString()
        if asked is None:
            super().__init__(path_or_bytes, sess_options, providers, provider_options, **kwargs)
            return
        # Beyond its constructor, which would open the whole model on the CPU: that comes if it is needed.
        super(onnxruntime.InferenceSession, self).__init__(enable_fallback=int(kwargs.get("enable_fallback", 1)) == 1)
        self._model_path: str | None = None
        self._model_bytes: bytes | None = None
        if isinstance(path_or_bytes, str | os.PathLike):
            self._model_path = os.fspath(path_or_bytes)
        elif isinstance(path_or_bytes, bytes | bytearray | memoryview):
            self._model_bytes = bytes(path_or_bytes)
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        self._sess_options_initial = sess_options
        check_files(self._model_path, self._model_bytes, sess_options)
        self._read_config_from_model = int(kwargs.get("read_config_from_model", 0)) == 1
        self._fallback_providers = [CPU]
        self._opening = threading.RLock()
        self._open(asked)

    # ------------------------------------------------------------ opening

    def _open(self, asked: Request) -> None:
        """Split the model. ONNX Runtime gets models that openrknn cannot read; its exceptions reach the program."""
        options = partition_options(asked.options, cpu_options(self._sess_options_initial))
        self._sess_options = self._sess_options_initial or onnxruntime.SessionOptions()
        if self._sess_options.enable_profiling:
            self._profiling = Profiling(self._sess_options.profile_file_prefix)
        begun = time.monotonic_ns()
        if self._model_path is not None and not os.path.exists(self._model_path):
            self._refused()
        try:
            parted = Parted(self._model_bytes if self._model_path is None else self._model_path, options)
        except OptionError:
            raise
        except RknnError as error:
            # Nothing of the model is known here: either it is no model, or one that ONNX Runtime alone understands.
            self._refused()
            self._give_up(error)
            return
        self.__dict__.pop("_sess", None)  # found in `__getattr__`
        self.parted = parted
        weakref.finalize(self, parted.close)
        self._constants = frozenset(options.constants)
        self._gate = InputChecker(parted.inputs)
        self._inputs_meta = [NodeArg(port) for port in parted.inputs]
        self._outputs_meta = [NodeArg(port) for port in parted.outputs]
        self._providers = [RKNN, CPU]
        told = {str(key): str(value) for key, value in asked.options.items()}
        self._provider_options = {RKNN: told, CPU: asked.others.get(CPU, {})}
        if self._profiling:
            self._profiling.session("session_initialization", begun, time.monotonic_ns())

    def _refused(self) -> None:
        """Let ONNX Runtime say what is wrong with the model; it comes back if nothing is."""
        onnxruntime.InferenceSession(self._model_path or self._model_bytes, self._sess_options_initial, providers=[CPU])

    def _give_up(self, error: Exception) -> None:
        """Become a plain session of ONNX Runtime, once; or say that our provider failed."""
        if not self._enable_fallback:
            raise state.EPFail(f"[ONNXRuntimeError] : 11 : EP_FAIL : {RKNN}: {error}") from error
        warnings.warn(f"{_FALLBACK}: {error}", RuntimeWarning, stacklevel=4)
        self.disable_fallback()
        self.set_providers([CPU])

    def _whole(self) -> Any:
        """The model in ONNX Runtime on the CPU, for what the parts cannot do."""
        with self._opening:
            if "_whole_session" not in self.__dict__:
                source: Any = self._model_path or self._model_bytes
                try:
                    whole = onnxruntime.InferenceSession(source, self._sess_options_initial, providers=[CPU])
                except (state.InvalidProtobuf, state.Fail):  # another format
                    written = read_model(source).SerializeToString()
                    whole = onnxruntime.InferenceSession(written, self._sess_options_initial, providers=[CPU])
                self._whole_session = whole
            return self._whole_session

    def __getattr__(self, name: str) -> Any:
        """What the base class keeps of its session of C++ (`_sess`, memory infos): of the whole model on the CPU."""
        if name.startswith("__") or self.__dict__.get("parted") is None or name in {"_whole_session", "_opening"}:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._whole(), name)

    def set_providers(self, providers: Any = None, provider_options: Any = None) -> None:
        """Open the model again, for others."""
        asked = request(providers, provider_options)
        if "_opening" not in self.__dict__:
            self._opening = threading.RLock()
        with self._opening:
            self.__dict__.pop("_whole_session", None)
            old, self.parted = self.parted, None
            if asked is None:
                self._profiling = None
                self._sess = None
                self._reset_session(providers, provider_options)
            else:
                self._open(asked)
            if old is not None:
                old.close()

    # ------------------------------------------------------------ what it is

    def has_input(self, name: str) -> bool:
        """Whether a feed may have it."""
        return (
            any(entry.name == name for entry in self._inputs_meta) or name in self._constants or name in self._optional
        )

    @property
    def _optional(self) -> frozenset[str]:
        """Inputs with a value in the model."""
        return frozenset(entry.name for entry in self.get_overridable_initializers())

    def get_overridable_initializers(self) -> Any:
        """Inputs that have a value in the model. A run that gives one is all on the CPU."""
        if self.parted is None:
            return super().get_overridable_initializers()
        if "_overridable_found" not in self.__dict__:
            self._overridable_found = [NodeArg(port) for port in overridable(self._model())]
        return self._overridable_found

    def get_modelmeta(self) -> Any:
        """Who made the model, and what they say about it."""
        return super().get_modelmeta() if self.parted is None else ModelMetadata.of(self._model())

    def _model(self) -> Any:
        found = getattr(self.parted, "source", None)
        return found if hasattr(found, "graph") else read_model(self._model_path or self._model_bytes)

    @property
    def plans(self) -> Any:
        """How the model was split, once per set of shapes; empty if it was not."""
        return () if self.parted is None else self.parted.plans

    # ------------------------------------------------------------ running

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Outputs in the order of their names; all of them without names."""
        parted = self.parted
        if parted is None:
            given: list[Any] = super().run(output_names, input_feed, run_options)
            return given
        begun = time.monotonic_ns()
        feed = {
            name: value.numpy() if isinstance(value := input_feed[name], onnxruntime.OrtValue) else value
            for name in input_feed.keys()  # noqa: SIM118 - a list is refused in ONNX Runtime's words
            if name not in self._constants
        }
        known = [entry.name for entry in self._outputs_meta]
        names = list(output_names) if output_names else known
        if any(name not in self._gate for name in feed) and self._optional.intersection(feed):
            whole: list[Any] = self._whole().run(names, feed, run_options)
            return whole
        feed = self._gate.take(feed)
        for name in names:
            if name not in known:
                raise unknown_output(name)
        if run_options is not None and run_options.terminate:
            raise state.Fail("[ONNXRuntimeError] : 1 : FAIL : Exiting due to terminate flag being set to true.")
        timings: list[Any] = []
        try:
            results = parted.run(feed, names, timings if self._profiling else None)
        except RknnError as error:
            if self.parted is None:  # closed by another thread, which had the same trouble
                return self.run(names, feed, run_options)
            self._give_up(error)
            return self.run(names, feed, run_options)
        if self._profiling:
            self._profiling.session("model_run", begun, time.monotonic_ns())
            self._profiling.parts(timings)
        return [results[name] for name in names]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Return at once; `callback(outputs, user_data, error)` comes from another thread, with "" if all is well."""
        if self.parted is None:
            super().run_async(output_names, input_feed, callback, user_data, run_options)
            return
        self._validate_input(list(input_feed))
        with self._opening:
            if "_worker" not in self.__dict__:
                self._worker = ThreadPoolExecutor(1, "openrknn-run-async")

        def work() -> None:
            try:
                results, trouble = self.run(output_names, input_feed, run_options), ""
            except Exception as error:  # noqa: BLE001 - whatever it is, the callback is the one to know
                results, trouble = [], str(error).partition("INVALID_ARGUMENT : ")[2] or str(error) or repr(error)
            callback(results, user_data, trouble)

        self._worker.submit(work)

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """OrtValues in and out."""
        if self.parted is None:
            given: list[Any] = super().run_with_ort_values(output_names, input_dict_ort_values, run_options)
            return given
        if not all(entry.type.startswith("tensor(") for entry in (*self._inputs_meta, *self._outputs_meta)):
            # Sequences have no way from Python into an OrtValue but through ONNX Runtime.
            whole: list[Any] = self._whole().run_with_ort_values(output_names, input_dict_ort_values, run_options)
            return whole
        values = self.run(output_names, input_dict_ort_values, run_options)
        return [onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value)) for value in values]

    def io_binding(self) -> Any:
        """An `IOBinding` of this session."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """Run with what is bound."""
        if isinstance(iobinding, IOBinding):
            iobinding.run(run_options)
        else:
            super().run_with_iobinding(iobinding, run_options)

    # ------------------------------------------------------------ profiling

    def end_profiling(self) -> Any:
        """Write the trace and say the name of its file; "" without `SessionOptions.enable_profiling`."""
        if self.parted is None and self._profiling is None:
            return super().end_profiling()
        return self._profiling.end() if self._profiling else ""

    def get_profiling_start_time_ns(self) -> Any:
        """When profiling began; 0 without it."""
        if self.parted is None and self._profiling is None:
            return super().get_profiling_start_time_ns()
        return self._profiling.start_time_ns if self._profiling else 0


# What a model says about itself, in ONNX Runtime's words.

_SINCE_VERSION_4 = 4
"""Of the format: initializers need not be inputs, so those that are may be given."""


@dataclass(slots=True)
class ModelMetadata:
    """As `onnxruntime.ModelMetadata`, which has no constructor."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any) -> ModelMetadata:
        """Of an `onnx.ModelProto`."""
        return cls(
            producer_name=model.producer_name,
            graph_name=model.graph.name,
            domain=model.domain,
            description=model.doc_string,
            graph_description=model.graph.doc_string,
            version=model.model_version if model.HasField("model_version") else 2**63 - 1,
            custom_metadata_map={entry.key: entry.value for entry in model.metadata_props},
        )


def overridable(model: Any) -> list[Port]:
    """Inputs that have a value in the model."""
    if model.ir_version < _SINCE_VERSION_4:
        return []
    values = {entry.name: entry for entry in model.graph.initializer}
    return [
        Port(entry.name, f"tensor({element_word(values[entry.name].data_type)})", tuple(values[entry.name].dims))
        for entry in model.graph.input
        if entry.name in values
    ]
