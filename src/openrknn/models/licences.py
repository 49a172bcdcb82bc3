"""Which licences need the user's consent before anything is fetched."""

from __future__ import annotations

from openrknn.models.errors import GettingError

__all__ = ["LicenceError", "check_consent", "needs_consent"]

_FREE = ("Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "CC0", "Unlicense")
"""How licences begin that allow any use, with attribution at most."""


class LicenceError(GettingError):
    """The licence of a model has conditions that the user has not accepted."""


def needs_consent(licence: str) -> bool:
    """Whether it restricts use or has conditions for what is built on it (AGPL, GPL, non-commercial, unclear)."""
    return not licence.startswith(_FREE)


def check_consent(name: str, licence: str, *, accepted: bool) -> None:
    """Refuse to continue where consent is needed and was not given."""
    if needs_consent(licence) and not accepted:
        raise LicenceError(
            f"{name} is licensed under {licence or 'unclear terms'}, which restricts how it may be used or what has to "
            "be published with it. Read the licence; `--accept-licence` fetches the model under its terms"
        )
