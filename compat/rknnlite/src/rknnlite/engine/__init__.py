"""What is behind the vendor's names: openrknn's `Session`.

    sources     files read once, with one copy of their weights however many runtimes use them
    cores       from the vendor's core masks to what a session takes
    ports       inputs and outputs of the current shapes
    inputs      what `inference` may be given, checked and put into the model's order
    outputs     from device memory to float32 arrays
    context     a model that is ready to run: what an `rknn_context` of the C API is
    attributes  rknn_tensor_attr of a port
    queries     rknn_query;  library: the C API's functions as Python callables;  codes: errors and what they are there
    failures    -1 and None with a reason
"""
