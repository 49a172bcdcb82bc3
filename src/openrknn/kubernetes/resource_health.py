"""Tells the kubelet how each device is (DRAResourceHealth): it puts that into the status of the pods that have it.

The kubelet discards reports after a while (`health_check_timeout_seconds`), so they are repeated, and
when our own look at the devices is too old we say that we do not know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from openrknn.kubernetes.inventory import Offer
from openrknn.kubernetes.messages import DRA_HEALTH, message

__all__ = ["ResourceHealth"]

_UNKNOWN, _HEALTHY, _UNHEALTHY = 0, 1, 2
_TELL_SECONDS = 10.0
_FORGET_SECONDS = 60
_MOST_STREAMS = 2
"""The kubelet's, and one that it lost; older ones make room."""
_MOST_TEXT = 1000


class ResourceHealth:
    """The service."""

    def __init__(self, pool: str, clock: Callable[[], float] = time.time) -> None:
        self._pool, self._clock = pool, clock
        self._changed = threading.Condition()
        self._devices: tuple[tuple[str, str | None], ...] = ()
        self._looked = 0.0
        self._number = 0
        self._streams: list[object] = []
        self._closed = False

    @property
    def streams(self) -> int:
        """How many are listening."""
        with self._changed:
            return len(self._streams)

    def update(self, offers: Sequence[Offer], reasons: Mapping[str, str | None]) -> None:
        """What was found just now."""
        found = tuple((offer.id, reasons.get(offer.unit.name)) for offer in offers)
        with self._changed:
            self._looked = self._clock()
            if found != self._devices:
                self._devices = found
                self._number += 1
                self._changed.notify_all()

    def close(self) -> None:
        """End all streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def NodeWatchResources(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Everything at once, then again at each change and every ten seconds."""
        mine = object()
        with self._changed:
            self._streams = [*self._streams[1 - _MOST_STREAMS :], mine]
            self._changed.notify_all()
        context.add_callback(self._wake)
        seen = -1
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: self._is_over(mine, context) or self._number != seen,  # noqa: B023
                        timeout=_TELL_SECONDS if seen >= 0 else 0,
                    )
                    if self._is_over(mine, context):
                        return
                    seen, answer = self._number, self._answer()
                yield answer
        finally:
            with self._changed:
                if mine in self._streams:
                    self._streams.remove(mine)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _is_over(self, stream: object, context: Any) -> bool:
        return self._closed or stream not in self._streams or not context.is_active()

    def _answer(self) -> Any:
        answer = message(DRA_HEALTH, "NodeWatchResourcesResponse")()
        stale = self._clock() - self._looked > _FORGET_SECONDS
        for name, reason in self._devices:
            device = answer.devices.add(
                health=_UNKNOWN if stale else _UNHEALTHY if reason else _HEALTHY,
                last_updated_time=int(self._looked),
                health_check_timeout_seconds=_FORGET_SECONDS,
                message="the driver has not looked for a while" if stale else (reason or "")[:_MOST_TEXT],
            )
            device.device.pool_name, device.device.device_name = self._pool, name
        return answer
