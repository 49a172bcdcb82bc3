"""Decoders with a past that grows, as exporters write them, for an NPU whose shapes are fixed.

    made = cached("decoder_with_past.onnx", 194, first="decoder.onnx", frames=416)
    made.step.model                     # the step with caches of 194 rows and a mask; equal to the original in float
    compile_decoder("decoder_with_past.onnx", capacity=194)         # the `.rknnz` that `openrknn.Decoder` opens

net         a graph that can be walked
roles       what the inputs are for
moving      what depends on the length of the past alone
tables      rows that are looked up: embeddings, cosines
parts       the past and the new row, kept apart through every operator
rewrite     the new step;  tidy: without what exporters add;  compare: it computes what the old one did
cross       keys and values of cross attention, computed once
arrange     caches in the NPU's layout: a step is one submit
make        all of it, and the file
"""

from __future__ import annotations

from openrknn.compiler.sequence.make import CachedDecoder, cached, compile_decoder, pack_decoder

__all__ = ["CachedDecoder", "cached", "compile_decoder", "pack_decoder"]
