"""`TensorSpec`: an input or output as a program meets it; `Specs`: all of them, by number and by name."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, overload

from openrknn.container.parts import Layout, Normalization, Quantization
from openrknn.errors import UnknownNameError
from openrknn.names import meant
from openrknn.records import dataclass

if TYPE_CHECKING:
    from typing import SupportsIndex


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output as a program meets it."""

    name: str
    """By which `run` takes or gives it."""
    shape: tuple[int, ...]
    """In the order of `layout`."""
    dtype: str
    """The element type inside the model; "int8", "float16"."""
    layout: str
    """ "nhwc" or "nchw" for tensors of four dimensions, else "undefined"."""
    quantization: Quantization | None = None
    """Scale and zero point of integers that stand for real numbers."""
    normalization: Normalization | None = None
    """Inputs: mean and std that the model applies itself; feed raw pixels then."""
    is_image: bool = False
    """Inputs: pictures of 1, 3 or 4 channels, which can be fed as raw uint8 pixels."""

    def __str__(self) -> str:
        text = f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"
        if self.layout != Layout.UNDEFINED.label:
            text += f" {self.layout}"
        if self.quantization is not None:
            text += f" scale={self.quantization.scale[0]:.6g} zero_point={self.quantization.zero_point[0]}"
        return text

    def __repr__(self) -> str:
        return f"TensorSpec({self})"


class Specs(tuple[TensorSpec, ...]):
    """The inputs or outputs of a model: a tuple that can be asked by name as well.

        model.inputs[0]             # by number, as in any tuple
        model.inputs["image"]       # by name; UnknownNameError (a KeyError) if there is none
        "image" in model.inputs     # a name or a TensorSpec
        model.inputs.names          # ("image",)
    """

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(spec.name for spec in self)

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> TensorSpec: ...

    @overload
    def __getitem__(self, key: slice) -> Specs: ...

    def __getitem__(self, key: Any) -> TensorSpec | Specs:
        """The one with this number or name; a slice gives `Specs` again."""
        if isinstance(key, str):
            found = next((spec for spec in self if spec.name == key), None)
            if found is None:
                known = ", ".join(self.names) or "none"
                raise UnknownNameError(f"nothing here is called {key!r}; there are {known}{meant(key, self.names)}")
            return found
        if isinstance(key, slice):
            return Specs(tuple.__getitem__(self, key))
        spec: TensorSpec = tuple.__getitem__(self, key)
        return spec

    def __contains__(self, key: object) -> bool:
        return any(spec.name == key for spec in self) if isinstance(key, str) else tuple.__contains__(self, key)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        return table_of([("", self)])


def table_of(groups: Iterable[tuple[str, Specs]]) -> str:
    """HTML: a row for each tensor, with the word of its group in front."""
    heads = "".join(f"<th>{word}</th>" for word in ("", "name", "type", "shape", "layout", "scale", "zero point"))
    rows = "".join(_row(word, spec) for word, specs in groups for spec in specs)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _row(word: str, spec: TensorSpec) -> str:
    step = spec.quantization
    numbers = (f"{step.scale[0]:.6g}", str(step.zero_point[0])) if step is not None else ("", "")
    layout = "" if spec.layout == Layout.UNDEFINED.label else spec.layout
    cells = (word, spec.name, spec.dtype, " × ".join(map(str, spec.shape)), layout, *numbers)
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
