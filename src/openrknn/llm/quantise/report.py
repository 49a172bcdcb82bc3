"""What the quantisation of a language model costs: of all products, of each kind, of each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from openrknn.llm.quantise.engine import QuantisedEngine
from openrknn.llm.quantise.measure import Measured, compare
from openrknn.llm.quantise.model import KINDS, Choice, Quantised

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Report:
    """Measured on text that calibration did not see."""

    precision: str
    whole: Measured
    kinds: dict[str, Measured]
    """With the products of one kind in integers, and all others in float."""
    layers: dict[int, Measured]
    """The same for one layer; on the first window only."""
    choices: tuple[Choice, ...]
    weight_bytes: int
    """What one token reads of the products."""
    float_bytes: int
    """The same in fp16."""

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "precision": self.precision, "weight_bytes": self.weight_bytes, "fp16_bytes": self.float_bytes,
            "whole": _plain(self.whole), "kinds": {name: _plain(one) for name, one in self.kinds.items()},
            "layers": [{"layer": layer, **_plain(one)} for layer, one in self.layers.items()],
            "products": [asdict(choice) for choice in self.choices],
        }  # fmt: skip


def _plain(measured: Measured) -> dict[str, float]:
    return {**asdict(measured), "change": measured.change}


def make_report(
    quantised: Quantised, parts: Sequence[Sequence[int]], *, kinds: bool = True, layers: bool = False,
    progress: Progress | None = None,
) -> Report:  # fmt: skip
    """Compare with the same model in float on windows of a text.

    Each kind takes as long as the whole measurement, each layer as long as one window of it.
    """
    tell = progress or (lambda stage, done, of: None)
    reference = QuantisedEngine(quantised.only(lambda name: False))

    def engine(keep: Callable[[str], bool]) -> QuantisedEngine:
        return QuantisedEngine(quantised.only(keep), like=reference)

    def layer_of(name: str) -> int | None:
        return int(name.split(".")[1]) if "." in name else None

    engines = {"": engine(lambda name: True)}
    found = {name.rpartition(".")[2] for name in quantised.products}
    for kind in (kind for kind in KINDS if kinds and kind in found):
        engines[kind] = engine(lambda name, kind=kind: name.rpartition(".")[2] == kind)  # type: ignore[misc]
    measured = compare(reference, engines, parts, lambda done, of: tell("measure", done, of))
    alone = {
        str(layer): engine(lambda name, layer=layer: layer_of(name) == layer)  # type: ignore[misc]
        for layer in range(quantised.source.config.layers if layers else 0)
    }
    found_layers = compare(reference, alone, parts[:1], lambda done, of: tell("layers", done, of))
    each = {int(layer): one for layer, one in found_layers.items()}
    whole = measured.pop("")
    reference.close()
    size = sum(product.bytes for product in quantised.products.values())
    numbers = sum(product.matrix().size for product in quantised.products.values())
    return Report(quantised.precision, whole, measured, each, quantised.choices, size, 2 * numbers)
