"""Voices: sets that listen, speak or wait for their name, each in a process of its own.

    voices      all that are served, by name and kind;   voice: one of them, with a bounded number of channels
    channel     one conversation with a voice: questions with a time limit, sound in shared memory
    channel_handler   the other side: what a voice does with a question;   child: a process with handlers
    operations  what the protocols ask for: transcripts, live text, speech, wake words
    encode      speech as bytes of the usual formats

A set is one process, like a model: a recording that crashes a decoder ends that process and nothing else. Inside it,
each channel has a thread and a stream of its own; the models are shared, so that ten people who talk at the same time
need the memory of one.
"""
