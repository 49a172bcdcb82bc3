"""A conversion in the vendor's steps: `config`, `load_onnx`, `build`, as calls of openrknn's compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from openrknn.compiler import Compiled, CompileOptions, Shapes, compile_with, input_names
from rknn.api.settings import Settings

__all__ = ["Conversion"]


@dataclass(slots=True)
class Conversion:
    """What the program said so far."""

    settings: Settings | None = None
    refusal: str = ""
    """Why the last `config` was refused."""
    model: str | os.PathLike[str] | None = None
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

    def load(
        self, path: str | os.PathLike[str], inputs: Sequence[str], sizes: Sequence[Sequence[int]],
        outputs: Sequence[str],
    ) -> None:  # fmt: skip
        """Read the model and check the names and shapes, so that mistakes show here and not in `build`."""
        settings = self._settings("load_onnx")
        known = input_names(path)
        wrong = [name for name in inputs if name not in known]
        if wrong:
            raise ValueError(
                f"load_onnx: {wrong[0]!r} is not an input of the model; there are {', '.join(known)} (a model can be "
                "cut at its outputs, not at its inputs)"
            )
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
        input_names(path, shapes={name: entries[0] for name, entries in shapes.items()}, outputs=outputs)
        self.model, self.inputs, self.shapes, self.outputs = path, names, shapes, list(outputs)

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
        return compile_with(self.model, options)

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
