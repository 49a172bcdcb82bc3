"""Hostile model files: seeds of every format, mutations, a judge and a campaign."""
