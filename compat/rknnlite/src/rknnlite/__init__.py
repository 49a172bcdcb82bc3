"""The vendor's `rknnlite` API on openrknn: unmodified programs run on any machine, with or without an NPU.

    from rknnlite.api import RKNNLite

`api` has the names that programs import; `engine` is what is behind them. Importing it changes nothing outside of it.
"""
