"""A model that is ready to run: what an `rknn_context` of the C API is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import perf_counter_ns

from openrknn.runtime import ClosedError
from rknnlite.engine.cores import session_mask
from rknnlite.engine.outputs import Array
from rknnlite.engine.pixel_path import PixelPath
from rknnlite.engine.ports import Ports
from rknnlite.engine.sources import Source

__all__ = ["Context"]

_DEVICE = "auto"
"""Which the environment decides (OPENRKNN_DEVICE), as everywhere in openrknn."""


class Context:
    """A session, what was last put into it, and what it last gave. One thread at a time: hold `lock`."""

    def __init__(self, source: Source, core_mask: int = 0) -> None:
        self.source = source
        self.model = source.model
        self.device = _DEVICE
        self.core_mask = core_mask
        self.lock = threading.RLock()
        self.frames = 0
        """How many runs there were."""
        self.last_nanoseconds = 0
        self.has_chosen_shapes = False
        self.has_warned_of_batch = False
        self.kept: dict[int, Array] = {}
        """Outputs that were handed out as addresses, until they are released."""
        self.ports = Ports(self.model, self.model.graphs[0])
        self.first_ports = self.ports
        """Of the shapes that the file has first, whatever was chosen since."""
        self.session = source.open_session(self.device, session_mask(core_mask, self.model))
        self._ports = {self.ports.shapes: self.ports}
        self._held: tuple[Sequence[Array], bool] | None = None
        self._natives: list[Array] | None = None
        self._path: PixelPath | None = None

    def set_core_mask(self, mask: int) -> None:
        """Let other cores work. The inputs that were set stay."""
        with self.lock:
            opened = self.source.open_session(self.device, session_mask(mask, self.model))
            self.session.close()
            self.session, self.core_mask = opened, mask
            if self.has_chosen_shapes:
                self.session.set_shapes(list(self.ports.shapes))

    def choose_shapes(self, wanted: tuple[tuple[int, ...], ...]) -> None:
        """Go to the graph with these input shapes; ValueError says which ones there are."""
        with self.lock:
            if wanted not in self._ports:
                self._ports[wanted] = Ports.for_shapes(self.model, wanted)
            self.session.set_shapes(list(wanted))
            self.ports = self._ports[wanted]
            self.has_chosen_shapes = True
            self._held = self._natives = self._path = None

    def hold(self, values: Sequence[Array], *, pass_through: bool) -> None:
        """Keep inputs for the next runs. The C API copies here: the caller may change the arrays afterwards."""
        self._held = ([value.copy() for value in values], pass_through)

    def run_held(self) -> None:
        """Run on what was set last."""
        if self._held is None:
            raise ValueError("no inputs were set; set them before each run with other shapes")
        values, pass_through = self._held
        self.run(values, pass_through=pass_through)

    def run(self, values: Sequence[Array], *, pass_through: bool) -> None:
        """Run on these arrays, which are in the model's shapes and order."""
        started = perf_counter_ns()
        path = self._path if self._path is not None and self._path.session is self.session else self._open_path()
        if path.takes(values) and not pass_through:
            self._natives = path.run(values)
        else:
            outputs = self.session.run(
                list(values), layout=self.ports.layouts, pass_through=pass_through, outputs="native"
            )
            self._natives = list(outputs.values())
        self.last_nanoseconds = perf_counter_ns() - started
        self.frames += 1

    def _open_path(self) -> PixelPath:
        self._path = PixelPath(self.session)
        return self._path

    def floats(self, *, reuse: bool = False) -> list[Array]:
        """All outputs as float32."""
        natives = self._results()
        return [port.floats(native, reuse=reuse) for port, native in zip(self.ports.outputs, natives, strict=True)]

    def output(self, index: int, *, as_float: bool) -> Array:
        """One output in an array of its own."""
        port, native = self.ports.outputs[index], self._results()[index]
        return port.floats(native).copy() if as_float else port.raw(native)

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        with self.lock:
            self.session.close()
            self.kept.clear()
            self._held = self._natives = self._path = None

    def _results(self) -> list[Array]:
        if self._natives is None:
            raise ClosedError("there are no outputs; run the model first")
        return self._natives
