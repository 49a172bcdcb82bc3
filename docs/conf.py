"""Sphinx settings: Markdown pages, the furo theme, and every warning is an error in the tests."""

from importlib.metadata import version as _version

project = "openrknn"
author = "the openrknn developers"
copyright = author
release = _version("openrknn")

extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"openrknn {release}"
