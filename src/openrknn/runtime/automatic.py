"""What `device="auto"` means on this machine.

The NPU of the board, if there is one for this model: by the vendor's library where it is installed, else by the
kernel's driver alone. Otherwise the software NPU. Only what is there decides, never whether it works: a board whose
NPU has trouble says so, instead of becoming slow for no visible reason.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from openrknn.chips import Chip, chip_named
from openrknn.device.choose import NPU_VARIABLE
from openrknn.monitor.board import soc
from openrknn.monitor.nodes import find

__all__ = ["automatic_device"]

_LOG = logging.getLogger(__name__)


def automatic_device(chip: Chip, root: Path = Path("/"), has_library: Callable[[], bool] | None = None) -> str:
    """The device for models of `chip`, as users write it."""
    if told := os.environ.get(NPU_VARIABLE):
        return told
    here = soc(root)
    if here is None:
        return "software"
    if chip_named(here).target != chip.target:
        _LOG.info("the model is for %s, and this board has %s: the software NPU runs it", chip.title, here)
        return "software"
    drivers = {found.driver for found in find(root) if found.nodes}
    if "rknpu" in drivers:
        return "vendor" if (has_library or _has_library)() else "rknpu"
    if "rocket" in drivers:
        return "rocket"
    _LOG.warning("this board's NPU has no driver: the software NPU runs the model; `openrknn doctor` says more")
    return "software"


def _has_library() -> bool:
    from openrknn.vendor.errors import LibraryNotFoundError  # here: few machines come so far
    from openrknn.vendor.find import find_library

    try:
        find_library()
    except LibraryNotFoundError:
        return False
    return True
