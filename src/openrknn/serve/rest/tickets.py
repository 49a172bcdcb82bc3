"""Tickets: what a frame of the page shows instead of the token, good for reports and for a minute."""

from __future__ import annotations

import hashlib
import hmac
import time
from urllib.parse import parse_qs

__all__ = ["is_right_ticket", "make_ticket"]

_SECONDS = 60


def make_ticket(token: str, now: float | None = None) -> str:
    """Until when, and a signature that only who knows the token can make."""
    until = str(int((time.time() if now is None else now) + _SECONDS))
    return f"{until}.{_sign(until, token)}"


def is_right_ticket(query: bytes, token: str) -> bool:
    """Whether `?ticket=` of a request is good."""
    given = parse_qs(query.decode("latin-1")).get("ticket", [""])[0]
    until, _, signature = given.partition(".")
    if not until.isascii() or not until.isdigit() or len(until) > 12 or not signature.isascii():
        return False
    return hmac.compare_digest(signature, _sign(until, token)) and time.time() < int(until)


def _sign(until: str, token: str) -> str:
    return hmac.new(token.encode(), f"inspect until {until}".encode(), hashlib.sha256).hexdigest()
