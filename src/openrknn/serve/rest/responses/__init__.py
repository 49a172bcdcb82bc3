"""/v1/responses as OpenAI's clients use it.

    route    the paths: create, retrieve, delete, cancel, list the input, count its tokens
    asked    a request: its fields as a request to the model;   truncation: what is left out of a long conversation
    items    input items, checked, and the messages that a chat template takes
    written  output items and the events of a stream;   store: the responses that can be asked for again
"""
