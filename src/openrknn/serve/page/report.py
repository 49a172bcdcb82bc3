"""The report of `openrknn inspect --html`, which the page shows in a frame."""

from __future__ import annotations

from openrknn.container.model import Model

__all__ = ["report"]


def report(model: Model) -> str:
    """A page of its own, with its own policy inside it."""
    from openrknn.analysis.explain import describe
    from openrknn.pages.model.page import render

    return render(describe(model), model)
