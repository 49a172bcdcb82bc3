"""Python imports this at its start, from a folder of PYTHONPATH (`python -m openrknn.onnxruntime --children`)."""

from openrknn.onnxruntime.redirect import redirect

redirect()
