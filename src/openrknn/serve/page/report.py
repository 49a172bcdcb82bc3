"""The report of `openrknn inspect --html`, which the page shows in a frame."""

from __future__ import annotations

from openrknn.container.bundle import Bundle
from openrknn.container.model import Model

__all__ = ["report"]


def report(model: Model | Bundle) -> str:
    """A page of its own, with its own policy inside it."""
    if isinstance(model, Bundle):
        from openrknn.pages.parted.page import parted_page

        return parted_page(model)
    from openrknn.analysis.explain import describe
    from openrknn.pages.model.page import render

    return render(describe(model), model)
