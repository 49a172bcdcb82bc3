"""The pixel formats of frames, which `openrknn.pixels` owns: conversion and the emulated devices need them too."""

from __future__ import annotations

from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat, PlaneLayout

__all__ = ["ColourRange", "ColourSpace", "PixelFormat", "PlaneLayout"]
