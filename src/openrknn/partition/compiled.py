"""One part of the NPU: compiled, or taken from the cache; or the reason why it cannot be."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from openrknn.compiler.api import compile_with
from openrknn.compiler.errors import CompileError
from openrknn.compiler.ir import Array
from openrknn.compiler.options import CompileOptions
from openrknn.compiler.result import Compiled
from openrknn.container.load import load
from openrknn.container.parts import Placement
from openrknn.cost.macs import macs
from openrknn.errors import FormatError, RknnError
from openrknn.partition.cache import Cache, calibration_digest
from openrknn.partition.extract import extract
from openrknn.partition.options import PartitionOptions
from openrknn.partition.samples import Samples
from openrknn.partition.view import View
from openrknn.runtime.cost import cost_of

_PIXELS = {"mean", "std", "order", "fit"}
"""What they say has been done to the calibration data already."""
_LEAST_SECONDS = 2.0
"""For the check of one part, however many there are."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Made:
    """A part that the compiler made."""

    data: bytes
    npu_us: float | None
    cpu_macs: int
    """Products that the file leaves to the CPU."""
    check: str = ""
    """How close it is to float, in words."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a group cannot be compiled, and which of its nodes are to blame."""

    nodes: tuple[int, ...]
    reason: str


class Compiler:
    """Compiles groups of one model, each once."""

    def __init__(
        self, view: View, options: PartitionOptions, cache: Cache, samples: Samples | None = None
    ) -> None:  # fmt: skip
        """`samples`: for int8."""
        self._view, self._options, self._cache, self._samples = view, options, cache, samples
        self._done: dict[tuple[int, ...], Made | Refusal] = {}
        self._seconds = float(options.compile.get("check_seconds", CompileOptions().check_seconds))
        """Left for the check of the parts together."""

    def compile(self, nodes: tuple[int, ...]) -> Made | Refusal:
        """The file, or who is to blame."""
        if nodes not in self._done:
            self._done[nodes] = self._compile(nodes)
        return self._done[nodes]

    def _compile(self, nodes: tuple[int, ...]) -> Made | Refusal:
        model = extract(self._view, nodes)
        try:
            return self._made(model)
        except CompileError as error:
            blamed = self._blamed(nodes, error)
            reason = _first_line(error)
        except (RknnError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
            # A mistake of the compiler is no reason to refuse the model, but it has to be seen.
            _LOG.warning("the compiler failed on a part, which stays on the CPU: %s", error, exc_info=True)
            blamed, reason = (), f"the compiler failed: {_first_line(error)}"
        return Refusal(blamed or self._search(nodes), reason)

    def _made(self, model: Any) -> Made:
        data = model.SerializeToString(deterministic=True)
        calibration = self._calibration(model)
        key = self._cache.key(data, self._options, calibration_digest(calibration))
        stored = self._cache.get(key, ".rknn")
        made: Compiled | None = None
        parsed = None
        with suppress(FormatError):  # cut short
            parsed = load(stored) if stored else None
        if parsed is None:
            made = compile_with(model, self._compile_options(calibration))
            self._seconds = max(_LEAST_SECONDS, self._seconds - made.check.seconds)
            stored = made.data
            self._cache.put(key, ".rknn", stored)
            self._cache.put(key, ".check", made.check.brief.encode())
            parsed = load(stored)
        assert stored is not None
        left = sum(macs(op) or 0 for op in parsed.operators if op.placement is not Placement.NPU)
        spent = cost_of(parsed).time_ms
        said = (self._cache.get(key, ".check") or b"").decode(errors="replace") if made is None else made.check.brief
        return Made(stored, None if spent is None else spent * 1e3, left, said)

    def _compile_options(self, calibration: list[dict[str, Array]] | None) -> CompileOptions:
        precision = self._options.precision
        more = {name: value for name, value in self._options.compile.items() if name not in _PIXELS}
        if precision == "mixed":
            more.setdefault("auto_mixed", True)
        if precision:
            more.setdefault("fp16", precision == "fp16")
        more["check_seconds"] = self._seconds
        return CompileOptions(target=self._options.target, calibration=calibration, **more)

    def _calibration(self, model: Any) -> list[dict[str, Array]] | None:
        if self._samples is None or self._options.precision == "fp16":
            return None
        return self._samples.of([entry.name for entry in model.graph.input])

    def _blamed(self, nodes: tuple[int, ...], error: CompileError) -> tuple[int, ...]:
        """Nodes that the error names."""
        named = set(error.operators) or set(re.findall(r"'([^']+)'", str(error)))
        found = []
        for number in nodes:
            node = self._view.nodes[number]
            if named & {node.name, node.proto.name, *node.makes}:
                found.append(number)
        return tuple(found[:1])

    def _search(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """The node with which the trouble begins, by halving."""
        low, high = 0, len(nodes)  # the first `low` nodes compile, the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self._made(extract(self._view, nodes[:middle]))
                low = middle
            except (RknnError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, MemoryError):
                high = middle
        return (nodes[high - 1],)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
