"""The checks, one file per subject. A check takes `Facts` and yields findings; it never changes anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from openrknn.doctor.checks.board import check_board
from openrknn.doctor.checks.clock import check_clock
from openrknn.doctor.checks.driver import check_driver
from openrknn.doctor.checks.libraries import check_libraries
from openrknn.doctor.checks.log import check_log
from openrknn.doctor.checks.memory import check_memory
from openrknn.doctor.checks.nodes import check_nodes
from openrknn.doctor.checks.python import check_python
from openrknn.doctor.checks.rocket import check_rocket
from openrknn.doctor.checks.software import check_software
from openrknn.doctor.facts import Facts
from openrknn.doctor.finding import Finding

__all__ = ["CHECKS"]

CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    check_board,
    check_driver,
    check_rocket,
    check_nodes,
    check_clock,
    check_memory,
    check_log,
    check_libraries,
    check_python,
    check_software,
)
