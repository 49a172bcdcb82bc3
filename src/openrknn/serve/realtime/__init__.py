"""/v1/realtime as OpenAI's clients speak it: transcripts while somebody speaks, over a WebSocket.

config      what a client wants of its session, in the words of today's clients and of older ones
formats     sound as they send it
session     one session: sound in, events out
route       the path
client_secrets   keys for browsers
"""
