"""The page of `openrknn evaluate --report`.

page        render;   tables: metrics, classes, confusion;   curves: precision over recall;   style.css
"""

from __future__ import annotations

from openrknn.pages.evaluate.page import render

__all__ = ["render"]
