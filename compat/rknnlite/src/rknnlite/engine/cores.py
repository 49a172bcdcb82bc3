"""From the vendor's core masks to what a session takes."""

from __future__ import annotations

from openrknn import Model
from rknnlite.api.constants import CURRENT_SUPPORT_NPU_CORE_MODE, NPU_CORE_ALL, NPU_CORE_AUTO
from rknnlite.api.rknn_log import LOGGER

__all__ = ["session_mask"]


def session_mask(mask: int, model: Model) -> int:
    """The mask for this model; ValueError with the vendor's words where its wheel refuses one.

    A model that was built for fewer cores (`single_core_mode`) runs on the first core of the mask, as it does in the
    vendor's runtime; the result is the same.
    """
    chip = model.chip
    if mask not in CURRENT_SUPPORT_NPU_CORE_MODE:
        raise ValueError(f"The core mode {mask} is not supported currently.")
    if mask == NPU_CORE_AUTO:
        return 0
    if chip.cores == 1:
        raise ValueError(
            "The core_mask is only supported by ['RK3588', 'RK3576']. Please do not set this parameter on other "
            f"platforms. (The model is for {chip.title}, which has one core.)"
        )
    every = (1 << chip.cores) - 1
    wanted = every if mask == NPU_CORE_ALL else mask
    if wanted & ~every:
        raise ValueError(f"core_mask={mask}: {chip.title} has {chip.cores} cores")
    there = {entry.core_count for entry in model.graphs[0].chip_lists(chip)}
    if there and wanted.bit_count() not in there:
        LOGGER.warning("the model has no tasks for %d cores; it runs on one (single_core_mode)", wanted.bit_count())
        return wanted & -wanted
    return wanted
