"""Tests choose goldens by their heads and names while they are collected: both say what the model inside says."""

from __future__ import annotations

import openrknn
from tests.container.places import GOLDENS, chip_of, head


def test_heads_and_names_say_what_the_models_say() -> None:
    for path in GOLDENS:
        model, parts = openrknn.load(path), head(path)
        assert (parts.flavour, parts.container_version) == (model.flavour, model.container_version), path.name
        assert chip_of(path) == model.chip.name, path.name
        assert model.format_version == 6, f"{path.name}: the writer's tests take every golden"
