"""VITS graphs as Piper exports them: found by their pattern, cut where the lengths change.

graph       a model's nodes by what they make and read; a part of it as a model of its own
cut         where the text encoder, the durations, the flow and the decoder begin and end
reach       how many frames to the left and right a frame of the output depends on
"""
