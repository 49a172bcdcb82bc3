"""Generation: from logits to text.

generator     `Generator`: prompts in, events out;   scheduler: several sequences through one engine
request       what is asked for;   events: what comes out
sampling      which token is next;   textstream: bytes of tokens to text, stop strings
constraint    grammars and JSON schemas;   speculation: drafts that one forward verifies
promptcache   keys and values of a prompt on disk;   model: a model that is open, with chats and embeddings
toolcalls     calls of tools in what a model writes;   thinking: what it thinks before it answers
prefixes      caches of earlier requests, for prompts that begin the same way
vocabulary    what is needed of a tokenizer;   errors
"""
