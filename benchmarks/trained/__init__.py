"""Trained networks of packages, compiled by openrknn and by the vendor's toolkit."""
