"""What can go wrong while packages are made."""

__all__ = ["PackingError"]


class PackingError(Exception):
    """Says what failed, where, and what to do."""
