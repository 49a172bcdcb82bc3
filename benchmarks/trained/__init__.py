"""Trained networks of public packages, compiled and measured."""
