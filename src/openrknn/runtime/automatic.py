"""The device "auto" where the vendor's library is an option too; the rule is that of `openrknn.device.automatic`."""

from __future__ import annotations

from openrknn.chips import Chip
from openrknn.device.automatic import AUTO, automatic_device


def named_device(text: str, chip: Chip) -> str:
    """The text that a user wrote, with "auto" replaced by what it means for models of `chip`."""
    return automatic_device(chip, has_library=_has_library) if text == AUTO else text


def _has_library() -> bool:
    """The vendor's, that is: openrknn's own would only lead back here, through another process."""
    from openrknn.vendor.errors import LibraryNotFoundError  # here: few machines come so far
    from openrknn.vendor.library.find import find_library
    from openrknn.vendor.tables.versions import is_open_library

    try:
        return not is_open_library(find_library())
    except LibraryNotFoundError:
        return False
