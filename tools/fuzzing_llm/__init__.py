"""Hostile files of language models: seeds, mutations, and a judge that computes with what opens."""
