"""What can be said about a model without running it.

    lint        mistakes of the conversion that a board would execute without a word;  lint_codes: their names
"""

from __future__ import annotations
