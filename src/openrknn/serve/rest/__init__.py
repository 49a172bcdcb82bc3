"""HTTP: the protocol's REST half.

    app         routes;   guard: who may ask, headers, log, errors;   protocol: connections with limits
    body        bodies with limits, decompression;   infer: requests and answers of models
    pictures    the image endpoint;   openapi: the description of it all
"""
