"""Language models: each in a process of its own, with one scheduler for all of its clients.

    languages   all that are served, by name;   language: one of them, its process and who may wait for it
    line        the connection: many streams over one socket;   words: what travels over it
    handler     the other side: requests in, events out, a step of the scheduler at a time;   child: the process
    idle        when a model that is not in use is unloaded;   stats: numbers about one model
"""
