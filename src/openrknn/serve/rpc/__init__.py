"""gRPC: the protocol's other half.

    inference.proto, health.proto       the messages, in our own words with the protocol's numbers
    schema      reads such a file at run time: no compiler, no generated code;   messages: the classes
    tensors     messages to arrays and back;   service: the calls;   health: grpc.health.v1
    server      ports, limits, TLS, token

Why at run time: generated code has to fit the installed version of protobuf and hides its numbers. The descriptors live
in a pool of their own, so a program may have another `inference` package (Triton's client, for one) beside ours.
"""
