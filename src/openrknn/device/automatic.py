"""What the device "auto" is, everywhere and in this order:

    1. what the environment says: OPENRKNN_DEVICE, which is the user's, or else OPENRKNN_NPU, which our device plugin
       and CDI files set in containers
    2. the NPU of the board, if the model is for it: by the vendor's library where it is installed and the caller can
       use it, else by the kernel's driver, `rknpu` or `rocket`
    3. the software NPU

Only what is present decides, never whether it works: a faulty NPU is reported as an error, not hidden by a slow
fallback. The vendor's library runs models and matrix products as a whole; callers that submit their own tasks
(`open_device`) get the driver below it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from openrknn.chips import Chip, chip_named
from openrknn.monitor.board import soc
from openrknn.monitor.nodes import find
from openrknn.monitor.variables import NPU_VARIABLE

__all__ = ["AUTO", "DEVICE_VARIABLE", "automatic_device"]

_LOG = logging.getLogger(__name__)
AUTO = "auto"
DEVICE_VARIABLE = "OPENRKNN_DEVICE"
"""What "auto" means in this process, by the user's choice. A path names an emulated board, not a device: older versions
of `openrknn exec` set it so (now: OPENRKNN_EMULATED), and such a value chooses nothing."""


def automatic_device(chip: Chip, root: Path = Path("/"), has_library: Callable[[], bool] = lambda: False) -> str:
    """The device for models of `chip`, as users write it; `has_library` is asked only where it matters."""
    chosen = _chosen()
    if chosen not in {"", AUTO}:
        return chosen
    here = soc(root)
    if here is None:
        return "software"
    if chip_named(here).target != chip.target:
        _LOG.info("the model is for %s, and this board has %s: the software NPU runs it", chip.title, here)
        return "software"
    drivers = {found.driver for found in find(root) if found.nodes}
    if "rknpu" in drivers:
        return "vendor" if has_library() else "rknpu"
    if "rocket" in drivers:
        return "rocket"
    _LOG.warning("this board's NPU has no driver: the software NPU runs the model; `openrknn doctor` says more")
    return "software"


def _chosen() -> str:
    wanted = os.environ.get(DEVICE_VARIABLE, "")
    if wanted == AUTO or wanted.startswith(("/", ".", "~")):
        wanted = ""
    return wanted or os.environ.get(NPU_VARIABLE, "")
