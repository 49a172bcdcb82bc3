"""All behaviour checks by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.compat import behaviour, behaviour_inputs, behaviour_inside
from tests.compat.lab import Lab

CHECKS: dict[str, Callable[[Lab], None]] = {
    name.removeprefix("check_"): check
    for module in (behaviour, behaviour_inputs, behaviour_inside)
    for name, check in vars(module).items()
    if name.startswith("check_")
}
