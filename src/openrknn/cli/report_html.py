"""`openrknn inspect --html`: one self-contained page about a model."""

from __future__ import annotations

from openrknn.cli.report.page import render, write

__all__ = ["render", "write"]
