"""The page of `openrknn profile --report`: a verdict, the slowest operators, then everything.

    from openrknn.pages.profile import Part, render
"""

from openrknn.pages.profile.page import Part, render

__all__ = ["Part", "render"]
