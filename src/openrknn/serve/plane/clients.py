"""Who asks, and how often each of them may."""

from __future__ import annotations

import ipaddress
import time

from openrknn.serve.errors import FullError

__all__ = ["Rates", "client_key"]

_MOST_CLIENTS = 4096
_IPV6_PREFIX = 64
"""What one household or one machine has: all addresses in it are one client."""


def client_key(address: str) -> str:
    """One name for all addresses that one client can use."""
    if ":" not in address:
        return address
    try:
        number = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(ipaddress.IPv6Network((number, _IPV6_PREFIX), strict=False).network_address)


class Rates:
    """A bucket per client: `per_second` requests, and a burst of as many. 0: no limit."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._buckets: dict[str, tuple[float, float]] = {}
        """Client -> how full its bucket was, and when."""

    def check(self, client: str) -> None:
        """Take one; 429 says when to come back."""
        if not self._rate:
            return
        now = time.monotonic()
        burst = max(1.0, self._rate)
        full, when = self._buckets.pop(client, (burst, now))
        full = min(burst, full + (now - when) * self._rate)
        is_refused = full < 1
        self._buckets[client] = (full if is_refused else full - 1, now)
        if len(self._buckets) > _MOST_CLIENTS:  # the one that was silent longest
            self._buckets.pop(next(iter(self._buckets)))
        if is_refused:
            raise FullError(
                f"this client may ask {self._rate:g} times a second (--client-rate); try again later",
                retry_seconds=(1 - full) / self._rate,
            )
