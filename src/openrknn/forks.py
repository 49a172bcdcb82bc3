"""Locks in forked processes.

A child process has the thread that called fork() and no other. A lock that another thread held at that moment would
stay held indefinitely, so owners of locks that are held for long or often register here, and a child gets a new one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any

_actions: list[tuple[weakref.ref[object], Callable[[Any], None]]] = []


def in_child(owner: object, action: Callable[[Any], None]) -> None:
    """Call `action(owner)` in every child that is forked while `owner` lives. The action must not wait for a lock."""
    _actions.append((weakref.ref(owner, _forget), action))


def renew_in_child(owner: object, attribute: str, make: Callable[[], object]) -> None:
    """Give `owner` a new lock in every child."""
    in_child(owner, lambda same: setattr(same, attribute, make()))


def _forget(gone: weakref.ref[object]) -> None:
    _actions[:] = [entry for entry in _actions if entry[0] is not gone]


def _renew() -> None:
    for reference, action in list(_actions):
        owner = reference()
        if owner is not None:
            action(owner)


os.register_at_fork(after_in_child=_renew)
