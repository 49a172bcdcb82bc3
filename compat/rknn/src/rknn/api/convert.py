"""A conversion in the vendor's steps: `config`, `load_onnx`, `build`, as calls of openrknn's compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.compiler import (
    Compiled,
    CompileOptions,
    Shapes,
    bind_shapes,
    compile_with,
    cut_outputs,
    input_names,
    read_model,
    read_tflite,
)
from openrknn.container import write_atomically
from rknn.api.prepare import cut_inputs, fix_inputs, remove_reshapes, values_of
from rknn.api.settings import Settings
from rknnlite.api.rknn_log import LOGGER

__all__ = ["Conversion"]


@dataclass(slots=True)
class Conversion:
    """What the program said so far."""

    settings: Settings | None = None
    refusal: str = ""
    """Why the last `config` was refused."""
    model: str | os.PathLike[str] | None = None
    source: Any = None
    """What is compiled: the file, or its model with the ends changed."""
    is_foreign: bool = False
    """The file is not ONNX: `source` is what was read of it."""
    inputs: list[str] = field(default_factory=list)
    """All inputs of the model, those first that `load_onnx` named."""
    shapes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)

    def configure(self, options: dict[str, Any]) -> None:
        """Take the options of `config`; those that would change the result and are not there are refused by name."""
        self.settings = None
        try:
            self.settings = Settings.of(options)
        except Exception as error:
            self.refusal = str(error)
            raise

    def load_tflite(
        self, path: str | os.PathLike[str], inputs: Sequence[str], outputs: Sequence[str], *, is_nchw: bool
    ) -> None:
        """The same for a TFLite model, whose tensors all have shapes: it may begin and end at any of them."""
        self._settings("load_tflite")
        read_already = read_tflite(path, inputs=inputs, outputs=outputs, input_is_nchw=is_nchw)
        self.load(path, (), (), outputs, model=read_already)

    def load(
        self, path: str | os.PathLike[str], inputs: Sequence[str], sizes: Sequence[Sequence[int]],
        outputs: Sequence[str], initial: Sequence[Any] = (), *, model: Any = None,
    ) -> None:  # fmt: skip
        """Read the model and check the names and shapes, so that mistakes show here and not in `build`.

        `model` is what was read already of a file that is not ONNX.
        """
        file = path
        if model is not None:
            path = model
        settings = self._settings("load_onnx")
        source: Any = path
        known = input_names(path)
        inside = [name for name in inputs if name not in known]
        if inside:
            source = self._without_front(path, inputs, sizes, inside)
            known = input_names(source)
        names = [*inputs, *(name for name in known if name not in inputs)]
        if len(sizes) > len(names):
            raise ValueError(f"load_onnx: {len(sizes)} shapes in input_size_list, the model has {len(names)} inputs")
        shapes = {name: [tuple(size)] for name, size in zip(names, sizes, strict=False)}
        for number, entry in enumerate(settings.shape_sets):
            if len(entry) != len(names):
                raise ValueError(f"config: dynamic_input has {len(entry)} shapes, the model {len(names)} inputs")
            for name, shape in zip(names, entry, strict=True):
                shapes.setdefault(name, [])
                shapes[name] = [*(shapes[name] if number else []), shape]
        fixed = _fixed(names, initial)
        if fixed or settings.removes_reshapes:
            source = read_model(source)
            fix_inputs(source, fixed)
            names, shapes = ([name for name in names if name not in fixed],
                             {name: entries for name, entries in shapes.items() if name not in fixed})  # fmt: skip
        if settings.removes_reshapes:
            names, shapes, outputs = _bare(source, names, shapes, outputs)
        input_names(source, shapes={name: entries[0] for name, entries in shapes.items()}, outputs=outputs)
        self.model, self.source, self.is_foreign = file, source, model is not None
        self.inputs, self.shapes, self.outputs = names, shapes, list(outputs)

    @staticmethod
    def _without_front(
        path: str | os.PathLike[str], inputs: Sequence[str], sizes: Sequence[Sequence[int]], inside: Sequence[str]
    ) -> Any:
        """`inputs` may name values inside the model: what comes before them is left out."""
        made = values_of(path)
        wrong = [name for name in inside if name not in made]
        if wrong:
            raise ValueError(
                f"load_onnx: {wrong[0]!r} is not an input of the model; there are {', '.join(input_names(path))}, and "
                "the values inside by their names"
            )
        if len(sizes) != len(inputs):
            raise ValueError("load_onnx: inputs inside the model need their shapes in input_size_list")
        model = read_model(path)
        cut_inputs(model, {name: size for name, size in zip(inputs, sizes, strict=True) if name in inside})
        return model

    def onnx_file(self, folder: str | os.PathLike[str] = ".") -> str | os.PathLike[str]:
        """The ONNX file; what was read of another format is written into the folder first."""
        if self.model is None:
            raise ValueError("load a model first")
        if not self.is_foreign:
            return self.model
        path = Path(folder) / f"{Path(self.model).stem}.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self.source.SerializeToString())
        return path

    def build(
        self, *, quantize: bool, dataset: Any, batch: int | None = None, auto_hybrid: bool = False,
        fp16_layers: Sequence[str] = (),
    ) -> Compiled:  # fmt: skip
        """Compile; pictures of the data set are normalised as the model will."""
        settings = self._settings("build")
        if self.model is None:
            raise ValueError("build: call load_onnx first")
        is_int8 = quantize and not settings.is_float
        if is_int8 and dataset is None:
            raise ValueError("build: do_quantization needs a dataset, a text file with one input per line")
        # A model that is quantised already stays so without do_quantization.
        fp16 = False if is_int8 else True if settings.is_float else None
        options = CompileOptions(
            target=settings.target, calibration=dataset if is_int8 else None, fp16=fp16,
            mean=self._per_input(settings.mean), std=self._per_input(settings.std), order=settings.order, fit="stretch",
            shapes=self._shapes(), batch=batch or None, outputs=self.outputs, method=settings.method,
            auto_mixed=auto_hybrid and is_int8, min_snr=settings.min_snr, fp16_layers=fp16_layers if is_int8 else (),
            custom_string=settings.custom_string, cores=settings.cores,
        )  # fmt: skip
        made = compile_with(self.source, options)
        _check_places(made, settings.places)
        return made

    def _settings(self, method: str) -> Settings:
        if self.settings is None and self.refusal:
            raise ValueError(f"{method}: config was refused ({self.refusal}); call it again without that")
        if self.settings is None:
            raise ValueError(f"{method}: call config(target_platform=...) first")
        return self.settings

    def _shapes(self) -> Shapes:
        return {name: list(entries) for name, entries in self.shapes.items()}

    def _per_input(self, values: Sequence[Any] | None) -> Any:
        """[[m, m, m]] for the first input, [[...], [...]] in the order of the inputs, or one flat list for all."""
        if values is None or not len(values):
            return None
        if not isinstance(values[0], list | tuple):
            return list(values)
        return dict(zip(self.inputs, ([float(number) for number in entry] for entry in values), strict=False))


def _fixed(names: Sequence[str], initial: Sequence[Any]) -> dict[str, Any]:
    """input_initial_val: one entry per input, None where there is none."""
    if len(initial) > len(names):
        raise ValueError(f"load_onnx: {len(initial)} values in input_initial_val, the model has {len(names)} inputs")
    return {name: value for name, value in zip(names, initial, strict=False) if value is not None}


def _bare(
    model: Any, names: list[str], shapes: dict[str, list[tuple[int, ...]]], outputs: Sequence[str]
) -> tuple[list[str], dict[str, list[tuple[int, ...]]], Sequence[str]]:
    """remove_reshape: the model without the Reshapes at its ends; its inputs have other names and shapes then."""
    if any(len(entries) > 1 for entries in shapes.values()):
        raise ValueError("config: remove_reshape needs one shape for each input; leave out dynamic_input")
    bind_shapes(model, {name: entries[0] for name, entries in shapes.items()})
    if outputs:
        cut_outputs(model, outputs)
    before = {entry.name for entry in model.graph.input}
    changed = remove_reshapes(model)
    if changed:
        LOGGER.info("remove_reshape: these are inputs and outputs now: %s", ", ".join(changed))
    after = [entry.name for entry in model.graph.input if entry.name in names or entry.name not in before]
    return after, {}, ()


def _check_places(made: Compiled, places: Mapping[str, str]) -> None:
    """op_target: an operator runs where it was asked to, or the build fails and says so."""
    steps = made.lowering.program.steps
    for name, place in places.items():
        found = [step for step in steps if name in {step.name, *step.fused, *step.outputs}]
        if not found:
            LOGGER.warning("config: op_target: openrknn's model has no operator %s, so there is nothing to place", name)
        elif place != "auto" and any(step.is_cpu != (place == "cpu") for step in found):
            other = "CPU" if found[0].is_cpu else "NPU"
            raise ValueError(
                f"op_target: {name} runs on the {other} here, and the compiler cannot move it to the {place.upper()}. "
                "If its numbers are wrong in int8, custom_hybrid gives it fp16; to compute it yourself, cut the model "
                "with load_onnx(outputs=...)"
            )
