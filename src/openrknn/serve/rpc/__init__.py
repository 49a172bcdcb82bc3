"""gRPC: the protocol's other half.

    inference.proto, health.proto       the messages, in our own words with the protocol's numbers
    messages    their classes, made at run time (`openrknn.protoschema`)
    tensors     messages to arrays and back;   service: the calls;   health: grpc.health.v1
    server      the calls with their token and limits;   call, streams: one call, and those that last
    admission_proxy   the port: asks for memory before a message is let in, TLS;   client_connection: one of its clients
    frames      HTTP/2 as far as sizes go
    parse_memory  what a message takes in memory once it is parsed

Why at run time: generated code has to fit the installed version of protobuf and hides its numbers. The descriptors live
in a pool of their own, so a program may have another `inference` package (Triton's client, for one) beside ours.
"""
