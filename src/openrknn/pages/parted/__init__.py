"""The page about a model in parts: what runs on the NPU and what on the CPU, in which order, and why."""

from openrknn.pages.parted.page import parted_page

__all__ = ["parted_page"]
