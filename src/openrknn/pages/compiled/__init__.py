"""The page about a compilation: what runs where, tiles, bytes, cycles, and what int8 costs, layer by layer."""

from openrknn.pages.compiled.page import render

__all__ = ["render"]
