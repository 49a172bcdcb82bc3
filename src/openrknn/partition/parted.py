"""`Parted`: a model of any kind, ready to run on NPU and CPU together, whatever shapes it is fed with."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.closing import Closing
from openrknn.compiler.importer.constants import fix_inputs
from openrknn.container.bundle import Bundle, write_bundle
from openrknn.partition.make import Shapes, Tell, join, make_plan, open_model, whole_bundle
from openrknn.partition.options import PartitionOptions
from openrknn.partition.ports import ports_of
from openrknn.partition.switches import switches_of
from openrknn.runtime.parted.session import PartedSession
from openrknn.runtime.parted.steps import UnfitError

__all__ = ["Parted"]

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4
"""So many shapes are compiled when they are first seen; a loop that grows would compile for ever."""
_OFTEN = 3
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
        self.source = open_model(source, self.options)
        self.inputs, self.outputs = ports_of(self.source)
        self._tell = tell
        self._lock = threading.RLock()
        self._sessions: dict[str, PartedSession] = {}
        self._seen: dict[str, int] = {}
        self._whole: PartedSession | None = None
        self._switches = switches_of(self.source)
        announced: list[Shapes] = list(self.options.shapes) if not self._switches else []
        if not announced and not self._is_open() and not self._switches:
            announced = [{}]
        for shapes in announced:
            self._open(shapes)

    @property
    def plans(self) -> list[Bundle]:
        """What was made of the model so far, one for each choice of shapes."""
        return [session.bundle for session in self._sessions.values()]

    def run(
        self, feed: Mapping[str, Any], wanted: Sequence[str] | None = None,
        timings: list[tuple[Any, int, int]] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Outputs by name, with the types that the model says. `timings`: (part, start, stop) in ns are added."""
        with self._lock:
            session = self._session_for(feed)
            session.timings = timings
            taken = {port.name for port in session.bundle.inputs}
            try:
                found: dict[str, Any] = session.run({name: value for name, value in feed.items() if name in taken})
            except UnfitError as error:  # NaN, or too large for half floats: the CPU knows what comes of it
                _LOG.info("all on the CPU, this time: %s", error)
                found = self._cpu().run(dict(feed))
            finally:
                session.timings = None
        return found if wanted is None else {name: found[name] for name in wanted}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Everything that was made so far, as one file that `Session` opens."""
        Path(path).write_bytes(write_bundle(join(self.plans or [self._cpu().bundle])))

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        with self._lock:
            for session in (*self._sessions.values(), *([self._whole] if self._whole else [])):
                session.close()
            self._sessions.clear()
            self._whole = None

    def _is_open(self) -> bool:
        return any(not isinstance(size, int) for port in self.inputs for size in port.shape)

    def _session_for(self, feed: Mapping[str, Any]) -> PartedSession:
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
        for session in self._sessions.values():
            if not values and session.takes(shapes):
                return session
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._learns(key) and all(size > 0 for shape in shapes.values() for size in shape):
            return self._open(shapes, values)
        return self._cpu()

    def _learns(self, key: str) -> bool:
        learnt = len(self._sessions)
        if not self.options.learn_shapes or learnt >= _MOST:
            return False
        return learnt < _AT_ONCE or self._seen[key] >= _OFTEN

    def _open(self, shapes: Shapes, values: Mapping[str, Any] | None = None) -> PartedSession:
        model = self.source
        if values:
            model = type(model)()
            model.CopyFrom(self.source)
            fix_inputs(model, values, shapes)
            shapes = {name: shape for name, shape in shapes.items() if name not in values}
        bundle = make_plan(model, self.options, shapes, self._tell)
        session = self._session(bundle)
        key = _key(shapes, values or {})
        self._sessions[key] = session
        _LOG.info("parts for %s: %s", key, session)
        return session

    def _cpu(self) -> PartedSession:
        """All of it, for any shapes."""
        if self._whole is None:
            self._whole = self._session(whole_bundle(self.source, self.options))
        return self._whole

    def _session(self, bundle: Bundle) -> PartedSession:
        return PartedSession(bundle, self.options.device, session_options=self.options.session_options)


def _key(shapes: Shapes, values: Mapping[str, Any]) -> str:
    told = sorted((name, tuple(shape)) for name, shape in shapes.items() if name not in values)
    return repr((told, sorted((name, value.tolist()) for name, value in values.items())))
