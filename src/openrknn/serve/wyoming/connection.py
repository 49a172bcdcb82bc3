"""`Connection`: one client. Events are handled in order; a client that sends faster than a voice hears waits."""

from __future__ import annotations

import contextlib
import logging

from openrknn.serve.errors import NotFoundError, ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.wyoming.codec import Event, Send, error_event
from openrknn.serve.wyoming.info import PROGRAM, info
from openrknn.serve.wyoming.listening import Listening
from openrknn.serve.wyoming.speaking import Speaking

__all__ = ["Connection"]

_LOG = logging.getLogger(__name__)


class Connection:
    """What a client wants. Errors are sent to it, and the event that it waits for still follows.

    Clients differ: new ones stop at `error`, those before 2026 (Home Assistant's among them) read on until the event
    that ends an answer. So an error is sent at once, and the end of the answer at its usual place.
    """

    def __init__(self, plane: Plane, send: Send) -> None:
        self._plane, self._send = plane, send
        self._listening, self._speaking = Listening(plane, send), Speaking(plane, send)
        self._acts = {"describe": self._describe, "ping": self._ping, "select-program": self._select}

    @property
    def is_busy(self) -> bool:
        """Somebody is in the middle of something."""
        return self._listening.is_busy or self._speaking.is_busy

    async def on(self, event: Event) -> None:
        """Deal with an event; those that are not known are left alone, as newer clients expect."""
        part = next((one for one in (self._listening, self._speaking) if event.type in one.acts), None)
        act = part.acts[event.type] if part is not None else self._acts.get(event.type)
        if act is None:
            return
        try:
            await act(event)
            return
        except (OSError, TimeoutError):  # the client is gone, or takes nothing
            raise
        except ServeError as error:
            _LOG.info("Wyoming: %s: %s", event.type, error)
            reason = error
        except Exception:  # noqa: BLE001 - the client hears of it, and the log has the whole story
            _LOG.exception("Wyoming: %s failed", event.type)
            reason = ServeError("internal error; see the server's log")
        await self._send(error_event(reason))
        if part is not None:
            await part.failed(event, reason)

    async def close(self) -> None:
        """Cancel the current work."""
        with contextlib.suppress(ServeError):
            await self._listening.close()

    async def _describe(self, _: Event) -> None:
        await self._send(Event("info", info(self._plane.voices)))

    async def _ping(self, event: Event) -> None:
        await self._send(Event("pong", {"text": event.data.get("text")}))

    async def _select(self, event: Event) -> None:
        """The requested program; this server has one."""
        name = event.data.get("name")
        if name != PROGRAM:
            raise NotFoundError(f"there is no program {str(name)[:80]!r} here; there is {PROGRAM!r}")
