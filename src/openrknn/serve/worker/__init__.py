"""Each model in a process of its own: a fault in one model does not affect the others.

    host        the server's side: loads a model in a process and opens contexts in it
    supervisor  keeps a process alive: restarts it, with back-off
    process     one process: spawn, questions with a time limit, why it ended;   remote: one context in it
    child       the other side: loads the model, runs requests, one thread per context
    message_socket  messages of both sides (JSON, never pickled objects);   arena: tensors in shared memory
    limits      what the process may use

A process per model version holds all of its contexts, so that they share one copy of the weights. It is started afresh
(never forked from a server with threads), gets the path of the model and no token, and answers with plain numbers and
text that the server checks. Tensors travel through a sealed memory file that neither side can shorten.
"""
