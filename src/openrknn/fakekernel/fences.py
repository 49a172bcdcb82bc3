"""Fences: a descriptor that becomes readable when a job is done (a sync_file), and what waits for foreign ones."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Sequence

__all__ = ["Fence", "wait_for_descriptor"]


class Fence:
    """A moment in the future. The program holds one end of a socket; signalling sends a byte, which is never read."""

    def __init__(self, driver: str, timeline: str) -> None:
        self.driver = driver
        self.timeline = timeline
        self.status = 0
        """0 active, 1 signalled, negative: errno of the job."""
        self.timestamp_ns = 0
        self._done = threading.Event()
        self._ends: list[socket.socket] = []
        self._followers: list[Fence] = []
        self._waits_for = 0
        self._lock = threading.Lock()

    @classmethod
    def merge(cls, fences: Sequence[Fence]) -> Fence:
        """A fence that is signalled when all of them are."""
        merged = cls("openrknn", "merged")
        merged._waits_for = len(fences)
        for fence in fences:
            fence._follow(merged)
        return merged

    def open(self) -> tuple[socket.socket, int]:
        """Our end, and a descriptor for the program."""
        ours, theirs = socket.socketpair()
        with self._lock:
            self._ends.append(ours)
            if self._done.is_set():
                ours.send(b"\1")
        return ours, theirs.detach()

    def forget(self, end: socket.socket) -> None:
        """The program closed its end."""
        with self._lock:
            self._ends.remove(end)

    def signal(self, status: int = 1) -> None:
        """The job is done (1) or has failed (-errno)."""
        with self._lock:
            if self._done.is_set():
                return
            self.status, self.timestamp_ns = status, time.monotonic_ns()
            self._done.set()
            for end in self._ends:
                _send_quietly(end)
            followers = list(self._followers)
        for follower in followers:
            follower._one_done(status)

    def wait(self, seconds: float) -> bool:
        """Whether it was signalled in time."""
        return self._done.wait(seconds)

    def _follow(self, follower: Fence) -> None:
        with self._lock:
            if not self._done.is_set():
                self._followers.append(follower)
                return
        follower._one_done(self.status)

    def _one_done(self, status: int) -> None:
        with self._lock:
            self._waits_for -= 1
            left = self._waits_for
        if left == 0 or status < 0:
            self.signal(status)


def _send_quietly(end: socket.socket) -> None:
    """The program may be gone by now."""
    try:
        end.send(b"\1", socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError:
        return


def wait_for_descriptor(descriptor: int, seconds: float) -> bool:
    """Wait for a fence of any origin."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
