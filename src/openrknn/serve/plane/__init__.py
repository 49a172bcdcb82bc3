"""The data plane: everything between a parsed request and its answer, for both protocols.

    plane       Plane: find the model, run the request, measure it
    repository  models by name and version: load, unload, reload;   index: what is in a folder;   config: model.toml
    served      one version of a model: its queue, its contexts, its readiness
    instance    a context in a thread of its own, which comes back after a crash
    queue, job  what waits;   budget: the memory that requests share
    signature   what a model takes and gives;   stats: how it went;   describe: both in the protocol's words

Each context is a `Session` (weights shared) in its own thread. All contexts of a model take from one bounded queue, so
a slow or broken context does not block others, and a full queue refuses at once. Nothing here knows HTTP or gRPC.
"""
