"""What the quantisation of a language model costs, as a page."""

from __future__ import annotations

from openrknn.pages.language.page import render

__all__ = ["render"]
