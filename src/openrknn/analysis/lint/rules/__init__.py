"""One file for each kind of mistake."""

from __future__ import annotations
