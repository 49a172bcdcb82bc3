"""`Parted`: a model of any kind, ready to run on NPU and CPU together, whatever shapes it is fed with."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from openrknn.closing import Closing
from openrknn.compiler.float_model import onnx_package
from openrknn.compiler.importer.constants import fix_inputs
from openrknn.compiler.importer.shapes import model_inputs
from openrknn.container.bundle import Bundle, write_bundle
from openrknn.errors import FormatError
from openrknn.onnxgraph import makers_of, values_behind
from openrknn.partition.cache import Cache
from openrknn.partition.make import Shapes, Tell, join, make_plan, open_model, whole_bundle
from openrknn.partition.options import PartitionOptions
from openrknn.partition.ports import ports_of
from openrknn.partition.probe import LIMITS, is_far, is_sound, is_tellable, largest, noise_of, run_rounded
from openrknn.partition.source_model import SourceModel
from openrknn.runtime.parted.session import PartedSession
from openrknn.runtime.parted.steps import UnfitError
from openrknn.wholefiles import write_atomically

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4
"""So many shapes are compiled when they are first seen; a growing loop would compile indefinitely."""
_OFTEN = 3
_ROUNDINGS = 3
"""Later ones when they come again and again."""
_MOST = 16


class Parted(Closing):
    """A model split into parts. One thing runs at a time, from whichever thread.

    Single integers and truths that decide which branch runs (a sample rate, `use_cache`) are taken as constants, each
    value that is seen with parts of its own. A model with open dimensions is specialised for the shapes that it is fed
    with: announced ones (`options.shapes`) and the first few are compiled at once, others run on the CPU until they
    have come several times.
    """

    def __init__(
        self, source: str | os.PathLike[str] | bytes | Any, options: PartitionOptions | None = None,
        tell: Tell | None = None,
    ) -> None:  # fmt: skip
        self.options = options or PartitionOptions()
        self._kept = SourceModel(open_model(source, self.options))
        self.inputs, self.outputs = ports_of(self.source)
        self._tell = tell
        self._lock = threading.RLock()
        self._sessions: dict[str, _Opened] = {}
        self._seen: dict[str, int] = {}
        self._whole: _Opened | None = None
        self._switches = switches_of(self.source)
        announced: list[Shapes] = list(self.options.shapes) if not self._switches else []
        if not announced and not self._is_open() and not self._switches:
            announced = [{}]
        for shapes in announced:
            self._open(shapes)
        self._forget()

    @property
    def source(self) -> Any:
        """The ONNX model, with inputs that are constants fixed."""
        return self._kept.model

    @property
    def plans(self) -> list[Bundle]:
        """What was made of the model so far, one for each choice of shapes."""
        return [opened.session.bundle for opened in self._sessions.values()]

    def run(
        self, feed: Mapping[str, Any], wanted: Sequence[str] | None = None,
        timings: list[tuple[Any, int, int]] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Outputs by name, with the types that the model says. `timings`: (part, start, stop) in ns are added."""
        with self._lock:
            opened = self._opened_for(feed)
            found = self._tried(opened, feed, timings)
            if not opened.is_probed and is_sound(feed):
                found = self._probe(opened, feed, found, timings)
                self._forget()
            if found is None:
                found = self._cpu().run(feed, None)
        return found if wanted is None else {name: found[name] for name in wanted}

    def _forget(self) -> None:
        """Nothing else is asked of a model with fixed shapes once its first run was right: weights are there once."""
        if not self._sessions or self._is_open() or self._switches:
            return
        if self._whole is not None:
            self._whole.close()
            self._whole = None
        self._kept.forget()

    def _tried(self, opened: _Opened, feed: Mapping[str, Any], timings: Any) -> dict[str, Any] | None:
        """Nothing where NaN or what half floats cannot hold came to the NPU: the CPU knows what comes of it."""
        try:
            return opened.run(feed, timings)
        except UnfitError as error:
            _LOG.info("all on the CPU, this time: %s", error)
            return None

    def _probe(
        self, opened: _Opened, feed: Mapping[str, Any], found: dict[str, Any] | None, timings: Any
    ) -> dict[str, Any] | None:
        """The first run: what fp16 cannot hold is left to the CPU from now on."""
        opened.is_probed = True
        try:
            right = self._cpu().run(feed, None)
        except FormatError as error:  # folded, ONNX Runtime takes it; whole it does not
            _LOG.info("the first run was not compared: %s", error)
            return found
        far = _Judge(right, lambda: self._noise(opened, feed, right))
        if found is not None and not far(found):
            opened.remember(())
            return found
        opened.failures += 1
        sizes = largest(opened.kept.model, opened.shapes, feed) if opened.failures == 1 else {}
        for limit in LIMITS:
            names = [name for name, size in sizes.items() if not size <= limit]  # NaN is beyond all
            if not names:
                continue
            opened.open(names, self._tell)
            if timings is not None:
                timings.clear()
            found = self._tried(opened, feed, timings)
            if found is not None and not far(found):
                _LOG.warning("%d values are beyond fp16; their operators stay on the CPU", len(names))
                opened.remember(names)
                return found
        if opened.failures < _OFTEN:
            _LOG.warning("the parts are far from float on these inputs; this run was done on the CPU")
            opened.open((), self._tell)
            opened.is_probed = False
        else:
            _LOG.warning("the parts were far from float %d times; the model stays on the CPU", opened.failures)
            opened.take(whole_bundle(opened.kept.model, self.options))
        return right

    def _noise(self, opened: _Opened, feed: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
        """What rounding does to the float model itself: one run for each of a few other roundings."""
        others = [run_rounded(opened.kept.model, feed, list(right), seed) for seed in range(_ROUNDINGS)]
        parts = opened.session.bundle.parts
        depth = sum(parts[number].operators for number in opened.session.plan.parts if parts[number].kind == "npu")
        return noise_of(right, others, depth)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Everything that was made so far, as one file that `Session` opens."""
        write_atomically(path, write_bundle(join(self.plans or [self._cpu().session.bundle])))

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        with self._lock:
            for opened in (*self._sessions.values(), *([self._whole] if self._whole else [])):
                opened.close()
                opened.kept.close()
            self._sessions.clear()
            self._whole = None
            self._kept.close()

    def _is_open(self) -> bool:
        return any(not isinstance(size, int) for port in self.inputs for size in port.shape)

    def _opened_for(self, feed: Mapping[str, Any]) -> _Opened:
        if not self._is_open() and self._sessions and not self._switches:
            return next(iter(self._sessions.values()))
        shapes = {
            port.name: np.shape(feed[port.name]) for port in self.inputs
            if port.name in feed and port.type.startswith("tensor")
        }  # fmt: skip
        values = {name: np.asarray(feed[name]) for name in self._switches if name in feed}
        key = _key(shapes, values)
        if key in self._sessions:
            return self._sessions[key]
        for opened in self._sessions.values():
            if not values and opened.session.takes(shapes):
                return opened
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._learns(key) and all(size > 0 for shape in shapes.values() for size in shape):
            return self._open(shapes, values)
        return self._cpu()

    def _learns(self, key: str) -> bool:
        learnt = len(self._sessions)
        if not self.options.learn_shapes or learnt >= _MOST:
            return False
        return learnt < _AT_ONCE or self._seen[key] >= _OFTEN

    def _open(self, shapes: Shapes, values: Mapping[str, Any] | None = None) -> _Opened:
        kept = self._kept
        if values:
            model = type(self.source)()
            model.CopyFrom(self.source)
            fix_inputs(model, values, shapes)
            shapes = {name: shape for name, shape in shapes.items() if name not in values}
            kept = SourceModel(model)
        opened = _Opened(kept, shapes, self.options)
        opened.open(None, self._tell)
        key = _key(shapes, values or {})
        self._sessions[key] = opened
        _LOG.info("parts for %s: %s", key, opened.session)
        return opened

    def _cpu(self) -> _Opened:
        """All of it, for any shapes."""
        if self._whole is None:
            whole = _Opened(self._kept, {}, self.options)
            whole.take(whole_bundle(self.source, self.options))
            whole.is_probed = True
            self._whole = whole
        return self._whole


class _Judge:
    """Whether results are far from the right ones. How far they may be is worked out when it matters."""

    def __init__(self, right: Mapping[str, Any], noise: Callable[[], Mapping[str, Any]]) -> None:
        self._right, self._noise = right, noise
        self._found: Mapping[str, Any] | None = None

    def __call__(self, found: Mapping[str, Any]) -> bool:
        if not is_far(found, self._right):
            return False
        if self._found is None:
            self._found = self._noise()
        return is_far(found, self._right, self._found)


class _Opened:
    """One plan, ready to run."""

    session: PartedSession
    failures = 0
    """First runs that were far from float."""

    def __init__(self, kept: SourceModel, shapes: Shapes, options: PartitionOptions) -> None:
        self.kept, self.shapes, self._options = kept, shapes, options
        self.is_probed = not options.probe or not is_tellable(kept.model, options)
        self._is_open = False
        self._memory = Cache(options.cache)

    def open(self, avoid: Sequence[str] | None, tell: Tell | None) -> None:
        """Make it. `avoid`: what the first run taught; None: what an earlier start remembers."""
        if avoid is None:
            stored = self._memory.get(self._key, ".json")
            with contextlib.suppress(ValueError, TypeError):
                avoid = [str(name) for name in json.loads(stored or b"")]
                self.is_probed = True
        options = replace(self._options, avoid=(*self._options.avoid, *(avoid or ())))
        self.take(make_plan(self.kept.model, options, self.shapes, tell, self.kept.digest))
        if all(part.kind == "cpu" for part in self.session.bundle.parts):
            self.is_probed = True

    def take(self, bundle: Bundle) -> None:
        """Run this."""
        options = self._options
        self.close()
        self._is_open = True
        self.session = PartedSession(bundle, options.device, session_options=options.session_options, in_process=True)

    def remember(self, names: Sequence[str]) -> None:
        """For the next start."""
        self._memory.put(self._key, ".json", json.dumps(list(names)).encode())

    def run(self, feed: Mapping[str, Any], timings: list[tuple[Any, int, int]] | None) -> dict[str, Any]:
        """Once."""
        taken = {port.name for port in self.session.bundle.inputs}
        self.session.timings = timings
        try:
            found: dict[str, Any] = self.session.run({name: value for name, value in feed.items() if name in taken})
        finally:
            self.session.timings = None
        return found

    def close(self) -> None:
        """Give everything back."""
        if self._is_open:
            self.session.close()

    @cached_property
    def _key(self) -> str:
        return self._memory.key(self.kept.digest, replace(self._options, shapes=()), "probe", _key(self.shapes, {}))


def _key(shapes: Shapes, values: Mapping[str, Any]) -> str:
    told = sorted((name, tuple(shape)) for name, shape in shapes.items() if name not in values)
    return repr((told, sorted((name, value.tolist()) for name, value in values.items())))


# Inputs that only choose a branch: a sample rate, `use_cache`.


def switches_of(model: Any) -> list[str]:
    """Single integers and truths that the condition of an `If` is computed from."""
    proto = onnx_package().TensorProto
    nodes = model.graph.node
    behind = values_behind(makers_of(nodes), [node.input[0] for node in nodes if node.op_type == "If"])
    found = []
    for entry in model_inputs(model):
        kind = entry.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        # A token is a single integer, too, but never without a dimension: each would be compiled for.
        is_single = not sizes if kind.elem_type in {proto.INT64, proto.INT32} else sizes in ([], [1])
        if entry.name in behind and kind.elem_type in {proto.INT64, proto.INT32, proto.BOOL} and is_single:
            found.append(entry.name)
    return found
