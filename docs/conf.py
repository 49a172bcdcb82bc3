"""Sphinx settings: Markdown pages, the furo theme, and every warning is an error in the tests."""

import sys
from importlib.metadata import version as _version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "openrknn"
author = "the openrknn developers"
copyright = author
release = _version("openrknn")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design", "api_reference"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True
smartquotes_action = "qe"  # quotes and ellipses; `--option` keeps its two hyphens

# The API reference (docs/_ext/api_reference.py): entries in the order of the source, types by their short names.
autodoc_default_options = {"members": True, "undoc-members": True, "member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["torch"]
autodoc_type_aliases = {"Array": "numpy.ndarray", "Bytes": "numpy.ndarray"}
suppress_warnings = ["ref.python"]  # `type` is Python's, and several classes have such a field
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"openrknn {release}"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["api.css"]

# The copy button takes commands without their prompts, and not what they print.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .gp, .go"


def setup(app):
    """Sphinx calls this when it starts."""
    app.connect("config-inited", _link_to_sources)


def _link_to_sources(_app, config) -> None:
    """Edit links, for the theme that has them; the tests build with one that refuses unknown options."""
    if config.html_theme == "furo":
        config.html_theme_options = {
            "source_repository": "https://github.com/openrknn/openrknn/",
            "source_branch": "main",
            "source_directory": "docs/",
        }
