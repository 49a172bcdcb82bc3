"""Manifests."""

CHECKS = ()
