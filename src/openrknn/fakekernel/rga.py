"""RGA behind /dev/rga: buffers, requests and fences as the vendor's driver multi_rga has them, and what its cores do.

Facts about the answers: drivers/video/rockchip/rga3/rga_drv.c of the vendor's kernel. A failed import answers 0, and
everything that goes wrong with a request after its first checks is EFAULT; the reason is in the log, as on a board.

The result is that of `openrknn.pixels`. RGA itself takes another filter where it makes images smaller (an average on
most cores) and rounds in its own way: programs are tested here, not the last bit of RGA.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from openrknn.fakekernel.drm import refuse
from openrknn.fakekernel.fences import Fence, wait_for_descriptor
from openrknn.fakekernel.file import OpenFile
from openrknn.fakekernel.gem import seal
from openrknn.fakekernel.load import LoadMeter
from openrknn.fakekernel.log import LOG, unharmed
from openrknn.fakekernel.rga_pixels import Bytes, run_task
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi import rga, tables
from openrknn.uapi.rga_cores import CORES, Core

__all__ = ["Rga", "load_text"]

_LONGEST_FENCE = 60.0


@dataclass(eq=False)
class Imported:
    """A buffer that the driver holds."""

    descriptor: int
    size: int
    references: int = 1


@dataclass(eq=False)
class _Session:
    """What one open file has."""

    handles: list[int] = field(default_factory=list)
    requests: set[int] = field(default_factory=set)


class Rga:
    """The driver and its cores."""

    table = tables.RGA

    def __init__(self, system: System) -> None:
        self.cores: tuple[Core, ...] = CORES.get(system.chip.family, ())
        self.meters = [LoadMeter() for _ in self.cores]
        self._numbers = itertools.count(1)
        self._buffers: dict[int, Imported] = {}
        self._sessions: dict[int, _Session] = {}
        self._lock = threading.Lock()
        self._handlers: Mapping[int, Callable[[_Session, Call], int]] = {
            rga.GET_DRIVER_VERSION.number: self._driver_version,
            rga.GET_HW_VERSION.number: self._hw_version,
            rga.IMPORT_BUFFER.number: self._import,
            rga.RELEASE_BUFFER.number: self._release,
            rga.REQUEST_CREATE.number: self._create,
            rga.REQUEST_SUBMIT.number: self._submit,
            rga.REQUEST_CONFIG.number: self._config,
            rga.REQUEST_CANCEL.number: self._cancel,
        }

    def open(self, file: OpenFile) -> None:
        """A file without buffers."""
        with self._lock:
            self._sessions[file.number] = _Session()

    def close(self, file: OpenFile) -> None:
        """Requests that still run keep their buffers."""
        with self._lock:
            for handle in self._sessions.pop(file.number).handles:
                self._put(handle)

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """Not possible."""
        raise refuse(errno.ENODEV, "it cannot be mapped")

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """Find who answers."""
        return self._handlers[call.ioctl.number](self._sessions[file.number], call)

    # -- versions ----------------------------------------------------------------------------------------------

    def _driver_version(self, session: _Session, call: Call) -> int:
        call.values.update(zip(("major", "minor", "revision"), rga.DRIVER_VERSION, strict=True))
        _set_text(call.values, "str", "v" + ".".join(map(str, rga.DRIVER_VERSION)))
        return 1

    def _hw_version(self, session: _Session, call: Call) -> int:
        for number, core in enumerate(self.cores[: rga.VERSIONS]):
            names = (f"major{number}_", f"minor{number}_", f"revision{number}_")
            call.values.update(zip(names, core.version, strict=True))
            _set_text(call.values, f"str{number}_", ".".join(f"{part:x}" for part in core.version))
        call.values["size"] = len(self.cores)
        return 1

    # -- buffers -----------------------------------------------------------------------------------------------

    def _elements(self, call: Call) -> list[dict[str, int]]:
        count = call.values["size"]
        if count > rga.MOST_BUFFERS:
            raise refuse(errno.EFBIG, f"{count} buffers at a time")
        data = call.blocks["buffers"].data
        size = rga.EXTERNAL_BUFFER.size
        if not data:
            raise refuse(errno.EFAULT, "no buffers")
        return [rga.EXTERNAL_BUFFER.unpack(data, at) for at in range(0, len(data), size)]

    def _import(self, session: _Session, call: Call) -> int:
        elements = self._elements(call)
        if len(elements) > 1:
            # Only the descriptor of the first one comes with a call.
            raise refuse(errno.EOPNOTSUPP, "the emulated RGA imports one buffer at a time")
        element = elements[0]
        if element["type"] != rga.DMA_BUFFER or call.descriptor < 0 or not os.fstat(call.descriptor).st_size:
            LOG.warning("rga: import of type %d: only dma-bufs have descriptors", element["type"])
            return 0
        try:
            seal(call.descriptor)
        except OSError as error:
            LOG.warning("rga: import failed: %s", error.strerror)
            return 0
        handle = next(self._numbers)
        with self._lock:
            self._buffers[handle] = Imported(os.dup(call.descriptor), os.fstat(call.descriptor).st_size)
            session.handles.append(handle)
        call.fill("buffers", rga.EXTERNAL_BUFFER.pack_all({**element, "handle": handle}))
        return handle

    def _release(self, session: _Session, call: Call) -> int:
        for element in self._elements(call):
            with self._lock:
                if element["handle"] not in session.handles:
                    raise refuse(errno.ENOENT, f"no buffer {element['handle']}")
                session.handles.remove(element["handle"])
                self._put(element["handle"])
        return 0

    def _put(self, handle: int) -> None:
        """One user less; with the lock held."""
        buffer = self._buffers[handle]
        buffer.references -= 1
        if not buffer.references:
            del self._buffers[handle]
            os.close(buffer.descriptor)

    # -- requests ----------------------------------------------------------------------------------------------

    def _create(self, session: _Session, call: Call) -> int:
        number = next(self._numbers)
        session.requests.add(number)
        call.values["id"] = number
        return 0

    def _cancel(self, session: _Session, call: Call) -> int:
        if call.values["id"] not in session.requests:
            raise refuse(errno.EINVAL, f"no request {call.values['id']}")
        session.requests.remove(call.values["id"])
        return 0

    def _config(self, session: _Session, call: Call) -> int:
        raise refuse(errno.EOPNOTSUPP, "the emulated RGA takes the tasks of a request when it is submitted")

    def _submit(self, session: _Session, call: Call) -> int:
        values = call.values
        data = call.blocks["task_ptr"].data
        if not values["id"] or not values["task_num"] or not data:
            raise refuse(errno.EINVAL, "a request needs a number and tasks")
        if values["task_num"] > rga.MOST_TASKS:
            raise refuse(errno.EFBIG, f"{values['task_num']} tasks")
        if values["id"] not in session.requests:
            raise refuse(errno.EFAULT, f"no request {values['id']}")
        session.requests.remove(values["id"])
        tasks = [rga.TASK.unpack(data, at) for at in range(0, len(data), rga.TASK.size)]
        held = self._hold(session, tasks)
        acquire = os.dup(call.descriptor) if call.descriptor >= 0 else -1
        if values["sync_mode"] != rga.ASYNC:
            if not self._work(tasks, held, acquire):
                raise refuse(errno.EFAULT, "a task failed")
            return 0
        fence = Fence("rga", "rga")
        call.fence, call.close_on_exec = fence, True

        def later() -> None:
            status = -errno.EFAULT
            try:
                with unharmed("a request of RGA"):
                    status = 1 if self._work(tasks, held, acquire) else status
            finally:
                fence.signal(status)

        threading.Thread(target=later, daemon=True, name="rga").start()
        return 0

    def _hold(self, session: _Session, tasks: list[dict[str, int]]) -> dict[int, Imported]:
        """The buffers that the tasks name, kept until they are done."""
        names = {task[f"{image}_{plane}"] for task in tasks for image in ("src", "dst")
                 for plane in ("yrgb_addr", "uv_addr", "v_addr")} - {0}  # fmt: skip
        with self._lock:
            missing = names - set(session.handles)
            if missing or not all(task["handle_flag"] for task in tasks):
                LOG.warning("rga: a task names buffers that are not imported: %s", sorted(missing))
                raise refuse(errno.EFAULT, "no such buffer")
            held = {name: self._buffers[name] for name in names}
            for buffer in held.values():
                buffer.references += 1
        return held

    def _work(self, tasks: list[dict[str, int]], held: dict[int, Imported], acquire: int) -> bool:
        """Run all tasks, once the fence is signalled; whether all of them could be."""
        try:
            if acquire >= 0 and not wait_for_descriptor(acquire, _LONGEST_FENCE):
                LOG.warning("rga: the acquire fence was not signalled within %.0f s", _LONGEST_FENCE)
                return False
            memories = {name: _mapped(buffer) for name, buffer in held.items()}
            return all(run_task(task, memories, self.cores, self.meters) for task in tasks)
        finally:
            if acquire >= 0:
                os.close(acquire)
            with self._lock:
                for name in held:
                    self._put(name)


def _mapped(buffer: Imported) -> Bytes:
    """The bytes of a buffer; they stay mapped while the array lives."""
    return np.frombuffer(mmap.mmap(buffer.descriptor, buffer.size), np.uint8)


def load_text(driver: Rga) -> str:
    """The file `load` in debugfs."""
    lines = [f"num of scheduler = {len(driver.cores)}", "================= load =================="]
    for number, (core, meter) in enumerate(zip(driver.cores, driver.meters, strict=True)):
        lines += [f"scheduler[{number}]: {core.name}", f"\t load = {meter.percent()}%"]
        lines.append("-----------------------------------")
    return "\n".join([*lines, ""])


def _set_text(values: dict[str, int], name: str, text: str) -> None:
    for index, byte in enumerate(text.encode()[:15].ljust(16, b"\0")):
        values[f"{name}{index}"] = byte
