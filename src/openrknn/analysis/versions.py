"""Which vendor runtime loads which model: facts with their evidence, and the answer for one model.

"Tested" facts were seen here (runtime 1.5.2 on a fake device). "Reported" ones are error messages in public threads:
a runtime that refuses a model prints the model's format and the newest format that it knows ("6, 4"). "Announced" ones
are the vendor's change log. Nothing here is a promise of the vendor, whose advice is simpler: a runtime at least as new
as the toolkit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from openrknn.analysis.reports import RuntimeNeed
from openrknn.container.model import Model
from openrknn.container.parts import DataType, Graph

NEWEST_TOOLKIT = (2, 5, 0)
"""The newest toolkit whose files were studied."""

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Fact:
    """ "Runtimes from `version` on can do it", and how this is known."""

    version: Version
    certainty: str
    evidence: str


_FORMATS: Mapping[int, Fact] = MappingProxyType(
    {
        1: Fact((1, 4, 0), "reported", "runtimes 1.3.0 and 1.4.0 print 1 as the newest format they know"),
        6: Fact((1, 5, 2), "tested", "runtime 1.5.2 loaded files of format 6 here"),
    }
)
"""Model format -> the first runtime that is known to load it."""

_REFUSALS: Mapping[int, tuple[Version, str]] = MappingProxyType(
    {6: ((1, 5, 0), 'runtime 1.5.0 and older refuse it with "Invalid RKNN model version 6"')}
)
"""Model format -> the newest runtime that is known to refuse it (rockchip-linux/rknn-toolkit2#316)."""

_CHANGE_LOG = "the vendor's change log"
_CHIPS: Mapping[str, Fact] = MappingProxyType(
    {
        "RKNPU lite": Fact((0, 6, 0), "tested", "runtime 1.5.2 loaded files for it here"),
        "RKNPU v2": Fact((1, 2, 0), "tested", "runtime 1.5.2 loaded files for it here"),
        "RKNPU t4": Fact((1, 5, 0), "announced", f"{_CHANGE_LOG}: RK3562 since 1.5.0"),
        "RKNPU f2": Fact((2, 0, 0), "announced", f"{_CHANGE_LOG}: RK3576 since 2.0.0; 1.5.2 does not know it"),
        "RKNPU f3": Fact((2, 3, 2), "announced", f"{_CHANGE_LOG}: RV1126B since 2.3.2; 1.5.2 does not know it"),
    }
)
"""NPU target -> the first runtime that knows the chip. RV110x have a runtime of their own (librknnmrt)."""

_CUSTOM = Fact((1, 6, 0), "announced", f"{_CHANGE_LOG}: custom operators since 1.6.0")
_FOUR_BIT = Fact((2, 3, 0), "announced", f"{_CHANGE_LOG}: 4-bit weights (w4a16) since 2.3.0")
_MINI = Fact((0, 0, 0), "unknown", "it is not documented which runtimes load the mini container")
_SMALL_REFUSAL = 'runtimes that are too old refuse it with "incompatible model version: 6"'
_SMALL_CHIPS = frozenset({"RKNPU t3", "RKNPU w1"})
_CERTAINTIES = ("unknown", "announced", "reported", "tested")


def oldest_runtime(model: Model) -> RuntimeNeed:
    """The oldest runtime that is known to load `model`, and how sure that is."""
    facts = _facts(model)
    newest = max(facts, key=lambda fact: fact.version)
    certainty = min((fact.certainty for fact in facts), key=_CERTAINTIES.index)
    library = "librknnmrt" if model.target in _SMALL_CHIPS else "librknnrt"
    toolkit = parse_version(model.toolkit_version)
    return RuntimeNeed(
        library=library,
        version=_text(newest.version),
        certainty=certainty,
        evidence="; ".join(
            dict.fromkeys(fact.evidence for fact in facts if fact.certainty != "tested" or fact is newest)
        ),
        refused_by=_refusal(model, newest.version),
        advised=_text(toolkit) if toolkit else "",
    )


def _facts(model: Model) -> list[Fact]:
    unknown = Fact((0, 0, 0), "unknown", f"model format {model.format_version} was never seen with a runtime")
    if model.target in _SMALL_CHIPS or model.flavour == "mini":
        return [_MINI]
    facts = [_FORMATS.get(model.format_version, unknown)]
    if model.target in _CHIPS:
        facts.append(_CHIPS[model.target])
    if model.custom_operators.strip():
        facts.append(_CUSTOM)
    if any(_has_four_bits(graph) for graph in model.graphs):
        facts.append(_FOUR_BIT)
    return facts


def _refusal(model: Model, oldest: Version) -> str:
    if model.target in _SMALL_CHIPS:
        return _SMALL_REFUSAL if model.format_version == 6 else ""
    version, text = _REFUSALS.get(model.format_version, ((9999, 0, 0), ""))
    return text if version < oldest else ""


def _has_four_bits(graph: Graph) -> bool:
    return any(tensor.dtype is DataType.INT4 for tensor in graph.tensors)


def parse_version(text: str) -> Version | None:
    """ "1.6.2b3-..." -> (1, 6, 2)."""
    match = re.match(r"\s*v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _text(version: Version) -> str:
    return ".".join(map(str, version)) if any(version) else ""
