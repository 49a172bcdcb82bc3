"""System shared memory: tensors that clients on this machine leave in /dev/shm instead of sending them.

    regions     what clients have registered, by name; opened once, checked at every use
    tensor      an input in a region, and a place there for an output

Nothing here is mapped: a client may truncate its file at any moment, and a mapping of it would end the server. Bytes
are copied by pread and pwrite, straight into the memory that a worker shares with us, and out of it.
"""
