"""The emulated device: everything put together, started and stopped."""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from openrknn.chips import Chip, chip_named
from openrknn.errors import UnsupportedError
from openrknn.fakekernel.boards import board_for
from openrknn.fakekernel.camera import Camera, CameraSpec
from openrknn.fakekernel.drm import DrmDriver
from openrknn.fakekernel.engine_link import EngineLink
from openrknn.fakekernel.events import Hook
from openrknn.fakekernel.files import entries, hidden_paths
from openrknn.fakekernel.heap import DmaHeap
from openrknn.fakekernel.jobs import Scheduler, Totals
from openrknn.fakekernel.protocol import ENVIRONMENT
from openrknn.fakekernel.rga import Rga
from openrknn.fakekernel.rknpu import Rknpu
from openrknn.fakekernel.rknpu_misc import RknpuMisc
from openrknn.fakekernel.rocket import Rocket
from openrknn.fakekernel.server import Server
from openrknn.fakekernel.space import SPACE_END
from openrknn.fakekernel.system import System
from openrknn.fakekernel.tree import Tree, remove_stale
from openrknn.uapi.emulated import TIME_SCALE

__all__ = ["DRIVERS", "TIME_SCALE", "Device", "Status"]

DRIVERS = ("rknpu", "rocket")
_MISC_NODE = "/dev/rknpu"


@dataclass(frozen=True)
class Status:
    """A device at one moment."""

    files: int
    processes: int
    buffers: int
    buffer_bytes: int
    load: tuple[int, ...]
    """Percent of each core, over the last second."""
    totals: Totals
    seconds: float
    """Since it was opened."""


class Device:
    """A board with an NPU, for programs that are started with the preload library and `environment`.

        with Device("rk3588") as device:
            subprocess.run(["./program"], env=os.environ | device.environment | {"LD_PRELOAD": ...})

    `openrknn.fakekernel.launch` does the rest. `folder` fixes where it lives (else a temporary folder); `library` is
    what programs find as /usr/lib/librknnrt.so; `hook` sees everything that happens (see `events`); `strict` refuses
    also what boards are recorded to ignore. With `camera` the board has one, /dev/video0. `space_bytes` is what an
    address space of the NPU (an IOMMU domain) has room for.
    """

    def __init__(
        self,
        chip: str | Chip = "rk3588",
        *,
        driver: str = "rknpu",
        library: Path | None = None,
        folder: Path | None = None,
        hook: Hook | None = None,
        time_scale: float = TIME_SCALE,
        strict: bool = False,
        camera: CameraSpec | None = None,
        space_bytes: int = SPACE_END,
    ) -> None:
        self.chip = chip if isinstance(chip, Chip) else chip_named(chip)
        self.driver_name = driver
        self._strict = strict
        self._library = None if library is None else str(Path(library).resolve())
        self._folder = folder
        board = board_for(self.chip)
        self._system = System(
            self.chip, board, Scheduler(self.chip.cores, time_scale), hook, space_bytes=min(space_bytes, SPACE_END)
        )
        self._system.frequency = self.chip.clocks[-1]
        self._driver = _make_driver(driver, self._system)
        self.camera = None if camera is None else Camera(self._system, camera)
        self._tree: Tree | None = None
        self._server: Server | None = None
        self._started = time.monotonic()

    @property
    def folder(self) -> Path:
        """Where the device lives; `OPENRKNN_EMULATED` names it to programs."""
        assert self._tree is not None
        return self._tree.folder

    @property
    def environment(self) -> dict[str, str]:
        """What programs need besides the preload library."""
        return {ENVIRONMENT: str(self.folder)}

    @property
    def status(self) -> Status:
        """What it is doing."""
        files = [] if self._server is None else self._server.files.all()
        return Status(
            len(files),
            len({file.process for file in files}),
            len(self._system.buffers),
            self._system.buffers.total_bytes,
            tuple(meter.percent() for meter in self._system.scheduler.meters),
            self._system.scheduler.totals,
            time.monotonic() - self._started,
        )

    @property
    def hook_error(self) -> Exception | None:
        """What the hook raised; from then on it saw nothing more."""
        return self._system.hook_error

    @property
    def engine_process(self) -> int | None:
        """The process that computes."""
        link = self._system.scheduler.link
        return None if link is None else link.process_id

    def start(self) -> None:
        """Make the files, start the engine, and serve."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        remove_stale()
        _raise_file_limit()
        system, scheduler = self._system, self._system.scheduler
        self._tree = Tree(self._folder)
        scheduler.link = EngineLink(
            self.chip.name, system.buffers, system.spaces, scheduler.on_result, scheduler.on_crash,
            on_ready=scheduler.on_ready, strict=self._strict,
        )  # fmt: skip
        scheduler.link.start()
        scheduler.start()
        others = (DmaHeap(system), Rga(system), self.camera)
        files = entries(system, self._driver, others, self._library)
        nodes = self._tree.build(files, hidden_paths(system, self._driver, self.camera), self._library)
        self._server = Server(system, self._tree.listen(), nodes)
        self._server.start()

    def stop(self) -> None:
        """End everything and leave nothing behind. Stopping twice is allowed."""
        server, tree, link = self._server, self._tree, self._system.scheduler.link
        self._server = self._tree = None
        with ExitStack() as last_first:  # each of them, whatever becomes of the others
            if tree is not None:
                last_first.callback(tree.remove)
            if server is not None:
                last_first.callback(server.join)
            if link is not None:
                last_first.callback(link.stop)
            last_first.callback(self._system.scheduler.stop)
            if server is not None:
                last_first.callback(server.stop)

    def __enter__(self) -> Device:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _make_driver(name: str, system: System) -> DrmDriver:
    if name == "rocket":
        if system.chip.family != "rk3588":
            raise UnsupportedError(f"the driver rocket knows RK3588 only, not {system.chip.title}")
        return Rocket(system, "rknn")
    if name != "rknpu":
        raise ValueError(f"no driver is called {name!r}; there are {', '.join(DRIVERS)}")
    kind = RknpuMisc if _MISC_NODE in system.chip.driver_nodes else Rknpu
    return kind(system, system.board.npu)


def _raise_file_limit() -> None:
    """Each buffer is a file that this process holds open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
